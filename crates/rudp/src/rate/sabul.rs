//! The rate control of UDT, which the Transputation paper calls SABUL: a baseline for comparison.
//!
//! After Y. Gu, R. Grossman, *UDT: UDP-based data transfer for high-speed wide area networks*,
//! Computer Networks 51 (7), 2007, and draft-gg-udt-03, sections 3.6 and 5.2 (decreasing AIMD). The
//! rate increases once per 10 ms without loss, by an amount that depends on the decade of the spare
//! capacity. At the first loss after the last decrease, the time between packets grows by an eighth
//! at once. In the same epoch it grows up to five more times, at random. As in the original, random
//! loss keeps the rate low.

use std::time::Duration;

use super::{ControllerSettings, Feedback, RateController, Snapshot, bytes_in, rate_of, scale};
use crate::Time;

/// The interval between increases of the rate, which UDT calls SYN.
const SYN: Duration = Duration::from_millis(10);

/// The round-trip time that is assumed before the first sample.
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// The factor by which a decrease of the rate multiplies the time between packets.
const DECREASE: f64 = 1.125;

/// The maximum number of decreases in an epoch after the first.
const MAX_EXTRA_DECREASES: u32 = 5;

/// The minimum increase of the rate, in packets per [`SYN`].
const MIN_INCREASE: f64 = 0.01;

/// The initial window, in packets.
const INITIAL_WINDOW: u64 = 16;

/// The maximum number of increases that are applied at once after a silence, one for each interval
/// of the silence.
const MAX_INCREASES: u64 = 100;

/// The DAIMD rate control of UDT.
///
/// The controller takes the capacity of the link from [`Feedback::link_capacity`] or from a seed.
/// Without either, it uses the maximum arrival rate. A seed does not shorten the slow start,
/// because the protocol does not provide for that.
#[derive(Clone, Debug)]
pub struct Sabul {
    packet: u64,
    /// The time between packets, in nanoseconds. It is negligible in slow start.
    period: f64,
    window_packets: u64,
    slow_start: bool,
    rtt: Duration,
    min_rtt: Duration,
    arrival_rate: u64,
    capacity: u64,
    capacity_known: bool,
    last_rate_control: Option<Time>,
    loss_since_rate_control: bool,
    /// The time between packets before the last decrease of the rate, in nanoseconds.
    last_decrease_period: f64,
    /// Bytes sent.
    sent: u64,
    /// Bytes whose outcome is known.
    resolved: u64,
    /// The number of bytes sent until the last decrease. A loss of later bytes starts a new epoch.
    epoch_end: u64,
    naks: u64,
    average_naks: f64,
    decrease_every: u64,
    decreases: u32,
    random: u64,
    events: u64,
}

impl Sabul {
    /// Creates a controller in slow start.
    #[must_use]
    pub fn new(settings: &ControllerSettings) -> Self {
        Self {
            packet: settings.packet_bytes.max(1),
            period: 1000.0,
            window_packets: INITIAL_WINDOW,
            slow_start: true,
            rtt: INITIAL_RTT,
            min_rtt: Duration::ZERO,
            arrival_rate: 0,
            capacity: 0,
            capacity_known: false,
            last_rate_control: None,
            loss_since_rate_control: false,
            last_decrease_period: 1000.0,
            sent: 0,
            resolved: 0,
            epoch_end: 0,
            naks: 1,
            average_naks: 1.0,
            decrease_every: 1,
            decreases: 0,
            random: 0,
            events: 0,
        }
    }

    fn rate(&self) -> u64 {
        scale(self.packet, 1e9 / self.period)
    }

    fn leave_slow_start(&mut self) {
        self.slow_start = false;
        let rate = if self.arrival_rate > 0 {
            self.arrival_rate
        } else {
            rate_of(self.window_packets * self.packet, self.rtt + SYN)
        };
        self.set_period(self.packet as f64 * 1e9 / rate.max(1) as f64);
    }

    fn set_period(&mut self, period: f64) {
        // The limits are 1,000 packets per millisecond and one packet per second.
        self.period = period.clamp(1000.0, SYN.as_nanos() as f64 * 100.0);
    }

    /// Returns the increase of the rate, in packets per [`SYN`]. The spare capacity is rounded down
    /// to a power of ten.
    fn increase(&self) -> f64 {
        let rate = self.rate();
        let mut spare = self.capacity.saturating_sub(rate);
        if self.period > self.last_decrease_period {
            spare = spare.min(self.capacity / 9);
        }
        if spare < self.packet {
            return MIN_INCREASE;
        }
        // The loop multiplies instead of taking a logarithm, whose last digit differs between
        // machines.
        let mut decade = 1.0;
        while decade < spare as f64 * 8.0 {
            decade *= 10.0;
        }
        (decade * 1.5e-6 / self.packet as f64).max(MIN_INCREASE)
    }

    fn on_ack(&mut self, feedback: &Feedback) {
        if self.slow_start {
            self.window_packets += feedback.newly_acked_packets;
        } else {
            self.window_packets = bytes_in(self.arrival_rate, self.rtt + SYN) / self.packet + 16;
        }
        let last = *self.last_rate_control.get_or_insert(feedback.now);
        let elapsed = feedback.now.since(last);
        if elapsed < SYN {
            return;
        }
        let ticks = (elapsed.as_nanos() / SYN.as_nanos()) as u64;
        self.last_rate_control = Some(last + SYN * ticks.min(u64::from(u32::MAX)) as u32);
        if self.slow_start || std::mem::take(&mut self.loss_since_rate_control) {
            return;
        }
        let syn = SYN.as_nanos() as f64;
        for _ in 0..ticks.min(MAX_INCREASES) {
            self.set_period(self.period * syn / (self.period * self.increase() + syn));
        }
    }

