//! How far the other end may send: the window of the paper, made safe.
//!
//! The paper (section 4.2) lets a sender have L = B / (1 - R_arrival / R_read) bytes on the way to
//! a buffer of B bytes that is read while it fills. Taken literally the window is infinite where
//! the reader is as slow as the arrivals, and negative where it is slower, which is when the buffer
//! overflows. Here L only widens the window of a reader that is faster, between B and what memory
//! allows; a slower one gets B. B is twice the product of rate and round-trip time. Credit counts
//! from what has been read, so that the buffer cannot overflow whatever the estimates are, and it
//! is never taken back (RFC 9000, section 4.1).

use std::time::Duration;

use crate::Time;

/// The least window. Also what a path of unknown rate begins with, times four.
const MIN_WINDOW: u64 = 1 << 20;

/// What is assumed of the round trip before it is known.
const ASSUMED_RTT: Duration = Duration::from_millis(400);

/// The receive window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    most: u64,
    current: u64,
    /// When the application began to have something to read.
    busy_since: Option<Time>,
    busy_read: u64,
    /// Bytes per second while it had.
    read_rate: u64,
}

impl Window {
    /// Begins with four times the least window, as far as `most` bytes of memory go.
    pub(crate) fn new(most: u64) -> Self {
        let most = most.max(MIN_WINDOW);
        Self {
            most,
            current: (4 * MIN_WINDOW).min(most),
            busy_since: None,
            busy_read: 0,
            read_rate: 0,
        }
    }

    /// Takes new estimates: bytes per second that the path carries or that arrive, and the
    /// round-trip time, zero where it is not known.
    pub(crate) fn update(&mut self, rate: u64, arrival_rate: u64, rtt: Duration) {
        let rtt = if rtt.is_zero() { ASSUMED_RTT } else { rtt };
        let product = u128::from(rate) * rtt.as_nanos() / 1_000_000_000;
        let base =
            (2 * u64::try_from(product).unwrap_or(u64::MAX / 2)).clamp(MIN_WINDOW, self.most);
        let wide = if self.read_rate > arrival_rate {
            let spare = self.read_rate - arrival_rate;
            let wide = u128::from(base) * u128::from(self.read_rate) / u128::from(spare);
            u64::try_from(wide).unwrap_or(u64::MAX)
        } else {
            base
        };
        self.current = self.current.max(wide.clamp(base, self.most));
    }

    /// Data arrived, `readable` bytes of which can be read.
    pub(crate) fn on_arrival(&mut self, now: Time, readable: u64) {
        if readable > 0 && self.busy_since.is_none() {
            self.busy_since = Some(now);
            self.busy_read = 0;
        }
    }

    /// The application has read; `readable` bytes are left.
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

    /// Returns how many bytes beyond what has been read the other end may send.
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
    fn only_a_reader_that_is_faster_than_the_arrivals_widens_it() {
        for (read, expected) in [(2_000_000u64, 40_000_000), (500_000, 20_000_000)] {
            let mut window = Window::new(1 << 30);
            window.on_arrival(Time::ZERO, 1);
            window.on_read(Time::ZERO + 1000 * MS, read, 0);
            window.update(10_000_000, 1_000_000, 1000 * MS);
            assert_eq!(window.bytes(), expected);
        }
    }
}
