//! A model of the path: its rate, its round-trip time without queues, and the loss that is just
//! there.
//!
//! | module | idea |
//! | --- | --- |
//! | `congestion` | when the path is congested, and the rate of its bottleneck |
//! | `cubic` | what a CUBIC flow would send in our place |
//! | `cycle` | when to probe for more, and when to let queues run empty |

mod congestion;
mod cubic;
mod cycle;

use std::time::Duration;

use self::cubic::CubicWindow;
use super::loss::LossFloor;
use super::{
    DeliverySample, Feedback, RateController, Settings, Snapshot, bytes_in, rate_of, scale,
};
use crate::Time;

/// Pacing in start-up: 4 ln 2, with which the rate doubles each round.
const STARTUP_GAIN: f64 = 2.77;
/// Pacing while the queue that a start-up or congestion left runs empty.
const DRAIN_GAIN: f64 = 0.75;
/// Pacing below the rate of the model, so that queues do not stay.
const MARGIN: f64 = 0.99;
/// What may be in flight, as a multiple of rate and round-trip time.
const WINDOW_GAIN: f64 = 2.25;
/// For how long acknowledgements, timers and schedulers may hold up what has arrived. On paths of
/// less than a millisecond this is longer than the round trip, and the window must not be what
/// limits the rate.
const SLACK: Duration = Duration::from_millis(1);
/// The smallest number of rounds between probes. Chosen: with `CRUISE_SPREAD`, 6 to 10 rounds.
const MIN_CRUISE_ROUNDS: u64 = 6;
/// Rounds before the first probe of a seeded path.
const FIRST_PROBE: u64 = 2;
/// The growth of the round-trip time that shows a queue, as a part of the smallest one: 1/16.
/// Chosen: a probe that finds no capacity adds a tenth, which is more.
const QUEUE_DIVISOR: u32 = 16;
/// The same in absolute terms. Chosen: takes effect below a round-trip time of 24 ms.
const MIN_QUEUE: Duration = Duration::from_micros(1500);
/// The growth of the round-trip time that shows a queue, as a multiple of its usual change.
/// Measured in virtual time, at 20 Mbit/s and 60 ms with 20 ms of jitter: a flow uses 99 % of the
/// path. Without this margin, one with a seed of 70 % stayed at 60 % for seconds.
const NOISE_MARGIN: u32 = 3;
/// Packets that a judgement about loss needs, unless a round is over.
const WINDOW_PACKETS: u64 = 256;
/// The shortest stretch whose rate of sending is believed. Chosen: the judgement does without those
/// of shorter ones.
const MIN_STRETCH: Duration = Duration::from_millis(5);
/// Rounds after which a reaction is taken as seen, even if the packet counts do not say so.
const EPOCH_ROUNDS: u64 = 3;
/// A queue that lasts this long in the cruise state is kept full by other flows. Without such a
/// delay the queue that a start-up leaves behind counts as one of theirs, on paths with several
/// bandwidth-delay products of queue (the test `the_start_spares_a_short_queue`).
const COMPETITION: Duration = Duration::from_secs(2);
/// The lowest rate, in packets per second. Chosen: a packet leaves every 50 ms.
const MIN_PACKET_RATE: u64 = 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Doubling each round.
    Startup,
    /// Letting a queue run empty.
    Drain,
    /// At the rate of the model.
    Cruise,
    /// At more than that, for a round trip or a part of it.
    Up,
    /// The round trip after which the effect of a probe shows.
    Wait,
    /// Little in flight, to see the round-trip time.
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

/// A stretch of feedback on which loss and queue are judged.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    started: Time,
    acked: u64,
    lost: u64,
    /// Bytes acknowledged after the first feedback of the stretch, which covers an unknown time
    /// before it.
    bytes: u64,
    least_rtt: Option<Duration>,
    last_rtt: Duration,
    /// When its first and its last packet left, and how many bytes before each.
    left: Option<[(Time, u64); 2]>,
    /// The application had nothing to send for a part of it.
    app_limited: bool,
}

impl Stretch {
    /// Returns the rate at which its packets left; zero if it is too short to tell, or had to wait
    /// for the application.
    fn send_rate(&self) -> u64 {
        match self.left {
            Some([(from, before), (to, until)])
                if to.since(from) >= MIN_STRETCH && !self.app_limited =>
            {
                rate_of(until - before, to.since(from))
            }
            _ => 0,
        }
    }
}

/// Loss without a queue that is being put to the test.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    loss: f64,
    bandwidth: u64,
    startup: bool,
}

