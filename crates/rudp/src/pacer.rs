//! Spaces packets at a rate (RFC 9002, section 7.7).
//!
//! Tokens come with time, whenever the caller looks: a late timer costs nothing as long as it is
//! not later than a burst is long. A packet may leave when there are tokens at all and takes what
//! it needs, so that the mean is exact.

use std::time::Duration;

use crate::Time;

/// For how long to sleep at least where packets follow each other faster: a quarter of a burst, so
/// that a timer may be late by the rest, and enough packets for one call to be worth its price.
const QUANTUM: Duration = Duration::from_micros(250);

/// A bucket of bytes on the wire that fills at a rate.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// Bytes per second.
    rate: u64,
    /// How long it takes to fill the empty bucket.
    burst: Duration,
    /// The bucket holds two packets at least.
    packet: u64,
    /// Bytes times 10^9, so that nothing is lost to rounding; negative after a packet that was
    /// larger than the rest.
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
        // At most 2^64 times 10^9: far inside.
        let burst = i128::from(self.rate) * self.burst.as_nanos() as i128;
        burst.max(i128::from(2 * self.packet) * SCALE)
    }

    fn refill(&mut self, now: Time) {
        let elapsed = now.since(self.updated).as_nanos() as i128;
        self.updated = self.updated.max(now);
        self.tokens = (self.tokens + elapsed * i128::from(self.rate)).min(self.capacity());
    }

    /// Returns whether a packet may leave now.
    pub(crate) fn is_open(&mut self, now: Time) -> bool {
        self.refill(now);
        self.tokens > 0
    }

    /// A packet of this size has left.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.tokens -= i128::from(bytes) * SCALE;
    }

    /// Returns when it is worth looking again, if packets may not leave now.
    pub(crate) fn opens_at(&self) -> Time {
        let rate = i128::from(self.rate.max(1));
        let quantum = (rate * QUANTUM.as_nanos() as i128).min(self.capacity() / 2);
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

    /// A pacer that claims to send at `rate` and sends at `actual`.
    fn pacer(actual: u64) -> Pacer {
        let mut pacer = Pacer::new(Time::ZERO, BURST, PACKET);
        pacer.set_rate(Time::ZERO, actual);
        pacer
    }

    fn bucket(rate: u64) -> i128 {
        (i128::from(rate) * BURST.as_nanos() as i128).max(INITIAL_TOKENS)
    }

    /// Sends packets of `size` bytes whenever the pacer is open, and otherwise wakes up this much
    /// later than it asks for. Returns the time of each wake-up and the bytes sent by its end.
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
            assert!(at > now, "a closed pacer opens later");
            now = at + *late;
        }
        wakes
    }

    /// Returns whether, after every wake-up, the bytes sent are those of the rate, to within one
    /// packet. Holds only if no wake-up is so late that the bucket overflows.
    fn keeps_rate(wakes: &[(Time, u64)], rate: u64, size: u64) -> bool {
        wakes.iter().all(|&(at, sent)| {
            let due = INITIAL_TOKENS + i128::from(rate) * i128::from(at.as_nanos());
            (0..i128::from(size) * SCALE).contains(&(i128::from(sent) * SCALE - due))
        })
    }

    /// Returns whether no stretch of time sees more bytes than those of the rate, one full bucket
    /// and one packet.
    fn bounds_bursts(wakes: &[(Time, u64)], rate: u64, size: u64) -> bool {
        let mut least = i128::MAX;
        let mut before = 0;
        wakes.iter().all(|&(at, sent)| {
            let due = i128::from(rate) * i128::from(at.as_nanos());
            least = least.min(i128::from(before) * SCALE - due);
            before = sent;
            let excess = i128::from(sent) * SCALE - due - least;
            excess < bucket(rate) + i128::from(size) * SCALE
        })
    }

    /// From 10 kB/s to 2.6 GB/s, evenly on a logarithmic scale.
    fn rates() -> impl Strategy<Value = u64> {
        (10_000_u64..20_000, 0..18).prop_map(|(base, shift)| base << shift)
    }

    proptest! {
        /// A pacer whose caller wakes up before the bucket is full sends at its rate; half and
        /// double the rate are noticed.
        #[test]
        fn sends_at_its_rate(
            rate in rates(),
            size in 100..1500_u64,
            permille in prop::collection::vec(0..=1000_u64, 100..200),
        ) {
            // What is left of the bucket when the pacer opens, as time; opening times are rounded
            // up to a nanosecond.
            let quantum = (i128::from(rate) * QUANTUM.as_nanos() as i128).min(bucket(rate) / 2);
            let spare = ((bucket(rate) - quantum) / i128::from(rate) - 1) as u64;
            let late: Vec<_> = (permille.iter())
                .map(|permille| Duration::from_nanos(spare / 1000 * permille))
                .collect();
            for (actual, is_right) in [(rate, true), (rate / 2, false), (2 * rate, false)] {
                let wakes = drive(pacer(actual), size, &late);
                prop_assert_eq!(keeps_rate(&wakes, rate, size), is_right, "sends at {}", actual);
            }
        }

        /// However late the caller is, it catches up with no more than one bucket; a larger bucket
        /// is noticed.
        #[test]
        fn bounds_every_burst(
            rate in rates(),
            size in 100..1500_u64,
            mut late in prop::collection::vec((0..20_000_000_u64).prop_map(Duration::from_nanos), 100..200),
        ) {
            // Time for several buckets, also at a low rate.
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
