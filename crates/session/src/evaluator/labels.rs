//! The labels of the evaluator's inputs: requests and arrivals.

use transpute_circuit::Bits;
use zeroize::Zeroizing;

use super::{Evaluating, EvaluatorCore};
use crate::{Milestone, SessionError, layout::OT_WINDOW, queue::reserve_secret};

/// Number of windows of tables for which the evaluator requests labels ahead. An evaluation starts
/// at least a round trip after the request of its labels. With 1, the garbler would send only one
/// window of tables per round trip, and no tables while the evaluator evaluates that window.
const LEADS_ASKED: u64 = 4;

impl EvaluatorCore {
    /// Returns whether this side may request more transfers now.
    pub(super) fn may_ask(&self) -> bool {
        #[cfg(test)]
        if self.asks_without_limit && self.asked < self.terms.total_choices {
            return true;
        }
        self.asked < self.terms.total_choices && self.asked < self.ask_limit()
    }

    /// Returns the number of the first transfer that may not be requested yet.
    fn ask_limit(&self) -> u64 {
        let per_instance = self.terms.choices as u64;
        let leads = LEADS_ASKED.saturating_mul(self.lead.limit());
        let evaluations =
            LEADS_ASKED.saturating_mul(self.lead.limit() / self.layout.tables(1).max(1));
        let window = OT_WINDOW.min(per_instance.saturating_mul(evaluations));
        if self.has_helpers() {
            let next = per_instance * self.layout.lanes(self.begun) as u64;
            return self.begun * per_instance + next.max(window);
        }
        let lanes = self.layout.lanes(self.unfinished());
        let first = self.unfinished() * per_instance;
        let tables_done = match self.is_running {
            true => self.layout.tables(lanes) - self.tables_left,
            false => 0,
        };
        let read = first + self.layout.labels_read(lanes, self.chunks_done);
        // At least one label of the running or next evaluations is requested.
        let due = first + self.layout.labels_due(lanes, self.chunks_done).max(1);
        let ahead = first + (self.layout).labels_within(lanes, tables_done.saturating_add(leads));
        due.max(ahead.max(read + window).min(read + OT_WINDOW))
    }

    fn has_helpers(&self) -> bool {
        self.terms.config.threads.get() > 1
    }

    /// Returns the number of the first running evaluation, or of the next one if none is running.
    fn unfinished(&self) -> u64 {
        match self.is_running {
            true => self.begun - self.layout.lanes(self.begun - 1) as u64,
            false => self.begun,
        }
    }

    /// Returns whether the labels that the next chunk reads have arrived. If no evaluation is
    /// running, returns whether the labels that the next evaluations need to start have arrived.
    pub(super) fn has_labels(&self) -> bool {
        let lanes = self.layout.lanes(self.unfinished());
        let own = lanes as u64 * self.terms.choices as u64;
        if self.has_helpers() {
            return self.is_running || self.labels.len() as u64 >= own;
        }
        let due = match self.is_running || self.layout.tables(lanes) == 0 {
            true => self.layout.labels_due(lanes, self.chunks_done),
            false => 0,
        };
        self.answered >= self.unfinished() * self.terms.choices as u64 + due
    }

    /// Takes the next `n` choices, which may belong to several evaluations.
    pub(super) fn take_choices(&mut self, n: usize) -> Result<Bits, SessionError> {
        match &mut self.inputs {
            Some(inputs) => self.choices.take(n, &mut **inputs, &self.transfers),
            // A run that requests transfers has inputs.
            None => Ok(Bits::new()),
        }
    }

    /// Handles the garbler's answer to transfers from number `first` on. Stores the labels in it.
    pub(super) fn handle_reply(&mut self, first: u64, reply: &[u8]) -> Result<(), SessionError> {
        let mut labels = Zeroizing::new(Vec::new());
        self.ot.handle_reply(first, reply, &mut labels)?;
        self.answered += labels.len() as u64;
        match self.agreed.as_mut().map(|agreed| &mut agreed.evaluating) {
            Some(Evaluating::Here(evaluator)) => evaluator.add_labels(labels),
            _ => {
                // Room for all labels of the next evaluations is reserved at once. Growing by
                // doubling could allocate twice as much.
                let next = self.layout.lanes(self.begun) * self.terms.choices;
                let missing = next.saturating_sub(self.labels.len());
                reserve_secret(&mut self.labels, missing.max(labels.len()));
                self.labels.extend(labels.iter());
            }
        }
        self.lead.set_answered(self.answered);
        if self.answered >= self.terms.choices as u64 {
            self.channel.reach(Milestone::FirstLabels);
        }
        Ok(())
    }
}
