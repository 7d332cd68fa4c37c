//! The two directions of a run: transcripts, byte counters, queued frames, and the frames that end
//! the run.

use std::collections::VecDeque;

use crate::{
    Frame, FrameKind, Milestone, SessionError, Traffic,
    error::{AbortReason, Field},
    transcript::Transcript,
    wire::{HEADER_LEN, write_frame},
};

/// Length of the content of a `Finish` frame, in bytes: the hashes of both directions.
pub(crate) const FINISH_LEN: usize = 64;

/// The state of the frames of a run: hashes and counts of sent and received frames, and frames that
/// are queued to be sent before tables.
pub(crate) struct Channel {
    sent: Transcript,
    received: Transcript,
    queue: VecDeque<Vec<u8>>,
    queued_bytes: usize,
    pub(crate) traffic: Traffic,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) finish_sent: bool,
    pub(crate) finish_received: bool,
    /// The reached milestones: bit `m` is set if the run has reached milestone number `m`.
    milestones: u8,
    /// The encoded number of the run. Every frame contains it between header and content.
    tag: Vec<u8>,
}

impl Channel {
    pub(crate) fn new() -> Self {
        Self {
            sent: Transcript::new(),
            received: Transcript::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            traffic: Traffic::default(),
            bytes_sent: 0,
            bytes_received: 0,
            finish_sent: false,
            finish_received: false,
            milestones: 0,
            tag: Vec::new(),
        }
    }

    /// Inserts `tag` between the header and the content of every sent frame. Transcripts hash the
    /// frames without it.
    pub(crate) fn set_tag(&mut self, tag: &[u8]) {
        self.tag = tag.to_vec();
    }

    /// Appends a frame to `out`.
    pub(crate) fn send(
        &mut self,
        out: &mut Vec<u8>,
        kind: FrameKind,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        let tag = &self.tag;
        let start = write_frame(out, kind, |out| {
            out.extend_from_slice(tag);
            fill(out)
        })?;
        self.sent
            .add(kind, &out[start + HEADER_LEN + self.tag.len()..]);
        self.count(kind, out.len() - start, true);
        Ok(())
    }

    /// Appends the first frames of this direction: the encoded hello, and the base-OT message if
    /// the hello announces one.
    pub(crate) fn send_opening(
        &mut self,
        out: &mut Vec<u8>,
        hello: &[u8],
        setup: &[u8],
    ) -> Result<(), SessionError> {
        self.send(out, FrameKind::Hello, |out| {
            out.extend_from_slice(hello);
            Ok(())
        })?;
        if setup.is_empty() {
            return Ok(());
        }
        self.send(out, FrameKind::OtSetup, |out| {
            out.extend_from_slice(setup);
            Ok(())
        })
    }

    /// Queues a frame, which is sent before tables.
    pub(crate) fn queue(&mut self, frame: Vec<u8>) {
        self.queued_bytes += frame.len();
        self.queue.push_back(frame);
    }

