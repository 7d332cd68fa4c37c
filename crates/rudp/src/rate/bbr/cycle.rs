//! The probing cycle: when to probe for bandwidth, and when to drain the queue.

use std::time::Duration;

use super::{Bbr, EPOCH_ROUNDS, MIN_CRUISE_ROUNDS, STARTUP_GAIN, State};
use crate::rate::{Feedback, scale};

/// The factor by which the rate is multiplied after a probe that took capacity from other flows.
const SHARED_FACTOR: f64 = 0.94;
/// The minimum pacing gain of a first probe. Chosen: a flow near its maximum rate probes by 8 %.
const MIN_PROBE_GAIN: f64 = 1.08;
/// The amount by which a first probe raises the rate, as a share of the maximum rate seen.
const PROBE_SHARE: f64 = 0.05;
/// The maximum pacing gain of a first probe. Chosen: a flow reaches it below a tenth of its maximum
/// rate.
const MAX_PROBE_GAIN: f64 = 1.5;
/// The maximum volume that a probe adds to a queue, as a share of the bandwidth-delay product.
const PROBE_VOLUME: f64 = 0.1;
/// The volume that a probe may add in any case, in packets.
const PROBE_PACKETS: u64 = 32;
/// The pacing gain of a second probe, after a first one that was delivered in full.
const SECOND_PROBE_GAIN: f64 = 1.25;
/// The pacing gain of a start-up after two probes. It is below `STARTUP_GAIN`, because the
/// available rate may be only slightly higher than the probes found, and a whole round is sent
/// before a loss shows an excess.
const RESTART_GAIN: f64 = 1.6;
/// The factor by which the gain of a start-up grows with every round that finds a higher rate.
const STARTUP_GROWTH: f64 = 1.4;
/// The number of rounds between probes exceeds the minimum by a random number below this one.
const CRUISE_SPREAD: u64 = 5;
/// The maximum time between probes. Chosen: takes effect above a round-trip time of 200 ms.
const MAX_CRUISE: Duration = Duration::from_secs(2);
/// The time after which the minimum round-trip time is measured again. `BBR.ProbeRTTInterval` of
/// draft-ietf-ccwg-bbr.
const MIN_RTT_VALIDITY: Duration = Duration::from_secs(5);
/// The duration of a measurement of the minimum round-trip time. `BBR.ProbeRTTDuration` of
/// draft-ietf-ccwg-bbr.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// The factor by which each round of a start-up must raise the rate. As in draft-ietf-ccwg-bbr.
const STARTUP_INCREASE: f64 = 1.25;
/// The number of rounds without an increase by [`STARTUP_INCREASE`] that end a start-up: three, as
/// in draft-ietf-ccwg-bbr.
const MAX_FLAT_ROUNDS: u64 = 3;
/// The number of rounds after which a queue is assumed to be drained. As in draft-ietf-ccwg-bbr. At
/// `DRAIN_GAIN` these rounds remove three quarters of a bandwidth-delay product.
const MAX_DRAIN_ROUNDS: u64 = 3;
/// The part of the maximum rate that is forgotten with each probe: 1/50. Chosen: it halves in 34
/// probes.
const CEILING_DECAY: u64 = 50;
/// The minimum duration of a probe, as a share of a round trip. Chosen: shorter ones hardly raise a
/// rate measured over a round trip.
const MIN_PROBE_SHARE: f64 = 0.1;
/// A probe was delivered in full if the measured rate grew by at least this share of the probe's
/// increase. Chosen: the rest is attributed to measurement.
const PROBE_DELIVERED: f64 = 0.6;
/// The factor by which a probe must raise the rate to have taken capacity from other flows. Chosen:
/// smaller increases are attributed to measurement.
const PROBE_TAKEN: f64 = 1.01;
/// The number of fully delivered probes in a row after which a start-up begins.
const PROBES_BEFORE_STARTUP: u32 = 2;

