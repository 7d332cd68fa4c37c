//! The activity of a link: bytes of runs in both directions, and waits of the computing thread.

use std::sync::{
    Arc,
    atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use transpute_session::{FrameKind, HEADER_LEN, read_header};

/// Counters shared by the reader, the writer and the computing thread of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    /// Number of received bytes of frames that [carry a run](carries_run). Bytes of an unfinished
    /// frame are included.
    received: AtomicU64,
    /// Lower bound of the number of sent bytes of frames that carry a run.
    sent: AtomicU64,
    is_waiting: AtomicBool,
    /// Whether the computing thread has waited since the last call of `has_waited`.
    has_waited: AtomicBool,
}

impl Activity {
    pub(super) fn set_received(&self, bytes: u64) {
        self.0.received.store(bytes, Relaxed);
    }

    pub(super) fn set_sent(&self, bytes: u64) {
        self.0.sent.store(bytes, Relaxed);
    }

    /// Returns the sum of the received and the sent bytes of frames that carry runs.
    pub(super) fn carried(&self) -> u64 {
        self.0.received.load(Relaxed) + self.0.sent.load(Relaxed)
    }

    /// Records that the computing thread starts or stops waiting.
    pub(super) fn set_waiting(&self, is_waiting: bool) {
        self.0.is_waiting.store(is_waiting, SeqCst);
        self.0.has_waited.store(true, SeqCst);
    }

    /// Returns whether the computing thread has waited at any time since the last call.
    pub(super) fn has_waited(&self) -> bool {
        self.0.has_waited.swap(false, SeqCst) || self.0.is_waiting.load(SeqCst)
    }
}

/// Returns whether frames of this kind carry a run: oblivious transfers, labels, tables or outputs.
/// Other frames negotiate, end or keep alive a run or connection. A peer can send any number of
/// them without computing.
pub(super) fn carries_run(kind: FrameKind) -> bool {
    match kind {
        FrameKind::OtSetup
        | FrameKind::OtExtendSetup
        | FrameKind::OtExtend
        | FrameKind::OtCheck
        | FrameKind::OtReply
        | FrameKind::OtCorrect
        | FrameKind::GarblerLabels
        | FrameKind::Tables
        | FrameKind::Decode
        | FrameKind::Output => true,
        // These are `Hello`, `Refuse`, `Open`, `Finish`, `Abort`, `Close` and `Alive`.
        _ => false,
    }
}

/// Returns the number of bytes of all frames in `frames` that do not carry a run, including
/// headers. `frames` must consist of complete frames.
pub(super) fn control_bytes(mut frames: &[u8]) -> u64 {
    let mut sum = 0;
    while let Ok(Some((kind, len))) = read_header(frames) {
        let (frame, rest) = frames.split_at(frames.len().min(HEADER_LEN + len));
        if !carries_run(kind) {
            sum += frame.len() as u64;
        }
        frames = rest;
    }
    sum + frames.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::frame;

    #[test]
    fn control_bytes_exclude_the_frames_of_runs() {
        let mut frames = Vec::new();
        let mut expected = 0;
        for (index, kind) in FrameKind::ALL.into_iter().enumerate() {
            let start = frames.len();
            frames.extend(frame(kind, 10 * index));
            if !carries_run(kind) {
                expected += (frames.len() - start) as u64;
            }
        }
        assert_eq!(control_bytes(&frames), expected);
        assert_eq!(control_bytes(&[]), 0);
    }

    #[test]
    fn a_wait_is_reported_once_after_it_ends() {
        let activity = Activity::default();
        assert!(!activity.has_waited());
        activity.set_waiting(true);
        assert!(activity.has_waited());
        assert!(activity.has_waited());
        activity.set_waiting(false);
        assert!(activity.has_waited());
        assert!(!activity.has_waited());
    }
}
