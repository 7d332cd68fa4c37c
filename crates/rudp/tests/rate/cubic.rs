//! A competing TCP sender: CUBIC (RFC 9438), without fast convergence and HyStart.

use std::time::Duration;

use transpute_rudp::Time;
use transpute_rudp::rate::{Feedback, RateController, Snapshot};

use crate::sim::PACKET;

/// The factor by which a loss multiplies the window.
const BETA: f64 = 0.7;
/// The steepness of the growth, in packets per cubic second.
const C: f64 = 0.4;

/// A congestion window in packets, which is driven by acknowledgements and losses only.
#[derive(Debug)]
pub(crate) struct Cubic {
    window: f64,
    threshold: f64,
    top: f64,
    epoch: Option<Time>,
    reno: f64,
    sent: u64,
    resolved: u64,
    recovery_end: u64,
    events: u64,
    rtt: Duration,
}

impl Cubic {
    pub(crate) fn new() -> Self {
        Self {
            window: 10.0,
            threshold: f64::MAX,
            top: 0.0,
            epoch: None,
            reno: 0.0,
            sent: 0,
            resolved: 0,
            recovery_end: 0,
            events: 0,
            rtt: Duration::from_millis(100),
        }
    }
}

impl RateController for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_sent(&mut self, _: Time, bytes: u64, _: u64, _: bool) {
        self.sent += bytes;
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.resolved += feedback.newly_acked_bytes + feedback.newly_lost_bytes;
        if !feedback.smoothed_rtt.is_zero() {
            self.rtt = feedback.smoothed_rtt;
        }
        if feedback.newly_lost_packets > 0 && self.resolved > self.recovery_end {
            self.events += 1;
            self.recovery_end = self.sent;
            self.top = self.window;
            self.window = (self.window * BETA).max(2.0);
            self.threshold = self.window;
            self.reno = self.window;
            self.epoch = None;
            return;
        }
        let acked = feedback.newly_acked_packets as f64;
        if self.resolved <= self.recovery_end || acked == 0.0 {
            return;
        }
        if self.window < self.threshold {
            self.window += acked;
            return;
        }
        let epoch = *self.epoch.get_or_insert(feedback.now);
        let t = (feedback.now.since(epoch) + self.rtt).as_secs_f64();
        let k = (self.top * (1.0 - BETA) / C).cbrt();
        let target = (C * (t - k).powi(3) + self.top).clamp(self.window, self.window * 1.5);
        self.window += (target - self.window) / self.window * acked;
        // Grows the window that a Reno flow would have (RFC 9438, section 4.3).
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) * acked / self.reno;
        self.window = self.window.max(self.reno);
    }

    fn on_timeout(&mut self, _: Time) {
        self.threshold = self.window / 2.0;
        self.window = 2.0;
    }

    fn seed(&mut self, _: u64, _: Duration) {}

    /// Returns twice the window per round trip, as in Linux, so that the sender is driven by
    /// acknowledgements.
    fn pacing_rate(&self) -> u64 {
        (self.window * PACKET as f64 * 2.0 / self.rtt.as_secs_f64()) as u64
    }

    fn window(&self) -> u64 {
        (self.window * PACKET as f64) as u64
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: "cubic",
            bandwidth: 0,
            min_rtt: Duration::ZERO,
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            loss_floor: 0.0,
            congestion_events: self.events,
        }
    }
}
