//! Processing of received datagrams.

use std::net::SocketAddr;
use std::ops::Range;

use super::RudpConnection;
use crate::Time;
use crate::event::{CODE_COMPLETE, CODE_LOST, ClosedReason, RudpEvent, Violation};
use crate::fec::{FecError, ParityId};
use crate::frame::{Ack, DataHeader, Frame, ParityHeader, Report, read_frame};
use crate::handshake::{TrainPacket, is_set_up};
use crate::rate::{HEADER_BYTES, RttView};
use crate::recv_stream::{Insertion, StreamViolation};
use crate::seal::Reject;
use crate::sent::{AckOutcome, SentPacket};
use crate::stats::TrainResult;
use crate::trains::{DATA_TRAIN, SETUP_TRAIN, TRAIN_PACKETS};
use crate::wire::Reader;

/// The number of forged packets after which the keys may not be used any more (RFC 9001, section
/// 6.6: 2^36 for ChaCha20-Poly1305).
const MAX_FORGERIES: u64 = 1 << 36;

/// The effects of the frames of a packet.
#[derive(Debug, Default)]
struct Reading {
    eliciting: bool,
    /// `true` if the data did not fit the receive buffer. The packet is treated as if it had been
    /// lost.
    dropped: bool,
    /// `true` if lost segments were recovered.
    recovered: bool,
    /// The number of the packet.
    number: u64,
}

