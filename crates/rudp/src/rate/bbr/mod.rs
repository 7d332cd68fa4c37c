//! A model-based rate controller. It models the rate of the path, its round-trip time without
//! queues, and its random loss.
//!
//! | module | contents |
//! | --- | --- |
//! | `congestion` | detection of congestion, and the rate of the bottleneck |
//! | `cubic` | the congestion window of a CUBIC flow |
//! | `cycle` | the probing cycle |

mod congestion;
mod cubic;
mod cycle;

use std::time::Duration;

use self::cubic::CubicWindow;
use super::loss::LossFloor;
use super::{
    ControllerSettings, DeliverySample, Feedback, RateController, Snapshot, bytes_in, rate_of,
    scale,
};
use crate::Time;

/// The pacing gain of a start-up: 4 ln 2, with which the rate doubles each round.
const STARTUP_GAIN: f64 = 2.77;
/// The pacing gain that drains the queue after a start-up or congestion.
const DRAIN_GAIN: f64 = 0.75;
/// The pacing gain of the cruise state, below 1 so that queues drain.
const CRUISE_GAIN: f64 = 0.99;
/// The maximum of the bytes in flight, as a multiple of the bandwidth-delay product.
const WINDOW_GAIN: f64 = 2.25;
/// The time by which acknowledgements, timers and schedulers may delay the processing of arrived
/// packets. On paths below a millisecond it is longer than the round-trip time. The window includes
/// the bytes sent in this time, so that the delay does not limit the rate.
const HOST_DELAY: Duration = Duration::from_millis(1);
/// The minimum number of rounds between probes. Chosen: with `CRUISE_SPREAD`, 6 to 10 rounds.
const MIN_CRUISE_ROUNDS: u64 = 6;
/// The number of rounds before the first probe of a seeded path.
const SEEDED_CRUISE_ROUNDS: u64 = 2;
/// The growth of the round-trip time that shows a queue, as a part of the minimum one: 1/16.
/// Chosen: a probe that finds no capacity adds a tenth, which is more.
const QUEUE_DIVISOR: u32 = 16;
/// The growth of the round-trip time that shows a queue, in absolute terms. Chosen: takes effect
/// below a round-trip time of 24 ms.
const MIN_QUEUE: Duration = Duration::from_micros(1500);
/// The growth of the round-trip time that shows a queue, as a multiple of its usual change.
/// Measured in virtual time, at 20 Mbit/s and 60 ms with 20 ms of jitter: a flow uses 99 % of the
/// path. Without this margin, a flow that was seeded with 70 % of the rate stayed at 60 % for
/// seconds.
const NOISE_MARGIN: u32 = 3;
/// The number of packets after which loss is evaluated before the end of a round.
const INTERVAL_PACKETS: u64 = 256;
/// The minimum duration of an interval whose sending rate is used. Chosen: the evaluation ignores
/// the rate of shorter ones.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
/// The number of rounds after a change of the rate after which feedback is assumed to show the new
/// rate, even if the byte counts do not confirm it.
const EPOCH_ROUNDS: u64 = 3;
/// The time with a queue in the cruise state after which other flows are assumed to keep it full. A
/// start-up leaves a queue behind on paths with several bandwidth-delay products of queue. Without
/// such a delay, that queue would be attributed to other flows (the test
/// `the_start_spares_a_short_queue`).
const MIN_COMPETITION_TIME: Duration = Duration::from_secs(2);
/// The minimum rate, in packets per second. Chosen: a packet is sent every 50 ms.
const MIN_PACKET_RATE: u64 = 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// The rate doubles each round.
    Startup,
    /// The flow sends at less than the rate of the model, so that the queue drains.
    Drain,
    /// The flow sends at the rate of the model.
    Cruise,
    /// A probe: the flow sends faster than the rate of the model, for a round trip or a part of it.
    Up,
    /// The flow waits until the feedback shows the effect of a probe, which takes a round trip.
    Wait,
    /// Only a few packets are in flight, so that the minimum round-trip time is measured.
    ProbeRtt,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::Cruise => "cruise",
            Self::Up => "probe up",
            Self::Wait => "probe wait",
            Self::ProbeRtt => "probe rtt",
        }
    }
}

