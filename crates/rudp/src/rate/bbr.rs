//! A model of the path: its rate, its round-trip time without queues, and the loss that is just there.
//!
//! After N. Cardwell, I. Swett, J. Beshay, *BBR Congestion Control*, draft-ietf-ccwg-bbr: send at the greatest rate that
//! the path was seen to deliver, bound what is in flight by twice the product of rate and round-trip time, probe for
//! more in cycles, and let the queue run empty now and then to see the round-trip time. What differs, and why:
//!
//! - **It begins at a seeded rate** where a probe or a cache knows one, without slow start, and checks it within the
//!   first round trip: against the loss beyond what the path always has, and against a growing queue.
//! - **Random loss is not congestion.** Loss in stretches without a queue is the path's own; an estimate of it, the
//!   floor, is taken off before loss counts, and added to what delivery says about the rate. Loss above the floor without
//!   a queue is put to a test: send less for a round; if as large a share is lost, it is the path's own.
//! - **Loss with a queue is congestion**, and says what the bottleneck gives: the rate of sending times the share that
//!   came through. The model goes there at once, without waiting for a filter to forget. In the middle of a cycle
//!   somebody else must be pushing; then it goes lower still.
//! - **Probes are gentle**: a few percent for a round, so that a queue of a tenth of a round trip holds them. The step
//!   is a share of the greatest rate seen, the same for large and small flows, and decreases are proportional: flows
//!   that share a bottleneck converge (D.-M. Chiu, R. Jain, 1989). If a probe is delivered in full, the next one is
//!   bolder, and the third is a start-up.

use std::time::Duration;

use super::loss::{LossFloor, exceeds};
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
/// Loss beyond the floor that is still not congestion.
const TOLERATED_LOSS: f64 = 0.02;
/// What remains of the rate when somebody else fills the queue.
const BETA: f64 = 0.85;
/// What remains of the rate after a probe that took from others.
const SHARED: f64 = 0.94;
/// What a bottleneck that was just found is used to.
const HEADROOM: f64 = 0.97;
/// How far a gentle probe goes beyond the rate, at least.
const PROBE_GAIN: f64 = 1.08;
/// The step of a gentle probe as a share of the greatest rate seen.
const PROBE_SHARE: f64 = 0.05;
/// A gentle probe never goes further.
const PROBE_MOST: f64 = 1.5;
/// What a probe may add to a queue, as a share of rate and round-trip time.
const PROBE_VOLUME: f64 = 0.1;
/// What it may add in any case, in packets.
const PROBE_PACKETS: u64 = 32;
/// The second probe of a row.
const BOLD_GAIN: f64 = 1.25;
/// Rounds between probes: at least so many, and up to so many more; and the longest time.
const CRUISE_LEAST: u64 = 6;
const CRUISE_SPREAD: u64 = 5;
const CRUISE_MOST: Duration = Duration::from_secs(2);
/// Rounds before the first probe of a seeded path.
const FIRST_PROBE: u64 = 2;
/// How long the round-trip time may go unconfirmed, and how long it then takes to see it.
const MIN_RTT_FOR: Duration = Duration::from_secs(5);
const PROBE_RTT_FOR: Duration = Duration::from_millis(200);
/// Packets that a judgement about loss needs, unless a round is over.
const WINDOW_PACKETS: u64 = 256;
/// Rounds after which a reaction is taken as seen, even if the packet counts do not say so.
const EPOCH_ROUNDS: u64 = 3;
/// The lowest rate, in packets per second.
const LEAST_PACKETS: u64 = 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Doubling each round.
    Startup,
    /// Letting a queue run empty.
    Drain,
    /// At the rate of the model.
    Cruise,
    /// A round at more than that.
    Up,
    /// The round in which the effect of the last one shows.
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
    /// Bytes acknowledged after the first feedback of the stretch, which covers an unknown time before it.
    bytes: u64,
    least_rtt: Option<Duration>,
    last_rtt: Duration,
}

/// Loss without a queue that is being put to the test.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    loss: f64,
    bandwidth: u64,
    startup: bool,
}