    fn on_loss(&mut self) {
        if self.slow_start {
            self.leave_slow_start();
        }
        self.loss_since_rate_control = true;
        if self.resolved > self.epoch_end {
            self.last_decrease_period = self.period;
            self.average_naks = self.average_naks * 0.875 + self.naks as f64 * 0.125;
            self.naks = 1;
            self.decreases = 1;
            // The cast saturates; the average is at least about one.
            self.decrease_every = 1 + self.draw() % (self.average_naks.ceil() as u64).max(1);
            self.decrease();
        } else {
            self.naks += 1;
            if self.decreases < MAX_EXTRA_DECREASES && self.naks.is_multiple_of(self.decrease_every)
            {
                self.decreases += 1;
                self.decrease();
            }
        }
    }

    fn decrease(&mut self) {
        self.set_period(self.period * DECREASE);
        self.epoch_end = self.sent;
        self.events += 1;
    }

    /// Returns a random number (SplitMix64), which keeps flows from decreasing in step.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

impl RateController for Sabul {
    fn name(&self) -> &'static str {
        "sabul"
    }

    fn on_sent(&mut self, _now: Time, bytes: u64, _in_flight: u64, _app_limited: bool) {
        self.sent += bytes;
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.resolved += feedback.newly_acked_bytes + feedback.newly_lost_bytes;
        if !feedback.smoothed_rtt.is_zero() {
            self.rtt = feedback.smoothed_rtt;
        }
        self.min_rtt = feedback.min_rtt;
        let delivered = feedback.delivery.map_or(0, |sample| sample.rate);
        let arrival = feedback.arrival_rate.unwrap_or(delivered);
        if arrival > 0 {
            // UDT smooths the arrival rate and the capacity with a weight of one eighth.
            self.arrival_rate = match self.arrival_rate {
                0 => arrival,
                old => (old / 8).saturating_mul(7) + arrival / 8,
            };
        }
        if let Some(capacity) = feedback.link_capacity {
            self.capacity = match self.capacity {
                old if self.capacity_known => (old / 8).saturating_mul(7) + capacity / 8,
                _ => capacity,
            };
            self.capacity_known = true;
        } else if !self.capacity_known {
            self.capacity = self.capacity.max(self.arrival_rate);
        }
        if feedback.newly_lost_packets > 0 {
            self.on_loss();
        }
        if feedback.newly_acked_packets > 0 {
            self.on_ack(feedback);
        }
    }

    fn on_timeout(&mut self, _now: Time) {
        if self.slow_start {
            self.leave_slow_start();
        }
    }

    fn seed(&mut self, rate: u64, rtt: Duration) {
        self.capacity = rate;
        self.capacity_known = true;
        self.rtt = rtt;
    }

    fn pacing_rate(&self) -> u64 {
        self.rate()
    }

    fn window(&self) -> u64 {
        self.window_packets.saturating_mul(self.packet)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: if self.slow_start {
                "slow start"
            } else {
                "daimd"
            },
            bandwidth: self.capacity,
            min_rtt: self.min_rtt,
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            loss_floor: 0.0,
            congestion_events: self.events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(now_ms: u64) -> Feedback {
        Feedback {
            now: Time::from_nanos(now_ms * 1_000_000),
            newly_acked_bytes: 15_000,
            newly_acked_packets: 10,
            smoothed_rtt: Duration::from_millis(100),
            arrival_rate: Some(1_250_000),
            link_capacity: Some(12_500_000),
            ..Feedback::default()
        }
    }

    fn loss(now_ms: u64) -> Feedback {
        Feedback {
            newly_lost_bytes: 1500,
            newly_lost_packets: 1,
            newly_acked_packets: 0,
            newly_acked_bytes: 0,
            ..ack(now_ms)
        }
    }

    #[test]
    fn slow_start_ends_with_the_first_loss_at_the_arrival_rate() {
        let mut sabul = Sabul::new(&ControllerSettings::default());
        sabul.on_sent(Time::ZERO, 1_000_000, 0, false);
        sabul.on_feedback(&ack(100));
        assert_eq!(sabul.window(), 26 * 1500);
        sabul.on_feedback(&loss(101));
        // The expected rate is the arrival rate after the decrease for the loss.
        let expected = 1_250_000.0 / DECREASE;
        assert!((sabul.pacing_rate() as f64 - expected).abs() < 1000.0);
        sabul.on_feedback(&ack(102));
        assert_eq!(sabul.window(), (1_250_000 * 110 / 1000 / 1500 + 16) * 1500);
    }

    #[test]
    fn the_increase_follows_the_table_of_the_draft() {
        // draft-gg-udt-03, section 5.2, for packets of 1,500 bytes: spare Mbit/s, packets per SYN.
        for (spare, packets) in [
            (0.05, 0.01),
            (0.5, 0.01),
            (5.0, 0.01),
            (50.0, 0.1),
            (500.0, 1.0),
            (5000.0, 10.0),
        ] {
            let mut sabul = Sabul::new(&ControllerSettings::default());
            sabul.set_period(1e9);
            sabul.last_decrease_period = f64::MAX;
            sabul.capacity = sabul.rate() + scale(125_000, spare);
            let increase = sabul.increase();
            assert!(
                (increase / packets - 1.0).abs() < 1e-9,
                "{spare}: {increase}"
            );
        }
    }

    #[test]
    fn an_epoch_has_a_bounded_number_of_decreases() {
        let mut sabul = Sabul::new(&ControllerSettings::default());
        sabul.on_sent(Time::ZERO, 10_000_000, 0, false);
        sabul.on_feedback(&ack(100));
        for n in 0..1000 {
            sabul.on_feedback(&loss(101 + n));
        }
        assert!((1..=5).contains(&sabul.events), "{}", sabul.events);
    }
}
