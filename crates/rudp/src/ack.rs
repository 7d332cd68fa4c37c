//! Received packet numbers, and the timing of acknowledgements.
//!
//! The acknowledgement of a lone packet is delayed for [`LONE_PACKET_DELAY`], so that it can share
//! a packet with the application's answer. While packets arrive continuously, one acknowledgement
//! is sent per [`interval`](AckState::interval): an eighth of the round-trip time, and at most 1
//! ms. At 1 Gbit/s, 1 ms is one acknowledgement for every 85 packets. A gap in the packet numbers,
//! the recovery of lost data, or [`MAX_UNACKED`] unacknowledged packets make the next
//! acknowledgement due earlier.

use std::time::Duration;

use crate::Time;
use crate::frame::{Ack, MAX_ACK_RANGES};
use crate::ranges::RangeSet;
use crate::rtt::MAX_ACK_DELAY;

/// The minimum interval between two acknowledgements.
const MIN_INTERVAL: Duration = Duration::from_micros(250);

/// The number of unacknowledged packets after which an acknowledgement is sent at once, whatever
/// the interval.
const MAX_UNACKED: u64 = 128;

/// The delay of the acknowledgement of a lone packet. On a short path, the application answers
/// within this time, and the packet with its answer carries the acknowledgement.
const LONE_PACKET_DELAY: Duration = Duration::from_micros(100);

/// The maximum number of ranges of received packet numbers that are kept. Older ranges have been
/// acknowledged many times.
const MAX_RANGES: usize = 1024;

/// The minimum interval over which the arrival rate is measured.
const MIN_RATE_INTERVAL: Duration = Duration::from_millis(10);

/// The receiver's state for acknowledgements.
#[derive(Debug, Default)]
pub(crate) struct AckState {
    received: RangeSet,
    largest: Option<(u64, Time)>,
    /// Ack-eliciting packets since the last acknowledgement.
    unacked: u64,
    /// The time at which the next acknowledgement is due.
    due: Option<Time>,
    last_sent: Option<Time>,
    window_start: Time,
    window_bytes: u64,
    /// The rate at which packets arrive, in bytes on the wire per second.
    arrival_rate: u64,
}

impl AckState {
    /// Records a packet that is authentic and not a duplicate. `wire` is its size on the wire, in
    /// bytes.
    pub(crate) fn on_received(
        &mut self,
        now: Time,
        number: u64,
        eliciting: bool,
        wire: u64,
        rtt: Duration,
    ) {
        let expected = self.received.last().map(|last| last.end);
        self.received.insert(number..number + 1);
        while self.received.len() > MAX_RANGES {
            let Some(first) = self.received.first() else {
                break;
            };
            self.received.forget_below(first.end);
        }
        if self.largest.is_none_or(|(largest, _)| number > largest) {
            self.largest = Some((number, now));
        }
        self.measure(now, wire);
        if eliciting {
            self.unacked += 1;
            let gap = expected.is_some_and(|expected| number != expected);
            self.schedule(now, gap, rtt);
        }
    }

    /// Makes an acknowledgement due now, or [`MIN_INTERVAL`] after the previous one if that is
    /// later. The caller has an event that the peer should learn of.
    pub(crate) fn expedite(&mut self, now: Time, rtt: Duration) {
        if self.largest.is_some() {
            self.schedule(now, true, rtt);
        }
    }

    fn schedule(&mut self, now: Time, urgent: bool, rtt: Duration) {
        let (interval, delay) = if self.unacked >= MAX_UNACKED {
            (Duration::ZERO, Duration::ZERO)
        } else if urgent {
            (MIN_INTERVAL, Duration::ZERO)
        } else {
            (Self::interval(rtt), LONE_PACKET_DELAY)
        };
        let soonest = now + delay;
        let at = (self.last_sent).map_or(soonest, |last| (last + interval).max(soonest));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn interval(rtt: Duration) -> Duration {
        (rtt / 8).clamp(MIN_INTERVAL, MAX_ACK_DELAY)
    }

    fn measure(&mut self, now: Time, wire: u64) {
        let elapsed = now.since(self.window_start);
        if elapsed >= MIN_RATE_INTERVAL {
            let nanos = elapsed.as_nanos().max(1);
            let rate = u128::from(self.window_bytes) * 1_000_000_000 / nanos;
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            // An interval with a long pause does not show a rate, so the measurement after a pause
            // replaces the average.
            self.arrival_rate = if elapsed > 8 * MIN_RATE_INTERVAL || self.arrival_rate == 0 {
                rate
            } else {
                (self.arrival_rate * 3 + rate) / 4
            };
            self.window_start = now;
            self.window_bytes = 0;
        }
        self.window_bytes += wire;
    }

    /// Returns the rate at which packets arrive, in bytes on the wire per second, or zero if it is
    /// not known.
    pub(crate) fn arrival_rate(&self) -> u64 {
        self.arrival_rate
    }

    /// Returns the time at which an acknowledgement is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Returns whether to add an acknowledgement to a packet that is sent anyway.
    pub(crate) fn is_worthwhile(&self, now: Time, rtt: Duration) -> bool {
        self.due.is_some_and(|due| {
            due <= now || (self.last_sent).is_none_or(|last| now >= last + Self::interval(rtt) / 2)
        })
    }

    /// Returns an acknowledgement of the received packets. The caller fills in the fields about the
    /// stream.
    pub(crate) fn compose(&self, now: Time) -> Option<Ack> {
        let (largest, at) = self.largest?;
        let micros = |nanos: u64| nanos / 1000;
        Some(Ack {
            largest,
            delay: u32::try_from(now.since(at).as_micros()).unwrap_or(u32::MAX),
            // The timestamp is modulo 2^32.
            timestamp: micros(at.as_nanos()) as u32,
            arrival_rate: u32::try_from(self.arrival_rate / 1024).unwrap_or(u32::MAX),
            ranges: self.received.iter().rev().take(MAX_ACK_RANGES).collect(),
            ..Ack::default()
        })
    }

    /// Records that an acknowledgement was sent.
    pub(crate) fn on_sent(&mut self, now: Time) {
        self.due = None;
        self.unacked = 0;
        self.last_sent = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_micros(40);

    fn receive(state: &mut AckState, now: Time, number: u64) {
        state.on_received(now, number, true, 1500, RTT);
    }

    #[test]
    fn the_acknowledgement_of_a_lone_packet_is_delayed() {
        let mut state = AckState::default();
        let now = Time::ZERO + Duration::from_secs(1);
        receive(&mut state, now, 0);
        assert_eq!(state.due(), Some(now + LONE_PACKET_DELAY));
        // A packet that is sent before the acknowledgement is due carries it.
        assert!(state.is_worthwhile(now, RTT));
        // A gap is acknowledged at once.
        receive(&mut state, now, 2);
        assert_eq!(state.due(), Some(now));
    }

    #[test]
    fn many_packets_are_acknowledged_before_the_interval_ends() {
        let mut state = AckState::default();
        let now = Time::ZERO + Duration::from_secs(1);
        receive(&mut state, now, 0);
        state.on_sent(now);
        for number in 1..MAX_UNACKED {
            receive(&mut state, now, number);
        }
        assert_eq!(state.due(), Some(now + MIN_INTERVAL));
        receive(&mut state, now, MAX_UNACKED);
        assert_eq!(state.due(), Some(now));
    }
}
