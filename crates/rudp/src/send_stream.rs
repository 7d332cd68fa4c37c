//! The outgoing stream. Bytes are kept until the peer has acknowledged them.

use std::ops::Range;

use crate::buffer::ChunkBuffer;
use crate::frame::STREAM_END;
use crate::ranges::RangeSet;

/// The data that were written and are not acknowledged, with the ranges that were lost.
#[derive(Debug, Default)]
pub(crate) struct SendStream {
    buffer: ChunkBuffer,
    /// The offset of the next byte to be written.
    written: u64,
    /// The offset of the next byte to be sent for the first time.
    sent: u64,
    /// Acknowledged ranges, from the start of the buffer on.
    acked: RangeSet,
    /// Ranges to be retransmitted.
    lost: RangeSet,
    finished: bool,
    /// `true` if the end of the stream is to be sent or retransmitted.
    end_pending: bool,
    end_acked: bool,
}

/// A piece of the stream to be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Segment {
    pub(crate) range: Range<u64>,
    pub(crate) end: bool,
}

impl SendStream {
    /// Writes as many bytes as fit into a buffer of this capacity.
    pub(crate) fn write(&mut self, data: &[u8], capacity: u64) -> usize {
        if self.finished {
            return 0;
        }
        let room = capacity
            .saturating_sub(self.held())
            .min(STREAM_END - 1 - self.written);
        let take = data.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.buffer.write(self.written, &data[..take]);
        self.written += take as u64;
        take
    }

    /// Finishes the stream after the bytes written so far.
    pub(crate) fn finish(&mut self) {
        if !self.finished {
            self.finished = true;
            self.end_pending = true;
        }
    }

    /// Returns the next segment to be sent for the first time, of at most `room` bytes and below
    /// `limit`. Counts it as sent.
    pub(crate) fn next_new(&mut self, room: usize, limit: u64) -> Option<Segment> {
        let end = (self.sent + room as u64)
            .min(self.written)
            .min(limit.max(self.sent));
        let at_end = self.finished && end == self.written && self.end_pending;
        if end == self.sent && !(at_end && self.lost.is_empty()) {
            return None;
        }
        let range = self.sent..end;
        self.sent = end;
        if at_end {
            self.end_pending = false;
        }
        Some(Segment { range, end: at_end })
    }

    /// Returns the next segment to be retransmitted, of at most `room` bytes.
    pub(crate) fn next_lost(&mut self, room: usize) -> Option<Segment> {
        let first = self.lost.first()?;
        let range = first.start..first.end.min(first.start + room as u64);
        if range.is_empty() {
            return None;
        }
        self.lost.remove(range.clone());
        let end = self.finished && range.end == self.written && self.sent == self.written;
        if end {
            self.end_pending = false;
        }
        Some(Segment { range, end })
    }

    /// Returns the first unacknowledged segment, of at most `room` bytes, for a probe.
    pub(crate) fn oldest_unacked(&self, room: usize) -> Option<Segment> {
        let start =
            (self.acked.holding(self.buffer.start())).map_or(self.buffer.start(), |held| held.end);
        let missing = self
            .acked
            .missing_from(start..self.sent.min(start + room as u64));
        let range = missing.first().cloned();
        match range {
            Some(range) => {
                let end = self.finished && !self.end_pending && range.end == self.written;
                Some(Segment { range, end })
            }
            None if self.finished
                && !self.end_pending
                && !self.end_acked
                && self.sent == self.written =>
            {
                Some(Segment {
                    range: self.written..self.written,
                    end: true,
                })
            }
            None => None,
        }
    }

    /// Appends the bytes of a segment.
    pub(crate) fn copy(&self, range: Range<u64>, out: &mut Vec<u8>) {
        self.buffer
            .read(range, |piece| out.extend_from_slice(piece));
    }

    /// Records that the peer has these bytes. Returns the number of bytes that are newly
    /// acknowledged.
    pub(crate) fn on_received(&mut self, range: Range<u64>) -> u64 {
        let range = range.start.max(self.buffer.start())..range.end.min(self.sent);
        let new = self.acked.insert(range.clone());
        if new > 0 {
            self.lost.remove(range);
            if let Some(first) = self.acked.holding(self.buffer.start()) {
                self.buffer.release(first.end);
                self.acked.forget_below(first.end);
            }
        }
        new
    }

    /// Records that the peer knows the final size of the stream.
    pub(crate) fn on_end_received(&mut self) {
        self.end_acked = self.finished;
        self.end_pending &= !self.end_acked;
    }

    /// Records that a packet with these bytes was lost. Bytes that are not acknowledged are to be
    /// retransmitted.
    pub(crate) fn on_lost(&mut self, range: Range<u64>, end: bool) {
        let range = range.start.max(self.buffer.start())..range.end.min(self.sent);
        for missing in self.acked.missing_from(range) {
            self.lost.insert(missing);
        }
        if end && !self.end_acked {
            self.end_pending = true;
        }
    }

    /// Returns whether the peer has all of these bytes.
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        range.end <= self.buffer.start()
            || (self.acked).covers(&(range.start.max(self.buffer.start())..range.end))
    }

    /// Returns the number of bytes in the buffer.
    pub(crate) fn held(&self) -> u64 {
        self.written - self.buffer.start()
    }

    /// Returns the number of bytes that were never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.written - self.sent
    }

    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Returns the offset of the next byte to be sent for the first time.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns whether the end of the stream is to be sent, with no data before it.
    pub(crate) fn end_is_due(&self) -> bool {
        self.end_pending && self.sent == self.written
    }

    /// Returns whether the peer has all data, and knows the final size.
    pub(crate) fn is_complete(&self) -> bool {
        self.end_acked && self.held() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(range: Range<u64>, end: bool) -> Option<Segment> {
        Some(Segment { range, end })
    }

    #[test]
    fn bytes_are_retransmitted_only_if_lost_and_not_received() {
        let mut stream = SendStream::default();
        assert_eq!(stream.write(&[1; 300], 250), 250);
        assert_eq!(stream.write(&[1; 300], 250), 0);
        assert_eq!(stream.next_new(100, 1000), segment(0..100, false));
        assert_eq!(stream.next_new(100, 150), segment(100..150, false));
        assert_eq!(stream.next_new(100, 150), None);
        assert_eq!(stream.next_lost(100), None);
        stream.finish();
        assert_eq!(stream.write(&[1], 1000), 0);
        assert_eq!(stream.next_new(100, 1000), segment(150..250, true));
        assert_eq!(stream.on_received(50..120), 70);
        stream.on_lost(0..150, false);
        assert_eq!(stream.next_lost(40), segment(0..40, false));
        assert_eq!(stream.on_received(40..50), 10);
        assert_eq!(stream.next_lost(40), segment(120..150, false));
        assert_eq!(stream.next_lost(40), None);
        assert_eq!(stream.oldest_unacked(60), segment(0..40, false));
        assert_eq!(stream.held(), 250);
        assert_eq!(stream.on_received(0..1000), 250 - 80);
        assert_eq!(stream.held(), 0);
        assert_eq!(stream.oldest_unacked(60), segment(250..250, true));
        stream.on_lost(150..250, true);
        assert_eq!(stream.next_lost(40), None);
        assert_eq!(stream.next_new(40, 1000), segment(250..250, true));
        stream.on_end_received();
        assert!(stream.is_complete());
    }
}
