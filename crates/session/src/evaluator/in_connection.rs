//! The methods of an evaluator that its connection calls.

use transpute_circuit::Bits;

use super::EvaluatorCore;
use crate::{
    FrameKind, Inputs, SessionError,
    connection::pool::{Items, write_correct},
    credit::Credit,
    hello::Hello,
    layout::Layout,
    ot::EvaluatorOt,
    ot_plan::OT_CHUNK,
    terms::RunLink,
};

impl EvaluatorCore {
    /// Sets the inputs of a prepared run.
    pub(crate) fn provide(&mut self, inputs: Box<dyn Inputs>) {
        self.inputs = Some(inputs);
    }

    /// Returns the number of pooled transfers to request next, if any.
    pub(crate) fn question(&self) -> Option<usize> {
        let is_due = matches!(self.ot, EvaluatorOt::Pool { .. })
            && self.setup.is_none()
            && self.inputs.is_some()
            && self.may_ask();
        let left = self.terms.total_choices - self.asked;
        is_due.then_some(left.min(OT_CHUNK as u64) as usize)
    }

    /// Returns the next `count` choices. They must be sent at once, with [`ask`](Self::ask).
    pub(crate) fn draw_choices(&mut self, count: usize) -> Result<Bits, SessionError> {
        self.take_choices(count)
    }

    /// Sends an `OtCorrect` frame, which corrects the pooled transfers `items` to `choices`. Both
    /// must have the same length.
    pub(crate) fn ask(
        &mut self,
        items: Items,
        choices: Bits,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let first = self.asked;
        self.asked += items.len() as u64;
        let (pool, count) = (items.first(), items.len());
        let (corrections, asked) = items.correct(choices);
        self.channel.send(out, FrameKind::OtCorrect, |out| {
            write_correct(pool, count, &corrections, out);
            Ok(())
        })?;
        self.ot.expect(first, asked);
        Ok(())
    }

    /// Returns the number of requested and unanswered transfers.
    pub(crate) fn outstanding(&self) -> u64 {
        // `asked` does not count direct transfers, so it may be less than `answered`.
        self.asked.saturating_sub(self.answered)
    }

    /// Returns whether this side has a frame to send, other than a request of transfers, for which
    /// the garbler waits.
    pub(crate) fn is_urgent(&self) -> bool {
        self.setup.is_some() || !self.channel.is_flushed()
    }

    /// Returns whether the peer's hello has arrived and agrees.
    pub(crate) fn has_agreed(&self) -> bool {
        self.agreed.is_some()
    }

    /// Returns whether all tables have arrived and the peer's hello agrees.
    pub(crate) fn is_received(&self) -> bool {
        self.agreed.is_some() && self.chunks_received == self.layout.total_chunks()
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    pub(crate) fn lead(&mut self) -> &mut Credit {
        &mut self.lead
    }

    /// Returns the bytes of received tables that are not evaluated.
    pub(crate) fn held_tables(&self) -> u64 {
        self.table_bytes
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sets the properties of the run that both openings determine.
    pub(crate) fn set_link(&mut self, link: RunLink) {
        self.terms.set_link(link);
    }

    /// Returns whether the garbler's window is larger than this side accepts.
    pub(super) fn has_excess(&self) -> bool {
        self.terms.excess_window().is_some()
    }
}
