//! Messages about one evaluation that may be longer than a frame.
//!
//! Such a message is sent in pieces, one per frame. Each frame starts with the number of the
//! evaluation (eight bytes, little-endian), followed by the piece. Both sides know the total
//! length.

use bytes::Bytes;

use crate::{
    FrameKind, SessionError,
    wire::{HEADER_LEN, write_frame},
};

/// Length of the number before the content of a frame, in bytes.
pub(crate) const NUMBER_LEN: usize = 8;

/// Maximum length of a piece, in bytes. All pieces of a message but the last have this length.
pub(crate) const PIECE: usize = 64 << 10;

/// Encodes `content` as one or more frames.
pub(crate) fn piece_frames(
    kind: FrameKind,
    instance: u64,
    content: &[u8],
) -> impl Iterator<Item = Vec<u8>> {
    // Empty content is sent as one empty piece.
    let first = content.len().min(PIECE);
    let rest = content[first..].chunks(PIECE);
    std::iter::once(&content[..first])
        .chain(rest)
        .map(move |piece| numbered_frame(kind, instance, &[piece]))
}

/// Encodes a frame whose payload is a number and some bytes.
pub(crate) fn numbered_frame(kind: FrameKind, number: u64, content: &[&[u8]]) -> Vec<u8> {
    let len: usize = content.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(HEADER_LEN + NUMBER_LEN + len);
    let written = write_frame(&mut frame, kind, |out| {
        out.extend_from_slice(&number.to_le_bytes());
        for part in content {
            out.extend_from_slice(part);
        }
        Ok::<(), std::convert::Infallible>(())
    });
    match written {
        Ok(_) => frame,
        Err(never) => match never {},
    }
}

/// Encodes a frame with this content as its payload.
pub(crate) fn whole_frame(kind: FrameKind, content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_LEN + content.len());
    let written = write_frame(&mut frame, kind, |out| {
        out.extend_from_slice(content);
        Ok::<(), std::convert::Infallible>(())
    });
    match written {
        Ok(_) => frame,
        Err(never) => match never {},
    }
}

/// Splits a payload into its number (the first eight bytes) and the rest.
pub(crate) fn split_number(kind: FrameKind, payload: &Bytes) -> Result<(u64, Bytes), SessionError> {
    match payload.split_first_chunk() {
        Some((number, _)) => Ok((u64::from_le_bytes(*number), payload.slice(8..))),
        None => Err(SessionError::Length {
            kind,
            expected: 8,
            found: payload.len(),
        }),
    }
}

/// Reassembles the messages of one kind from their pieces, in the order of evaluations.
pub(crate) struct Assembler {
    kind: FrameKind,
    length: usize,
    /// The evaluation whose pieces arrive next.
    instance: u64,
    collected: Vec<u8>,
}

impl Assembler {
    /// Expects messages of `length` bytes for evaluations 0, 1, 2 and so on.
    pub(crate) fn new(kind: FrameKind, length: usize) -> Self {
        Self {
            kind,
            length,
            instance: 0,
            collected: Vec::new(),
        }
    }

    /// Adds the payload of a frame. If this completes a message, returns the number of its
    /// evaluation and the message.
    ///
    /// # Errors
    /// Returns `Unexpected` for a piece of another evaluation, and `Length` for more bytes than
    /// expected.
    pub(crate) fn add(&mut self, payload: &Bytes) -> Result<Option<(u64, Vec<u8>)>, SessionError> {
        let (instance, piece) = split_number(self.kind, payload)?;
        if instance != self.instance {
            return Err(SessionError::Unexpected {
                kind: self.kind,
                problem: "it is about another evaluation than the next one",
            });
        }
        let found = self.collected.len() + piece.len();
        // Every piece but the last must be full. Otherwise a peer could send empty pieces without
        // end.
        if found > self.length || (found < self.length && piece.len() != PIECE) {
            return Err(SessionError::Length {
                kind: self.kind,
                expected: self.length,
                found,
            });
        }
        self.collected.extend_from_slice(&piece);
        if found < self.length {
            return Ok(None);
        }
        self.instance += 1;
        Ok(Some((instance, std::mem::take(&mut self.collected))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrameDecoder;

    fn reassemble(length: usize) -> Vec<u8> {
        let content: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        let mut decoder = FrameDecoder::new();
        for frame in piece_frames(FrameKind::Decode, 0, &content) {
            decoder.buffer().extend_from_slice(&frame);
        }
        let mut assembler = Assembler::new(FrameKind::Decode, length);
        let mut whole = None;
        while let Some(frame) = decoder.next_frame().unwrap() {
            assert!(whole.is_none(), "a frame behind the whole message");
            whole = assembler.add(&frame.payload).unwrap();
        }
        assert_eq!(whole.as_ref().map(|w| &w.1), Some(&content));
        whole.unwrap().1
    }

    #[test]
    fn messages_of_any_length_arrive_whole() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            assert_eq!(reassemble(length).len(), length);
        }
    }

    #[test]
    fn pieces_out_of_place_are_refused() {
        let mut assembler = Assembler::new(FrameKind::Output, 4);
        let piece = |instance: u64, content: &[u8]| {
            Bytes::from([&instance.to_le_bytes()[..], content].concat())
        };
        assert!(assembler.add(&piece(1, b"abcd")).is_err());
        assert!(assembler.add(&piece(0, b"abcde")).is_err());
        assert!(assembler.add(&piece(0, b"")).is_err());
        assert!(assembler.add(&Bytes::from_static(b"short")).is_err());
        assert!(assembler.add(&piece(0, b"abcd")).unwrap().is_some());
        assert!(assembler.add(&piece(0, b"abcd")).is_err());
    }
}
