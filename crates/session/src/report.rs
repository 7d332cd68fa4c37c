//! The counters of a session while it runs, and its report at the end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use transpute_circuit::Bits;

/// A milestone of every completed session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Milestone {
    /// The peer's hello has arrived and agrees with ours.
    Agreed,
    /// The labels of the evaluator's inputs of the first evaluation are sent or received.
    FirstLabels,
    /// The first chunk of tables is sent or received.
    FirstTable,
    /// The last chunk of tables is sent or evaluated.
    LastTable,
    /// The last output of this party is known. For a party that learns none, the last output is
    /// sent or confirmed.
    LastOutput,
}

impl Milestone {
    /// The number of milestones.
    pub const COUNT: usize = 5;

    /// All milestones, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Agreed,
        Self::FirstLabels,
        Self::FirstTable,
        Self::LastTable,
        Self::LastOutput,
    ];
}

/// Payload bytes by purpose, of both directions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Garbled tables, without frame headers.
    pub tables: u64,
    /// Messages of oblivious transfer.
    pub ot: u64,
    /// Bytes of public-key oblivious transfer in `ot`: keys, points and ciphertexts.
    pub base_ot: u64,
    /// Labels of the garbler's inputs.
    pub garbler_labels: u64,
    /// Decoding information and masked outputs.
    pub outputs: u64,
    /// Everything else: hellos, hashes, and the headers of all frames.
    pub framing: u64,
}

/// Live counters of a session, readable from any thread.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    table_bytes: AtomicU64,
    total_table_bytes: AtomicU64,
    evaluations: AtomicU64,
    /// Nanoseconds from the start of the session plus one. 0 means not reached.
    milestones: [AtomicU64; Milestone::COUNT],
}

impl Progress {
    /// Returns the bytes of tables garbled or evaluated so far, and their total.
    #[must_use]
    pub fn tables(&self) -> (u64, u64) {
        (
            self.0.table_bytes.load(Ordering::Relaxed),
            self.0.total_table_bytes.load(Ordering::Relaxed),
        )
    }

    /// Returns the number of evaluations garbled or evaluated so far.
    #[must_use]
    pub fn evaluations(&self) -> u64 {
        self.0.evaluations.load(Ordering::Relaxed)
    }

    /// Returns the time of a milestone from the start of the session, if it was reached.
    #[must_use]
    pub fn at(&self, milestone: Milestone) -> Option<Duration> {
        let stamp = self.0.milestones[milestone as usize].load(Ordering::Relaxed);
        stamp.checked_sub(1).map(Duration::from_nanos)
    }

    /// Records the time of a milestone. For drivers, which have a clock.
    pub fn reach(&self, milestone: Milestone, at: Duration) {
        // Saturates after 584 years.
        let nanoseconds = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX - 1);
        if let Some(stamp) = self.0.milestones.get(milestone as usize) {
            stamp.store(nanoseconds.saturating_add(1), Ordering::Relaxed);
        }
    }

    pub(crate) fn set_total(&self, bytes: u64) {
        self.0.total_table_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_tables(&self, bytes: u64) {
        self.0.table_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_evaluation(&self) {
        self.0.evaluations.fetch_add(1, Ordering::Relaxed);
    }
}

/// The outputs of one evaluation.
#[derive(Debug)]
pub struct Output {
    /// The number of the evaluation in the batch, from 0.
    pub instance: u64,
    /// All output values concatenated, in wire order.
    pub bits: Bits,
}

/// The outcome of a call of [`SessionConnection::poll`](crate::SessionConnection::poll).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progressed {
    /// Some work was done. Call again.
    Worked,
    /// No work is possible until another frame arrives.
    Idle,
    /// The connection is complete in both directions.
    Finished,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milestones_are_told_once_they_are_passed() {
        let progress = Progress::default();
        for (index, milestone) in Milestone::ALL.into_iter().enumerate() {
            assert_eq!(milestone as usize, index);
            assert_eq!(progress.at(milestone), None);
            progress.reach(milestone, Duration::from_nanos(index as u64));
        }
        assert_eq!(progress.at(Milestone::Agreed), Some(Duration::ZERO));
        let output = progress.at(Milestone::LastOutput);
        assert_eq!(output, Some(Duration::from_nanos(4)));
    }
}