/// The model-based controller. See the [module](self) for what it does.
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
    /// What was sent when the probe ended.
    probe_end: u64,
    /// The rate before it.
    probe_from: u64,
    probe_best: u64,
    probe_queue: bool,
    /// A queue stood while we cruised.
    shared: bool,
    /// The queue that is being drained is the work of a probe of ours.
    own_queue: bool,
    probe_rtt_least: Option<Duration>,
    sent: u64,
    resolved: u64,
    /// What was sent at the last reaction, and the round: until then, feedback is about the time before.
    epoch_end: u64,
    epoch_round: u64,
    epoch_at: Time,
    reacting: bool,
    /// Time and round-trip time of the first packet of a seeded path, until the seed is trusted.
    seed_check: Option<(u64, Option<(Time, Duration)>)>,
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
            floor: LossFloor::default(),
            stretch: Stretch::default(),
            suspicion: None,
            round: 0,
            round_bandwidth: 0,
            flat_rounds: 0,
            state_since: Time::ZERO,
            state_round: 0,
            cruise_rounds: CRUISE_LEAST,
            streak: 0,
            probe_gain: 1.0,
            probe_end: 0,
            probe_from: 0,
            probe_best: 0,
            probe_queue: false,
            shared: false,
            own_queue: false,
            probe_rtt_least: None,
            sent: 0,
            resolved: 0,
            epoch_end: 0,
            epoch_round: 0,
            epoch_at: Time::ZERO,
            reacting: false,
            seed_check: None,
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
            State::Startup => STARTUP_GAIN,
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
        self.bandwidth = [rate.max(LEAST_PACKETS * self.packet), 0];
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
    fn queue_margin(base: Duration) -> Duration {
        (base / 16).max(Duration::from_micros(1500))
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
        if rtt <= self.min_rtt + self.min_rtt / 16 {
            self.min_rtt_seen = feedback.now;
        }
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

    /// Compares the seed with how the queue grows: at a rate r into a bottleneck of rate c, by (r - c) / c seconds each
    /// second.
    fn check_seed(&mut self, feedback: &Feedback) {
        let (Some((until, first)), Some(rtt), Some(sample)) =
            (self.seed_check, feedback.rtt, feedback.delivery)
        else {
            return;
        };
        if self.round > until {
            self.seed_check = None;
            return;
        }
        let Some((sent_at, first_rtt)) = first else {
            self.seed_check = Some((until, Some((sample.sent_at, rtt))));
            return;
        };
        let (grown, over) = (rtt.saturating_sub(first_rtt), sample.sent_at.since(sent_at));
        let margin = (self.min_rtt / 40).max(Duration::from_micros(2500));
        if grown > margin && over > (self.min_rtt / 4).max(Duration::from_millis(20)) {
            let slope = grown.as_secs_f64() / over.as_secs_f64();
            if slope > 0.06 && sample.send_rate > 0 {
                self.congested(scale(sample.send_rate, 1.0 / (1.0 + slope)), true);
            }
        }
    }

    /// The bottleneck gives no more than `target`. `found` says that we ran into it, not somebody else.
    fn congested(&mut self, target: u64, found: bool) {
        self.events += 1;
        self.seed_check = None;
        self.suspicion = None;
        self.streak = 0;
        let before = self.rate();
        let probing = match self.state {
            State::Up | State::Wait | State::Startup => true,
            State::Drain => self.own_queue,
            State::Cruise | State::ProbeRtt => false,
        };
        let rate = if target < scale(before, 0.8) || found {
            // Nothing we believed holds.
            scale(target, HEADROOM)
        } else if probing && !self.shared {
            target.min(before)
        } else {
            scale(target.min(before), BETA)
        };
        self.set_rate(rate.min(before.max(target)));
        self.own_queue = false;
        self.drain();
    }

    /// Judges a stretch of feedback that is over.
    fn judge(&mut self, feedback: &Feedback) {
        let stretch = std::mem::take(&mut self.stretch);
        let Some(least_rtt) = stretch.least_rtt else {
            return;
        };
        let total = stretch.acked + stretch.lost;
        let base = if feedback.min_rtt.is_zero() {
            self.min_rtt
        } else {
            self.min_rtt.min(feedback.min_rtt)
        };
        let queue = least_rtt > base + Self::queue_margin(base);
        self.probe_queue |= queue;
        if self.state == State::Cruise && self.reaction_seen() && self.rounds_here() >= 2 {
            // We send less than the path carries, and have for a while: a queue that stays is somebody else's.
            self.shared = queue;
        }
        let loss = stretch.lost as f64 / total.max(1) as f64;
        let sample = feedback.delivery.unwrap_or_default();
        // A flight that began before the last reaction was sent at two rates.
        let whole = sample.sent_from >= self.epoch_at;
        let send_rate = if whole && sample.send_rate > 0 {
            sample.send_rate
        } else {
            scale(self.rate(), self.gain())
        };
        let floor = self.floor.rate();
        let through = (1.0 - loss) / (1.0 - floor);
        if !exceeds(stretch.lost, total, floor + TOLERATED_LOSS) {
            if !queue {
                self.floor.observe(stretch.lost, total);
                if self.reaction_seen() && total >= 32 {
                    self.suspicion = None;
                }
            }
            let drowned = least_rtt > base * 2 + Duration::from_millis(20);
            let slow =
                sample.rate > 0 && sample.rate < scale(sample.send_rate.min(self.rate()), 0.6);
            if drowned && slow && whole && !sample.app_limited && self.reaction_seen() {
                self.congested(sample.rate, true);
            } else if self.state == State::Startup
                && least_rtt > base + (base / 4).max(Duration::from_millis(3))
                && self.reaction_seen()
            {
                self.leave_startup();
            }
            return;
        }
        if !self.reaction_seen() {
            return;
        }
        // A queue that overflows is full in the end, but may have been empty when the stretch began. Then too little was lost
        // to tell the rate of the bottleneck, but what came through since tells it.
        let filled = stretch.last_rtt > base + Self::queue_margin(base);
        if queue || filled {
            let mut target = scale(send_rate, through);
            let time = feedback.now.since(stretch.started);
            if time >= Duration::from_millis(10) {
                let came = scale(rate_of(stretch.bytes, time), 1.0 / (1.0 - floor));
                if came < scale(target, 0.8) {
                    target = came;
                }
            }
            self.congested(target, false);
        } else if let Some(suspicion) = self.suspicion.take() {
            if loss > 0.7 * suspicion.loss {
                // Less was sent and as much was lost: it is the path.
                self.floor.set(loss);
                self.set_rate(suspicion.bandwidth);
                self.flat_rounds = 0;
                self.enter(if suspicion.startup {
                    State::Startup
                } else {
                    State::Cruise
                });
            } else {
                self.congested(scale(send_rate, through), false);
            }
        } else {
            let bandwidth = self.rate();
            let startup = self.state == State::Startup;
            self.suspicion = Some(Suspicion {
                loss,
                bandwidth,
                startup,
            });
            self.events += 1;
            self.seed_check = None;
            self.set_rate(scale(send_rate, through * HEADROOM).min(scale(bandwidth, 0.85)));
            self.enter(State::Cruise);
        }
    }

    fn leave_startup(&mut self) {
        self.own_queue = true;
        self.streak = 0;
        self.drain();
    }

    fn drain(&mut self) {
        // Two flows that always probe in the same round would never learn their shares.
        self.cruise_rounds = CRUISE_LEAST + mix(self.sent ^ self.now.as_nanos()) % CRUISE_SPREAD;
        self.enter(State::Drain);
    }

    fn start_probe(&mut self) {
        // The cycle before the last is forgotten.
        if self.bandwidth[1] > 0 {
            self.bandwidth = [self.bandwidth[1], 0];
        }
        let rate = self.rate();
        self.ceiling = rate.max(self.ceiling - self.ceiling / 50);
        self.probe_gain = if self.streak == 0 {
            let step = self.ceiling as f64 * PROBE_SHARE / rate.max(1) as f64;
            (1.0 + step).clamp(PROBE_GAIN, PROBE_MOST)
        } else {
            BOLD_GAIN
        };
        self.probe_from = rate;
        self.probe_best = 0;
        self.probe_queue = false;
        self.enter(State::Up);
    }

    /// How much of a round trip a probe lasts.
    fn probe_share(&self) -> f64 {
        let packets = (PROBE_PACKETS * self.packet) as f64 / self.bdp().max(1) as f64;
        (PROBE_VOLUME.max(packets) / (self.probe_gain - 1.0)).clamp(0.1, 1.0)
    }

    fn end_probe(&mut self) {
        // Rates are measured over a round trip, of which the probe may be a part.
        let expected = 1.0 + 0.6 * (self.probe_gain - 1.0) * self.probe_share();
        if !self.probe_queue && self.probe_best >= scale(self.probe_from, expected) {
            self.streak += 1;
            if self.streak >= 2 {
                self.flat_rounds = 0;
                self.round_bandwidth = self.rate();
                self.enter(State::Startup);
            } else {
                self.start_probe();
            }
        } else {
            let took = self.probe_best > scale(self.probe_from, 1.01);
            if self.probe_queue && (took || self.shared) {
                // More for us, and yet a queue: somebody else got less. Give some of it back, in proportion, which takes more
                // from a large flow than from a small one.
                let rate = scale(self.rate(), SHARED);
                self.set_rate(rate);
            }
            self.streak = 0;
            self.own_queue = true;
            self.drain();
        }
    }

    fn step(&mut self, feedback: &Feedback) {
        match self.state {
            State::Startup => {
                if feedback.round_start
                    && feedback.delivery.is_some_and(|sample| !sample.app_limited)
                {
                    if self.rate() >= scale(self.round_bandwidth, 1.25) {
                        self.round_bandwidth = self.rate();
                        self.flat_rounds = 0;
                    } else if self.rate() > 0 {
                        self.flat_rounds += 1;
                        if self.flat_rounds >= 3 {
                            self.leave_startup();
                        }
                    }
                }
            }
            State::Drain => {
                if feedback.in_flight <= self.bdp() || self.rounds_here() >= 3 {
                    self.enter(State::Cruise);
                }
            }
            State::Cruise => {
                let long =
                    self.now.since(self.state_since) >= CRUISE_MOST && self.rounds_here() >= 1;
                let app_limited = feedback.delivery.is_none_or(|sample| sample.app_limited);
                let due = self.rounds_here() >= self.cruise_rounds || long;
                if feedback.round_start && due && !app_limited && self.reaction_seen() {
                    self.start_probe();
                }
            }
            State::Up => {
                if self.now.since(self.state_since) >= self.min_rtt.mul_f64(self.probe_share()) {
                    self.probe_end = self.sent;
                    self.enter(State::Wait);
                }
            }
            State::Wait => {
                if self.resolved >= self.probe_end || self.rounds_here() >= EPOCH_ROUNDS {
                    self.end_probe();
                }
            }
            State::ProbeRtt => {
                let over = self.now.since(self.state_since) >= PROBE_RTT_FOR + self.min_rtt;
                if over && self.rounds_here() >= 1 {
                    if let Some(least) = self.probe_rtt_least.take() {
                        self.min_rtt = least;
                    }
                    self.min_rtt_seen = self.now;
                    self.enter(State::Cruise);
                }
            }
        }
        let stale = self.now.since(self.min_rtt_seen) > MIN_RTT_FOR;
        if stale && matches!(self.state, State::Cruise | State::Drain) && feedback.in_flight > 0 {
            self.probe_rtt_least = None;
            self.enter(State::ProbeRtt);
        }
    }
}

/// The finaliser of SplitMix64.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl RateController for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_sent(&mut self, now: Time, bytes: u64, in_flight: u64, _app_limited: bool) {
        self.now = self.now.max(now);
        if in_flight <= bytes {
            // Nothing of ours was under way, so the queue is as empty as a probe would make it.
            self.min_rtt_seen = self.now;
        }
        self.sent += bytes;
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.now = self.now.max(feedback.now);
        self.resolved += feedback.newly_acked_bytes + feedback.newly_lost_bytes;
        self.round += u64::from(feedback.round_start);
        self.update_rtt(feedback);
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
        scale(self.rate(), self.gain()).max(LEAST_PACKETS * self.packet)
    }

    fn window(&self) -> u64 {
        if self.rate() == 0 || self.min_rtt.is_zero() {
            return self.initial_window;
        }
        let bdp = self.bdp();
        match self.state {
            State::ProbeRtt => (bdp / 2).max(4 * self.packet),
            State::Startup => scale(bdp, STARTUP_GAIN).max(self.initial_window),
            _ => scale(bdp, WINDOW_GAIN) + 16 * self.packet,
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
