//! How far tables may run ahead of labels.

use crate::layout::Layout;

/// Where tables may run ahead of labels: the accounting both sides share.
///
/// Everything about an evaluation that the garbler sends unasked (its tables, its own labels, the
/// decoding information) counts until the evaluator has the labels of its inputs that it needs for it: tables until it has those
/// that they and the ones before read, where the garbler's labels are not sent, and else, like all the rest, until it has all of
/// that evaluation and those garbled side by side with it. What counts stays within the agreed lead, give
/// or take the untabled part of the evaluations that are garbled together.
pub(crate) struct Credit {
    limit: u64,
    /// Bytes that count of other runs on the same connection.
    others: u64,
    layout: Layout,
    committed: u64,
    /// Labels of evaluator's inputs that are there, or, where there are no such inputs, evaluations.
    answered: u64,
}

impl Credit {
    /// Begins without room: a connection [shares](Self::share) its window out.
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            limit: 0,
            others: 0,
            layout,
            committed: 0,
            answered: 0,
        }
    }

    /// Returns the accounting of what is sent in another layout, before anything counts.
    pub(crate) fn renewed(&self, layout: Layout) -> Self {
        Self {
            layout,
            limit: self.limit,
            others: self.others,
            committed: 0,
            answered: self.answered,
        }
    }

    /// Sets the limit of all runs of a connection together, and what counts of the others.
    pub(crate) fn share(&mut self, limit: u64, others: u64) {
        self.limit = limit;
        self.others = others;
    }

    /// Returns how many bytes may count.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn set_answered(&mut self, labels: u64) {
        self.answered = labels;
    }

    /// Returns the bytes that count, if `more` are added.
    pub(crate) fn used(&self, more: u64) -> u64 {
        let free = self.layout.unasked(self.answered);
        (self.committed + more).saturating_sub(free)
    }

    /// Says whether nothing counts, of other runs neither.
    pub(crate) fn is_empty(&self) -> bool {
        self.used(0) == 0 && self.others == 0
    }

    /// Says whether `more` bytes may be sent: those of a chunk, at most, or what is not tables.
    pub(crate) fn allows(&self, more: u64) -> bool {
        // What can be evaluated ends where a chunk ends: with its first byte goes the whole of the next one.
        let used = self.used(more);
        self.used(1) == 0 || used == 0 || used.saturating_add(self.others) <= self.limit
    }

    /// Says whether what has come unasked is more than could be sent.
    pub(crate) fn is_exceeded(&self) -> bool {
        let limit = self.limit.saturating_add(self.layout.max_untabled());
        self.used(0).saturating_add(self.others) > limit
    }

    pub(crate) fn commit(&mut self, bytes: u64) {
        self.committed += bytes;
    }
}
