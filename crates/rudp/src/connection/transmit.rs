//! Assembly and timing of outgoing packets.

use std::net::SocketAddr;

use super::{RudpConnection, payload::INITIAL_PACKETS};
use crate::Time;
use crate::event::ClosedReason;
use crate::frame::{
    MAX_ACK_PIECES, put_ack, put_close, put_limit, put_padding, put_ping, put_report,
};
use crate::handshake::SET_UP_DATAGRAM;
use crate::mtu::MIN_DATAGRAM;
use crate::rate::HEADER_BYTES;
use crate::seal::{HEADER_LEN, PACKET_NUMBER_END, PACKET_OVERHEAD, TAG_LEN};
use crate::sent::{Contents, SentPacket};
use crate::stats::SendLimit;

/// While the initial rate may be too high or too low (`unproven`), the bytes in flight are limited
/// to this number plus the bytes delivered so far. Chosen.
const UNPROVEN_FLIGHT: u64 = 4 << 20;

/// The size of a close frame, in bytes.
const CLOSE_LEN: usize = 9;

/// Datagrams for one address, consecutive in a buffer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transmit {
    /// The destination address.
    pub destination: SocketAddr,
    /// The number of bytes appended to the buffer.
    pub len: usize,
    /// The size of each datagram in bytes; the last one may be shorter.
    pub segment_size: usize,
}

/// The contents of a packet under construction.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) contents: Contents,
    pub(super) eliciting: bool,
    /// `true` if the packet contains at least one frame.
    pub(super) any: bool,
    pub(super) train: bool,
}

impl RudpConnection {
    /// Appends the datagrams that are to be sent now to `out`: up to `max_segments`, all of equal
    /// size except the last. A call returns at most the bytes that the rate allows in
    /// [`RudpConfig::max_burst`](crate::RudpConfig::max_burst).
    pub fn poll_transmit(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
        max_segments: usize,
    ) -> Option<Transmit> {
        let destination = self.remote;
        let start = out.len();
        if self.state.is_over() {
            let len = self.last_packet(now, out)?;
            return Some(single(destination, len));
        }
        if let Some(len) = self.set_up_packet(now, out) {
            let len = self.fill_train_burst(now, out, len, max_segments);
            return Some(Transmit {
                destination,
                len,
                segment_size: len.min(SET_UP_DATAGRAM),
            });
        }
        if !self.established {
            return None;
        }
        if let Some((destination, len)) = self.path_packet(now, out) {
            return Some(single(destination, len));
        }
        if let Some(len) = self.size_probe(now, out) {
            return Some(single(destination, len));
        }
        let mut segment_size = 0;
        for index in 0..max_segments.max(1) {
            let at = out.len();
            let max = if index == 0 {
                usize::from(self.mtu.current())
            } else {
                segment_size
            };
            let Some(draft) = self.build(now, out, max) else {
                out.truncate(at);
                break;
            };
            if self.seal(now, out, at).is_none() {
                out.truncate(start);
                return None;
            }
            let len = out.len() - at;
            self.on_built(now, &draft, len);
            if index == 0 {
                segment_size = len;
            }
            // A packet of a train is sent alone, because its timing is measured.
            if len < segment_size || draft.train {
                break;
            }
        }
        if out.len() == start {
            self.note_limit(now);
            return None;
        }
        Some(Transmit {
            destination,
            len: out.len() - start,
            segment_size,
        })
    }

    /// Reports that the system rejected datagrams of `size` bytes, because the MTU of the interface
    /// is smaller (`EMSGSIZE`). The caller must call it immediately after the
    /// [`poll_transmit`](Self::poll_transmit) that returned them. `fits` is the largest size that
    /// the system would accept, if it reports one.
    ///
    /// Later datagrams are smaller. If a datagram of 1,200 bytes or less is rejected during the
    /// handshake, the connection fails with [`ClosedReason::PathTooNarrow`].
    pub fn on_refused(&mut self, size: usize, fits: Option<u16>) {
        if size <= usize::from(MIN_DATAGRAM) {
            // After the handshake the error may be about another datagram or be temporary, so this
            // datagram is treated as lost.
            if !self.established {
                self.fail(ClosedReason::PathTooNarrow);
            }
            return;
        }
        // `try_from` does not fail, because datagrams have less than 2^16 bytes.
        self.mtu
            .on_refused(u16::try_from(size).unwrap_or(u16::MAX), fits);
    }

