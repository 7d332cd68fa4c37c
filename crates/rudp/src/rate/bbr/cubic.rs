//! The window that a CUBIC flow would have in our place (RFC 9438).

use std::time::Duration;

use crate::Time;

/// What remains of the window after a loss (RFC 9438, section 4.6).
const BETA: f64 = 0.7;
/// Steepness of the growth in packets per cubic second (section 5.1).
const C: f64 = 0.4;
/// Packets per round trip by which the window grows that is as aggressive as Reno's with this `BETA` (section 4.3).
const RENO_GROWTH: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The largest growth in a round trip, as a factor (section 4.4).
const MAX_GROWTH: f64 = 1.5;

/// A window in packets that follows time and losses only.
#[derive(Clone, Copy, Debug)]
pub(super) struct CubicWindow {
    packets: f64,
    /// The window before the last loss.
    top: f64,
    /// When the current growth began, at which window.
    epoch: (Time, f64),
    reno: f64,
    updated: Time,
    /// Losses before that time belong to the last reduction.
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

    /// Grows by the time since the last call.
    pub(super) fn grow(&mut self, now: Time, rtt: Duration) {
        let rounds = now.since(self.updated).as_secs_f64() / rtt.as_secs_f64().max(1e-4);
        self.updated = now;
        let (since, from) = self.epoch;
        let k = ((self.top - from).max(0.0) / C).cbrt();
        let t = (now.since(since) + rtt).as_secs_f64();
        let target = C * (t - k).powi(3) + self.top;
        let most = self.packets * MAX_GROWTH.powf(rounds.min(1.0));
        self.reno += RENO_GROWTH * rounds;
        self.packets = target.clamp(self.packets, most).max(self.reno.min(most));
    }

    /// Reduces the window for a loss, once in a round trip.
    pub(super) fn on_loss(&mut self, now: Time, rtt: Duration) {
        if now < self.recovered {
            return;
        }
        self.recovered = now + rtt;
        // Fast convergence (section 4.7).
        self.top = match self.packets < self.top {
            true => self.packets * (1.0 + BETA) / 2.0,
            false => self.packets,
        };
        self.packets = (self.packets * BETA).max(2.0);
        self.reno = self.packets;
        self.epoch = (now, self.packets);
    }
}
