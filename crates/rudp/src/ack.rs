//! What has come, and when to say so.
//!
//! After a pause an acknowledgement waits a moment for an answer of the application to travel with;
//! under a stream of packets one goes out per [`interval`](AckState::interval), which is an eighth
//! of the round trip but at most 1 ms: at 1 Gbit/s one for each 85 packets. A gap, or a repaired
//! one, brings the next acknowledgement forward, and so do many packets.

use std::time::Duration;

use crate::Time;
use crate::frame::{Ack, MAX_ACK_RANGES};
use crate::ranges::RangeSet;
use crate::rtt::MAX_ACK_DELAY;

/// How far acknowledgements are apart at least, whatever happens.
const MIN_INTERVAL: Duration = Duration::from_micros(250);

/// After how many packets an acknowledgement goes out at once, however soon that is.
const MAX_UNACKED: u64 = 128;

/// How long the acknowledgement of a lone packet waits: longer than a program takes to be woken and
/// to answer, where the round trip is so short that a packet more would be felt.
const ANSWER_TIME: Duration = Duration::from_micros(100);

/// How many ranges are remembered; older ones were acknowledged many times over.
const MAX_RANGES: usize = 1024;

/// Over how long the arrival rate is measured at least.
const RATE_INTERVAL: Duration = Duration::from_millis(10);

/// The receiving half of acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct AckState {
    received: RangeSet,
    largest: Option<(u64, Time)>,
    /// Packets that ask for an acknowledgement, since the last one.
    unacked: u64,
    /// When the next one is due.
    due: Option<Time>,
    last_sent: Option<Time>,
    window_start: Time,
    window_bytes: u64,
    /// Bytes on the wire per second.
    arrival_rate: u64,
}

impl AckState {
    /// Notes a packet that is authentic and new. `wire` is its size on the wire.
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

    /// Something happened that the other end should hear of soon.
    pub(crate) fn hurry(&mut self, now: Time, rtt: Duration) {
        if self.largest.is_some() {
            self.schedule(now, true, rtt);
        }
    }

    fn schedule(&mut self, now: Time, urgent: bool, rtt: Duration) {
        let (interval, patience) = if self.unacked >= MAX_UNACKED {
            (Duration::ZERO, Duration::ZERO)
        } else if urgent {
            (MIN_INTERVAL, Duration::ZERO)
        } else {
            (Self::interval(rtt), ANSWER_TIME)
        };
        let soonest = now + patience;
        let at = (self.last_sent).map_or(soonest, |last| (last + interval).max(soonest));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn interval(rtt: Duration) -> Duration {
        (rtt / 8).clamp(MIN_INTERVAL, MAX_ACK_DELAY)
    }

    fn measure(&mut self, now: Time, wire: u64) {
        let elapsed = now.since(self.window_start);
        if elapsed >= RATE_INTERVAL {
            let nanos = elapsed.as_nanos().max(1);
            let rate = u128::from(self.window_bytes) * 1_000_000_000 / nanos;
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            // A pause is no rate: what arrives after one starts afresh.
            self.arrival_rate = if elapsed > 8 * RATE_INTERVAL || self.arrival_rate == 0 {
                rate
            } else {
                (self.arrival_rate * 3 + rate) / 4
            };
            self.window_start = now;
            self.window_bytes = 0;
        }
        self.window_bytes += wire;
    }

    /// Returns the rate at which packets arrive, in bytes on the wire per second; zero if not
    /// known.
    pub(crate) fn arrival_rate(&self) -> u64 {
        self.arrival_rate
    }

    /// Returns when an acknowledgement is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Returns whether one may travel along with a packet that goes out anyway.
    pub(crate) fn is_worthwhile(&self, now: Time, rtt: Duration) -> bool {
        self.due.is_some_and(|due| {
            due <= now || (self.last_sent).is_none_or(|last| now >= last + Self::interval(rtt) / 2)
        })
    }

    /// Returns what has come. The parts about the stream are left to the caller.
    pub(crate) fn compose(&self, now: Time) -> Option<Ack> {
        let (largest, at) = self.largest?;
        let micros = |nanos: u64| nanos / 1000;
        Some(Ack {
            largest,
            delay: u32::try_from(now.since(at).as_micros()).unwrap_or(u32::MAX),
            // Modulo 2^32 as documented.
            timestamp: micros(at.as_nanos()) as u32,
            arrival_rate: u32::try_from(self.arrival_rate / 1024).unwrap_or(u32::MAX),
            ranges: self.received.iter().rev().take(MAX_ACK_RANGES).collect(),
            ..Ack::default()
        })
    }

    /// An acknowledgement went out.
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
    fn a_lone_packet_waits_for_an_answer_to_travel_with() {
        let mut state = AckState::default();
        let now = Time::ZERO + Duration::from_secs(1);
        receive(&mut state, now, 0);
        assert_eq!(state.due(), Some(now + ANSWER_TIME));
        // Whatever leaves meanwhile takes it along.
        assert!(state.is_worthwhile(now, RTT));
        // A gap is told at once.
        receive(&mut state, now, 2);
        assert_eq!(state.due(), Some(now));
    }

    #[test]
    fn many_packets_wait_for_no_interval() {
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
