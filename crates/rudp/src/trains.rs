//! Packet trains: their transmission, and the receiver's reports.
//!
//! During the handshake each end sends a train of [`TRAIN_PACKETS`] packets. From its arrival the
//! peer measures rate and loss of that direction ([`crate::estimate`]). If no train of the
//! handshake was reported, the first data packets form a train.

use std::time::Duration;

use crate::Time;
use crate::estimate::{SECTION_PACKETS, TrainReceiver};
use crate::frame::Report;
use crate::handshake::TrainPacket;
use crate::rate::{HEADER_BYTES, rate_of};
use crate::stats::TrainResult;

/// The number of packets in a train of the handshake, of 1,200 bytes each.
///
/// The train must be short, because the connector sends it to an address that has not been
/// validated. Measured over the testbed's emulator at 1 Gbit/s with 151 trains: the estimate from
/// the first packets of a train was wrong by more than a fifth in 87 % of the trains with 10
/// packets, 46 % with 16, 19 % with 24, and 15 % with 32.
pub(crate) const TRAIN_PACKETS: u8 = 32;

/// The number of packets of a train that are sent in one system call.
///
/// On a virtual machine a system call that wakes a sleeping processor takes 24 us. With one call
/// for each packet a train was sent at 51 MB/s at most. Some paths deliver all packets of a call at
/// the same time. With bursts of four a train of 32 packets then still has eight different arrival
/// times, from which the receiver computes the rate.
pub(crate) const TRAIN_BURST: usize = 4;

/// The number of first data packets that form a train if no train of the handshake was reported.
pub(crate) const DATA_TRAIN_PACKETS: u8 = 64;

/// The ID of the train of the handshake.
pub(crate) const SETUP_TRAIN: u8 = 1;
/// The ID of the train that the first data packets form.
pub(crate) const DATA_TRAIN: u8 = 2;

/// The delays after which a report is sent again. Reports are not acknowledged, and the first one
/// may be lost in a short queue that this end's own train has filled.
const REPORT_REPEAT_DELAYS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(4)];

/// The minimum silence after which a train with missing packets is reported.
const MIN_SILENCE: Duration = Duration::from_millis(3);
/// The maximum silence after which a train with missing packets is reported.
const MAX_SILENCE: Duration = Duration::from_millis(40);

/// A train that is being received.
#[derive(Debug)]
struct Incoming {
    id: u8,
    receiver: TrainReceiver,
    count: u8,
    seen: [u64; 4],
    received: u8,
    largest: u16,
    first_at: Time,
    last_at: Time,
    /// The number of packets that the last report counted.
    reported: u8,
    done: bool,
}

impl Incoming {
    fn report_due(&self) -> Option<Time> {
        if self.done {
            return None;
        }
        if self.received == self.count {
            return Some(self.last_at);
        }
        let gaps = u32::from(self.received.max(2) - 1);
        let silence = if self.received > 2 {
            (self.last_at.since(self.first_at) / gaps * 8).clamp(MIN_SILENCE, MAX_SILENCE)
        } else {
            MAX_SILENCE
        };
        let due = self.last_at + silence;
        // On a slow path, a first report is sent before the train has ended.
        if self.reported == 0 && self.received >= 16 {
            return Some(due.min(self.first_at + MAX_SILENCE));
        }
        Some(due)
    }
}

/// The sending time of each packet of this end's train, and the number of bytes on the wire that
/// the train has sent up to and including it.
type TrainSent = Vec<(Time, u64)>;

/// The report on the peer's train, and its repetitions.
#[derive(Debug)]
struct OutgoingReport {
    report: Report,
    is_due: bool,
    sent_count: usize,
    repeat_at: Option<Time>,
}

/// The trains of both directions at one end.
#[derive(Debug, Default)]
pub(crate) struct Trains {
    train_wanted: bool,
    train_left: u8,
    train_sent: TrainSent,
    incoming: Option<Incoming>,
    outgoing_report: Option<OutgoingReport>,
    measured: Option<TrainResult>,
    /// The rate of the incoming direction, in bytes on the wire per second; zero if it is not
    /// known.
    incoming_rate: u64,
}

