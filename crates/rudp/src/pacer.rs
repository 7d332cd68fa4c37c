//! Pacing: spacing of packets at a rate (RFC 9002, section 7.7).
//!
//! The pacer is a token bucket that is refilled by the elapsed time. So a late timer does not
//! reduce the rate, unless it is later than the duration of a burst. A packet may be sent if there
//! are any tokens. It then removes a token for each of its bytes, even if the balance becomes
//! negative. So the mean rate is exact.

use std::time::Duration;

use crate::Time;

/// The minimum sleep between bursts of packets: a quarter of the default burst of 1 ms. A timer may
/// be late by the other three quarters without reducing the rate, and each system call sends
/// several packets.
const MIN_SLEEP: Duration = Duration::from_micros(250);

/// A token bucket of bytes on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// The rate in bytes per second.
    rate: u64,
    /// The time in which an empty bucket is filled.
    burst: Duration,
    /// The size of a packet in bytes. The bucket holds at least two packets.
    packet: u64,
    /// The tokens in bytes times 10^9, which avoids rounding errors. Negative after a packet that
    /// was larger than the remaining tokens.
    tokens: i128,
    updated: Time,
}

const SCALE: i128 = 1_000_000_000;

impl Pacer {
    pub(crate) fn new(now: Time, burst: Duration, packet: u64) -> Self {
        Self {
            rate: 0,
            burst,
            packet,
            tokens: i128::from(2 * packet) * SCALE,
            updated: now,
        }
    }

    /// Changes the rate from now on.
    pub(crate) fn set_rate(&mut self, now: Time, rate: u64) {
        if rate != self.rate {
            self.refill(now);
            self.rate = rate;
        }
    }

    fn capacity(&self) -> i128 {
        // The product is at most 2^64 times 10^9, far below the limit of the type.
        let burst = i128::from(self.rate) * self.burst.as_nanos() as i128;
        burst.max(i128::from(2 * self.packet) * SCALE)
    }

    fn refill(&mut self, now: Time) {
        let elapsed = now.since(self.updated).as_nanos() as i128;
        self.updated = self.updated.max(now);
        self.tokens = (self.tokens + elapsed * i128::from(self.rate)).min(self.capacity());
    }

    /// Returns whether a packet may be sent now.
    pub(crate) fn is_open(&mut self, now: Time) -> bool {
        self.refill(now);
        self.tokens > 0
    }

    /// Records that a packet of this size was sent.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.tokens -= i128::from(bytes) * SCALE;
    }

    /// Returns the time at which to send the next packets, if none may be sent now.
    pub(crate) fn opens_at(&self) -> Time {
        let rate = i128::from(self.rate.max(1));
        let quantum = (rate * MIN_SLEEP.as_nanos() as i128).min(self.capacity() / 2);
        let missing = (quantum - self.tokens).max(1);
        let nanos = (missing + rate - 1) / rate;
        self.updated + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BURST: Duration = Duration::from_millis(1);
    const PACKET: u64 = 1500;
    const INITIAL_TOKENS: i128 = 2 * PACKET as i128 * SCALE;

    /// Returns a pacer that sends at `actual`.
    fn pacer(actual: u64) -> Pacer {
        let mut pacer = Pacer::new(Time::ZERO, BURST, PACKET);
        pacer.set_rate(Time::ZERO, actual);
        pacer
    }

    fn bucket(rate: u64) -> i128 {
        (i128::from(rate) * BURST.as_nanos() as i128).max(INITIAL_TOKENS)
    }

    /// Sends packets of `size` bytes whenever the pacer allows it. Otherwise wakes up this much
    /// later than the pacer asks for. Returns the time of each wake-up and the bytes sent by its
    /// end.
    fn drive(mut pacer: Pacer, size: u64, lateness: &[Duration]) -> Vec<(Time, u64)> {
        let mut now = Time::ZERO;
        let mut sent = 0;
        let mut wakes = Vec::new();
        for late in lateness {
            while pacer.is_open(now) {
                pacer.on_sent(size);
                sent += size;
            }
            wakes.push((now, sent));
            let at = pacer.opens_at();
            assert!(at > now, "a closed pacer must open at a later time");
            now = at + *late;
        }
        wakes
    }

    /// Returns whether, after every wake-up, the number of bytes sent matches the rate to within
    /// one packet. It holds only if no wake-up is so late that the bucket overflows.
    fn keeps_rate(wakes: &[(Time, u64)], rate: u64, size: u64) -> bool {
        wakes.iter().all(|&(at, sent)| {
            let due = INITIAL_TOKENS + i128::from(rate) * i128::from(at.as_nanos());
            (0..i128::from(size) * SCALE).contains(&(i128::from(sent) * SCALE - due))
        })
    }

    /// Returns whether the bytes sent in every interval are at most those of the rate, one full
    /// bucket and one packet.
    fn bounds_bursts(wakes: &[(Time, u64)], rate: u64, size: u64) -> bool {
        let mut min = i128::MAX;
        let mut before = 0;
        wakes.iter().all(|&(at, sent)| {
            let due = i128::from(rate) * i128::from(at.as_nanos());
            min = min.min(i128::from(before) * SCALE - due);
            before = sent;
            let excess = i128::from(sent) * SCALE - due - min;
            excess < bucket(rate) + i128::from(size) * SCALE
        })
    }

    /// Rates from 10 kB/s to 2.6 GB/s, evenly distributed on a logarithmic scale.
    fn rates() -> impl Strategy<Value = u64> {
        (10_000_u64..20_000, 0..18).prop_map(|(base, shift)| base << shift)
    }

    proptest! {
        /// A pacer whose caller wakes up before the bucket is full sends at its rate. The check
        /// detects half and double the rate.
        #[test]
        fn sends_at_its_rate(
            rate in rates(),
            size in 100..1500_u64,
            permille in prop::collection::vec(0..=1000_u64, 100..200),
        ) {
            // The time in which the bucket fills after the pacer has opened. Opening times are
            // rounded up to a nanosecond.
            let quantum = (i128::from(rate) * MIN_SLEEP.as_nanos() as i128).min(bucket(rate) / 2);
            let spare = ((bucket(rate) - quantum) / i128::from(rate) - 1) as u64;
            let late: Vec<_> = (permille.iter())
                .map(|permille| Duration::from_nanos(spare / 1000 * permille))
                .collect();
            for (actual, is_right) in [(rate, true), (rate / 2, false), (2 * rate, false)] {
                let wakes = drive(pacer(actual), size, &late);
                prop_assert_eq!(keeps_rate(&wakes, rate, size), is_right, "sends at {}", actual);
            }
        }

        /// However late the caller is, it catches up with at most one bucket. The check detects a
        /// larger bucket.
        #[test]
        fn bounds_every_burst(
            rate in rates(),
            size in 100..1500_u64,
            mut late in prop::collection::vec((0..20_000_000_u64).prop_map(Duration::from_nanos), 100..200),
        ) {
            // In one step, enough time passes to fill the bucket several times, even at a low rate.
            late[50] = Duration::from_millis(20).max(Duration::from_secs(8 * PACKET) / rate as u32);
            let mut deep = pacer(rate);
            deep.burst = 3 * BURST;
            deep.packet = 3 * PACKET;
            for (pacer, is_right) in [(pacer(rate), true), (deep, false)] {
                let wakes = drive(pacer, size, &late);
                prop_assert_eq!(bounds_bursts(&wakes, rate, size), is_right);
            }
        }
    }
}