/// The model-based controller.
///
/// After N. Cardwell, I. Swett, J. Beshay, *BBR Congestion Control*, draft-ietf-ccwg-bbr: send at
/// the greatest rate that the path was seen to deliver, bound what is in flight by twice the
/// product of rate and round-trip time, probe for more in cycles, and let the queue run empty now
/// and then to see the round-trip time. What differs, and why:
///
/// - **It begins at a seeded rate** where a probe or a cache knows one, without slow start, and
///   checks it within the first round trip: against the loss beyond what the path always has, and
///   against a growing queue.
/// - **Random loss is not congestion.** Loss in stretches without a queue is the path's own; an
///   estimate of it, the floor, is taken off before loss counts, and added to what delivery says
///   about the rate. Loss above the floor without a queue is put to a test: send less for a round;
///   if as large a share is lost, it is the path's own.
/// - **Loss with a queue is congestion**, and says what the bottleneck gives: the rate of sending
///   times the share that came through. The model goes there at once, without waiting for a filter
///   to forget. In the middle of a cycle somebody else must be pushing; then it goes lower still.
/// - **Probes are gentle**: a few percent for a round, so that a queue of a tenth of a round trip
///   holds them. The step is a share of the greatest rate seen, the same for large and small flows,
///   and decreases are proportional: flows that share a bottleneck converge (D.-M. Chiu, R. Jain,
///   1989). If a probe is delivered in full, the next one is bolder, and the third is a start-up.
/// - **Beside flows that keep the queue full it sends what a CUBIC flow would** (RFC 9438). To such
///   flows a rate that leaves the queue alone is room to grow. Copa switches between two modes for
///   the same reason (V. Arun, H. Balakrishnan, *Copa*, NSDI 2018).
#[derive(Clone, Debug)]
pub struct Bbr {
    packet: u64,
    initial_window: u64,
    state: State,
    /// The greatest delivery rates of the cycle before and of this one.
    bandwidth: [u64; 2],
    /// The greatest rate of the last cycles, slowly forgotten: the scale of the probes.
    ceiling: u64,
    min_rtt: Duration,
    min_rtt_seen: Time,
    /// The least round-trip time of the stretch before, and how much it changes between two of
    /// them.
    stretch_rtt: Option<Duration>,
    rtt_noise: Duration,
    floor: LossFloor,
    stretch: Stretch,
    suspicion: Option<Suspicion>,
    round: u64,
    round_bandwidth: u64,
    flat_rounds: u64,
    state_since: Time,
    state_round: u64,
    /// Rounds to cruise.
    cruise_rounds: u64,
    /// Probes delivered in full, in a row.
    streak: u32,
    probe_gain: f64,
    startup_gain: f64,
    /// What was sent when the probe ended.
    probe_end: u64,
    /// The rate before it.
    probe_from: u64,
    probe_best: u64,
    probe_queue: bool,
    /// A queue stood while we cruised.
    shared: bool,
    /// Time with a queue in the cruise state, minus time without one; at most twice
    /// [`COMPETITION`].
    queue_time: Duration,
    /// When `queue_time` was last changed.
    queue_judged: Time,
    /// The window of a CUBIC flow that began when `queue_time` reached [`COMPETITION`].
    rival: Option<CubicWindow>,
    /// The smoothed round-trip time, queues included.
    smoothed_rtt: Duration,
    /// The queue that is being drained is the work of a probe of ours.
    own_queue: bool,
    probe_rtt_least: Option<Duration>,
    sent: u64,
    resolved: u64,
    /// What was sent at the last reaction, and the round: until then, feedback is about the time
    /// before.
    epoch_end: u64,
    epoch_round: u64,
    epoch_at: Time,
    reacting: bool,
    /// Time and round-trip time of the first packet of a seeded path, until the seed is trusted.
    seed_check: Option<(u64, Option<(Time, Duration)>)>,
    /// The round in which the application last began to send, after it had sent nothing.
    busy_round: u64,
    timed_out: bool,
    now: Time,
    events: u64,
}

