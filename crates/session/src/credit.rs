//! Flow control: the credit of tables ahead of labels.

use crate::layout::Layout;

/// The accounting of tables that are sent ahead of labels, which both sides share.
///
/// The garbler sends tables, its own labels and decoding information of an evaluation without a
/// request. They count towards the window until the evaluator has the input labels that it needs
/// for them. For tables whose garbler's labels are not sent, these are the labels that they and
/// earlier tables read. For all else, these are all labels of that evaluation and of those garbled
/// together with it. The counted bytes stay within the agreed window, except for the bytes without
/// tables of the evaluations that are garbled together.
pub(crate) struct Credit {
    limit: u64,
    /// Bytes of other runs on the same connection that count.
    others: u64,
    layout: Layout,
    committed: u64,
    /// Number of the evaluator's input labels that have arrived. Without such inputs, the number of
    /// evaluations.
    answered: u64,
}

impl Credit {
    /// Starts without credit. A connection [distributes](Self::share) its window.
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            limit: 0,
            others: 0,
            layout,
            committed: 0,
            answered: 0,
        }
    }

    /// Returns the accounting for another layout, before anything counts.
    pub(crate) fn renewed(&self, layout: Layout) -> Self {
        Self {
            layout,
            limit: self.limit,
            others: self.others,
            committed: 0,
            answered: self.answered,
        }
    }

    /// Sets the limit of all runs of a connection together, and the counted bytes of the other
    /// runs.
    pub(crate) fn share(&mut self, limit: u64, others: u64) {
        self.limit = limit;
        self.others = others;
    }

    /// Returns the limit of counted bytes.
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

    /// Returns whether nothing counts, of this run and of others.
    pub(crate) fn is_empty(&self) -> bool {
        self.used(0) == 0 && self.others == 0
    }

    /// Returns whether `more` bytes may be sent: at most a chunk of tables, or other data.
    pub(crate) fn allows(&self, more: u64) -> bool {
        // Only whole chunks can be evaluated: with its first byte, the whole next chunk counts.
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