/// An interval of feedback, over which loss and queue are evaluated.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    started: Time,
    acked: u64,
    lost: u64,
    /// Bytes acknowledged after the first feedback of the interval. The first feedback is excluded,
    /// because it covers an unknown time before the interval.
    bytes: u64,
    lowest_rtt: Option<Duration>,
    last_rtt: Duration,
    /// The sending times of the first and the last packet of the interval, and the bytes sent
    /// before each.
    left: Option<[(Time, u64); 2]>,
    /// `true` if the application had nothing to send for a part of the interval.
    app_limited: bool,
}

impl Interval {
    /// Returns the sending rate of the packets, or zero if the interval is too short or waited for
    /// the application.
    fn send_rate(&self) -> u64 {
        match self.left {
            Some([(from, before), (to, until)])
                if to.since(from) >= MIN_INTERVAL && !self.app_limited =>
            {
                rate_of(until - before, to.since(from))
            }
            _ => 0,
        }
    }
}

/// A test of loss without a queue: the loss, and the rate and state before the test.
#[derive(Clone, Copy, Debug)]
struct LossTest {
    loss: f64,
    bandwidth: u64,
    startup: bool,
}

/// The model-based controller.
///
/// It follows N. Cardwell, I. Swett, J. Beshay, *BBR Congestion Control*, draft-ietf-ccwg-bbr. It
/// sends at the maximum rate that the path was seen to deliver, and limits the bytes in flight to
/// about twice the bandwidth-delay product. It probes for more bandwidth in cycles, and drains the
/// queue from time to time to measure the round-trip time. The differences, and their reasons:
///
/// - **It starts at a seeded rate** where a probe or a cache provides one, without slow start. It
///   checks the seed within the first round trip, against loss beyond the floor and against a
///   growing queue.
/// - **Random loss is not congestion.** Loss without a queue is attributed to the path. An estimate
///   of it, the floor, is subtracted before loss counts, and the measured delivery rate is raised
///   by it. Loss above the floor without a queue is tested by sending less for a round: if the loss
///   rate stays the same, it is random loss.
/// - **Loss with a queue is congestion**, and shows the rate of the bottleneck: the sending rate
///   times the share of packets that was delivered. The model takes this rate at once, without
///   waiting until a filter forgets the old one. In the middle of a cycle the cause must be another
///   flow, and then the rate is lowered further.
/// - **Probes are gentle**: a few percent for a round, which a queue of a tenth of a round trip can
///   hold. The step is a share of the maximum rate seen, the same for large and small flows, and
///   decreases are proportional. So flows that share a bottleneck converge (D.-M. Chiu, R. Jain,
///   1989). If a probe is delivered in full, the next one has a higher gain, and the third is a
///   start-up.
/// - **Against flows that keep the queue full, it sends at the rate of a CUBIC flow** (RFC 9438).
///   Such flows would take over the capacity of a flow that keeps the queue empty. Copa switches
///   between two modes for the same reason (V. Arun, H. Balakrishnan, *Copa*, NSDI 2018).
#[derive(Clone, Debug)]
pub struct Bbr {
    packet: u64,
    initial_window: u64,
    state: State,
    /// The maximum delivery rates of the previous cycle and of the current one.
    bandwidth: [u64; 2],
    /// The maximum rate of the last cycles, which decays slowly. It determines the step of the
    /// probes.
    ceiling: u64,
    min_rtt: Duration,
    min_rtt_seen: Time,
    /// The minimum round-trip time of the previous interval.
    interval_rtt: Option<Duration>,
    /// The smoothed change of `interval_rtt` from one interval to the next.
    rtt_noise: Duration,
    floor: LossFloor,
    interval: Interval,
    loss_test: Option<LossTest>,
    round: u64,
    round_bandwidth: u64,
    flat_rounds: u64,
    state_since: Time,
    state_round: u64,
    /// Number of rounds in the cruise state before the next probe.
    cruise_rounds: u64,
    /// Number of probes delivered in full, in a row.
    streak: u32,
    probe_gain: f64,
    startup_gain: f64,
    /// The number of bytes that the flow had sent when the probe ended.
    probe_end: u64,
    /// The rate before the probe.
    probe_from: u64,
    probe_best: u64,
    probe_queue: bool,
    /// `true` if there was a queue in the cruise state, so that other flows share the bottleneck.
    shared: bool,
    /// The time with a queue in the cruise state, minus the time without one; at most twice
    /// [`MIN_COMPETITION_TIME`].
    queue_time: Duration,
    /// The time at which `queue_time` was last changed.
    queue_evaluated: Time,
    /// The window of a CUBIC flow that started when `queue_time` reached [`MIN_COMPETITION_TIME`].
    cubic: Option<CubicWindow>,
    /// The smoothed round-trip time, queues included.
    smoothed_rtt: Duration,
    /// `true` if this flow built the queue that is being drained.
    own_queue: bool,
    probe_rtt_min: Option<Duration>,
    sent: u64,
    resolved: u64,
    /// The number of bytes sent until the last change of the rate. Feedback on these bytes does not
    /// show the new rate.
    epoch_end: u64,
    epoch_round: u64,
    epoch_at: Time,
    reacting: bool,
    /// The round until which the seed is checked, with the sending time and round-trip time of its
    /// first packet. `None` once the seed is trusted.
    seed_check: Option<(u64, Option<(Time, Duration)>)>,
    /// The round in which the application last started to send after a pause.
    busy_round: u64,
    timed_out: bool,
    now: Time,
    events: u64,
}