impl Trains {
    /// Creates the state. This end sends a train if `is_wanted`.
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self {
            train_wanted: is_wanted,
            ..Self::default()
        }
    }

    /// Makes the train of this end due. Later calls have no effect.
    pub(crate) fn start(&mut self) {
        if std::mem::take(&mut self.train_wanted) {
            self.train_left = TRAIN_PACKETS;
        }
    }

    /// Records the arrival of a packet of a train.
    pub(crate) fn on_packet(&mut self, now: Time, packet: TrainPacket) {
        let TrainPacket {
            id,
            index,
            count,
            left,
            size,
        } = packet;
        if self.incoming.as_ref().is_none_or(|train| id > train.id) {
            self.incoming = Some(Incoming {
                id,
                receiver: TrainReceiver::new(usize::from(count)),
                count,
                seen: [0; 4],
                received: 0,
                largest: 0,
                first_at: now,
                last_at: now,
                reported: 0,
                done: false,
            });
        }
        let Some(train) = &mut self.incoming else {
            return;
        };
        let (word, bit) = (usize::from(index / 64), 1 << (index % 64));
        if train.id != id || train.count != count || train.seen[word] & bit != 0 {
            return;
        }
        train.seen[word] |= bit;
        train.received += 1;
        train.largest = train.largest.max(size);
        train.last_at = now;
        let bytes = u64::from(size) + HEADER_BYTES;
        (train.receiver).push(usize::from(index), now, left, bytes);
    }

    /// Makes the report on the incoming train due, if it is complete or has ended. Returns whether
    /// it did.
    pub(crate) fn check(&mut self, now: Time) -> bool {
        let Some(train) = &mut self.incoming else {
            return false;
        };
        if train.report_due().is_none_or(|due| due > now) {
            return false;
        }
        let early = train.reported == 0
            && train.received < train.count
            && now < train.last_at + MIN_SILENCE;
        train.done = !early;
        train.reported = train.received;
        // While more packets may arrive, the losses are not known.
        let (clear, clear_received) = match train.done {
            true => train.receiver.before_overflow(),
            false => (0, 0),
        };
        let mut report = Report {
            train: train.id,
            received: train.received,
            // The casts are lossless, because the counts are at most the length of the train.
            clear: clear as u8,
            clear_received: clear_received as u8,
            largest: train.largest,
            ..Report::default()
        };
        if let Some(estimate) = train.receiver.estimate() {
            let above = estimate
                .high
                .map_or(0, |high| high.saturating_sub(estimate.rate));
            let band = above.max(estimate.rate.saturating_sub(estimate.low));
            let permille = u128::from(band) * 1000 / u128::from(estimate.rate.max(1));
            report.rate = estimate.rate;
            report.error = u16::try_from(permille.min(1000)).unwrap_or(1000);
            report.at_least = estimate.is_lower_bound();
            self.incoming_rate = self.incoming_rate.max(estimate.rate);
        }
        if train.id == SETUP_TRAIN && train.done {
            self.measured = Some(TrainResult::new(&report, train.count));
        }
        self.outgoing_report = Some(OutgoingReport {
            report,
            is_due: true,
            sent_count: 0,
            repeat_at: None,
        });
        true
    }

    /// Returns two numbers of packets of the incoming train before it overflowed a queue: those
    /// that arrived and those that were sent. Returns `None` until the train has ended.
    pub(crate) fn incoming_result(&self) -> Option<(u8, u8)> {
        // `clear` is zero while more packets may arrive.
        let report = self.report().filter(|report| report.clear > 0)?;
        Some((report.clear_received, report.clear))
    }

    /// Returns the result of the incoming train of the handshake, once it has ended.
    pub(crate) fn measured(&self) -> Option<TrainResult> {
        self.measured
    }

    /// Returns whether the peer's train has ended, or none arrived.
    pub(crate) fn incoming_is_over(&self) -> bool {
        self.incoming.as_ref().is_none_or(|train| train.done)
    }

    /// Returns whether a packet of the peer's train arrived.
    pub(crate) fn has_incoming(&self) -> bool {
        self.incoming.is_some()
    }

    pub(crate) fn incoming_rate(&self) -> u64 {
        self.incoming_rate
    }

    /// Returns the report on the last train.
    pub(crate) fn report(&self) -> Option<Report> {
        self.outgoing_report
            .as_ref()
            .map(|outgoing_report| outgoing_report.report)
    }

    pub(crate) fn due_report(&self) -> Option<Report> {
        (self.outgoing_report.as_ref())
            .filter(|outgoing_report| outgoing_report.is_due)
            .map(|outgoing_report| outgoing_report.report)
    }

    pub(crate) fn on_report_sent(&mut self, now: Time) {
        if let Some(outgoing_report) = &mut self.outgoing_report {
            outgoing_report.repeat_at = REPORT_REPEAT_DELAYS
                .get(outgoing_report.sent_count)
                .map(|after| now + *after);
            outgoing_report.sent_count += 1;
            outgoing_report.is_due = false;
        }
    }

    /// Returns the index of the next packet of this end's train.
    pub(crate) fn due_packet(&self) -> Option<u8> {
        (self.train_left > 0).then(|| TRAIN_PACKETS - self.train_left)
    }

    /// Records that a packet of this end's train was sent, of `size` bytes of UDP payload.
    pub(crate) fn on_packet_sent(&mut self, now: Time, size: u16) {
        self.train_left = self.train_left.saturating_sub(1);
        let before = self.train_sent.last().map_or(0, |(_, bytes)| *bytes);
        let bytes = before + u64::from(size) + HEADER_BYTES;
        self.train_sent.push((now, bytes));
    }

    /// Returns the time since the first packet of this end's train was sent.
    pub(crate) fn elapsed(&self, now: Time) -> Duration {
        (self.train_sent.first()).map_or(Duration::ZERO, |(first, _)| now.since(*first))
    }

    /// Returns whether a packet of this end's train was sent.
    pub(crate) fn has_sent(&self) -> bool {
        !self.train_sent.is_empty()
    }

    /// Returns the rate at which the fastest section of this end's train was sent, in bytes on the
    /// wire per second. Returns `None` if it is not known, or unlimited.
    pub(crate) fn sent_rate(&self) -> Option<u64> {
        if self.train_left > 0 {
            return None;
        }
        let ends = self.train_sent.get(SECTION_PACKETS..)?;
        let sections = self.train_sent.iter().zip(ends);
        let rates = sections.map(|((from, before), (to, bytes))| match to.since(*from) {
            Duration::ZERO => None,
            took => Some(rate_of(bytes - before, took)),
        });
        // A section that was sent at one time has no rate: the train was as fast as possible.
        rates.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Returns the time of the next timeout.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let report = self.incoming.as_ref().and_then(Incoming::report_due);
        let again = self
            .outgoing_report
            .as_ref()
            .and_then(|outgoing_report| outgoing_report.repeat_at);
        [report, again].into_iter().flatten().min()
    }

    /// Handles expired timers.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if let Some(outgoing_report) = &mut self.outgoing_report
            && outgoing_report.repeat_at.is_some_and(|at| at <= now)
        {
            (outgoing_report.repeat_at, outgoing_report.is_due) = (None, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_report_is_sent_three_times() {
        let mut trains = Trains::new(false);
        for index in 0..TRAIN_PACKETS {
            let packet = TrainPacket {
                id: SETUP_TRAIN,
                index,
                count: TRAIN_PACKETS,
                left: Duration::ZERO,
                size: 1200,
            };
            trains.on_packet(Time::ZERO + MS, packet);
        }
        let mut sent = Vec::new();
        while let Some(now) = trains
            .next_timeout()
            .filter(|at| *at <= Time::ZERO + 1000 * MS)
        {
            let _ = trains.check(now);
            trains.handle_timeout(now);
            if trains.due_report().is_some() {
                trains.on_report_sent(now);
                sent.push(now.as_nanos() / 1_000_000);
            }
        }
        assert_eq!(sent, [1, 2, 6]);
    }
}