    /// Sends the oldest queued frame. Returns whether there was one.
    pub(crate) fn send_queued(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(frame) = self.queue.pop_front() else {
            return false;
        };
        self.queued_bytes -= frame.len();
        let (header, content) = frame.split_at(HEADER_LEN);
        if let Some(kind) = FrameKind::from_code(header[0]) {
            self.sent.add(kind, content);
            self.count(kind, frame.len() + self.tag.len(), true);
        }
        let len = (content.len() + self.tag.len()) as u32;
        out.push(header[0]);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&self.tag);
        out.extend_from_slice(content);
        true
    }

    /// Returns the number of queued bytes.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Returns whether no frame is queued.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Records a received frame. Handles it if it ends the run, otherwise returns it.
    pub(crate) fn receive(&mut self, frame: Frame) -> Result<Option<Frame>, SessionError> {
        let Frame { kind, payload } = &frame;
        if *kind == FrameKind::Alive {
            return Ok(None);
        }
        self.count(*kind, HEADER_LEN + self.tag.len() + payload.len(), false);
        if self.finish_received {
            return Err(SessionError::Unexpected {
                kind: *kind,
                problem: "the peer had finished",
            });
        }
        match (kind, &payload[..]) {
            (FrameKind::Refuse, &[code]) => {
                return Err(match Field::from_code(code) {
                    Some(field) => SessionError::RefusedByPeer(field),
                    None => SessionError::PeerAborted(AbortReason::Protocol),
                });
            }
            (FrameKind::Abort, &[code]) => {
                let reason = AbortReason::from_code(code).unwrap_or(AbortReason::Protocol);
                return Err(SessionError::PeerAborted(reason));
            }
            (FrameKind::Refuse | FrameKind::Abort, _) => {
                return Err(SessionError::Length {
                    kind: *kind,
                    expected: 1,
                    found: payload.len(),
                });
            }
            (FrameKind::Finish, hashes) => {
                if hashes.len() != FINISH_LEN {
                    return Err(SessionError::Length {
                        kind: *kind,
                        expected: FINISH_LEN,
                        found: hashes.len(),
                    });
                }
                // The frame has the hashes of the peer's sent and received frames. They must be
                // equal to the hashes of the frames received and sent here.
                if hashes != [self.received.hash(), self.sent.hash()].as_flattened() {
                    return Err(SessionError::Transcript);
                }
            }
            _ => self.received.add(*kind, payload),
        }
        Ok(Some(frame))
    }

    /// Records a received frame of tables that was ignored. `len` is the length of its payload.
    pub(crate) fn receive_skipped(&mut self, len: u32) {
        let whole = HEADER_LEN + self.tag.len() + len as usize;
        self.count(FrameKind::Tables, whole, false);
        self.received.add_header(FrameKind::Tables, len);
    }

    /// Sends `Finish`, the last frame of this direction. Apart from the peer's `Finish`, no frame
    /// of the run may follow in either direction, because `Finish` contains the hashes of both
    /// transcripts.
    pub(crate) fn send_finish(&mut self, out: &mut Vec<u8>) -> Result<(), SessionError> {
        let hashes = [self.sent.hash(), self.received.hash()];
        let tag = &self.tag;
        let start = write_frame(out, FrameKind::Finish, |out| {
            out.extend_from_slice(tag);
            out.extend_from_slice(hashes.as_flattened());
            Ok::<(), SessionError>(())
        })?;
        self.count(FrameKind::Finish, out.len() - start, true);
        self.finish_sent = true;
        Ok(())
    }

    /// Returns the hash of all sent frames.
    pub(crate) fn sent_hash(&self) -> [u8; 32] {
        self.sent.hash()
    }

    /// Returns the hash of all received frames.
    pub(crate) fn received_hash(&self) -> [u8; 32] {
        self.received.hash()
    }

    /// Returns whether both directions are complete.
    pub(crate) fn is_finished(&self) -> bool {
        self.finish_sent && self.finish_received
    }

    pub(crate) fn reach(&mut self, milestone: Milestone) {
        self.milestones |= 1 << milestone as u8;
    }

    pub(crate) fn milestones(&self) -> u8 {
        self.milestones
    }

    fn count(&mut self, kind: FrameKind, frame_len: usize, is_sent: bool) {
        let total = if is_sent {
            &mut self.bytes_sent
        } else {
            &mut self.bytes_received
        };
        *total += frame_len as u64;
        // The number before a chunk of tables, before labels or before a piece is counted as
        // framing.
        let header_len = HEADER_LEN + self.tag.len();
        let (purpose, overhead) = match kind {
            FrameKind::Tables => (&mut self.traffic.tables, header_len + 8),
            FrameKind::GarblerLabels => (&mut self.traffic.garbler_labels, header_len + 8),
            FrameKind::Decode | FrameKind::Output => (&mut self.traffic.outputs, header_len + 8),
            FrameKind::OtSetup
            | FrameKind::OtExtendSetup
            | FrameKind::OtExtend
            | FrameKind::OtCheck
            | FrameKind::OtReply
            | FrameKind::OtCorrect => (&mut self.traffic.ot, header_len),
            _ => {
                self.traffic.framing += frame_len as u64;
                return;
            }
        };
        let overhead = overhead.min(frame_len);
        *purpose += (frame_len - overhead) as u64;
        if kind == FrameKind::OtSetup {
            self.traffic.base_ot += (frame_len - overhead) as u64;
        }
        self.traffic.framing += overhead as u64;
    }
}