impl Bbr {
    /// Advances the state machine after feedback was evaluated.
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
                if feedback.in_flight <= self.bdp() || self.rounds_in_state() >= MAX_DRAIN_ROUNDS {
                    self.enter(State::Cruise);
                }
            }
            State::Cruise => {
                let long =
                    self.now.since(self.state_since) >= MAX_CRUISE && self.rounds_in_state() >= 1;
                let app_limited = feedback.delivery.is_none_or(|sample| sample.app_limited);
                // In the first two rounds after a pause of the application, the path was not filled
                // for a whole round. A probe would then keep a rate that is too low.
                let filled = self.round >= self.busy_round + 2;
                let due = filled && (self.rounds_in_state() >= self.cruise_rounds || long);
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
                if self.resolved >= self.probe_end || self.rounds_in_state() >= EPOCH_ROUNDS {
                    self.end_probe();
                }
            }
            State::ProbeRtt => {
                let over = self.now.since(self.state_since) >= PROBE_RTT_DURATION + self.min_rtt;
                if over && self.rounds_in_state() >= 1 {
                    if let Some(min) = self.probe_rtt_min.take() {
                        self.min_rtt = min;
                    }
                    self.min_rtt_seen = self.now;
                    self.enter(State::Cruise);
                }
            }
        }
        let stale = self.now.since(self.min_rtt_seen) > MIN_RTT_VALIDITY;
        if stale && matches!(self.state, State::Cruise | State::Drain) && feedback.in_flight > 0 {
            self.probe_rtt_min = None;
            self.enter(State::ProbeRtt);
        }
    }

    pub(super) fn start_probe(&mut self) {
        // `bandwidth` has the maxima of two cycles. A probe starts a new cycle, so the older
        // maximum is dropped.
        if self.bandwidth[1] > 0 {
            self.bandwidth = [self.bandwidth[1], 0];
        }
        let rate = self.rate();
        self.ceiling = rate.max(self.ceiling - self.ceiling / CEILING_DECAY);
        self.probe_gain = if self.streak == 0 {
            let step = self.ceiling as f64 * PROBE_SHARE / rate.max(1) as f64;
            (1.0 + step).clamp(MIN_PROBE_GAIN, MAX_PROBE_GAIN)
        } else {
            SECOND_PROBE_GAIN
        };
        self.probe_from = rate;
        self.probe_best = 0;
        self.probe_queue = false;
        self.enter(State::Up);
    }

    /// Returns the duration of a probe as a share of a round trip.
    pub(super) fn probe_share(&self) -> f64 {
        let packets = (PROBE_PACKETS * self.packet) as f64 / self.bdp().max(1) as f64;
        (PROBE_VOLUME.max(packets) / (self.probe_gain - 1.0)).clamp(MIN_PROBE_SHARE, 1.0)
    }

    pub(super) fn end_probe(&mut self) {
        // Rates are measured over a round trip, and the probe may last only a part of it.
        let expected = 1.0 + PROBE_DELIVERED * (self.probe_gain - 1.0) * self.probe_share();
        if !self.probe_queue && self.probe_best >= scale(self.probe_from, expected) {
            self.streak += 1;
            if self.streak >= PROBES_BEFORE_STARTUP {
                self.flat_rounds = 0;
                self.round_bandwidth = self.rate();
                self.startup_gain = RESTART_GAIN;
                self.enter(State::Startup);
            } else {
                self.start_probe();
            }
        } else {
            let took = self.probe_best > scale(self.probe_from, PROBE_TAKEN);
            if self.probe_queue && (took || self.shared) {
                // The probe raised the rate of this flow, and yet there is a queue: the flow took
                // capacity from other flows, and returns some of it. The reduction is proportional,
                // so that a large flow returns more than a small one.
                let rate = scale(self.rate(), SHARED_FACTOR);
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
        // The random interval prevents two flows from always probing in the same round, in which
        // neither could learn its share.
        self.cruise_rounds =
            MIN_CRUISE_ROUNDS + mix(self.sent ^ self.now.as_nanos()) % CRUISE_SPREAD;
        self.enter(State::Drain);
    }
}

/// Returns a hash of the bits: the finalizer of SplitMix64.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
