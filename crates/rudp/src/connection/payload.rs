//! What of the stream, and of its correction, goes into a packet.

use super::transmit::Draft;
use super::{Connection, data_room};
use crate::Time;
use crate::frame::{
    BLOCK_DATA_HEADER, DATA_HEADER, DataHeader, PARITY_HEADER, put_data_header, put_parity,
    put_ping, put_train,
};
use crate::rate::{HEADER_BYTES, Kind};
use crate::seal::PACKET_OVERHEAD;
use crate::send_stream::Segment;
use crate::trains::{DATA_TRAIN, DATA_TRAIN_PACKETS};

/// Data shorter than this wait for the next packet where there is more of them.
const MIN_DATA: usize = 32;

/// How long a sender waits for the peer's report on the probe packets of the set-up. Until the
/// report arrives, the bytes in flight are limited to [`INITIAL_PACKETS`] plus the bytes that were
/// acknowledged. The peer reports once half of the probe packets arrived, which takes 80 ms over 2
/// Mbit/s.
pub(super) const REPORT_PATIENCE: std::time::Duration = std::time::Duration::from_millis(100);

/// Packets that may be in flight while that report is expected (RFC 9002, section 7.2).
pub(super) const INITIAL_PACKETS: u64 = 10;

impl Connection {
    /// Puts one thing into the packet: lost data, a correction symbol, new data, or an old piece as
    /// a sign of life.
    pub(super) fn put_payload(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
        room: usize,
        draft: &mut Draft,
    ) {
        if room > DATA_HEADER + MIN_DATA
            && let Some(segment) = self.send.next_lost(room - DATA_HEADER)
        {
            self.put_old(out, segment, draft);
            return;
        }
        if let Some(len) = self.redundancy.next_symbol_len() {
            if PARITY_HEADER + len <= room {
                if let Some(symbol) = self.redundancy.take_symbol() {
                    put_parity(out, &symbol.header, &symbol.bytes);
                    draft.contents.parity = true;
                    draft.contents.block = Some(symbol.header.block);
                    draft.eliciting = true;
                    self.counters.parity_packets += 1;
                    self.counters.parity_bytes += len as u64;
                }
                return;
            }
            if PARITY_HEADER + len + PACKET_OVERHEAD > usize::from(self.mtu.current()) {
                self.redundancy.drop_symbol();
                self.redundancy.release(&mut self.send);
            }
            // Something else is in the packet already; the symbol has the next one.
            if draft.any || draft.eliciting {
                return;
            }
        }
        if self.put_new(now, out, room, draft) {
            return;
        }
        if self.end_echo && room > DATA_HEADER {
            self.end_echo = false;
            let at = self.send.written();
            let echo = Segment {
                range: at..at,
                end: true,
            };
            self.put_old(out, echo, draft);
            return;
        }
        if self.probes > 0 {
            match self.send.oldest_unacked(room.saturating_sub(DATA_HEADER)) {
                Some(segment) if !self.detects() && room > DATA_HEADER => {
                    self.put_old(out, segment, draft)
                }
                _ => {
                    put_ping(out);
                    draft.eliciting = true;
                }
            }
        }
    }

    fn put_old(&mut self, out: &mut Vec<u8>, segment: Segment, draft: &mut Draft) {
        let header = DataHeader {
            offset: segment.range.start,
            end: segment.end,
            place: None,
        };
        put_data_header(out, &header);
        let length = segment.range.end - segment.range.start;
        self.send.copy(segment.range.clone(), out);
        self.counters.sent_data_bytes += length;
        self.counters.retransmitted_bytes += length;
        self.counters.retransmitted_packets += u64::from(length > 0);
        draft.contents.data = Some(segment.range);
        draft.contents.end = segment.end;
        draft.eliciting = true;
    }

