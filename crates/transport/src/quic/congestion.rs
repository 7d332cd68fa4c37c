//! Wraps the congestion controllers of the QUIC library. The wrapper starts a controller with known
//! properties of the path, and measures the delivery rate.

use std::{
    any::Any,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use noq::congestion::{Bbr3Config, Controller, ControllerFactory, ControllerMetrics, CubicConfig};
use noq_proto::RttEstimator;

use super::{
    meter::Meter,
    options::{QuicCongestion, QuicOptions},
};

/// Builds a controller for each connection.
pub(super) struct Factory {
    base: Arc<dyn ControllerFactory + Send + Sync>,
    seed: Option<u64>,
    first_flight: u64,
    name: QuicCongestion,
}

/// Share of the path's rate that UDP payload can use. The IP and UDP headers take 28 bytes per
/// packet of 1,200 bytes. The rest is a small margin.
const PAYLOAD_SHARE: f64 = 0.97;

impl Factory {
    pub(super) fn new(options: &QuicOptions) -> Self {
        let (least, most) = QuicOptions::FIRST_FLIGHTS.into_inner();
        let first_flight = options.first_flight.clamp(least, most);
        match options.congestion {
            QuicCongestion::Bbr3 => {
                let mut config = Bbr3Config::default();
                config.initial_window(first_flight.min(MIN_FIRST_FLIGHT));
                Self {
                    base: Arc::new(config),
                    seed: options
                        .path
                        .to_peer
                        .rate
                        .map(|rate| (rate * PAYLOAD_SHARE).bytes_per_second() as u64),
                    first_flight,
                    name: options.congestion,
                }
            }
            QuicCongestion::Cubic => {
                // CUBIC has no initial rate, so set its initial window instead.
                let mut config = CubicConfig::default();
                config.initial_window(options.bdp().unwrap_or(0).max(first_flight));
                Self {
                    base: Arc::new(config),
                    seed: None,
                    first_flight,
                    name: options.congestion,
                }
            }
        }
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(SeededController {
            inner: Arc::clone(&self.base).build(now, current_mtu),
            seed: self.seed.filter(|&rate| rate > 0).map(Seed::new),
            first: Some(FirstFlight {
                most: self.first_flight,
                sent: 0,
            }),
            meter: Arc::new(Meter::new(self.name)),
            round: Round::default(),
        })
    }
}

/// A congestion controller of the library, with an initial rate and measurements.
#[derive(Debug)]
pub(super) struct SeededController {
    inner: Box<dyn Controller>,
    seed: Option<Seed>,
    first: Option<FirstFlight>,
    meter: Arc<Meter>,
    round: Round,
}

/// The first flight: bytes that are sent before the first acknowledgement.
///
/// The wrapper paces these bytes over [`QuicOptions::FIRST_PART`] of a round trip. The library's
/// controller would pace them over most of a round trip, which would delay a peer that waits for
/// them.
#[derive(Clone, Debug)]
struct FirstFlight {
    most: u64,
    sent: u64,
}

/// Minimum first flight in bytes: 32 packets of 1,200 bytes, as in browsers.
const MIN_FIRST_FLIGHT: u64 = 32 * 1200;

impl FirstFlight {
    fn window(&self, rtt: Duration) -> u64 {
        let modest = QuicOptions::MODEST_RATE.bytes_in(rtt) as u64;
        modest.clamp(MIN_FIRST_FLIGHT.min(self.most), self.most)
    }

    /// Returns the pacing rate of the first flight in bytes per second. Returns `None` if the first
    /// flight does not exceed [`MIN_FIRST_FLIGHT`], because the library's controller then needs no
    /// change.
    fn rate(&self, rtt: Duration) -> Option<u64> {
        let window = self.window(rtt);
        (window > MIN_FIRST_FLIGHT)
            .then(|| (window as f64 / (rtt.as_secs_f64() * QuicOptions::FIRST_PART)) as u64)
    }
}

impl SeededController {
    /// Returns the meter of a connection's controller, or `None` if the controller is not a
    /// `SeededController`.
    pub(super) fn meter_of(controller: Box<dyn Controller>) -> Option<Arc<Meter>> {
        let steered = controller.into_any().downcast::<Self>().ok()?;
        Some(steered.meter)
    }
}

/// The initial rate of a connection, which applies until the controller has a better estimate.
///
/// While it applies, packets are paced at this rate, and the window is too large to limit them. The
/// inner controller processes all acknowledgements. After a few round trips at a constant rate, it
/// leaves its start-up phase, in which it would have sent at 2.8 times the path's rate.
#[derive(Clone, Debug)]
struct Seed {
    /// The rate in bytes of UDP payload per second.
    rate: u64,
    /// True if `rate` is a lower bound of the path's rate. The controller may then exceed it.
    is_least: bool,
    sent: u64,
    lost: u64,
    /// Start of the current period in which the connection has always had data to send.
    busy_since: Option<Instant>,
}

/// Number of round trips of uninterrupted sending after which the seed is dropped, so that only the
/// library's controller determines the rate.
const SEED_ROUNDS: u32 = 6;

/// Number of round trips of uninterrupted sending after which the controller's estimate may lower
/// the seed rate.
const TRUST_ROUNDS: f64 = 1.5;

/// Maximum ratio of lost to sent bytes at a seed rate that should be a lower bound. A higher ratio
/// shows that a queue overflows, so the path does not carry the seed rate.
const MAX_LOSS: f64 = 0.1;

/// Minimum ratio of the controller's rate estimate to the seed rate. If the estimate is lower, the
/// seed rate was too high, and the estimate replaces it.
const SEED_TOLERANCE: f64 = 0.85;

impl Seed {
    fn new(rate: u64) -> Self {
        Self {
            rate,
            is_least: false,
            sent: 0,
            lost: 0,
            busy_since: None,
        }
    }

    /// Handles an acknowledgement. Lowers the seed rate if `estimate`, in bytes per second, shows
    /// that it was too high. Returns whether to keep the seed.
    fn observe(
        &mut self,
        now: Instant,
        app_limited: bool,
        rtt: Duration,
        estimate: Option<u64>,
    ) -> bool {
        if app_limited {
            self.busy_since = None;
            return true;
        }
        let busy = now.saturating_duration_since(*self.busy_since.get_or_insert(now));
        if busy >= rtt.mul_f64(TRUST_ROUNDS)
            && let Some(estimate) = estimate
            && (estimate as f64) < self.rate as f64 * SEED_TOLERANCE
        {
            self.rate = estimate.max(MIN_RATE);
        }
        busy < rtt * SEED_ROUNDS
    }

    /// Records a loss. Returns whether the losses show that the path does not carry the seed rate.
    fn is_refuted(&mut self, lost_bytes: u16) -> bool {
        self.lost += u64::from(lost_bytes);
        self.is_least
            && self.lost as f64 > (self.sent as f64 * MAX_LOSS).max(MIN_FIRST_FLIGHT as f64)
    }

    /// Returns the congestion window in bytes while the seed applies: the bytes of two round trips
    /// at the seed rate. With this window, only pacing limits the bytes in flight, even after
    /// losses.
    fn window(&self, rtt: Duration) -> u64 {
        (self.rate as f64 * rtt.as_secs_f64() * 2.0) as u64
    }
}

/// Minimum rate of a seed, in bytes per second.
const MIN_RATE: u64 = 10_000;

/// Bytes acknowledged since the last measurement of the delivery rate.
#[derive(Clone, Debug, Default)]
struct Round {
    started: Option<Instant>,
    bytes: u64,
    app_limited: bool,
    rtt: Duration,
    min_rtt: Duration,
}

/// Minimum duration of one measurement of the delivery rate. On paths with a longer round-trip
/// time, a measurement takes one round trip.
const MIN_ROUND: Duration = Duration::from_millis(10);

impl Controller for SeededController {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        if let Some(rate) = self.meter.take_hint() {
            self.seed = Some(Seed {
                is_least: true,
                ..Seed::new(rate)
            });
        }
        if let Some(seed) = &mut self.seed {
            seed.sent += bytes;
        }
        if let Some(first) = &mut self.first {
            first.sent += bytes;
            if first.sent >= first.window(self.round.min_rtt) {
                self.first = None;
            }
        }
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.round.bytes += bytes;
        self.round.rtt = rtt.get();
        self.round.min_rtt = rtt.min();
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        self.measure(now, app_limited);
        // The library's estimate is in bits per second.
        let estimate = self.inner.metrics().bandwidth_estimate.map(|bits| bits / 8);
        (self.meter.reached).fetch_max(estimate.unwrap_or(0), Ordering::Relaxed);
        if let Some(seed) = &mut self.seed {
            let before = seed.rate;
            let is_in_force = seed.observe(now, app_limited, self.round.min_rtt, estimate);
            if seed.rate < before {
                self.meter.reached.store(seed.rate, Ordering::Relaxed);
                self.meter.corrected.store(true, Ordering::Relaxed);
            }
            if !is_in_force {
                tracing::debug!(rate = seed.rate, "the congestion controller takes over");
                self.seed = None;
            }
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        if is_persistent_congestion {
            self.seed = None;
        }
        self.first = None;
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        if let Some(seed) = &mut self.seed
            && seed.is_refuted(lost_bytes)
        {
            tracing::debug!(rate = seed.rate, "the path carries less than before");
            self.meter.corrected.store(true, Ordering::Relaxed);
            self.seed = None;
        }
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(
        &mut self,
        ack_eliciting_threshold: u64,
        requested_max_ack_delay: Duration,
    ) {
        self.inner
            .on_ack_frequency_update(ack_eliciting_threshold, requested_max_ack_delay);
    }

    fn window(&self) -> u64 {
        let inner = self.inner.window();
        match (&self.seed, &self.first) {
            (Some(seed), _) => inner.max(seed.window(self.rtt())),
            (None, Some(first)) => inner.max(first.window(self.round.min_rtt)),
            (None, None) => inner,
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        if let Some(seed) = &self.seed {
            metrics.congestion_window = self.window();
            let own = metrics.pacing_rate.filter(|_| seed.is_least);
            metrics.pacing_rate = own.max(Some(seed.rate));
        } else if let Some(first) = &self.first {
            metrics.congestion_window = self.window();
            let least = first.rate(self.round.min_rtt).unwrap_or(0);
            metrics.pacing_rate = metrics.pacing_rate.map(|rate| rate.max(least));
        }
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            seed: self.seed.clone(),
            first: self.first.clone(),
            meter: Arc::clone(&self.meter),
            round: self.round.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl SeededController {
    /// Returns the round-trip time, or [`UNKNOWN_RTT`] before the first acknowledgement.
    fn rtt(&self) -> Duration {
        if self.round.min_rtt.is_zero() {
            UNKNOWN_RTT
        } else {
            self.round.min_rtt
        }
    }

    fn measure(&mut self, now: Instant, app_limited: bool) {
        let round = &mut self.round;
        round.app_limited |= app_limited;
        let started = *round.started.get_or_insert(now);
        let elapsed = now.saturating_duration_since(started);
        if elapsed < round.rtt.max(MIN_ROUND) {
            return;
        }
        let rate = (round.bytes as f64 / elapsed.as_secs_f64()) as u64;
        let nanos = u64::try_from(round.min_rtt.as_nanos()).unwrap_or(u64::MAX);
        self.meter.rate.store(rate, Ordering::Relaxed);
        self.meter.min_rtt_nanos.store(nanos, Ordering::Relaxed);
        self.meter
            .app_limited
            .store(round.app_limited, Ordering::Relaxed);
        round.started = Some(now);
        round.bytes = 0;
        round.app_limited = app_limited;
    }
}

/// Assumed round-trip time before the first acknowledgement. Its value matters little, because
/// until then the handshake limits the sent bytes.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use transpute_units::Bandwidth;

    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn a_seed_retires_after_some_round_trips_of_sending() {
        let (mut seed, start) = (Seed::new(1_000_000), Instant::now());
        let right = Some(1_000_000);
        assert!(seed.observe(start, false, RTT, right));
        assert!(seed.observe(start + 5 * RTT, false, RTT, right));
        // After an idle period, the seed rate may still be right, and is tested again.
        assert!(seed.observe(start + 7 * RTT, true, RTT, right));
        assert!(seed.observe(start + 8 * RTT, false, RTT, right));
        assert!(!seed.observe(start + 14 * RTT, false, RTT, right));
        assert_eq!(seed.rate, 1_000_000);
    }

    #[test]
    fn a_seed_that_is_too_high_is_corrected_after_the_first_round_trips() {
        let (mut seed, start) = (Seed::new(1_000_000), Instant::now());
        // Without a measurement, nothing is refuted.
        seed.observe(start, false, RTT, Some(12));
        assert_eq!(seed.rate, 1_000_000);
        seed.observe(start + RTT * 2, false, RTT, Some(900_000));
        assert_eq!(seed.rate, 1_000_000, "within the error of an estimate");
        seed.observe(start + RTT * 2, false, RTT, Some(400_000));
        assert_eq!(seed.rate, 400_000);
        seed.observe(start + RTT * 3, false, RTT, Some(0));
        assert_eq!(seed.rate, MIN_RATE);
    }

    #[test]
    fn the_first_flight_is_what_a_modest_path_carries_in_a_round_trip() {
        let first = FirstFlight {
            most: 256 << 10,
            sent: 0,
        };
        for (milliseconds, window, rate) in [
            (0, 38_400, None),
            (10, 38_400, None),
            (40, 100_000, Some(25_000_000)),
            (110, 256 << 10, Some(23_831_272)),
        ] {
            let rtt = Duration::from_millis(milliseconds);
            assert_eq!((first.window(rtt), first.rate(rtt)), (window, rate));
        }
        let modest = FirstFlight {
            most: 12_000,
            sent: 0,
        };
        assert_eq!(modest.window(Duration::from_millis(110)), 12_000);
    }

    #[test]
    fn the_first_flight_ends_when_it_has_left_or_met_losses() {
        let now = Instant::now();
        let options = QuicOptions {
            first_flight: 100_000,
            ..QuicOptions::default()
        };
        let build = || {
            let mut controller = Arc::new(Factory::new(&options)).build(now, 1200);
            assert_eq!(controller.window(), 38_400);
            let steered = controller.into_any().downcast::<SeededController>();
            controller = steered
                .map(|mut steered| {
                    steered.round.min_rtt = RTT;
                    steered
                })
                .unwrap();
            assert_eq!(controller.window(), 100_000);
            controller
        };
        let mut controller = build();
        controller.on_sent(now, 99_999, 80);
        assert_eq!(controller.window(), 100_000);
        controller.on_sent(now, 1, 81);
        assert_eq!(controller.window(), 38_400);
        let mut controller = build();
        controller.on_congestion_event(now, now, false, false, 1200, 1);
        assert!(controller.window() <= 38_400);
    }

    #[test]
    fn a_rate_that_is_recalled_rules_from_the_next_packet_on() {
        let now = Instant::now();
        let mut controller = Arc::new(Factory::new(&QuicOptions::default())).build(now, 1200);
        let meter = SeededController::meter_of(controller.clone_box()).unwrap();
        assert_eq!(meter.reached(), None);
        meter.start_at(12_000_000);
        controller.on_sent(now, 1200, 1);
        assert!(controller.metrics().pacing_rate >= Some(12_000_000));
        assert_eq!(controller.window(), 2_400_000);
        controller.on_congestion_event(now, now, true, false, 1200, 1);
        controller.on_sent(now, 1200, 2);
        assert!(controller.window() <= 38_400, "only once");
    }

    #[test]
    fn the_seed_rules_pacing_and_window_until_it_retires() {
        let mut options = QuicOptions::default();
        options.path.to_peer.rate = Some(Bandwidth::from_megabits_per_second(100.0));
        let now = Instant::now();
        let mut controller = Arc::new(Factory::new(&options)).build(now, 1200);
        let seeded = controller.metrics();
        assert_eq!(seeded.pacing_rate, Some(12_125_000));
        assert!(controller.window() >= 1_200_000);
        controller.on_congestion_event(now, now, true, false, 1200, 1);
        assert_ne!(controller.metrics().pacing_rate, Some(12_125_000));
        assert!(SeededController::meter_of(controller).is_some());
    }
}