impl Bbr {
    /// Creates a controller in start-up.
    #[must_use]
    pub fn new(settings: &ControllerSettings) -> Self {
        let packet = settings.packet_bytes.max(1);
        Self {
            packet,
            initial_window: packet * settings.initial_packets.max(4),
            state: State::Startup,
            bandwidth: [0, 0],
            ceiling: 0,
            min_rtt: Duration::ZERO,
            min_rtt_seen: Time::ZERO,
            interval_rtt: None,
            rtt_noise: Duration::ZERO,
            floor: LossFloor::default(),
            interval: Interval::default(),
            loss_test: None,
            round: 0,
            round_bandwidth: 0,
            flat_rounds: 0,
            state_since: Time::ZERO,
            state_round: 0,
            cruise_rounds: MIN_CRUISE_ROUNDS,
            streak: 0,
            probe_gain: 1.0,
            startup_gain: STARTUP_GAIN,
            probe_end: 0,
            probe_from: 0,
            probe_best: 0,
            probe_queue: false,
            shared: false,
            queue_time: Duration::ZERO,
            queue_evaluated: Time::ZERO,
            cubic: None,
            smoothed_rtt: Duration::ZERO,
            own_queue: false,
            probe_rtt_min: None,
            sent: 0,
            resolved: 0,
            epoch_end: 0,
            epoch_round: 0,
            epoch_at: Time::ZERO,
            reacting: false,
            seed_check: None,
            busy_round: 0,
            timed_out: false,
            now: Time::ZERO,
            events: 0,
        }
    }

    fn rate(&self) -> u64 {
        self.bandwidth[0].max(self.bandwidth[1])
    }

    fn bdp(&self) -> u64 {
        bytes_in(self.rate(), self.min_rtt)
    }

    fn gain(&self) -> f64 {
        match self.state {
            State::Startup => self.startup_gain,
            State::Drain => DRAIN_GAIN,
            State::Up => self.probe_gain,
            State::Cruise | State::Wait | State::ProbeRtt => CRUISE_GAIN,
        }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.state_since = self.now;
        self.state_round = self.round;
    }

    fn rounds_in_state(&self) -> u64 {
        self.round - self.state_round
    }

    /// Replaces the rate of the model.
    fn set_rate(&mut self, rate: u64) {
        self.bandwidth = [rate.max(MIN_PACKET_RATE * self.packet), 0];
        self.round_bandwidth = self.bandwidth[0];
        self.begin_epoch();
    }