    fn put_new(&mut self, now: Time, out: &mut Vec<u8>, room: usize, draft: &mut Draft) -> bool {
        let before = out.len();
        let mut room = room;
        if self.wants_data_train(now) && self.data_train.is_none() && self.send.unsent() > 0 {
            let count = self.send.unsent() / u64::from(self.mtu.current());
            // A handful of packets tells nothing.
            let count = u8::try_from(count)
                .unwrap_or(u8::MAX)
                .min(DATA_TRAIN_PACKETS);
            let count = if count >= 16 { count } else { 0 };
            self.data_train = Some((0, count, now));
        }
        if let Some((next, count, began)) = self.data_train
            && next < count
        {
            put_train(out, DATA_TRAIN, next, count, now.since(began));
            room = room.saturating_sub(out.len() - before);
        }
        let place = self.redundancy.next_place();
        let header_len = if place.is_some() {
            BLOCK_DATA_HEADER
        } else {
            DATA_HEADER
        };
        // A symbol over full segments must fit into a packet as well.
        let most = if place.is_some() {
            data_room(self.mtu.current()).min(room.saturating_sub(header_len))
        } else {
            room.saturating_sub(header_len)
        };
        let wanted = most > 0 && (most >= MIN_DATA || self.send.unsent() <= most as u64);
        let segment = wanted
            .then(|| self.send.next_new(most, self.peer_limit))
            .flatten();
        let Some(segment) = segment else {
            out.truncate(before);
            return false;
        };
        let length = segment.range.end - segment.range.start;
        let header = DataHeader {
            offset: segment.range.start,
            end: segment.end,
            place: place.filter(|_| length > 0),
        };
        put_data_header(out, &header);
        let data_at = out.len();
        self.send.copy(segment.range.clone(), out);
        if header.place.is_some() {
            self.redundancy.place(segment.range.start, &out[data_at..]);
            self.block_touched = now;
        }
        if let Some((next, count, _)) = &mut self.data_train
            && *next < *count
        {
            *next += 1;
            draft.train = true;
        }
        self.counters.sent_data_bytes += length;
        if segment.end {
            self.end_echo = true;
        }
        draft.contents.data = Some(segment.range);
        draft.contents.end = segment.end;
        draft.contents.block = header.place.map(|place| place.block);
        draft.eliciting = true;
        self.maybe_close_block(now);
        true
    }

    fn wants_data_train(&self, now: Time) -> bool {
        !self.seeded
            && self.config.controller != Kind::Fixed
            && self.report_timeout().is_none_or(|at| at <= now)
    }

    /// Returns until when a report on the train of the set-up is expected, if it is: it comes
    /// behind the peer's last messages, by the time that the train takes to arrive.
    pub(super) fn report_timeout(&self) -> Option<Time> {
        (self.report_until).filter(|_| self.outgoing_train.is_none() && !self.seeded)
    }

    /// Ends the open block where it is full or the stream ends.
    fn maybe_close_block(&mut self, now: Time) {
        let segments = self.redundancy.open_segments();
        if segments == 0 {
            return;
        }
        let rate = self.controller.pacing_rate();
        let rtt = self.rtt.smoothed();
        let packet = u64::from(self.mtu.current()) + HEADER_BYTES;
        let full = segments >= self.protection.block_segments(rate, rtt, packet);
        let drained = self.send.unsent() == 0;
        let at_end = drained && self.send.is_finished();
        if full || at_end || (drained && self.block_deadline() <= now) {
            let left = self.send.unsent();
            let busy = now.since(self.busy_since);
            let parity = (self.protection).parity(segments, left, busy, rate, rtt);
            self.redundancy.close(parity);
            self.redundancy.release(&mut self.send);
        }
    }

    /// Returns how long an open block waits for more data.
    fn block_deadline(&self) -> Time {
        let wait = (self.rtt.smoothed() / 16).clamp(
            std::time::Duration::from_micros(500),
            std::time::Duration::from_millis(5),
        );
        self.block_touched + wait
    }

    /// Returns when the open block ends by itself.
    pub(super) fn block_timeout(&self) -> Option<Time> {
        (self.redundancy.open_segments() > 0 && self.send.unsent() == 0)
            .then(|| self.block_deadline())
    }

    pub(super) fn handle_block_timeout(&mut self, now: Time) {
        if self.block_timeout().is_some_and(|at| at <= now) {
            self.maybe_close_block(now);
        }
    }
}
