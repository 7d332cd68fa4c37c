//! What is congestion, and what the bottleneck gives then.

use std::time::Duration;

use super::{Bbr, COMPETITION, State, Suspicion};
use crate::rate::loss::exceeds;
use crate::rate::{DeliverySample, Feedback, rate_of, scale};

/// Loss beyond the floor that is still not congestion.
const TOLERATED_LOSS: f64 = 0.02;
/// What remains of the rate when somebody else fills the queue.
const BETA: f64 = 0.85;
/// What a bottleneck that was just found is used to.
const HEADROOM: f64 = 0.97;

impl Bbr {
    /// Compares the seed with how the queue grows: at a rate r into a bottleneck of rate c, by (r - c) / c seconds each
    /// second.
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
        let margin = (self.min_rtt / 40).max(Duration::from_micros(2500));
        if grown > margin && over > (self.min_rtt / 4).max(Duration::from_millis(20)) {
            let slope = grown.as_secs_f64() / over.as_secs_f64();
            if slope > 0.06 {
                self.congested(scale(self.send_rate(&sample), 1.0 / (1.0 + slope)), true);
            }
        }
    }

    /// Returns the rate at which packets left that loss or a queue is judged by.
    fn send_rate(&self, sample: &DeliverySample) -> u64 {
        // A flight that began before the last reaction was sent at two rates, and one that waited for the application says
        // little about the path: then what was intended must do.
        if sample.sent_from >= self.epoch_at && sample.send_rate > 0 && !sample.app_limited {
            sample.send_rate
        } else {
            scale(self.rate(), self.gain())
        }
    }

    /// Judges a stretch of feedback that is over.
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
        if self.state == State::Cruise && self.reaction_seen() && self.rounds_here() >= 2 {
            // We send less than the path carries, and have for a while: a queue that stays is somebody else's.
            self.shared = queue;
            let step = (self.now.since(self.queue_judged)).min(Duration::from_secs(1));
            self.queue_judged = self.now;
            self.queue_time = match queue {
                true => (self.queue_time + step).min(2 * COMPETITION),
                false => self.queue_time.saturating_sub(step),
            };
        }
        let (lost, expected) = (stretch.lost as f64, total as f64 * self.floor.rate());
        if let Some(rival) = &mut self.rival
            && queue
            && lost > expected + 3.0 * expected.sqrt()
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
        let filled = stretch.last_rtt > base + self.queue_margin(base);
        if queue || filled {
            let mut target = scale(send_rate, through);
            let time = feedback.now.since(stretch.started);
            if time >= Duration::from_millis(10) && !sample.app_limited {
                let came = scale(rate_of(stretch.bytes, time), 1.0 / (1.0 - floor));
                if came < scale(target, 0.8) {
                    target = came;
                }
            }
            self.congested(target, false);
        } else if let Some(suspicion) = self.suspicion.take() {
            // So many lost may be as many as expected, by chance.
            let lost = stretch.lost as f64;
            if lost + lost.sqrt() > 0.7 * suspicion.loss * total as f64 {
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

    /// The bottleneck gives no more than `target`. `found` says that we ran into it, not somebody else.
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
        let rate = if target < scale(before, 0.8) || found {
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
