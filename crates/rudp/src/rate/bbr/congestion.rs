//! Decides when the path is congested, and which rate its bottleneck then has.

use std::time::Duration;

use super::{Bbr, COMPETITION, State, Suspicion};
use crate::rate::loss::exceeds;
use crate::rate::{DeliverySample, Feedback, rate_of, scale};

/// The share of packets that may be lost, beyond the floor, without congestion. `BBR.LossThresh` of
/// draft-ietf-ccwg-bbr.
const TOLERATED_LOSS: f64 = 0.02;
/// The factor by which the rate falls when other flows fill the queue. Chosen: it falls by 15 %;
/// BBR and CUBIC fall by 30 %.
const BETA: f64 = 0.85;
/// The share of a bottleneck's rate that is used once it is found. Chosen: the remaining 3 % empty
/// the queue.
const HEADROOM: f64 = 0.97;
/// The smallest growth of the round-trip time that disproves a seed, as a part of the smallest
/// round-trip time: 1/40. Chosen: a seed 6 % too high causes it within half a round trip.
const SEED_QUEUE_DIVISOR: u32 = 40;
/// The same in absolute terms. Chosen: less is attributed to timers of the hosts.
const MIN_SEED_QUEUE: Duration = Duration::from_micros(2500);
/// The time over which that growth is measured is longer than this part of the smallest round-trip
/// time: 1/4. Chosen: growth over a shorter time is ignored.
const SEED_TIME_DIVISOR: u32 = 4;
/// The same in absolute terms. Chosen: takes effect below a round-trip time of 80 ms.
const MIN_SEED_TIME: Duration = Duration::from_millis(20);
/// The smallest excess of the seed over the bottleneck, as a share of the bottleneck, at which the
/// rate is lowered. Chosen: a seed closer to the bottleneck's rate is kept.
const MIN_SEED_EXCESS: f64 = 0.06;
/// Rounds of cruising before a queue is attributed to other flows. Chosen: an earlier queue may be
/// this flow's own.
const MIN_SHARED_ROUNDS: u64 = 2;
/// The longest time that one judgement adds to the time with a queue. Chosen: half of
/// [`COMPETITION`], so that one judgement after a silence does not decide.
const MAX_QUEUE_STEP: Duration = Duration::from_secs(1);
/// The standard deviations by which losses exceed the expected number before the CUBIC window
/// shrinks: chance does so once in about 700 judgements.
const LOSS_DEVIATIONS: f64 = 3.0;
/// The fewest packets of a stretch that ends a suspicion. Chosen: shorter stretches have too few
/// packets for a loss rate.
const MIN_CLEAN_PACKETS: u64 = 32;
/// A round-trip time of this many times the smallest one, and [`MIN_DEEP_QUEUE`] more, shows a
/// queue longer than the bandwidth-delay product. Chosen: a probe of ours adds a tenth of one.
const DEEP_QUEUE_ROUND_TRIPS: u32 = 2;
/// Added to the above. Chosen: on paths below 20 ms it is the larger part.
const MIN_DEEP_QUEUE: Duration = Duration::from_millis(20);
/// In a deep queue, a delivery rate below this share of the rate of sending shows congestion
/// without any loss. Chosen: smaller differences wait for losses.
const CONGESTED_DELIVERY: f64 = 0.6;
/// A start-up ends when the queue holds this part of the smallest round-trip time: 1/4. Chosen:
/// it then ends without waiting for a loss.
const STARTUP_QUEUE_DIVISOR: u32 = 4;
/// The same in absolute terms. Chosen: takes effect below a round-trip time of 12 ms.
const MIN_STARTUP_QUEUE: Duration = Duration::from_millis(3);
/// The shortest stretch whose delivery rate is believed. Chosen: below, the target follows from
/// loss and the rate of sending.
const MIN_DELIVERY_TIME: Duration = Duration::from_millis(10);
/// A rate below this share of the expected one replaces it. Chosen: smaller differences are
/// attributed to measurement.
const SHARP_DECREASE: f64 = 0.8;
/// If less is sent and this share of the suspected loss remains, the loss belongs to the path.
/// Chosen: the loss of the path stays, apart from chance, and loss by congestion falls with the
/// rate.
const PERSISTENT_LOSS: f64 = 0.7;
/// The factor of the rate, at most, with which a suspicion is tested. Chosen: as far as a reaction
/// to congestion.
const SUSPICION_RATE: f64 = BETA;

