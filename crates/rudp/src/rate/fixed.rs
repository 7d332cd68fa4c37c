//! A fixed rate, for a dedicated link or an agreed share of one.

use std::time::Duration;

use super::{ControllerSettings, Feedback, RateController, Snapshot, bytes_in};
use crate::Time;

/// The delay of acknowledgements that the window allows for, in addition to the round-trip time.
const MAX_ACK_LATENESS: Duration = Duration::from_millis(25);

/// The round-trip time that is assumed before it is known.
const ASSUMED_RTT: Duration = Duration::from_millis(250);

/// Sends at one rate, regardless of loss. For links without other flows.
#[derive(Clone, Debug)]
pub struct Fixed {
    rate: u64,
    packet: u64,
    rtt: Duration,
    min_rtt: Duration,
}

impl Fixed {
    /// Creates a controller with the fixed rate of the settings.
    #[must_use]
    pub fn new(settings: &ControllerSettings) -> Self {
        Self {
            rate: settings.fixed_rate.max(1),
            packet: settings.packet_bytes,
            rtt: ASSUMED_RTT,
            min_rtt: Duration::ZERO,
        }
    }
}

impl RateController for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_sent(&mut self, _now: Time, _bytes: u64, _in_flight: u64, _app_limited: bool) {}

    fn on_feedback(&mut self, feedback: &Feedback) {
        if !feedback.smoothed_rtt.is_zero() {
            self.rtt = feedback.smoothed_rtt;
        }
        self.min_rtt = feedback.min_rtt;
    }

    fn on_timeout(&mut self, _now: Time) {}

    fn seed(&mut self, rate: u64, rtt: Duration) {
        self.rate = rate.max(1);
        self.rtt = rtt;
    }

    fn pacing_rate(&self) -> u64 {
        self.rate
    }

    /// Returns four times the bytes in flight at this rate. The window only stops a sender whose
    /// peer is gone.
    fn window(&self) -> u64 {
        bytes_in(self.rate, self.rtt + MAX_ACK_LATENESS)
            .saturating_mul(4)
            .max(64 * self.packet)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: "fixed",
            bandwidth: self.rate,
            min_rtt: self.min_rtt,
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            loss_floor: 0.0,
            congestion_events: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_seed_changes_the_rate() {
        let mut fixed = Fixed::new(&ControllerSettings::default());
        fixed.on_feedback(&Feedback {
            newly_lost_packets: 1000,
            smoothed_rtt: Duration::from_millis(100),
            ..Feedback::default()
        });
        fixed.on_timeout(Time::ZERO);
        assert_eq!(fixed.pacing_rate(), 12_500_000);
        assert_eq!(fixed.window(), 4 * 12_500_000 / 8);
        fixed.seed(1_000_000, Duration::from_millis(75));
        assert_eq!((fixed.pacing_rate(), fixed.window()), (1_000_000, 400_000));
    }
}
