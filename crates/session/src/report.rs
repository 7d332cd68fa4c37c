//! Milestones, byte counts and live counters of a run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use transpute_circuit::Bits;

/// A milestone that every completed run reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Milestone {
    /// The peer's hello has arrived and agrees with this party's hello.
    Agreed,
    /// The garbler has sent, or the evaluator has received, the labels of the evaluator's inputs of
    /// the first evaluation.
    FirstLabels,
    /// The garbler has sent, or the evaluator has received, the first chunk of tables.
    FirstTable,
    /// The garbler has sent, or the evaluator has evaluated, the last chunk of tables.
    LastTable,
    /// The last output of this party is known. A party that learns no output reaches this milestone
    /// when the peer's `Finish` frame arrives.
    LastOutput,
}

impl Milestone {
    /// The number of milestones.
    pub const COUNT: usize = 5;

    /// All milestones. The index of each is its discriminant.
    pub const ALL: [Self; 5] = [
        Self::Agreed,
        Self::FirstLabels,
        Self::FirstTable,
        Self::LastTable,
        Self::LastOutput,
    ];
}

/// Number of bytes of a run by purpose, in both directions together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Garbled tables, without frame headers.
    pub tables: u64,
    /// All messages of oblivious transfer.
    pub ot: u64,
    /// The part of `ot` in base-OT messages ([`FrameKind::OtSetup`](crate::FrameKind::OtSetup)):
    /// keys, points and ciphertexts.
    pub base_ot: u64,
    /// Labels of the garbler's inputs.
    pub garbler_labels: u64,
    /// Decoding information, and the outputs that the evaluator returns.
    pub outputs: u64,
    /// All other bytes: hellos, hashes, and the headers of all frames.
    pub framing: u64,
}

/// Live counters of a run, readable from any thread.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    table_bytes: AtomicU64,
    total_table_bytes: AtomicU64,
    evaluations: AtomicU64,
    /// Time of each milestone from the start of the run, in nanoseconds, plus 1. The value 0 means
    /// that the milestone is not reached.
    milestones: [AtomicU64; Milestone::COUNT],
}

impl Progress {
    /// Returns two numbers: the bytes of tables garbled or evaluated so far, and the bytes of all
    /// tables of the run.
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

    /// Returns the time from the start of the run to a milestone, if the run has reached it.
    #[must_use]
    pub fn at(&self, milestone: Milestone) -> Option<Duration> {
        let stamp = self.0.milestones[milestone as usize].load(Ordering::Relaxed);
        stamp.checked_sub(1).map(Duration::from_nanos)
    }

    /// Records the time from the start of the run to a milestone. The driver calls this, because
    /// the session has no clock.
    pub fn reach(&self, milestone: Milestone, at: Duration) {
        // The number saturates after 584 years.
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
    /// The bits of all output values, in the order of the circuit's outputs.
    pub bits: Bits,
}

/// The result of [`SessionConnection::poll`](crate::SessionConnection::poll).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progressed {
    /// Some work was done. Call `poll` again, because more work may be possible.
    Worked,
    /// No work is possible until a frame arrives, the application makes a call, or sending is
    /// allowed.
    Idle,
    /// Both sides have sent their last frame. No more work will follow.
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
