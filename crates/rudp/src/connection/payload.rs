//! Stream data and parity symbols in packets.

use super::transmit::Draft;
use super::{RudpConnection, data_room};
use crate::Time;
use crate::frame::{
    BLOCK_DATA_HEADER, DATA_HEADER, DataHeader, PARITY_HEADER, put_data_header, put_parity,
    put_ping, put_train,
};
use crate::rate::{ControllerKind, HEADER_BYTES};
use crate::seal::PACKET_OVERHEAD;
use crate::send_stream::Segment;
use crate::trains::{DATA_TRAIN, DATA_TRAIN_PACKETS};

/// The minimum size of a segment, in bytes, unless it contains all remaining data. A smaller
/// segment is not sent in the rest of a packet, but in the next packet.
const MIN_DATA: usize = 32;

/// The time for which a sender waits for the peer's report on the probe packets of the handshake.
/// Until then, the bytes in flight are limited to [`INITIAL_PACKETS`] plus the bytes that were
/// acknowledged. The peer reports once half of the probe packets arrived, which takes 80 ms over 2
/// Mbit/s.
pub(super) const REPORT_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(100);

/// The maximum number of packets in flight while the peer's report on the handshake's train is
/// expected (RFC 9002, section 7.2).
pub(super) const INITIAL_PACKETS: u64 = 10;

impl RudpConnection {
    /// Adds one item to the packet: lost data, a parity symbol, new data, or a probe with old data.
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
            // The packet already contains a frame, so the symbol is sent in the next one.
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
                Some(segment) if !self.detects_loss() && room > DATA_HEADER => {
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
            // A train of only a few packets does not show a rate.
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
        // A parity symbol over full segments must also fit into a packet.
        let max = if place.is_some() {
            data_room(self.mtu.current()).min(room.saturating_sub(header_len))
        } else {
            room.saturating_sub(header_len)
        };
        let wanted = max > 0 && (max >= MIN_DATA || self.send.unsent() <= max as u64);
        let segment = wanted
            .then(|| self.send.next_new(max, self.peer_limit))
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
            && self.config.controller != ControllerKind::Fixed
            && self.report_timeout().is_none_or(|at| at <= now)
    }

    /// Returns the time until which a report on the train of the handshake is expected, or `None`
    /// if no report is expected. The report arrives after the peer's last handshake messages, later
    /// by the time that the train takes to arrive.
    pub(super) fn report_timeout(&self) -> Option<Time> {
        (self.report_until).filter(|_| self.outgoing_train.is_none() && !self.seeded)
    }

    /// Closes the open block if it is full, or if no more data will be added soon.
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

    /// Returns the time until which the open block is kept open for more data.
    fn block_deadline(&self) -> Time {
        let wait = (self.rtt.smoothed() / 16).clamp(
            std::time::Duration::from_micros(500),
            std::time::Duration::from_millis(5),
        );
        self.block_touched + wait
    }

    /// Returns the time at which the open block is closed without further data.
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
