//! The labels of the evaluator's inputs: which it asks for, and which it waits for.

use transpute_circuit::Bits;
use zeroize::Zeroizing;

use super::{Evaluating, EvaluatorCore};
use crate::{Milestone, SessionError, layout::OT_WINDOW, queue::reserve_secret};

/// How many times as many evaluations may be asked for as the window of the connection has
/// tables for. No evaluation begins within a round trip of its being asked for, so with one lead the path would
/// carry no more than that in each, and nothing while these are evaluated.
const LEADS_ASKED: u64 = 4;

impl EvaluatorCore {
    /// Says whether transfers are to be asked for.
    pub(super) fn may_ask(&self) -> bool {
        #[cfg(test)]
        if self.asks_without_limit && self.asked < self.terms.total_choices {
            return true;
        }
        self.asked < self.terms.total_choices && self.asked < self.ask_limit()
    }

    /// Returns the number of the first transfer that is not to be asked for yet.
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
        // At least one, or nothing of these evaluations is unasked for.
        let due = first + self.layout.labels_due(lanes, self.chunks_done).max(1);
        let ahead = first + (self.layout).labels_within(lanes, tables_done.saturating_add(leads));
        due.max(ahead.max(read + window).min(read + OT_WINDOW))
    }

    fn has_helpers(&self) -> bool {
        self.terms.config.threads.get() > 1
    }

    /// Returns the first of the running evaluations, or the next one.
    fn unfinished(&self) -> u64 {
        match self.is_running {
            true => self.begun - self.layout.lanes(self.begun - 1) as u64,
            false => self.begun,
        }
    }

    /// Says whether the labels are here that the next chunk reads, or, where nothing is running, those without which the next
    /// evaluations cannot begin.
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

    /// Takes the next `n` choices, across evaluations.
    pub(super) fn take_choices(&mut self, n: usize) -> Result<Bits, SessionError> {
        match &mut self.inputs {
            Some(inputs) => self.choices.take(n, &mut **inputs, &self.transfers),
            // Whoever asks has inputs.
            None => Ok(Bits::new()),
        }
    }

    /// Takes the garbler's answer.
    pub(super) fn handle_reply(&mut self, first: u64, reply: &[u8]) -> Result<(), SessionError> {
        let mut labels = Zeroizing::new(Vec::new());
        self.ot.handle_reply(first, reply, &mut labels)?;
        self.answered += labels.len() as u64;
        match self.agreed.as_mut().map(|agreed| &mut agreed.evaluating) {
            Some(Evaluating::Here(evaluator)) => evaluator.add_labels(labels),
            _ => {
                // All that the next evaluations need at once: growing would take twice as much.
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
