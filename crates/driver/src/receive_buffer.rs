//! The receive buffers, whose bytes are split into frames.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use transpute_session::{Frame, FrameError, FrameKind, HEADER_LEN, read_header};

/// Size of a receive buffer, in bytes: four table chunks of the default length with their headers.
const CAPACITY: usize = (256 << 10) + 256;

/// Maximum number of used buffers that are kept for reuse. Frames that wait for the computing
/// thread need at most this many buffers.
const MAX_SPARE_BUFFERS: usize = 4;

/// Payloads shorter than this number of bytes are copied. A longer payload shares the receive
/// buffer and keeps all of it allocated. If short payloads did so too, a peer could occupy much
/// memory with small frames.
const MIN_SHARED_PAYLOAD: usize = CAPACITY / 8;

/// Splits a stream of bytes into frames that share the memory of the receive buffer.
///
/// It stores at most one frame and the bytes that were read after it, apart from spare buffers.
pub(super) struct ReceiveBuffer {
    /// The bytes that are not split into frames yet, followed by free space.
    buffer: BytesMut,
    /// Used buffers. A buffer is reused when no frame refers to it any more.
    spare: Vec<BytesMut>,
    /// Length of the last frame, header included, as an estimate for the next frame.
    last_len: usize,
    max_payload: usize,
}

impl ReceiveBuffer {
    /// Returns an empty buffer for frames with payloads up to `max_payload` bytes.
    pub(super) fn new(max_payload: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(CAPACITY),
            spare: Vec::with_capacity(MAX_SPARE_BUFFERS),
            last_len: HEADER_LEN,
            max_payload,
        }
    }

    /// Removes and returns the next frame, if it is complete.
    ///
    /// # Errors
    /// Returns [`FrameError`] if the header is invalid or announces a payload longer than
    /// `max_payload`.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((kind, len)) = self.header()? else {
            return Ok(None);
        };
        if self.buffer.len() < HEADER_LEN + len {
            return Ok(None);
        }
        self.last_len = HEADER_LEN + len;
        self.buffer.advance(HEADER_LEN);
        let payload = if len < MIN_SHARED_PAYLOAD {
            let payload = Bytes::copy_from_slice(&self.buffer[..len]);
            self.buffer.advance(len);
            payload
        } else {
            self.buffer.split_to(len).freeze()
        };
        Ok(Some(Frame { kind, payload }))
    }

    /// Returns the free space for the next read, at least one byte.
    ///
    /// The space ends after the header of the first frame that is not expected to fit. So only a
    /// few bytes of an unfinished frame must be copied to the next buffer.
    ///
    /// # Errors
    /// The same as [`next_frame`](Self::next_frame).
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

    /// Returns the number of received bytes of the unfinished frame. Returns 0 if `counts` is false
    /// for the kind of that frame.
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

    /// Moves the bytes to another buffer, which has room for a frame of `due` bytes.
    fn renew(&mut self, due: usize) {
        let capacity = due.max(CAPACITY);
        let free = (self.spare.iter_mut()).position(|buffer| buffer.try_reclaim(capacity));
        let mut next = match free {
            Some(index) => self.spare.swap_remove(index),
            None => BytesMut::with_capacity(capacity),
        };
        next.extend_from_slice(&self.buffer);
        let mut full = std::mem::replace(&mut self.buffer, next);
        full.clear();
        if self.spare.len() < MAX_SPARE_BUFFERS {
            self.spare.push(full);
        }
    }
}

#[cfg(test)]
mod tests {
    use transpute_session::MAX_PAYLOAD;

    use super::*;

    /// Returns a stream of table frames, of which every 25th is shorter, and the payload lengths.
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

    /// Reads a stream in steps of at most `step` bytes, while it holds the last `hold` frames;
    /// returns the lengths of the frames found.
    fn read(
        receive_buffer: &mut ReceiveBuffer,
        mut stream: &[u8],
        step: usize,
        hold: usize,
    ) -> Vec<usize> {
        let mut held = std::collections::VecDeque::new();
        let mut lengths = Vec::new();
        loop {
            while let Some(frame) = receive_buffer.next_frame().unwrap() {
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
            let mut room = receive_buffer.room().unwrap();
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
                let found = read(&mut ReceiveBuffer::new(MAX_PAYLOAD), &stream, step, hold);
                assert_eq!(found, lengths, "chunks of {chunk} in steps of {step}");
            }
        }
    }

    #[test]
    fn buffers_are_reused() {
        let (stream, _) = stream(100, 65544);
        let mut receive_buffer = ReceiveBuffer::new(MAX_PAYLOAD);
        read(&mut receive_buffer, &stream, usize::MAX, 8);
        assert!(receive_buffer.spare.len() <= MAX_SPARE_BUFFERS);
        let capacity: usize = (receive_buffer.spare.iter_mut())
            .map(|buffer| usize::from(buffer.try_reclaim(CAPACITY)))
            .sum();
        assert_eq!(
            capacity,
            receive_buffer.spare.len(),
            "every spare buffer can be reclaimed"
        );
    }

    #[test]
    fn headers_over_the_limit_are_rejected() {
        let mut receive_buffer = ReceiveBuffer::new(MAX_PAYLOAD);
        receive_buffer
            .room()
            .unwrap()
            .put_slice(&[0x21, 0, 0, 0, 0x7f]);
        assert!(receive_buffer.next_frame().is_err());
        assert!(receive_buffer.room().is_err());
        for (len, is_taken) in [(1000_u32, true), (1001, false)] {
            let mut receive_buffer = ReceiveBuffer::new(1000);
            let mut room = receive_buffer.room().unwrap();
            room.put_u8(0x21);
            room.put_u32_le(len);
            drop(room);
            assert_eq!(receive_buffer.next_frame().is_ok(), is_taken, "{len}");
        }
    }
}
