//! What to send, and when.

use std::net::SocketAddr;

use super::{Connection, payload::INITIAL_PACKETS};
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
use crate::stats::Limit;

/// What may be in flight at a rate that nothing confirms, before anything has been delivered.
const UNPROVEN_FLIGHT: u64 = 4 << 20;

/// Bytes of a close frame.
const CLOSE_LEN: usize = 9;

/// Datagrams to send to one address, one behind the other in a buffer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transmit {
    /// Where to.
    pub destination: SocketAddr,
    /// How many bytes were appended to the buffer.
    pub len: usize,
    /// How long each datagram is; the last one may be shorter.
    pub segment_size: usize,
}

/// What a packet in the making contains.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) contents: Contents,
    pub(super) eliciting: bool,
    /// Anything at all is in it.
    pub(super) any: bool,
    pub(super) train: bool,
}

impl Connection {
    /// Appends datagrams that are to be sent now to `out`: one, or up to `max_segments` of equal
    /// size but the last. No more come at once than the rate moves in
    /// [`Config::max_burst`](crate::Config::max_burst).
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
            let most = if index == 0 {
                usize::from(self.mtu.current())
            } else {
                segment_size
            };
            let Some(draft) = self.build(now, out, most) else {
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
            // The timing of a train is measured.
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

    /// The system refused to send datagrams of this size, because the interface takes none that
    /// large (`EMSGSIZE`); to be called at once for what [`poll_transmit`](Self::poll_transmit)
    /// returned last. `fits`: the largest size that it would take, if it says.
    ///
    /// Later datagrams are smaller. A refused datagram of 1,200 bytes or less ends a set-up with
    /// [`ClosedReason::PathTooNarrow`].
    pub fn on_refused(&mut self, size: usize, fits: Option<u16>) {
        if size <= usize::from(MIN_DATAGRAM) {
            // Later, it may be about another datagram, or pass: then this one is as good as lost.
            if !self.established {
                self.fail(ClosedReason::PathTooNarrow);
            }
            return;
        }
        // Datagrams have less than 2^16 bytes.
        self.mtu
            .on_refused(u16::try_from(size).unwrap_or(u16::MAX), fits);
    }

    /// Makes room for a header.
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        out.resize(out.len() + HEADER_LEN, 0);
    }

    /// Ends the packet that starts at this place of the buffer, and counts it.
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

    /// Appends a packet of a connection that is over.
    fn last_packet(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        // The peer cannot read the notice before it has the last flight.
        if self.keys.is_some()
            && let Some(handshake) = self.phase.handshake_mut()
            && let Some(len) = handshake.transmit(now, out)
        {
            return Some(len);
        }
        self.close_notice(now, out)
    }

    /// Appends a packet that tells the other end of the end of the connection, if one is due.
    fn close_notice(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        let code = self.due_notice()?;
        if self.keys.is_none() {
            let len = self.phase.handshake_mut()?.put_close(now, out, code);
            // What may not be sent now is not made up for.
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

    /// Tries whether larger packets pass, once there is something to gain.
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

    /// Puts frames into a packet of at most this size. `None`: there is nothing to send.
    fn build(&mut self, now: Time, out: &mut Vec<u8>, most: usize) -> Option<Draft> {
        let start = out.len();
        let mut most = most;
        // The second probe after a silence is small: it tells a black hole for large packets from a
        // dead path.
        if self.probes == 1 && self.backoff > 1 {
            most = most.min(usize::from(MIN_DATAGRAM));
        }
        let mut draft = Draft {
            contents: Contents::PING,
            eliciting: false,
            any: false,
            train: false,
        };
        self.begin(out);
        let room = |out: &Vec<u8>| (start + most - TAG_LEN).saturating_sub(out.len());
        let sends_data = self.may_send_data(now);
        if let Some(report) = self.trains.due_report() {
            put_report(out, &report);
            self.trains.on_report_sent(now);
            draft.any = true;
            // With this report the peer can send at the measured rate. A flow-control limit from
            // before the measurement would stop it, so the limit is computed again and sent along.
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

    /// Returns whether data, or correction of it, may go out now; asks for nothing to be there to
    /// be sent.
    fn may_send(&mut self, now: Time) -> bool {
        let window = self.window(self.report_timeout().is_some_and(|at| now < at));
        self.established
            && !self.sent.is_full()
            && self.sent.bytes_in_flight() + u64::from(self.mtu.current()) + HEADER_BYTES <= window
            && (self.data_train_left() || self.pacer.is_open(now))
    }

    /// Returns how many bytes on the wire may be in flight. `awaits_report`: the peer has not
    /// reported yet on the train that this end sent during the set-up.
    fn window(&self, awaits_report: bool) -> u64 {
        let window = self.controller.window();
        if awaits_report {
            // This end's train may still be in the queue before the bottleneck. So the window grows
            // as in slow start.
            let initial = INITIAL_PACKETS * (u64::from(self.mtu.current()) + HEADER_BYTES);
            window.min(initial + self.sampler.delivered())
        } else if self.unproven {
            // Too fast a start would fill any queue within the first round trip; after that,
            // deliveries tell.
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

    /// Returns whether there is something to send for which rate and window must allow it.
    pub(super) fn has_payload(&self) -> bool {
        self.redundancy.has_symbol()
            || self.send.has_lost()
            || self.end_echo
            || self.send.end_is_due()
            || (self.send.unsent() > 0 && self.send.sent() < self.peer_limit)
    }

    /// Whether the first flight of data serves as the train that is missing.
    fn data_train_left(&self) -> bool {
        self.data_train.is_some_and(|(next, count, _)| next < count)
    }

    fn on_built(&mut self, now: Time, draft: &Draft, size: usize) {
        if !draft.eliciting {
            return;
        }
        self.ping = false;
        self.probes = self.probes.saturating_sub(1);
        // Sealed with the number before the next.
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
            // Datagrams have less than 2^16 bytes.
            size: size as u16,
            wire,
            state,
            contents,
        });
        self.pacer.on_sent(wire);
        let limited = self.sampler.is_app_limited();
        (self.controller).on_sent(now, wire, self.sent.bytes_in_flight(), limited);
        self.now_pacing(now);
    }

    /// Returns how far the other end may send, from what has been read.
    pub(super) fn limit(&mut self) -> u64 {
        let arrival = self.acks.arrival_rate();
        let rate = arrival.max(self.trains.incoming_rate());
        self.window.update(rate, arrival, self.rtt.min());
        let limit = self.recv.read_offset() + self.window.bytes();
        self.recv.raise_limit(limit);
        self.recv.limit()
    }

    /// Nothing is sent: notes what for.
    fn note_limit(&mut self, now: Time) {
        if !self.established {
            return;
        }
        if self.has_payload() {
            self.counters.limited_by = Limit::Path;
        } else if self.send.unsent() > 0 {
            self.counters.limited_by = Limit::Receiver;
            self.sampler.set_app_limited(self.sent.bytes_in_flight());
        } else if self.counters.limited_by != Limit::Nothing || self.send.sent() > 0 {
            self.counters.limited_by = Limit::Application;
            if self.may_send(now) {
                self.sampler.set_app_limited(self.sent.bytes_in_flight());
            }
        }
    }

    /// Returns when the pacer lets the next packet go, if that is all it waits for.
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