impl RudpConnection {
    /// Processes a datagram that arrived from this address. It is decrypted in place.
    ///
    /// A datagram that is not authentic, not for this connection or a duplicate only changes a
    /// counter in [`stats`](Self::stats).
    pub fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) {
        if self.is_drained() {
            return;
        }
        if is_set_up(datagram) {
            self.handle_set_up(now, from, datagram);
            return;
        }
        let Some(keys) = &mut self.keys else {
            self.keep_early(now, from, datagram);
            return;
        };
        let Ok(number) = keys.opener.number(datagram) else {
            self.counters.ignored_foreign += 1;
            return;
        };
        if !self.replay.admits(number) {
            self.counters.ignored_replayed += 1;
            return;
        }
        let size = datagram.len();
        let frames = match keys.opener.open(number, datagram) {
            Ok(frames) => &*frames,
            Err(Reject::NotOurs) => {
                self.counters.ignored_foreign += 1;
                return;
            }
            Err(Reject::NotAuthentic) => {
                self.counters.ignored_forged += 1;
                self.forgeries += 1;
                if self.forgeries >= MAX_FORGERIES {
                    self.fail(ClosedReason::KeysExhausted);
                }
                return;
            }
        };
        let is_newest = self.replay.record(number);
        self.counters.received_packets += 1;
        self.counters.received_data_packets += 1;
        self.counters.received_bytes += size as u64;
        self.last_heard = now;
        self.on_confirmed();
        self.check_address(now, (from, size), is_newest);
        if !self.state.is_open() {
            self.handle_packet_when_over(now, frames);
            return;
        }
        let mut reading = Reading {
            number,
            ..Reading::default()
        };
        if let Err(violation) = self.read_frames(now, from, (frames, size), &mut reading) {
            self.close_for_violation(now, violation);
            return;
        }
        if !reading.dropped {
            let wire = size as u64 + HEADER_BYTES;
            let rtt = self.rtt.smoothed();
            (self.acks).on_received(now, number, reading.eliciting, wire, rtt);
            if reading.recovered {
                self.acks.expedite(now, rtt);
            }
        } else {
            self.counters.dropped_packets += 1;
        }
        self.check_train(now);
        self.maybe_answer_with_train();
        self.check_complete(now);
    }

    fn read_frames(
        &mut self,
        now: Time,
        from: SocketAddr,
        (frames, size): (&[u8], usize),
        reading: &mut Reading,
    ) -> Result<(), Violation> {
        let mut reader = Reader(frames);
        let mut set_up = false;
        while !reader.is_empty() && self.state.is_open() {
            let frame = read_frame(&mut reader).map_err(|_| Violation::Malformed)?;
            reading.eliciting |= matches!(frame, Frame::Ping | Frame::Parity(..) | Frame::Data(..));
            // A flow-control limit is acknowledged, unless its packet also contains path
            // challenges, responses or train frames. Train packets carry a limit in any case.
            reading.eliciting |= matches!(frame, Frame::Limit(_)) && !set_up;
            set_up |= matches!(
                frame,
                Frame::Challenge(_) | Frame::Response(_) | Frame::Train { .. }
            );
            match frame {
                Frame::Padding | Frame::Ping => {}
                Frame::Ack(ack) => self.on_ack(now, &ack)?,
                Frame::Challenge(token) => self.migration.on_challenge(token),
                Frame::Response(token) => self.on_response(now, from, token),
                Frame::Crypto(..) | Frame::Seen(..) => return Err(Violation::Malformed),
                Frame::Train { .. } => {
                    if let Some(packet) = TrainPacket::of(&frame, size) {
                        self.trains.on_packet(now, packet);
                    }
                }
                Frame::Report(report) => self.on_report(now, &report),
                Frame::Limit(limit) => self.peer_limit = self.peer_limit.max(limit),
                Frame::Close(code) => self.on_close(now, code),
                Frame::Parity(header, symbol) => self.on_parity(now, header, symbol, reading)?,
                Frame::Data(header, data) => self.on_data(now, &header, data, reading)?,
            }
        }
        Ok(())
    }

    /// Sets the initial rate.
    pub(super) fn seed(&mut self, now: Time, rate: u64) {
        self.seeded = true;
        let rtt = if self.rtt.is_known() {
            self.rtt.min()
        } else {
            std::time::Duration::ZERO
        };
        self.controller.seed(rate, rtt);
        self.update_pacing(now);
    }

    /// Returns whether a packet of this train has been sent.
    fn has_sent_train(&self, train: u8) -> bool {
        match train {
            SETUP_TRAIN => self.trains.has_sent(),
            DATA_TRAIN => self.data_train.is_some_and(|(next, ..)| next > 0),
            _ => false,
        }
    }

    pub(super) fn on_report(&mut self, now: Time, report: &Report) {
        // A report on a train that was not sent is ignored, because it could replace the rate that
        // the caller has set.
        if !self.has_sent_train(report.train) {
            return;
        }
        if report.largest > 0 {
            self.mtu.on_passed(report.largest, None);
        }
        // The measured rate cannot exceed the rate at which any part of the train was sent.
        let sent = (report.train == SETUP_TRAIN).then(|| self.trains.sent_rate());
        let max_rate = (sent.flatten()).map_or(TrainResult::MAX_CLAIM, |sent| {
            sent.min(TrainResult::MAX_CLAIM)
        });
        let rate = report.rate.min(max_rate);
        let at_least = report.at_least || rate < report.rate;
        if report.train == SETUP_TRAIN {
            let clamped = Report {
                rate,
                at_least,
                ..*report
            };
            let train = TrainResult::new(&clamped, TRAIN_PACKETS);
            self.outgoing_train = Some(train);
            self.protection.on_train(train.clear_received, train.clear);
        } else if let Some((_, count, _)) = self.data_train {
            let train = TrainResult::new(report, count);
            self.protection.on_train(train.clear_received, train.clear);
        }
        // Acknowledgements measure the rate better than trains, so a report after them is ignored.
        let early = report.train == SETUP_TRAIN && self.sent.largest_acked().is_none();
        if report.rate == 0 || (self.seeded && !early) {
            return;
        }
        self.unproven = at_least;
        self.seed(now, rate);
        // Only the latest estimate is kept, because a peer may send any number of reports.
        (self.events).retain(|event| !matches!(event, RudpEvent::PathEstimated { .. }));
        self.events.push_back(RudpEvent::PathEstimated {
            rate,
            error_permille: report.error.min(1000),
            at_least,
            rtt: self.rtt.min(),
        });
    }

    fn on_data(
        &mut self,
        now: Time,
        header: &DataHeader,
        data: &[u8],
        reading: &mut Reading,
    ) -> Result<(), Violation> {
        if self.detects_loss() && header.offset > self.recv.contiguous() {
            // A packet with earlier data was lost or reordered.
            let (arrived, sent) = (self.counters.received_data_packets, reading.number + 1);
            self.close_for_loss(now, arrived, sent);
            return Ok(());
        }
        match (self.recv.insert(header.offset, data, header.end)).map_err(violation)? {
            Insertion::Dropped => {
                reading.dropped = true;
                return Ok(());
            }
            Insertion::Taken(_) => {}
        }
        if let Some(place) = header.place {
            let mut recovered = Vec::new();
            let outcome = self.decoder.insert_data(
                u64::from(place.block),
                place.index,
                data,
                |offset, segment| recovered.push((offset, segment.to_vec())),
            );
            self.take_recovered(outcome.map(|_| ()), &recovered, reading)?;
        }
        self.on_arrival(now);
        Ok(())
    }

    fn on_parity(
        &mut self,
        now: Time,
        header: ParityHeader,
        symbol: &[u8],
        reading: &mut Reading,
    ) -> Result<(), Violation> {
        let mut recovered = Vec::new();
        let id = ParityId {
            block: u64::from(header.block),
            start: header.start,
            segments: header.segments,
            parity: header.count,
            index: header.index,
        };
        let outcome = (self.decoder).insert_parity(id, symbol, |offset, segment| {
            recovered.push((offset, segment.to_vec()));
        });
        self.take_recovered(outcome.map(|_| ()), &recovered, reading)?;
        self.on_arrival(now);
        Ok(())
    }

    fn take_recovered(
        &mut self,
        outcome: Result<(), FecError>,
        segments: &[(u64, Vec<u8>)],
        reading: &mut Reading,
    ) -> Result<(), Violation> {
        outcome.map_err(|_| Violation::BadParity)?;
        for (offset, segment) in segments {
            if let Insertion::Taken(new) = self
                .recv
                .insert(*offset, segment, false)
                .map_err(violation)?
                && new > 0
            {
                reading.recovered = true;
                self.counters.recovered_segments += 1;
            }
        }
        Ok(())
    }

    fn on_arrival(&mut self, now: Time) {
        let readable = self.recv.readable();
        self.window.on_arrival(now, readable);
        self.readable |= readable > 0 || self.recv.is_read();
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) -> Result<(), Violation> {
        let beyond = |range: &Range<u64>| range.end > self.send.sent();
        if ack.largest >= self.next_number
            || ack.contiguous > self.send.sent()
            || ack.pieces.iter().any(beyond)
        {
            return Err(Violation::AckOfUnsent);
        }
        self.peer_limit = self.peer_limit.max(ack.limit);
        self.send.on_received(0..ack.contiguous);
        for piece in &ack.pieces {
            self.send.on_received(piece.clone());
        }
        let outcome = self.sent.on_ack(&ack.ranges);
        self.counters.spurious_losses += outcome.spurious;
        let mut latest = None;
        if let Some(at) = outcome.largest_sent_at {
            let delay = std::time::Duration::from_micros(u64::from(ack.delay));
            self.rtt.sample(now.since(at), delay);
            latest = Some(self.rtt.latest());
        }
        if !outcome.acked.is_empty() || outcome.spurious > 0 {
            self.backoff = 0;
            self.probes = 0;
        }
        self.take_acked(now, &outcome);
        let rate = u64::from(ack.arrival_rate) * 1024;
        if rate > 0 {
            self.counters.peer_arrival_rate = rate;
        }
        self.process_losses(now, latest, (rate > 0).then_some(rate));
        Ok(())
    }

    fn take_acked(&mut self, now: Time, outcome: &AckOutcome) {
        // The rate sampler expects the oldest packet first.
        for packet in outcome.acked.iter().rev() {
            let contents = &packet.contents;
            self.mtu.on_passed(packet.size, Some(packet.number));
            if let Some(data) = &contents.data {
                self.send.on_received(data.clone());
            }
            if contents.end {
                self.send.on_end_received();
            }
            if let (true, Some(block)) = (contents.parity, contents.block) {
                self.redundancy.on_symbol_acked(block);
            }
            self.sampler.on_acked(now, packet.wire, &packet.state);
        }
    }

    /// Detects losses, and passes feedback to the rate controller.
    pub(super) fn process_losses(
        &mut self,
        now: Time,
        rtt: Option<std::time::Duration>,
        arrival_rate: Option<u64>,
    ) {
        for packet in self.sent.detect_lost(now, &self.rtt) {
            self.take_lost(now, &packet);
        }
        self.redundancy.release(&mut self.send);
        let view = RttView {
            latest: rtt,
            smoothed: if self.rtt.is_known() {
                self.rtt.smoothed()
            } else {
                std::time::Duration::ZERO
            },
            min: self.rtt.min(),
        };
        let mut feedback = self
            .sampler
            .take_feedback(now, view, self.sent.bytes_in_flight());
        feedback.arrival_rate = arrival_rate;
        (self.protection).on_feedback(feedback.newly_acked_packets, feedback.newly_lost_packets);
        if feedback.newly_acked_packets + feedback.newly_lost_packets > 0 {
            self.controller.on_feedback(&feedback);
            self.update_pacing(now);
        }
        if self.send.is_complete() && !self.state.is_delivered() {
            self.state.set_delivered();
            self.events.push_back(RudpEvent::Delivered);
        }
    }

    fn take_lost(&mut self, now: Time, packet: &SentPacket) {
        let contents = &packet.contents;
        if contents.size_probe {
            self.mtu.on_probe_lost(packet.size);
            return;
        }
        self.counters.lost_packets += 1;
        self.sampler.on_lost(packet.wire, 1);
        self.mtu.on_lost(now, packet.size, packet.number);
        self.limit_due |= contents.limit;
        if self.detects_loss() {
            if contents
                .data
                .as_ref()
                .is_some_and(|data| !self.send.has(data))
            {
                let sent = self.next_number;
                self.close_for_loss(now, sent.saturating_sub(self.counters.lost_packets), sent);
            }
            return;
        }
        match (&contents.data, contents.block) {
            (Some(data), Some(block)) if !self.send.has(data) || contents.end => {
                (self.redundancy).on_segment_lost(block, data.clone(), contents.end);
            }
            (Some(data), _) => self.send.on_lost(data.clone(), contents.end),
            (None, Some(block)) if contents.parity => self.redundancy.on_symbol_lost(block),
            _ => {}
        }
    }

    fn on_close(&mut self, now: Time, code: u64) {
        if code == CODE_COMPLETE && self.recv.is_complete() {
            // The peer confirms that it has received everything.
            self.complete(now, true);
        } else if code == CODE_LOST {
            let sent = self.next_number;
            let arrived = sent.saturating_sub(self.counters.lost_packets);
            self.end(now, ClosedReason::Lost { arrived, sent }, code);
        } else {
            self.end(now, ClosedReason::ClosedByPeer(code), code);
        }
    }

    /// Reports the peer's train to the caller once it is complete, and updates the loss estimate.
    pub(super) fn check_train(&mut self, now: Time) {
        if self.trains.check(now)
            && let Some((received, count)) = self.trains.incoming_result()
        {
            self.protection.on_train(received, count);
            self.events.push_back(RudpEvent::PathMeasured);
        }
    }
}

fn violation(violation: StreamViolation) -> Violation {
    match violation {
        StreamViolation::BeyondLimit => Violation::FlowControl,
        StreamViolation::TwoEnds => Violation::TwoEnds,
    }
}
