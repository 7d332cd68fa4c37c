//! Flow control: it limits the bytes that the garbler sends before the evaluator has labels.

use crate::layout::Layout;

/// The accounting of bytes that are sent before the evaluator has the labels to use them. Both
/// sides compute it in the same way.
///
/// The garbler sends tables, its own labels and decoding information of an evaluation without a
/// request. These bytes are counted until the evaluator has the necessary labels of its inputs:
///
/// - If the garbler's labels are not sent, a table needs the labels that it and earlier tables
///   read.
/// - All other bytes need all labels of their evaluation, and of those garbled together with it.
///
/// The counted bytes do not exceed the agreed window. The only exception are bytes other than
/// tables of the evaluations that are garbled together.
pub(crate) struct Credit {
    limit: u64,
    /// Number of counted bytes of the other runs on the same connection.
    others: u64,
    layout: Layout,
    committed: u64,
    /// Number of labels of the evaluator's inputs that have arrived. If the evaluator has no
    /// inputs, the number of evaluations.
    answered: u64,
}

impl Credit {
    /// Starts without credit. The connection sets the limit with [`share`](Self::share).
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            limit: 0,
            others: 0,
            layout,
            committed: 0,
            answered: 0,
        }
    }

    /// Returns the accounting for another layout, with no counted bytes.
    pub(crate) fn renewed(&self, layout: Layout) -> Self {
        Self {
            layout,
            limit: self.limit,
            others: self.others,
            committed: 0,
            answered: self.answered,
        }
    }

    /// Sets the limit for the counted bytes of all runs of a connection together, and the number of
    /// counted bytes of the other runs.
    pub(crate) fn share(&mut self, limit: u64, others: u64) {
        self.limit = limit;
        self.others = others;
    }

    /// Returns the maximum number of counted bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn set_answered(&mut self, labels: u64) {
        self.answered = labels;
    }

    /// Returns the number of counted bytes if `more` are added.
    pub(crate) fn used(&self, more: u64) -> u64 {
        let free = self.layout.unasked(self.answered);
        (self.committed + more).saturating_sub(free)
    }

    /// Returns whether the number of counted bytes is 0 for this run and for the other runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.used(0) == 0 && self.others == 0
    }

    /// Returns whether `more` bytes may be sent: at most a chunk of tables, or other data.
    pub(crate) fn allows(&self, more: u64) -> bool {
        // Only whole chunks can be evaluated. If the next byte would not be counted, a whole chunk
        // may be sent.
        let used = self.used(more);
        self.used(1) == 0 || used == 0 || used.saturating_add(self.others) <= self.limit
    }

    /// Returns whether the received bytes exceed the credit.
    pub(crate) fn is_exceeded(&self) -> bool {
        let limit = self.limit.saturating_add(self.layout.max_untabled());
        self.used(0).saturating_add(self.others) > limit
    }

    pub(crate) fn commit(&mut self, bytes: u64) {
        self.committed += bytes;
    }
}