    /// Reserves the space of a packet header.
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        out.resize(out.len() + HEADER_LEN, 0);
    }

    /// Seals the packet that starts at this index of the buffer, and updates the counters.
    pub(super) fn seal(&mut self, now: Time, out: &mut Vec<u8>, start: usize) -> Option<()> {
        let number = self.next_number;
        if number + 1 >= PACKET_NUMBER_END {
            self.fail(ClosedReason::KeysExhausted);
            out.truncate(start);
            return None;
        }
        out.resize(out.len() + TAG_LEN, 0);
        let sealed = (self.keys.as_mut()).map(|keys| keys.sealer.seal(number, &mut out[start..]));
        if !matches!(sealed, Some(Ok(()))) {
            self.fail(ClosedReason::Crypto);
            out.truncate(start);
            return None;
        }
        self.next_number += 1;
        let size = out.len() - start;
        self.counters.sent_packets += 1;
        self.counters.sent_bytes += size as u64;
        self.last_sent = now;
        Some(())
    }

    /// Appends a packet of a connection that has ended.
    fn last_packet(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        // The peer cannot decrypt the close notice before it has the last flight of the handshake.
        if self.keys.is_some()
            && let Some(handshake) = self.phase.handshake_mut()
            && let Some(len) = handshake.transmit(now, out)
        {
            return Some(len);
        }
        self.close_notice(now, out)
    }

    /// Appends a close notice, if one is due.
    fn close_notice(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        let code = self.due_notice()?;
        if self.keys.is_none() {
            let len = self.phase.handshake_mut()?.put_close(now, out, code);
            // If the notice cannot be sent now, it is not sent later.
            self.on_notice_sent(now);
            return len;
        }
        let start = out.len();
        let ack_room = usize::from(MIN_DATAGRAM) - PACKET_OVERHEAD - CLOSE_LEN;
        self.begin(out);
        // The peer must still learn which of its data arrived before the end.
        if let Some(mut ack) = self.acks.compose(now) {
            ack.limit = self.recv.limit();
            ack.contiguous = self.recv.contiguous();
            ack.pieces = self.recv.pieces(MAX_ACK_PIECES);
            put_ack(out, &ack, ack_room);
        }
        put_close(out, code);
        self.seal(now, out, start)?;
        self.on_notice_sent(now);
        Some(out.len() - start)
    }

    /// Appends a packet that probes whether a larger size passes, if one is due.
    fn size_probe(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        if !self.established || self.sent.is_full() || self.sent.bytes_in_flight() == 0 {
            return None;
        }
        let size = self.mtu.wanted_probe(now)?;
        let start = out.len();
        self.begin(out);
        put_ping(out);
        put_padding(out, usize::from(size) - PACKET_OVERHEAD - 1);
        let number = self.next_number;
        self.seal(now, out, start)?;
        self.mtu.on_probe_sent();
        self.counters.probe_packets += 1;
        let contents = Contents {
            size_probe: true,
            ..Contents::PING
        };
        self.track(now, number, usize::from(size), contents);
        Some(out.len() - start)
    }

    /// Adds frames to a packet of at most `max` bytes. Returns `None` if there is nothing to send.
    fn build(&mut self, now: Time, out: &mut Vec<u8>, max: usize) -> Option<Draft> {
        let start = out.len();
        let mut max = max;
        // The second probe of a timeout is small: it distinguishes a black hole for large packets
        // from a dead path.
        if self.probes == 1 && self.backoff > 1 {
            max = max.min(usize::from(MIN_DATAGRAM));
        }
        let mut draft = Draft {
            contents: Contents::PING,
            eliciting: false,
            any: false,
            train: false,
        };
        self.begin(out);
        let room = |out: &Vec<u8>| (start + max - TAG_LEN).saturating_sub(out.len());
        let sends_data = self.may_send_data(now);
        if let Some(report) = self.trains.due_report() {
            put_report(out, &report);
            self.trains.on_report_sent(now);
            draft.any = true;
            // The report lets the peer send at the measured rate, and a flow-control limit from
            // before the measurement would block it. So the limit is updated and sent with the
            // report.
            self.limit_due |= self.limit() > self.advertised;
        }
        let due = self.acks.due().is_some_and(|due| due <= now);
        let rtt = self.rtt.smoothed();
        if due || draft.any || (sends_data && self.acks.is_worthwhile(now, rtt)) {
            let limit = self.limit();
            if let Some(mut ack) = self.acks.compose(now) {
                ack.limit = limit;
                ack.contiguous = self.recv.contiguous();
                ack.pieces = self.recv.pieces(MAX_ACK_PIECES);
                if put_ack(out, &ack, room(out)) {
                    self.acks.on_sent(now);
                    self.advertised = self.advertised.max(limit);
                    self.limit_due = false;
                    draft.any = true;
                }
            }
        }
        if self.limit_due {
            let limit = self.limit();
            put_limit(out, limit);
            self.advertised = self.advertised.max(limit);
            self.limit_due = false;
            draft.contents.limit = true;
            draft.eliciting = true;
        }
        if sends_data || (self.probes > 0 && self.may_probe()) {
            self.put_payload(now, out, room(out), &mut draft);
        }
        if self.ping && !draft.eliciting {
            put_ping(out);
            draft.eliciting = true;
        }
        (draft.any || draft.eliciting).then_some(draft)
    }

    /// Returns whether rate and window allow data or parity now, without checking whether there is
    /// any to send.
    fn may_send(&mut self, now: Time) -> bool {
        let window = self.window(self.report_timeout().is_some_and(|at| now < at));
        self.established
            && !self.sent.is_full()
            && self.sent.bytes_in_flight() + u64::from(self.mtu.current()) + HEADER_BYTES <= window
            && (self.data_train_left() || self.pacer.is_open(now))
    }

    /// Returns the maximum number of bytes on the wire in flight. `awaits_report` is true while the
    /// peer has not reported on the train that this end sent during the handshake.
    fn window(&self, awaits_report: bool) -> u64 {
        let window = self.controller.window();
        if awaits_report {
            // The train may still be in the queue before the bottleneck. So the window grows as in
            // slow start.
            let initial = INITIAL_PACKETS * (u64::from(self.mtu.current()) + HEADER_BYTES);
            window.min(initial + self.sampler.delivered())
        } else if self.unproven {
            // Sending too fast would fill any queue within the first round trip. After that round
            // trip, the delivery rate is known.
            window.min(UNPROVEN_FLIGHT + self.sampler.delivered())
        } else {
            window
        }
    }

    fn may_probe(&self) -> bool {
        self.established && !self.sent.is_full()
    }

    fn may_send_data(&mut self, now: Time) -> bool {
        self.has_payload() && self.may_send(now)
    }

    /// Returns whether there is data or parity that waits for the rate and the window.
    pub(super) fn has_payload(&self) -> bool {
        self.redundancy.has_symbol()
            || self.send.has_lost()
            || self.end_echo
            || self.send.end_is_due()
            || (self.send.unsent() > 0 && self.send.sent() < self.peer_limit)
    }

    /// Returns whether the first data packets still form a train.
    fn data_train_left(&self) -> bool {
        self.data_train.is_some_and(|(next, count, _)| next < count)
    }

    fn on_built(&mut self, now: Time, draft: &Draft, size: usize) {
        if !draft.eliciting {
            return;
        }
        self.ping = false;
        self.probes = self.probes.saturating_sub(1);
        // `seal` has incremented the number after this packet was sealed.
        self.track(now, self.next_number - 1, size, draft.contents.clone());
    }

    fn track(&mut self, now: Time, number: u64, size: usize, contents: Contents) {
        let wire = size as u64 + HEADER_BYTES;
        if self.sent.bytes_in_flight() == 0 {
            self.busy_since = now;
        }
        let state = self.sampler.on_sent(now, wire, self.sent.bytes_in_flight());
        self.sent.on_sent(SentPacket {
            number,
            at: now,
            // The cast is lossless, because datagrams have less than 2^16 bytes.
            size: size as u16,
            wire,
            state,
            contents,
        });
        self.pacer.on_sent(wire);
        let limited = self.sampler.is_app_limited();
        (self.controller).on_sent(now, wire, self.sent.bytes_in_flight(), limited);
        self.update_pacing(now);
    }

    /// Updates the flow-control limit and returns it: the offset up to which the peer may send.
    pub(super) fn limit(&mut self) -> u64 {
        let arrival = self.acks.arrival_rate();
        let rate = arrival.max(self.trains.incoming_rate());
        self.window.update(rate, arrival, self.rtt.min());
        let limit = self.recv.read_offset() + self.window.bytes();
        self.recv.raise_limit(limit);
        self.recv.limit()
    }

    /// Records the reason why the sender sends nothing now.
    fn note_limit(&mut self, now: Time) {
        if !self.established {
            return;
        }
        if self.has_payload() {
            self.counters.limited_by = SendLimit::Path;
        } else if self.send.unsent() > 0 {
            self.counters.limited_by = SendLimit::Receiver;
            self.sampler.set_app_limited(self.sent.bytes_in_flight());
        } else if self.counters.limited_by != SendLimit::Nothing || self.send.sent() > 0 {
            self.counters.limited_by = SendLimit::Application;
            if self.may_send(now) {
                self.sampler.set_app_limited(self.sent.bytes_in_flight());
            }
        }
    }

    /// Returns the time at which the pacer allows the next packet, or `None` if the sender waits
    /// for something else.
    pub(super) fn pacing_timeout(&self) -> Option<Time> {
        let wire = u64::from(self.mtu.current()) + HEADER_BYTES;
        let fits = |awaits_report| self.sent.bytes_in_flight() + wire <= self.window(awaits_report);
        let is_sending = self.established && self.has_payload() && !self.sent.is_full();
        (is_sending && fits(false)).then(|| match self.report_timeout() {
            Some(until) if !fits(true) => until.max(self.pacer.opens_at()),
            _ => self.pacer.opens_at(),
        })
    }
}

fn single(destination: SocketAddr, len: usize) -> Transmit {
    Transmit {
        destination,
        len,
        segment_size: len,
    }
}
