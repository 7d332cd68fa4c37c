//! When to probe for more, and when to let queues run empty.

use std::time::Duration;

use super::{Bbr, EPOCH_ROUNDS, MIN_CRUISE_ROUNDS, STARTUP_GAIN, State};
use crate::rate::{Feedback, scale};

/// What remains of the rate after a probe that took from others.
const SHARED: f64 = 0.94;
/// The smallest gain of a gentle probe. Chosen: a flow near its greatest rate probes by 8 %.
const MIN_PROBE_GAIN: f64 = 1.08;
/// The step of a gentle probe as a share of the greatest rate seen.
const PROBE_SHARE: f64 = 0.05;
/// The largest gain of a gentle probe. Chosen: a flow reaches it below a tenth of its greatest
/// rate.
const MAX_PROBE_GAIN: f64 = 1.5;
/// What a probe may add to a queue, as a share of rate and round-trip time.
const PROBE_VOLUME: f64 = 0.1;
/// What it may add in any case, in packets.
const PROBE_PACKETS: u64 = 32;
/// The second probe of a row.
const BOLD_GAIN: f64 = 1.25;
/// A start-up after two probes: what they found need not be far from all there is, and a whole
/// round is sent before the loss of what is too much shows.
const SECOND_STARTUP_GAIN: f64 = 1.6;
/// By how much it grows with every round that finds more.
const STARTUP_GROWTH: f64 = 1.4;
/// Up to so many rounds more than the least are between probes.
const CRUISE_SPREAD: u64 = 5;
/// The longest time between probes. Chosen: takes effect above a round-trip time of 200 ms.
const MAX_CRUISE: Duration = Duration::from_secs(2);
/// The time after which the smallest round-trip time is measured again. `BBR.ProbeRTTInterval` of
/// draft-ietf-ccwg-bbr.
const MIN_RTT_VALIDITY: Duration = Duration::from_secs(5);
/// The duration of that measurement. `BBR.ProbeRTTDuration` of the draft.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// A start-up continues while each round raises the rate by this factor. As in draft-ietf-ccwg-bbr.
const STARTUP_INCREASE: f64 = 1.25;
/// Rounds without such an increase that end a start-up: three, as in the draft.
const MAX_FLAT_ROUNDS: u64 = 3;
/// Rounds after which a queue is taken as drained. As in draft-ietf-ccwg-bbr. At `DRAIN_GAIN` they
/// remove three quarters of a bandwidth-delay product.
const MAX_DRAIN_ROUNDS: u64 = 3;
/// The part of the greatest rate that is forgotten with each probe: 1/50. Chosen: it halves in 34
/// probes.
const CEILING_DECAY: u64 = 50;
/// The shortest probe, as a share of a round trip. Chosen: shorter ones hardly raise a rate
/// measured over a round trip.
const MIN_PROBE_SHARE: f64 = 0.1;
/// A probe counts as delivered in full if the rate grew by this share of the addition. Chosen: the
/// rest is attributed to measurement.
const PROBE_DELIVERED: f64 = 0.6;
/// The factor by which a probe must raise the rate to have taken from other flows. Chosen: smaller
/// increases are attributed to measurement.
const PROBE_TAKEN: f64 = 1.01;
/// Complete probes in a row after which a start-up begins.
const PROBES_BEFORE_STARTUP: u32 = 2;

