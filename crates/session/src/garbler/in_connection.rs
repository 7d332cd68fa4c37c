//! The methods of a garbler that its connection calls.

use super::GarblerCore;
use crate::{
    Frame, FrameKind, Inputs, OtPlan, SessionError,
    connection::pool::{CORRECT_HEADER, Rows},
    credit::Credit,
    error::out_of_order,
    hello::Hello,
    inputs::fetch,
    layout::Layout,
    pieces::numbered_frame,
    terms::RunLink,
};

impl GarblerCore {
    /// Sets the inputs of a prepared run and sends their labels.
    ///
    /// # Errors
    /// Returns [`SessionError::Input`].
    pub(crate) fn provide(&mut self, mut inputs: Box<dyn Inputs>) -> Result<(), SessionError> {
        for instance in 0..self.terms.config.batch {
            let bits = fetch(&mut *inputs, instance, self.terms.split.garbler_bits())?;
            self.send_labels(instance, &bits);
        }
        self.is_provided = true;
        Ok(())
    }

    /// Returns whether this side has a frame to send for which the evaluator waits.
    pub(crate) fn is_urgent(&self) -> bool {
        self.setup.is_some()
            || !self.channel.is_flushed()
            || self.may_release()
            || self.may_finish()
    }

    /// Returns whether this run still has tables to send, and so may wait for credit.
    pub(crate) fn is_held_back(&self) -> bool {
        self.is_running || self.begun < self.terms.config.batch
    }

    /// Returns whether the hellos agree and all tables are sent.
    pub(crate) fn is_garbled(&self) -> bool {
        self.agreed.is_some()
            && self.begun == self.terms.config.batch
            && !self.is_running
            && self.channel.is_flushed()
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    pub(crate) fn lead(&mut self) -> &mut Credit {
        &mut self.lead
    }

    /// Returns delta, the global offset of labels, of this run.
    #[cfg(test)]
    pub(crate) fn delta(&self) -> Option<transpute_garble::Label> {
        self.garbler.delta()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sets the properties of the run that both openings determine.
    pub(crate) fn set_link(&mut self, link: RunLink) {
        self.terms.set_link(link);
        if self.setup.is_some() {
            // The evaluator's window is known now, so the garbler no longer uses its own window.
            self.set_eager(false);
        }
    }

    /// Sets whether this side sends tables within its own window before the peer's opening has
    /// arrived.
    pub(crate) fn set_eager(&mut self, is_eager: bool) {
        self.terms.is_eager = is_eager;
        self.hello.set_eager(is_eager);
        if !is_eager && self.terms.config.allowed_schemes().len() == 1 {
            self.undecided = None;
        }
    }

    /// Returns whether this side's window is larger than the evaluator accepts.
    pub(super) fn has_excess(&self) -> bool {
        self.terms.excess_window().is_some()
    }

    /// Handles the evaluator's `OtCorrect` frame. `rows` are the pooled transfers that it corrects.
    pub(crate) fn handle_correct(&mut self, frame: Frame, rows: Rows) -> Result<(), SessionError> {
        let Some(Frame { kind, payload }) = self.channel.receive(frame)? else {
            return Ok(());
        };
        // The evaluator sent these corrections before it knew that this side demands another plan.
        let is_in_vain = self.terms.plan != OtPlan::Pool
            && !self.setup_received
            && (self.agreed.as_ref()).is_some_and(|agreed| agreed.theirs.has_begun(OtPlan::Pool));
        if is_in_vain {
            return Ok(());
        }
        let left = self.terms.total_choices - self.answered;
        let is_due = self.agreed.is_some() && self.terms.plan == OtPlan::Pool;
        if !is_due || rows.len() as u64 > left {
            return Err(out_of_order(kind));
        }
        let (first, count) = (self.answered, rows.len());
        let pairs = self.transfers.label_pairs(&self.garbler, first, count);
        let mut reply = Vec::with_capacity(count * 32);
        rows.answer(&payload[CORRECT_HEADER..], &pairs, &mut reply);
        self.channel
            .queue(numbered_frame(FrameKind::OtReply, first, &[&reply]));
        self.answered += count as u64;
        self.count_labelled();
        Ok(())
    }
}
