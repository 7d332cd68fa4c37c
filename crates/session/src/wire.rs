//! Frames: the messages in the byte stream.
//!
//! A frame consists of one byte for the kind, four bytes for the length of the payload
//! (little-endian), and the payload.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

/// Length of a frame's header, in bytes.
pub const HEADER_LEN: usize = 5;

/// Maximum length of a frame's payload, in bytes. A receiver rejects a longer payload after it has
/// read the header.
pub const MAX_PAYLOAD: usize = (1 << 20) + 64;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
#[non_exhaustive]
pub enum FrameKind {
    /// The proposal of a party; the first frame of each direction of a run.
    Hello = 0x01,
    /// A party's base-OT message. If the hello announces the message, it follows the hello
    /// directly.
    OtSetup = 0x02,
    /// The [`Field`](crate::Field) that the sender refuses; the last frame of its direction of the
    /// run or the connection.
    Refuse = 0x03,
    /// The opening of a party; the first frame of each direction of a connection.
    Open = 0x04,
    /// Evaluator to garbler: seed corrections of a SoftSpoken extension.
    OtExtendSetup = 0x10,
    /// Evaluator to garbler: masked choices of consecutive transfers of an OT extension.
    OtExtend = 0x11,
    /// Garbler to evaluator: the answer to transfers, with masked labels or corrections. It follows
    /// the evaluator's base-OT message, one `OtExtend` with its check, or one `OtCorrect`.
    OtReply = 0x12,
    /// Evaluator to garbler: the consistency check of the previous `OtExtend`.
    OtCheck = 0x14,
    /// Evaluator to garbler: corrections, which are the differences between the evaluator's input
    /// bits and the random choices of transfers in the connection's pool.
    OtCorrect = 0x13,
    /// Garbler to evaluator: labels of the garbler's inputs, for schemes that must send them.
    GarblerLabels = 0x20,
    /// Garbler to evaluator: a chunk of garbled tables.
    Tables = 0x21,
    /// Garbler to evaluator: a piece of the decoding information.
    Decode = 0x22,
    /// Evaluator to garbler: a piece of the masked output and its authenticity tag.
    Output = 0x23,
    /// The hashes of both directions of the run; the last frame of each direction of a completed
    /// run.
    Finish = 0x30,
    /// The reason of an abort; the last frame of its direction of the run or the connection.
    Abort = 0x31,
    /// The sender calls for no further runs; the last frame of its direction of a connection.
    Close = 0x32,
    /// A keep-alive without content.
    Alive = 0x40,
}

impl FrameKind {
    /// All kinds.
    pub const ALL: [Self; 17] = [
        Self::Hello,
        Self::OtSetup,
        Self::Refuse,
        Self::Open,
        Self::OtExtendSetup,
        Self::OtExtend,
        Self::OtReply,
        Self::OtCorrect,
        Self::OtCheck,
        Self::GarblerLabels,
        Self::Tables,
        Self::Decode,
        Self::Output,
        Self::Finish,
        Self::Abort,
        Self::Close,
        Self::Alive,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// One message on a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// The kind of the message.
    pub kind: FrameKind,
    /// The content, in a format that depends on the kind.
    pub payload: Bytes,
}

/// The error of received bytes that are not a valid frame.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum FrameError {
    /// This version of the protocol has no frame kind with this code.
    #[error("unknown frame kind {0:#04x}")]
    UnknownKind(u8),
    /// The header announces a payload longer than the limit.
    #[error("a frame announces {found} bytes, more than the {limit} any frame has")]
    TooLong {
        /// The announced length, in bytes.
        found: usize,
        /// The limit in bytes: [`MAX_PAYLOAD`], or the lower limit of the driver.
        limit: usize,
    },
}

/// Splits a byte stream into frames. Its buffer contains the bytes that were appended and are not
/// returned in frames yet.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: BytesMut,
}

