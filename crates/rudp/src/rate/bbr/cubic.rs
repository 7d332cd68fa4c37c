//! The congestion window that a CUBIC flow would have on the same path (RFC 9438).

use std::time::Duration;

use crate::Time;

/// The factor by which a loss multiplies the window (RFC 9438, section 4.6).
const BETA: f64 = 0.7;
/// The steepness of the growth, in packets per cubic second (section 5.1).
const C: f64 = 0.4;
/// The growth of the window in packets per round trip that is as aggressive as Reno's with this
/// `BETA` (section 4.3).
const RENO_GROWTH: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The maximum growth in a round trip, as a factor (section 4.4).
const MAX_GROWTH: f64 = 1.5;

/// A congestion window in packets that depends on time and losses only.
#[derive(Clone, Copy, Debug)]
pub(super) struct CubicWindow {
    packets: f64,
    /// The window before the last loss (`W_max`).
    top: f64,
    /// The start of the current growth, and the window at that time.
    epoch: (Time, f64),
    reno: f64,
    updated: Time,
    /// Losses before this time do not reduce the window again.
    recovered: Time,
}

impl CubicWindow {
    pub(super) fn new(now: Time, packets: f64) -> Self {
        Self {
            packets,
            top: packets,
            epoch: (now, packets),
            reno: packets,
            updated: now,
            recovered: now,
        }
    }

    /// Returns the window in packets.
    pub(super) fn packets(&self) -> f64 {
        self.packets
    }

    /// Excludes the time since the last update from the growth, because the application did not use
    /// the window (section 5.8).
    pub(super) fn pause(&mut self, now: Time) {
        self.epoch.0 = self.epoch.0 + now.since(self.updated);
        self.updated = now;
    }

    /// Grows the window by the time since the last update.
    pub(super) fn grow(&mut self, now: Time, rtt: Duration) {
        let rounds = now.since(self.updated).as_secs_f64() / rtt.as_secs_f64().max(1e-4);
        self.updated = now;
        let (since, from) = self.epoch;
        let k = ((self.top - from).max(0.0) / C).cbrt();
        let t = (now.since(since) + rtt).as_secs_f64();
        let target = C * (t - k).powi(3) + self.top;
        let max = self.packets * MAX_GROWTH.powf(rounds.min(1.0));
        self.reno += RENO_GROWTH * rounds;
        self.packets = target.clamp(self.packets, max).max(self.reno.min(max));
    }

    /// Reduces the window for a loss, at most once per round trip.
    pub(super) fn on_loss(&mut self, now: Time, rtt: Duration) {
        if now < self.recovered {
            return;
        }
        (self.recovered, self.updated) = (now + rtt, now);
        // Fast convergence (section 4.7): a flow with a loss below its last maximum remembers a
        // lower maximum, which leaves capacity to newer flows.
        self.top = match self.packets < self.top {
            true => self.packets * (1.0 + BETA) / 2.0,
            false => self.packets,
        };
        self.packets = (self.packets * BETA).max(2.0);
        self.reno = self.packets;
        self.epoch = (now, self.packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    /// Grows the window until this time, in steps of a tenth of a round trip.
    fn grow(window: &mut CubicWindow, from: f64, until: f64) {
        let steps = ((until - from) / 0.01).round() as u32;
        for step in 1..=steps {
            window.grow(at(from + f64::from(step) * 0.01), RTT);
        }
    }

    #[test]
    fn the_window_reaches_its_previous_maximum_after_k_seconds() {
        let mut window = CubicWindow::new(at(0.0), 1000.0);
        window.on_loss(at(1.0), RTT);
        assert_eq!(window.packets(), 700.0);
        // K = cbrt(1000 * 0.3 / 0.4) (RFC 9438, figure 2). The formula gives the window of one
        // round trip later.
        let k = 750_f64.cbrt();
        grow(&mut window, 1.0, 1.0 + k - 0.1);
        assert!((window.packets() - 1000.0).abs() < 1.0, "{window:?}");
        grow(&mut window, 1.0 + k - 0.1, 1.0 + k + 1.9);
        assert!((window.packets() - 1003.2).abs() < 0.5, "{window:?}");
    }

    #[test]
    fn losses_of_one_round_trip_count_once() {
        let mut window = CubicWindow::new(at(0.0), 1000.0);
        window.on_loss(at(1.0), RTT);
        window.on_loss(at(1.05), RTT);
        assert_eq!(window.packets(), 700.0);
        window.on_loss(at(1.1), RTT);
        assert!((window.packets() - 490.0).abs() < 1e-9, "{window:?}");
    }

    #[test]
    fn a_pause_does_not_count_as_growth() {
        let mut window = CubicWindow::new(at(0.0), 1000.0);
        window.on_loss(at(1.0), RTT);
        let mut paused = window;
        grow(&mut window, 1.0, 3.0);
        paused.pause(at(60.0));
        grow(&mut paused, 60.0, 62.0);
        assert!((window.packets() - paused.packets()).abs() < 1.0);
    }

    #[test]
    fn a_small_window_grows_like_renos() {
        let mut window = CubicWindow::new(at(0.0), 20.0);
        window.on_loss(at(0.0), Duration::from_millis(10));
        for step in 1..=100_u32 {
            window.grow(at(f64::from(step) * 0.01), Duration::from_millis(10));
        }
        let expected = 14.0 + 100.0 * RENO_GROWTH;
        assert!((window.packets() - expected).abs() < 0.1, "{window:?}");
    }
}