impl Bbr {
    /// Compares the seed with how the queue grows: at a rate r into a bottleneck of rate c, by (r -
    /// c) / c seconds each second.
    pub(super) fn check_seed(&mut self, feedback: &Feedback) {
        let (Some((until, first)), Some(rtt), Some(sample)) =
            (self.seed_check, feedback.rtt, feedback.delivery)
        else {
            return;
        };
        if self.round > until {
            self.seed_check = None;
            return;
        }
        if sample.sent_at < self.epoch_at || sample.app_limited {
            return;
        }
        let Some((sent_at, first_rtt)) = first else {
            self.seed_check = Some((until, Some((sample.sent_at, rtt))));
            return;
        };
        let (grown, over) = (rtt.saturating_sub(first_rtt), sample.sent_at.since(sent_at));
        let margin = (self.min_rtt / SEED_QUEUE_DIVISOR).max(MIN_SEED_QUEUE);
        if grown > margin && over > (self.min_rtt / SEED_TIME_DIVISOR).max(MIN_SEED_TIME) {
            let slope = grown.as_secs_f64() / over.as_secs_f64();
            if slope > MIN_SEED_EXCESS {
                self.congested(scale(self.send_rate(&sample), 1.0 / (1.0 + slope)), true);
            }
        }
    }

    /// Returns the rate of sending to which loss and queue are attributed.
    fn send_rate(&self, sample: &DeliverySample) -> u64 {
        // A flight that began before the last reaction was sent at two rates, and one that waited
        // for the application says little about the path: then what was intended must do.
        if sample.sent_from >= self.epoch_at && sample.send_rate > 0 && !sample.app_limited {
            sample.send_rate
        } else {
            scale(self.rate(), self.gain())
        }
    }

    /// Judges a complete stretch of feedback.
    pub(super) fn judge(&mut self, feedback: &Feedback) {
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
        self.update_noise(least_rtt);
        let queue = least_rtt > base + self.queue_margin(base);
        self.probe_queue |= queue;
        if self.state == State::Cruise
            && self.reaction_seen()
            && self.rounds_here() >= MIN_SHARED_ROUNDS
        {
            // We send less than the path carries, and have for a while: a queue that stays is
            // somebody else's.
            self.shared = queue;
            let step = (self.now.since(self.queue_judged)).min(MAX_QUEUE_STEP);
            self.queue_judged = self.now;
            self.queue_time = match queue {
                true => (self.queue_time + step).min(2 * COMPETITION),
                false => self.queue_time.saturating_sub(step),
            };
        }
        let (lost, expected) = (stretch.lost as f64, total as f64 * self.floor.rate());
        if let Some(rival) = &mut self.rival
            && queue
            && lost > expected + LOSS_DEVIATIONS * expected.sqrt()
        {
            rival.on_loss(self.now, self.smoothed_rtt);
        }
        let loss = stretch.lost as f64 / total.max(1) as f64;
        let sample = feedback.delivery.unwrap_or_default();
        let whole = sample.sent_from >= self.epoch_at;
        // In a start-up the stretch left faster than the flight of which it is the end.
        let send_rate = self.send_rate(&sample).max(stretch.send_rate());
        let floor = self.floor.rate();
        let through = (1.0 - loss) / (1.0 - floor);
        if !exceeds(stretch.lost, total, floor + TOLERATED_LOSS) {
            if !queue {
                self.floor.observe(stretch.lost, total);
                if self.reaction_seen() && total >= MIN_CLEAN_PACKETS {
                    self.suspicion = None;
                }
            }
            let deep_queue = least_rtt > base * DEEP_QUEUE_ROUND_TRIPS + MIN_DEEP_QUEUE;
            let slow = sample.rate > 0
                && sample.rate < scale(sample.send_rate.min(self.rate()), CONGESTED_DELIVERY);
            if deep_queue && slow && whole && !sample.app_limited && self.reaction_seen() {
                self.congested(sample.rate, true);
            } else if self.state == State::Startup
                && least_rtt > base + (base / STARTUP_QUEUE_DIVISOR).max(MIN_STARTUP_QUEUE)
                && self.reaction_seen()
            {
                self.leave_startup();
            }
            return;
        }
        if !self.reaction_seen() {
            return;
        }
        // A queue that overflows is full in the end, but may have been empty when the stretch
        // began. Then too little was lost to tell the rate of the bottleneck, but what came through
        // since tells it.
        let filled = stretch.last_rtt > base + self.queue_margin(base);
        if queue || filled {
            let mut target = scale(send_rate, through);
            let time = feedback.now.since(stretch.started);
            if time >= MIN_DELIVERY_TIME && !sample.app_limited {
                let came = scale(rate_of(stretch.bytes, time), 1.0 / (1.0 - floor));
                if came < scale(target, SHARP_DECREASE) {
                    target = came;
                }
            }
            self.congested(target, false);
        } else if let Some(suspicion) = self.suspicion.take() {
            // So many lost may be as many as expected, by chance.
            let lost = stretch.lost as f64;
            if lost + lost.sqrt() > PERSISTENT_LOSS * suspicion.loss * total as f64 {
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
            self.set_rate(
                scale(send_rate, through * HEADROOM).min(scale(bandwidth, SUSPICION_RATE)),
            );
            self.enter(State::Cruise);
        }
    }

    /// Lowers the rate to that of the bottleneck, `target`. `found`: our own rate exceeded it, not
    /// that of other flows.
    pub(super) fn congested(&mut self, target: u64, found: bool) {
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
        let rate = if target < scale(before, SHARP_DECREASE) || found {
            // Nothing we believed holds.
            self.queue_time = Duration::ZERO;
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
}