impl Bbr {
    /// Begins with start-up.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let packet = settings.packet_bytes.max(1);
        Self {
            packet,
            initial_window: packet * settings.initial_packets.max(4),
            state: State::Startup,
            bandwidth: [0, 0],
            ceiling: 0,
            min_rtt: Duration::ZERO,
            min_rtt_seen: Time::ZERO,
            stretch_rtt: None,
            rtt_noise: Duration::ZERO,
            floor: LossFloor::default(),
            stretch: Stretch::default(),
            suspicion: None,
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
            queue_judged: Time::ZERO,
            rival: None,
            smoothed_rtt: Duration::ZERO,
            own_queue: false,
            probe_rtt_least: None,
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
            State::Cruise | State::Wait | State::ProbeRtt => MARGIN,
        }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.state_since = self.now;
        self.state_round = self.round;
    }

    fn rounds_here(&self) -> u64 {
        self.round - self.state_round
    }

    /// Replaces what the model knows about the rate.
    fn set_rate(&mut self, rate: u64) {
        self.bandwidth = [rate.max(MIN_PACKET_RATE * self.packet), 0];
        self.round_bandwidth = self.bandwidth[0];
        self.begin_epoch();
    }

    /// From now on, feedback about packets that have left already says nothing about what we do.
    fn begin_epoch(&mut self) {
        self.epoch_end = self.sent;
        self.epoch_round = self.round;
        self.epoch_at = self.now;
        self.reacting = true;
        self.stretch = Stretch::default();
    }

    /// Whether feedback is about packets that left after the last reaction.
    fn reaction_seen(&self) -> bool {
        self.resolved >= self.epoch_end || self.round >= self.epoch_round + EPOCH_ROUNDS
    }

    /// By how much the round-trip time must have grown to show a queue.
    fn queue_margin(&self, base: Duration) -> Duration {
        let noise = (self.rtt_noise * NOISE_MARGIN).min(base / 2);
        (base / QUEUE_DIVISOR).max(MIN_QUEUE).max(noise)
    }

    /// Learns how much the round-trip time changes from one stretch of feedback to the next. Queues
    /// grow and shrink over many of them; what jumps is the path's own jitter.
    fn update_noise(&mut self, least_rtt: Duration) {
        if let Some(before) = self.stretch_rtt.replace(least_rtt) {
            let jump = least_rtt.abs_diff(before);
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
            let least = self.probe_rtt_least.get_or_insert(rtt);
            *least = rtt.min(*least);
        }
        if self.min_rtt.is_zero() || rtt < self.min_rtt {
            self.min_rtt = rtt;
        }
        // Close enough: the queue was empty, so there is nothing to find out by a probe.
        if rtt <= self.min_rtt + self.min_rtt / QUEUE_DIVISOR {
            self.min_rtt_seen = feedback.now;
        }
    }

    /// Updates the window that a CUBIC flow would have, while other flows keep the queue full.
    fn update_rival(&mut self, feedback: &Feedback) {
        self.smoothed_rtt = feedback.smoothed_rtt;
        match (&mut self.rival, self.queue_time >= COMPETITION) {
            (_, false) => self.rival = None,
            (Some(rival), true) if feedback.delivery.is_some_and(|it| it.app_limited) => {
                rival.pause(self.now);
            }
            (Some(rival), true) => rival.grow(self.now, feedback.smoothed_rtt),
            (None, true) => {
                let flight = bytes_in(self.rate(), feedback.smoothed_rtt);
                let packets = flight as f64 / self.packet as f64;
                self.rival = Some(CubicWindow::new(self.now, packets));
            }
        }
    }

    /// Returns the bytes that a CUBIC flow would have in flight; zero if no other flow keeps the
    /// queue full.
    fn rival_window(&self) -> u64 {
        let rival = self.rival.filter(|_| self.state != State::ProbeRtt);
        rival.map_or(0, |rival| (rival.packets() * self.packet as f64) as u64)
    }

    fn update_rate(&mut self, sample: &DeliverySample) {
        // What the path loses anyway does not fill the bottleneck: it may be sent in addition.
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
            // Nothing of ours was under way, so the queue is as empty as a probe would make it.
            self.min_rtt_seen = self.now;
            if app_limited || self.sent == 0 {
                self.busy_round = self.round;
                (self.queue_time, self.rival) = (Duration::ZERO, None);
            }
        }
        self.sent += bytes;
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.now = self.now.max(feedback.now);
        self.resolved += feedback.newly_acked_bytes + feedback.newly_lost_bytes;
        self.round += u64::from(feedback.round_start);
        self.update_rtt(feedback);
        self.update_rival(feedback);
        if self.timed_out {
            // What a blackout swallowed says nothing about rates.
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
            // What was counted until now is the past, and so may be what this one found lost.
            self.reacting = false;
            self.stretch = Stretch::default();
            self.step(feedback);
            return;
        }
        let stretch = &mut self.stretch;
        if stretch.acked + stretch.lost == 0 {
            stretch.started = feedback.now;
        } else {
            stretch.bytes += feedback.newly_acked_bytes;
        }
        stretch.acked += feedback.newly_acked_packets;
        stretch.lost += feedback.newly_lost_packets;
        if let Some(sample) = &feedback.delivery {
            let newest = (sample.sent_at, sample.sent);
            let first = stretch.left.map_or(newest, |[first, _]| first);
            stretch.left = Some([first.min(newest), newest.max(first)]);
            stretch.app_limited |= sample.app_limited;
        }
        if let Some(rtt) = feedback.rtt {
            stretch.last_rtt = rtt;
            stretch.least_rtt = Some(stretch.least_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let many = stretch.acked + stretch.lost >= WINDOW_PACKETS
            && feedback.now.since(stretch.started) >= feedback.smoothed_rtt / 8;
        if many || feedback.round_start {
            self.judge(feedback);
        }
        self.step(feedback);
    }

    fn on_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.timed_out = true;
        self.begin_epoch();
        self.seed_check = None;
        self.suspicion = None;
        (self.queue_time, self.rival) = (Duration::ZERO, None);
    }

    fn seed(&mut self, rate: u64, rtt: Duration) {
        if !rtt.is_zero() && (self.min_rtt.is_zero() || rtt < self.min_rtt) {
            self.min_rtt = rtt;
        }
        self.min_rtt_seen = self.now;
        self.set_rate(rate);
        self.ceiling = self.rate();
        self.streak = 0;
        self.suspicion = None;
        self.cruise_rounds = FIRST_PROBE;
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
        let rate = match self.rival_window() {
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
                let window = scale(bdp, WINDOW_GAIN) + bytes_in(self.rate(), SLACK);
                window.max(self.rival_window()) + 16 * self.packet
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
