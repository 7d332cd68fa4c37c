//! Spaces packets at a rate (RFC 9002, section 7.7).
//!
//! Tokens come with time, whenever the caller looks: a late timer costs nothing as long as it is not later than a burst
//! is long. A packet may leave when there are tokens at all and takes what it needs, so that the mean is exact.

use std::time::Duration;

use crate::Time;

/// For how long to sleep at least where packets follow each other faster: a quarter of a burst, so that a timer may be
/// late by the rest, and enough packets for one call to be worth its price.
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
    /// Bytes times 10^9, so that nothing is lost to rounding; negative after a packet that was larger than the rest.
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

    proptest! {
        /// Over any stretch of time no more leaves than the rate and one burst allow, and no less than the rate if
        /// one looks whenever it is worth it.
        #[test]
        fn keeps_its_rate_exactly(rate in 10_000u64..2_000_000_000, size in 100u64..1500, late in 0u64..500_000) {
            let mut pacer = Pacer::new(Time::ZERO, Duration::from_millis(1), 1500);
            pacer.set_rate(Time::ZERO, rate);
            let mut now = Time::ZERO;
            let mut sent = 0u64;
            let mut rounds = 0;
            while rounds < 200 {
                rounds += 1;
                while pacer.is_open(now) {
                    pacer.on_sent(size);
                    sent += size;
                }
                let allowed = u128::from(rate) * u128::from(now.as_nanos()) / 1_000_000_000;
                let burst = (rate / 1000).max(3000) + size;
                prop_assert!(u128::from(sent) <= allowed + u128::from(burst) + 1);
                prop_assert!(u128::from(sent) + 1 >= allowed.min(u128::from(sent) + 1));
                let at = pacer.opens_at();
                prop_assert!(at > now);
                now = at + Duration::from_nanos(late.min(u64::from(rate > 10_000_000) * 500_000));
            }
            if late == 0 {
                let allowed = u128::from(rate) * u128::from(now.as_nanos()) / 1_000_000_000;
                prop_assert!(u128::from(sent) + u128::from(32 * 1500 + rate / 1000) >= allowed);
            }
        }
    }
}