    /// Starts a new epoch: feedback on packets sent before now does not show the new rate.
    fn begin_epoch(&mut self) {
        self.epoch_end = self.sent;
        self.epoch_round = self.round;
        self.epoch_at = self.now;
        self.reacting = true;
        self.interval = Interval::default();
    }

    /// Returns whether feedback shows the new rate: it is about packets that were sent after the
    /// last change of the rate.
    fn reaction_seen(&self) -> bool {
        self.resolved >= self.epoch_end || self.round >= self.epoch_round + EPOCH_ROUNDS
    }

    /// Returns the growth of the round-trip time that shows a queue.
    fn queue_margin(&self, base: Duration) -> Duration {
        let noise = (self.rtt_noise * NOISE_MARGIN).min(base / 2);
        (base / QUEUE_DIVISOR).max(MIN_QUEUE).max(noise)
    }

    /// Updates the usual change of the round-trip time from one interval of feedback to the next.
    /// Queues grow and shrink over many intervals, so sudden changes are jitter of the path.
    fn update_noise(&mut self, lowest_rtt: Duration) {
        if let Some(before) = self.interval_rtt.replace(lowest_rtt) {
            let jump = lowest_rtt.abs_diff(before);
            self.rtt_noise = if self.rtt_noise.is_zero() {
                jump
            } else {
                (self.rtt_noise * 7 + jump) / 8
            };
        }
    }

    fn update_rtt(&mut self, feedback: &Feedback) {
        let Some(rtt) = feedback.rtt.filter(|rtt| !rtt.is_zero()) else {
            return;
        };
        if self.state == State::ProbeRtt {
            let min = self.probe_rtt_min.get_or_insert(rtt);
            *min = rtt.min(*min);
        }
        if self.min_rtt.is_zero() || rtt < self.min_rtt {
            self.min_rtt = rtt;
        }
        // The queue was empty, so the minimum need not be measured by a probe.
        if rtt <= self.min_rtt + self.min_rtt / QUEUE_DIVISOR {
            self.min_rtt_seen = feedback.now;
        }
    }

    /// Updates the window that a CUBIC flow would have on this path. The window exists only while
    /// other flows keep the queue full.
    fn update_cubic(&mut self, feedback: &Feedback) {
        self.smoothed_rtt = feedback.smoothed_rtt;
        match (&mut self.cubic, self.queue_time >= MIN_COMPETITION_TIME) {
            (_, false) => self.cubic = None,
            (Some(cubic), true) if feedback.delivery.is_some_and(|it| it.app_limited) => {
                cubic.pause(self.now);
            }
            (Some(cubic), true) => cubic.grow(self.now, feedback.smoothed_rtt),
            (None, true) => {
                let flight = bytes_in(self.rate(), feedback.smoothed_rtt);
                let packets = flight as f64 / self.packet as f64;
                self.cubic = Some(CubicWindow::new(self.now, packets));
            }
        }
    }

    /// Returns the bytes that a CUBIC flow would have in flight, or zero if no other flow keeps the
    /// queue full.
    fn cubic_bytes(&self) -> u64 {
        let cubic = self.cubic.filter(|_| self.state != State::ProbeRtt);
        cubic.map_or(0, |cubic| (cubic.packets() * self.packet as f64) as u64)
    }

    fn update_rate(&mut self, sample: &DeliverySample) {
        // Lost packets do not use the bottleneck, so the sending rate may exceed the delivery rate
        // by the share of random loss.
        let rate = scale(sample.rate, 1.0 / (1.0 - self.floor.rate()));
        if rate == 0 || !self.reaction_seen() || (sample.app_limited && rate <= self.rate()) {
            return;
        }
        self.bandwidth[1] = self.bandwidth[1].max(rate);
        self.ceiling = self.ceiling.max(rate);
        self.probe_best = self.probe_best.max(rate);
    }
}

