//! Flow control: the receive window of the Transputation paper, changed so that the buffer cannot
//! overflow.
//!
//! The paper (section 4.2) allows a window of L = B / (1 - R_arrival / R_read) bytes for a buffer
//! of B bytes, because the buffer is read while it fills. L is infinite if the reader is as slow as
//! the arrivals. L is negative if the reader is slower, in which case the buffer overflows.
//!
//! This module uses L as the window if the reader is faster than the arrivals, but at least B and
//! at most the configured maximum. A slower reader gets B, which is twice the bandwidth-delay
//! product. The window begins after the bytes that were read, so that the buffer cannot overflow
//! even if the estimates are wrong. Granted credit is never withdrawn (RFC 9000, section 4.1).

use std::time::Duration;

use crate::Time;

/// The minimum window, in bytes. The initial window is four times as large.
const MIN_WINDOW: u64 = 1 << 20;

/// The round-trip time that is assumed before it is known.
const ASSUMED_RTT: Duration = Duration::from_millis(400);

/// The receive window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    max: u64,
    current: u64,
    /// The time since which the application has had data to read.
    busy_since: Option<Time>,
    busy_read: u64,
    /// The rate at which the application has read since `busy_since`, in bytes per second.
    read_rate: u64,
}

impl Window {
    /// Creates a window of four times the minimum, limited to `max` bytes.
    pub(crate) fn new(max: u64) -> Self {
        let max = max.max(MIN_WINDOW);
        Self {
            max,
            current: (4 * MIN_WINDOW).min(max),
            busy_since: None,
            busy_read: 0,
            read_rate: 0,
        }
    }

    /// Updates the window. `rate` is the rate that the path carries and `arrival_rate` the one at
    /// which data arrive, in bytes per second. `rtt` is zero if it is not known.
    pub(crate) fn update(&mut self, rate: u64, arrival_rate: u64, rtt: Duration) {
        let rtt = if rtt.is_zero() { ASSUMED_RTT } else { rtt };
        let product = u128::from(rate) * rtt.as_nanos() / 1_000_000_000;
        let base = (2 * u64::try_from(product).unwrap_or(u64::MAX / 2)).clamp(MIN_WINDOW, self.max);
        let wide = if self.read_rate > arrival_rate {
            let spare = self.read_rate - arrival_rate;
            let wide = u128::from(base) * u128::from(self.read_rate) / u128::from(spare);
            u64::try_from(wide).unwrap_or(u64::MAX)
        } else {
            base
        };
        self.current = self.current.max(wide.clamp(base, self.max));
    }

    /// Records that data arrived, after which `readable` bytes can be read.
    pub(crate) fn on_arrival(&mut self, now: Time, readable: u64) {
        if readable > 0 && self.busy_since.is_none() {
            self.busy_since = Some(now);
            self.busy_read = 0;
        }
    }

    /// Records that the application has read, after which `readable` bytes remain.
    pub(crate) fn on_read(&mut self, now: Time, bytes: u64, readable: u64) {
        self.busy_read += bytes;
        let Some(since) = self.busy_since else {
            return;
        };
        let elapsed = now.since(since);
        if readable == 0 || elapsed >= Duration::from_millis(20) {
            let nanos = elapsed.as_nanos().max(1000);
            let rate = u128::from(self.busy_read) * 1_000_000_000 / nanos;
            let rate = u64::try_from(rate)
                .unwrap_or(u64::MAX / 4)
                .min(u64::MAX / 4);
            self.read_rate = if self.read_rate == 0 {
                rate
            } else {
                (self.read_rate / 4) * 3 + rate / 4
            };
            self.busy_since = (readable > 0).then_some(now);
            self.busy_read = 0;
        }
    }

    /// Returns the number of bytes beyond those read that the peer may send.
    pub(crate) fn bytes(&self) -> u64 {
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_window_follows_the_path_and_stays_within_memory() {
        let mut window = Window::new(64 << 20);
        assert_eq!(window.bytes(), 4 << 20);
        window.update(125_000_000, 0, 100 * MS);
        assert_eq!(window.bytes(), 25_000_000);
        window.update(125_000_000, 0, 10_000 * MS);
        assert_eq!(window.bytes(), 64 << 20);
        assert_eq!(Window::new(0).bytes(), 1 << 20);
    }

    #[test]
    fn only_a_reader_faster_than_the_arrivals_widens_the_window() {
        for (read, expected) in [(2_000_000u64, 40_000_000), (500_000, 20_000_000)] {
            let mut window = Window::new(1 << 30);
            window.on_arrival(Time::ZERO, 1);
            window.on_read(Time::ZERO + 1000 * MS, read, 0);
            window.update(10_000_000, 1_000_000, 1000 * MS);
            assert_eq!(window.bytes(), expected);
        }
    }
}
