//! The incoming stream: reassembly of pieces that arrive in any order.

use std::ops::Range;

use crate::buffer::ChunkBuffer;
use crate::ranges::RangeSet;

/// The maximum number of separate pieces. A packet that would add another one is dropped and not
/// acknowledged.
const MAX_PIECES: usize = 16_384;

/// The effect of a piece of data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Insertion {
    /// The piece was accepted, and this many of its bytes were new.
    Taken(u64),
    /// The piece was dropped, because there are too many gaps.
    Dropped,
}

/// A violation of the protocol by the peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StreamViolation {
    BeyondLimit,
    TwoEnds,
}

/// Received data that were not read yet.
#[derive(Debug, Default)]
pub(crate) struct RecvStream {
    buffer: ChunkBuffer,
    received: RangeSet,
    /// The offset up to which the application has read.
    read: u64,
    /// The offset before which all bytes were received.
    contiguous: u64,
    /// The flow-control limit: no byte at or beyond this offset may arrive.
    limit: u64,
    end: Option<u64>,
    /// Bytes that arrived more than once.
    duplicated: u64,
}

impl RecvStream {
    /// Raises the flow-control limit to this offset. It never decreases.
    pub(crate) fn raise_limit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Adds a piece of data.
    pub(crate) fn insert(
        &mut self,
        offset: u64,
        data: &[u8],
        end: bool,
    ) -> Result<Insertion, StreamViolation> {
        let range = offset..offset + data.len() as u64;
        if range.end > self.limit && !data.is_empty() {
            return Err(StreamViolation::BeyondLimit);
        }
        let highest = self.highest();
        if self
            .end
            .is_some_and(|known| range.end > known || (end && range.end != known))
            || (end && highest > range.end)
        {
            return Err(StreamViolation::TwoEnds);
        }
        if self.received.len() >= MAX_PIECES
            && range.start > self.contiguous
            && self.received.holding(range.start).is_none()
        {
            return Ok(Insertion::Dropped);
        }
        if end {
            self.end = Some(range.end);
        }
        let new = self.received.insert(range.clone());
        self.duplicated += data.len() as u64 - new;
        if new > 0 {
            self.buffer.write(offset, data);
            if let Some(first) = self.received.holding(self.contiguous) {
                self.contiguous = first.end;
            }
        }
        Ok(Insertion::Taken(new))
    }

    /// Reads the next bytes in order. Returns their number.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        let available = self.contiguous - self.read;
        let take = out
            .len()
            .min(usize::try_from(available).unwrap_or(usize::MAX));
        let mut at = 0;
        self.buffer
            .read(self.read..self.read + take as u64, |piece| {
                out[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            });
        self.read += take as u64;
        self.buffer.release(self.read);
        take
    }

    /// Returns the number of bytes that can be read.
    pub(crate) fn readable(&self) -> u64 {
        self.contiguous - self.read
    }

    pub(crate) fn read_offset(&self) -> u64 {
        self.read
    }

    pub(crate) fn contiguous(&self) -> u64 {
        self.contiguous
    }

    /// Returns one more than the largest offset received.
    pub(crate) fn highest(&self) -> u64 {
        self.received.last().map_or(0, |last| last.end)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// Returns up to `max` pieces after the first gap, the first ones first.
    pub(crate) fn pieces(&self, max: usize) -> Vec<Range<u64>> {
        let behind = |range: &Range<u64>| range.start > self.contiguous;
        self.received.iter().filter(behind).take(max).collect()
    }

    /// Returns whether all bytes up to the end were received.
    pub(crate) fn is_complete(&self) -> bool {
        self.end == Some(self.contiguous)
    }

    /// Returns whether all bytes up to the end were read.
    pub(crate) fn is_read(&self) -> bool {
        self.end == Some(self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_are_read_in_order() {
        let mut stream = RecvStream::default();
        stream.raise_limit(100);
        let data: Vec<u8> = (0..100).collect();
        assert_eq!(
            stream.insert(50, &data[50..80], false),
            Ok(Insertion::Taken(30))
        );
        assert_eq!(
            stream.insert(90, &data[90..], true),
            Ok(Insertion::Taken(10))
        );
        assert_eq!(stream.pieces(9), [50..80, 90..100]);
        assert_eq!(
            stream.insert(0, &data[..60], false),
            Ok(Insertion::Taken(50))
        );
        assert_eq!(stream.duplicated(), 10);
        let mut out = [0; 64];
        assert_eq!(stream.read(&mut out), 64);
        assert_eq!(out, data[..64]);
        assert_eq!(
            stream.insert(70, &data[70..95], false),
            Ok(Insertion::Taken(10))
        );
        assert!(stream.is_complete() && !stream.is_read());
        assert_eq!(stream.read(&mut out), 36);
        assert_eq!(out[..36], data[64..]);
        assert!(stream.is_read());
    }

    #[test]
    fn violations_of_the_protocol_are_rejected() {
        let mut stream = RecvStream::default();
        stream.raise_limit(10);
        assert_eq!(
            stream.insert(8, &[0; 3], false),
            Err(StreamViolation::BeyondLimit)
        );
        assert_eq!(stream.insert(4, &[0; 2], true), Ok(Insertion::Taken(2)));
        assert_eq!(
            stream.insert(6, &[0; 1], false),
            Err(StreamViolation::TwoEnds)
        );
        assert_eq!(
            stream.insert(4, &[0; 1], true),
            Err(StreamViolation::TwoEnds)
        );
        assert_eq!(stream.insert(0, &[0; 4], false), Ok(Insertion::Taken(4)));
    }

    #[test]
    fn the_number_of_gaps_is_bounded() {
        let mut stream = RecvStream::default();
        stream.raise_limit(1 << 20);
        for n in 0..MAX_PIECES as u64 {
            assert_eq!(
                stream.insert(2 * n + 1, &[0], false),
                Ok(Insertion::Taken(1))
            );
        }
        assert_eq!(stream.insert(1 << 19, &[0], false), Ok(Insertion::Dropped));
        assert_eq!(stream.insert(0, &[0], false), Ok(Insertion::Taken(1)));
    }
}