impl FrameDecoder {
    /// Returns a decoder at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the buffer. Append received bytes to it.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Removes and returns the next frame. `None` if the buffer does not contain a complete one.
    ///
    /// # Errors
    /// Returns [`FrameError`] for an invalid header, even if the payload has not arrived yet.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((kind, len)) = read_header(&self.buffer)? else {
            return Ok(None);
        };
        if self.buffer.len() < HEADER_LEN + len {
            self.buffer.reserve(HEADER_LEN + len - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER_LEN);
        let payload = self.buffer.split_to(len).freeze();
        Ok(Some(Frame { kind, payload }))
    }
}

/// Reads a header from the start of `bytes`. Returns the kind of the frame, and the length of its
/// payload in bytes. `None` if `bytes` is shorter than a header.
///
/// # Errors
/// Returns [`FrameError`] if the kind is unknown or the length exceeds [`MAX_PAYLOAD`].
pub fn read_header(bytes: &[u8]) -> Result<Option<(FrameKind, usize)>, FrameError> {
    let Some((&[code, l0, l1, l2, l3], _)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let kind = FrameKind::from_code(code).ok_or(FrameError::UnknownKind(code))?;
    let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if len > MAX_PAYLOAD {
        return Err(FrameError::TooLong {
            found: len,
            limit: MAX_PAYLOAD,
        });
    }
    Ok(Some((kind, len)))
}

/// Appends one frame to `out`. The closure `fill` appends its payload. Returns the position of the
/// frame in `out`.
///
/// # Errors
/// Returns the error of `fill`. `out` is then unchanged.
pub(crate) fn write_frame<E>(
    out: &mut Vec<u8>,
    kind: FrameKind,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<usize, E> {
    let start = out.len();
    out.extend_from_slice(&[kind as u8, 0, 0, 0, 0]);
    if let Err(error) = fill(out) {
        out.truncate(start);
        return Err(error);
    }
    let len = out.len() - start - HEADER_LEN;
    debug_assert!(len <= MAX_PAYLOAD, "a frame of {len} bytes");
    out[start + 1..start + HEADER_LEN].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let written = write_frame(&mut out, kind, |out| {
            out.extend_from_slice(payload);
            Ok::<(), FrameError>(())
        });
        assert_eq!(written, Ok(0));
        out
    }

    #[test]
    fn frames_survive_any_cutting_of_the_stream() {
        let mut stream = frame(FrameKind::Hello, b"hello");
        stream.extend(frame(FrameKind::Alive, b""));
        stream.extend(frame(FrameKind::Tables, &[7; 1000]));
        for step in [1, 2, 5, 6, 7, 999, stream.len()] {
            let mut decoder = FrameDecoder::new();
            let mut frames = Vec::new();
            for part in stream.chunks(step) {
                decoder.buffer().extend_from_slice(part);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    frames.push((frame.kind, frame.payload.len()));
                }
            }
            assert_eq!(
                frames,
                [
                    (FrameKind::Hello, 5),
                    (FrameKind::Alive, 0),
                    (FrameKind::Tables, 1000)
                ],
                "step {step}"
            );
        }
    }

    #[test]
    fn a_lying_header_is_refused_before_its_payload() {
        let mut decoder = FrameDecoder::new();
        decoder.buffer().extend_from_slice(&[0x21, 0, 0, 0, 0x7f]);
        assert_eq!(
            decoder.next_frame(),
            Err(FrameError::TooLong {
                found: 0x7f00_0000,
                limit: MAX_PAYLOAD
            })
        );
        let mut decoder = FrameDecoder::new();
        decoder.buffer().extend_from_slice(b"GET / HTTP/1.1");
        assert_eq!(decoder.next_frame(), Err(FrameError::UnknownKind(b'G')));
    }

    #[test]
    fn every_kind_has_a_code_of_its_own() {
        for kind in FrameKind::ALL {
            assert_eq!(FrameKind::from_code(kind as u8), Some(kind));
        }
    }
}
