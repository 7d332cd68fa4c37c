//! Activity of a link: whether the computation goes on, and who is waited for.

use std::sync::{
    Arc,
    atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use transpute_session::{FrameKind, HEADER_LEN, read_header};

/// Counters that the reader, the writer and the computing thread of one link share.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    /// Bytes received of frames that [carry a run](carries_run), those of an unfinished frame included.
    received: AtomicU64,
    /// Bytes sent of such frames, at least.
    sent: AtomicU64,
    is_waiting: AtomicBool,
    /// Whether the computing thread has waited since that was last asked.
    has_waited: AtomicBool,
}

impl Activity {
    pub(super) fn set_received(&self, bytes: u64) {
        self.0.received.store(bytes, Relaxed);
    }

    pub(super) fn set_sent(&self, bytes: u64) {
        self.0.sent.store(bytes, Relaxed);
    }

    /// Returns the bytes of frames that carry runs, in both directions together.
    pub(super) fn carried(&self) -> u64 {
        self.0.received.load(Relaxed) + self.0.sent.load(Relaxed)
    }

    /// Notes that the computing thread begins or ends to wait.
    pub(super) fn set_waiting(&self, is_waiting: bool) {
        self.0.is_waiting.store(is_waiting, SeqCst);
        self.0.has_waited.store(true, SeqCst);
    }

    /// Says whether the computing thread has waited at any time since the last call.
    pub(super) fn has_waited(&self) -> bool {
        self.0.has_waited.swap(false, SeqCst) || self.0.is_waiting.load(SeqCst)
    }
}

/// Says whether frames of this kind carry a run: oblivious transfers, labels, tables or outputs. The
/// others open, agree on, close or refuse something, or show that the sender is there: a peer can
/// send any number of them and compute nothing.
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
        // Hello, Refuse, Open, Finish, Abort, Close, Alive.
        _ => false,
    }
}

/// Returns the bytes in `frames`, which are whole frames of this side, that carry no run.
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
    fn bytes_of_control_frames_are_told_from_those_of_runs() {
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
    fn a_wait_is_noticed_once_and_for_as_long_as_it_lasts() {
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