impl RateController for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_sent(&mut self, now: Time, bytes: u64, in_flight: u64, app_limited: bool) {
        self.now = self.now.max(now);
        if in_flight <= bytes {
            // No packet of this flow was in flight, so the queue is as empty as after a probe.
            self.min_rtt_seen = self.now;
            if app_limited || self.sent == 0 {
                self.busy_round = self.round;
                (self.queue_time, self.cubic) = (Duration::ZERO, None);
            }
        }
        self.sent += bytes;
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.now = self.now.max(feedback.now);
        self.resolved += feedback.newly_acked_bytes + feedback.newly_lost_bytes;
        self.round += u64::from(feedback.round_start);
        self.update_rtt(feedback);
        self.update_cubic(feedback);
        if self.timed_out {
            // Packets lost in a blackout do not show a rate.
            if !self.reaction_seen() {
                return;
            }
            self.timed_out = false;
        }
        if let Some(sample) = &feedback.delivery {
            self.update_rate(sample);
        }
        self.check_seed(feedback);
        if self.reacting && self.reaction_seen() {
            // The packets counted so far, and those that this feedback reports lost, were sent
            // before the reaction, so they are ignored.
            self.reacting = false;
            self.interval = Interval::default();
            self.step(feedback);
            return;
        }
        let interval = &mut self.interval;
        if interval.acked + interval.lost == 0 {
            interval.started = feedback.now;
        } else {
            interval.bytes += feedback.newly_acked_bytes;
        }
        interval.acked += feedback.newly_acked_packets;
        interval.lost += feedback.newly_lost_packets;
        if let Some(sample) = &feedback.delivery {
            let newest = (sample.sent_at, sample.sent);
            let first = interval.left.map_or(newest, |[first, _]| first);
            interval.left = Some([first.min(newest), newest.max(first)]);
            interval.app_limited |= sample.app_limited;
        }
        if let Some(rtt) = feedback.rtt {
            interval.last_rtt = rtt;
            interval.lowest_rtt = Some(interval.lowest_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        let many = interval.acked + interval.lost >= INTERVAL_PACKETS
            && feedback.now.since(interval.started) >= feedback.smoothed_rtt / 8;
        if many || feedback.round_start {
            self.evaluate(feedback);
        }
        self.step(feedback);
    }

    fn on_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.timed_out = true;
        self.begin_epoch();
        self.seed_check = None;
        self.loss_test = None;
        (self.queue_time, self.cubic) = (Duration::ZERO, None);
    }

    fn seed(&mut self, rate: u64, rtt: Duration) {
        if !rtt.is_zero() && (self.min_rtt.is_zero() || rtt < self.min_rtt) {
            self.min_rtt = rtt;
        }
        self.min_rtt_seen = self.now;
        self.set_rate(rate);
        self.ceiling = self.rate();
        self.streak = 0;
        self.loss_test = None;
        self.cruise_rounds = SEEDED_CRUISE_ROUNDS;
        self.seed_check = Some((self.round + 2, None));
        self.enter(State::Cruise);
    }

    fn pacing_rate(&self) -> u64 {
        if self.rate() == 0 {
            let rtt = if self.min_rtt.is_zero() {
                Duration::from_millis(10)
            } else {
                self.min_rtt
            };
            return scale(rate_of(self.initial_window, rtt), STARTUP_GAIN);
        }
        let rate = match self.cubic_bytes() {
            0 => scale(self.rate(), self.gain()),
            window => rate_of(window, self.smoothed_rtt.max(self.min_rtt)),
        };
        rate.max(MIN_PACKET_RATE * self.packet)
    }

    fn window(&self) -> u64 {
        if self.rate() == 0 || self.min_rtt.is_zero() {
            return self.initial_window;
        }
        let bdp = self.bdp();
        match self.state {
            State::ProbeRtt => (bdp / 2).max(4 * self.packet),
            State::Startup => {
                scale(bdp, self.startup_gain.max(WINDOW_GAIN)).max(self.initial_window)
            }
            _ => {
                let window = scale(bdp, WINDOW_GAIN) + bytes_in(self.rate(), HOST_DELAY);
                window.max(self.cubic_bytes()) + 16 * self.packet
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.state.name(),
            bandwidth: self.rate(),
            min_rtt: self.min_rtt,
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            loss_floor: self.floor.rate(),
            congestion_events: self.events,
        }
    }
}
