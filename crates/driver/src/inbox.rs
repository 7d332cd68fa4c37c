//! The buffers of what is received, and the frames cut out of them.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use transpute_session::{Frame, FrameError, FrameKind, HEADER_LEN, read_header};

/// Room of a buffer: for four table chunks of the default length with their headers.
const CAPACITY: usize = (256 << 10) + 256;

/// Buffers kept to be used again: as many as the frames fill that may wait for the computing thread.
const KEPT: usize = 4;

/// Payloads below this are copied: as long as a frame is held, so is its buffer, and a peer must not
/// tie up much memory with few bytes of what this side has to hold.
const WORTH_KEEPING: usize = CAPACITY / 8;

/// Cuts a stream of bytes into frames that stay where they were read.
///
/// Holds at most one frame and what was read behind it, besides empty buffers.
pub(super) struct Inbox {
    /// What is not cut into frames yet, with room behind it.
    buffer: BytesMut,
    /// Buffers that were full; to be used again when no frame is left in them.
    full: Vec<BytesMut>,
    /// Length of the last frame, header included: a guess at that of the next.
    last_len: usize,
    max_payload: usize,
}

impl Inbox {
    /// Takes frames with payloads up to `max_payload` bytes.
    pub(super) fn new(max_payload: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(CAPACITY),
            full: Vec::with_capacity(KEPT),
            last_len: HEADER_LEN,
            max_payload,
        }
    }

    /// Takes the next frame, if it is complete.
    ///
    /// # Errors
    /// [`FrameError`], from the header alone.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((kind, len)) = self.header()? else {
            return Ok(None);
        };
        if self.buffer.len() < HEADER_LEN + len {
            return Ok(None);
        }
        self.last_len = HEADER_LEN + len;
        self.buffer.advance(HEADER_LEN);
        let payload = if len < WORTH_KEEPING {
            let payload = Bytes::copy_from_slice(&self.buffer[..len]);
            self.buffer.advance(len);
            payload
        } else {
            self.buffer.split_to(len).freeze()
        };
        Ok(Some(Frame { kind, payload }))
    }

    /// Returns where the next bytes are to be read to; there is always room for one.
    ///
    /// The room ends where a frame is likely to end, and its successor's header to be known: then
    /// next to nothing of a frame must be moved to the next buffer.
    ///
    /// # Errors
    /// [`FrameError`], as [`next_frame`](Self::next_frame).
    pub(super) fn room(&mut self) -> Result<impl BufMut, FrameError> {
        let due = match self.header()? {
            Some((_, len)) => HEADER_LEN + len,
            None => self.last_len,
        };
        if self.buffer.capacity() < due {
            self.renew(due);
        }
        let behind = self.buffer.capacity() - due;
        let more = behind - behind % self.last_len;
        let end = (due + more + HEADER_LEN).min(self.buffer.capacity());
        let room = end - self.buffer.len();
        Ok((&mut self.buffer).limit(room))
    }

    /// Returns how many bytes are here of a frame that is not complete, if its kind is one that
    /// `counts`.
    pub(super) fn unfinished(&self, counts: impl Fn(FrameKind) -> bool) -> u64 {
        match self.header() {
            Ok(Some((kind, _))) if counts(kind) => self.buffer.len() as u64,
            _ => 0,
        }
    }

    fn header(&self) -> Result<Option<(FrameKind, usize)>, FrameError> {
        match read_header(&self.buffer)? {
            Some((_, found)) if found > self.max_payload => Err(FrameError::TooLong {
                found,
                limit: self.max_payload,
            }),
            header => Ok(header),
        }
    }

    /// Goes on in a buffer that has room for a frame of `due` bytes.
    fn renew(&mut self, due: usize) {
        let capacity = due.max(CAPACITY);
        let free = (self.full.iter_mut()).position(|buffer| buffer.try_reclaim(capacity));
        let mut next = match free {
            Some(index) => self.full.swap_remove(index),
            None => BytesMut::with_capacity(capacity),
        };
        next.extend_from_slice(&self.buffer);
        let mut full = std::mem::replace(&mut self.buffer, next);
        full.clear();
        if self.full.len() < KEPT {
            self.full.push(full);
        }
    }
}

#[cfg(test)]
mod tests {
    use transpute_session::MAX_PAYLOAD;

    use super::*;

    /// The stream of tables of a batch: chunks of one length, now and then a shorter one.
    fn stream(frames: usize, chunk: usize) -> (Vec<u8>, Vec<usize>) {
        let mut stream = Vec::new();
        let mut lengths = Vec::new();
        for index in 0..frames {
            let len = if index % 25 == 24 { chunk / 3 } else { chunk };
            stream.push(FrameKind::Tables as u8);
            stream.extend_from_slice(&(len as u32).to_le_bytes());
            stream.extend((0..len).map(|i| (i ^ index) as u8));
            lengths.push(len);
        }
        (stream, lengths)
    }

    /// Reads a stream in pieces of at most `step` bytes; returns the lengths of the frames found.
    fn read(inbox: &mut Inbox, mut stream: &[u8], step: usize, hold: usize) -> Vec<usize> {
        let mut held = std::collections::VecDeque::new();
        let mut lengths = Vec::new();
        loop {
            while let Some(frame) = inbox.next_frame().unwrap() {
                let index = lengths.len();
                for (i, &byte) in frame.payload.iter().enumerate() {
                    assert_eq!(byte, (i ^ index) as u8, "byte {i} of frame {index}");
                }
                lengths.push(frame.payload.len());
                held.push_back(frame);
                held.drain(..held.len().saturating_sub(hold));
            }
            if stream.is_empty() {
                return lengths;
            }
            let mut room = inbox.room().unwrap();
            let read = room.remaining_mut().min(step).min(stream.len());
            assert!(read > 0, "no room");
            room.put_slice(&stream[..read]);
            stream = &stream[read..];
        }
    }

    #[test]
    fn frames_of_any_length_arrive_in_any_steps() {
        for (frames, chunk) in [(200, 0), (200, 20), (60, 5000), (60, 65544), (6, 1 << 20)] {
            let (stream, lengths) = stream(frames, chunk);
            for (step, hold) in [(1 << 12, 0), (70_001, 3), (usize::MAX, 100)] {
                let found = read(&mut Inbox::new(MAX_PAYLOAD), &stream, step, hold);
                assert_eq!(found, lengths, "chunks of {chunk} in steps of {step}");
            }
        }
    }

    #[test]
    fn buffers_are_used_again() {
        let (stream, _) = stream(100, 65544);
        let mut inbox = Inbox::new(MAX_PAYLOAD);
        read(&mut inbox, &stream, usize::MAX, 8);
        assert!(inbox.full.len() <= KEPT);
        let capacity: usize = (inbox.full.iter_mut())
            .map(|buffer| usize::from(buffer.try_reclaim(CAPACITY)))
            .sum();
        assert_eq!(capacity, inbox.full.len(), "a buffer is held by nobody");
    }

    #[test]
    fn a_lying_header_is_refused() {
        let mut inbox = Inbox::new(MAX_PAYLOAD);
        inbox.room().unwrap().put_slice(&[0x21, 0, 0, 0, 0x7f]);
        assert!(inbox.next_frame().is_err());
        assert!(inbox.room().is_err());
        for (len, is_taken) in [(1000_u32, true), (1001, false)] {
            let mut inbox = Inbox::new(1000);
            let mut room = inbox.room().unwrap();
            room.put_u8(0x21);
            room.put_u32_le(len);
            drop(room);
            assert_eq!(inbox.next_frame().is_ok(), is_taken, "{len}");
        }
    }
}