impl Bbr {
    /// Moves on in the cycle, after feedback was judged.
    pub(super) fn step(&mut self, feedback: &Feedback) {
        match self.state {
            State::Startup => {
                if feedback.round_start
                    && feedback.delivery.is_some_and(|sample| !sample.app_limited)
                {
                    if self.rate() >= scale(self.round_bandwidth, STARTUP_INCREASE) {
                        self.round_bandwidth = self.rate();
                        self.flat_rounds = 0;
                        self.startup_gain = (self.startup_gain * STARTUP_GROWTH).min(STARTUP_GAIN);
                    } else if self.rate() > 0 {
                        self.flat_rounds += 1;
                        if self.flat_rounds >= MAX_FLAT_ROUNDS {
                            self.leave_startup();
                        }
                    }
                }
            }
            State::Drain => {
                if feedback.in_flight <= self.bdp() || self.rounds_here() >= MAX_DRAIN_ROUNDS {
                    self.enter(State::Cruise);
                }
            }
            State::Cruise => {
                let long =
                    self.now.since(self.state_since) >= MAX_CRUISE && self.rounds_here() >= 1;
                let app_limited = feedback.delivery.is_none_or(|sample| sample.app_limited);
                // Before that, the rate that a probe would keep is one of a path that was filled
                // for less than a round.
                let filled = self.round >= self.busy_round + 2;
                let due = filled && (self.rounds_here() >= self.cruise_rounds || long);
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
                let over = self.now.since(self.state_since) >= PROBE_RTT_DURATION + self.min_rtt;
                if over && self.rounds_here() >= 1 {
                    if let Some(least) = self.probe_rtt_least.take() {
                        self.min_rtt = least;
                    }
                    self.min_rtt_seen = self.now;
                    self.enter(State::Cruise);
                }
            }
        }
        let stale = self.now.since(self.min_rtt_seen) > MIN_RTT_VALIDITY;
        if stale && matches!(self.state, State::Cruise | State::Drain) && feedback.in_flight > 0 {
            self.probe_rtt_least = None;
            self.enter(State::ProbeRtt);
        }
    }

    pub(super) fn start_probe(&mut self) {
        // The cycle before the last is forgotten.
        if self.bandwidth[1] > 0 {
            self.bandwidth = [self.bandwidth[1], 0];
        }
        let rate = self.rate();
        self.ceiling = rate.max(self.ceiling - self.ceiling / CEILING_DECAY);
        self.probe_gain = if self.streak == 0 {
            let step = self.ceiling as f64 * PROBE_SHARE / rate.max(1) as f64;
            (1.0 + step).clamp(MIN_PROBE_GAIN, MAX_PROBE_GAIN)
        } else {
            BOLD_GAIN
        };
        self.probe_from = rate;
        self.probe_best = 0;
        self.probe_queue = false;
        self.enter(State::Up);
    }

    /// How much of a round trip a probe lasts.
    pub(super) fn probe_share(&self) -> f64 {
        let packets = (PROBE_PACKETS * self.packet) as f64 / self.bdp().max(1) as f64;
        (PROBE_VOLUME.max(packets) / (self.probe_gain - 1.0)).clamp(MIN_PROBE_SHARE, 1.0)
    }

    pub(super) fn end_probe(&mut self) {
        // Rates are measured over a round trip, of which the probe may be a part.
        let expected = 1.0 + PROBE_DELIVERED * (self.probe_gain - 1.0) * self.probe_share();
        if !self.probe_queue && self.probe_best >= scale(self.probe_from, expected) {
            self.streak += 1;
            if self.streak >= PROBES_BEFORE_STARTUP {
                self.flat_rounds = 0;
                self.round_bandwidth = self.rate();
                self.startup_gain = SECOND_STARTUP_GAIN;
                self.enter(State::Startup);
            } else {
                self.start_probe();
            }
        } else {
            let took = self.probe_best > scale(self.probe_from, PROBE_TAKEN);
            if self.probe_queue && (took || self.shared) {
                // More for us, and yet a queue: somebody else got less. Give some of it back, in
                // proportion, which takes more from a large flow than from a small one.
                let rate = scale(self.rate(), SHARED);
                self.set_rate(rate);
            }
            self.streak = 0;
            self.own_queue = true;
            self.drain();
        }
    }

    pub(super) fn leave_startup(&mut self) {
        self.own_queue = true;
        self.streak = 0;
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        // Two flows that always probe in the same round would never learn their shares.
        self.cruise_rounds =
            MIN_CRUISE_ROUNDS + mix(self.sent ^ self.now.as_nanos()) % CRUISE_SPREAD;
        self.enter(State::Drain);
    }
}

/// The finaliser of SplitMix64.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
