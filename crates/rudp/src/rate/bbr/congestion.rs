//! Detection of congestion, and the rate of the bottleneck that follows from it.

use std::time::Duration;

use super::{Bbr, LossTest, MIN_COMPETITION_TIME, State};
use crate::rate::loss::exceeds;
use crate::rate::{DeliverySample, Feedback, rate_of, scale};

/// The maximum loss in excess of the random loss of the path (the loss floor) that is not
/// congestion, as a share of packets. `BBR.LossThresh` of draft-ietf-ccwg-bbr.
const TOLERATED_LOSS: f64 = 0.02;
/// The factor by which the rate falls when other flows fill the queue. Chosen: it falls by 15 %;
/// BBR and CUBIC fall by 30 %.
const BETA: f64 = 0.85;
/// The share of a bottleneck's rate that is used once the rate is found. Chosen: the remaining 3 %
/// empty the queue.
const HEADROOM: f64 = 0.97;
/// The minimum growth of the round-trip time that shows that a seeded rate is too high, as a part
/// of the minimum round-trip time: 1/40. Chosen: a seed 6 % too high causes it within half a round
/// trip.
const SEED_QUEUE_DIVISOR: u32 = 40;
/// The minimum growth of the round-trip time that shows that a seeded rate is too high, in absolute
/// terms. Chosen: smaller growth is attributed to timers of the hosts.
const MIN_SEED_QUEUE: Duration = Duration::from_micros(2500);
/// The minimum time over which the growth of the round-trip time is measured to check a seeded
/// rate, as a part of the minimum round-trip time: 1/4. Chosen: growth over a shorter time is
/// ignored.
const SEED_TIME_DIVISOR: u32 = 4;
/// The minimum time over which the growth of the round-trip time is measured to check a seeded
/// rate, in absolute terms. Chosen: takes effect below a round-trip time of 80 ms.
const MIN_SEED_TIME: Duration = Duration::from_millis(20);
/// The minimum excess of a seeded rate over the bottleneck's rate at which it is lowered, as a
/// share of the bottleneck's rate. Chosen: a seed closer to the bottleneck's rate is kept.
const MIN_SEED_EXCESS: f64 = 0.06;
/// The minimum number of rounds in the cruise state after which a queue is attributed to other
/// flows. Chosen: an earlier queue may be this flow's own.
const MIN_SHARED_ROUNDS: u64 = 2;
/// The maximum time that one evaluation adds to `queue_time`. Chosen: half of
/// [`MIN_COMPETITION_TIME`], so that one evaluation after a silence does not decide.
const MAX_QUEUE_STEP: Duration = Duration::from_secs(1);
/// The number of standard deviations by which losses must exceed the expected number for the CUBIC
/// window to shrink. Chance alone causes that in about one of 700 evaluations.
const LOSS_DEVIATIONS: f64 = 3.0;
/// The minimum number of packets in an interval without excess loss that ends a loss test. Chosen:
/// shorter intervals have too few packets for a loss rate.
const MIN_CLEAN_PACKETS: u64 = 32;
/// A queue is deep if the round-trip time exceeds this multiple of its minimum plus
/// [`MIN_DEEP_QUEUE`]. Such a queue is longer than the bandwidth-delay product. Chosen: a probe of
/// this flow adds only a tenth of that product.
const DEEP_QUEUE_ROUND_TRIPS: u32 = 2;
/// The fixed part of the threshold for a deep queue; see [`DEEP_QUEUE_ROUND_TRIPS`]. Chosen: below
/// a round-trip time of 20 ms it is the larger part of the queueing delay at the threshold.
const MIN_DEEP_QUEUE: Duration = Duration::from_millis(20);
/// In a deep queue, a delivery rate below this share of the sending rate shows congestion without
/// any loss. Chosen: with a smaller difference, the controller waits for losses.
const CONGESTED_DELIVERY: f64 = 0.6;
/// The minimum queueing delay that ends the start-up, as a part of the minimum round-trip time:
/// 1/4. Chosen: the start-up then ends without waiting for a loss.
const STARTUP_QUEUE_DIVISOR: u32 = 4;
/// The minimum queueing delay that ends the start-up, in absolute terms. Chosen: takes effect below
/// a round-trip time of 12 ms.
const MIN_STARTUP_QUEUE: Duration = Duration::from_millis(3);
/// The minimum duration of an interval whose delivery rate is used. Chosen: for a shorter interval,
/// the target rate is computed from the loss and the sending rate only.
const MIN_DELIVERY_TIME: Duration = Duration::from_millis(10);
/// The share of the expected rate below which a measured rate replaces it. Chosen: smaller
/// differences are attributed to measurement.
const SHARP_DECREASE: f64 = 0.8;
/// A loss test finds that the loss is the path's own if at least this share of it remains at the
/// lower sending rate. Chosen: random loss stays, apart from chance, and loss by congestion falls
/// with the rate.
const PERSISTENT_LOSS: f64 = 0.7;
/// During a loss test, the rate is at most this share of the rate before the test. Chosen: the same
/// reduction as at congestion.
const LOSS_TEST_RATE: f64 = BETA;

impl Bbr {
    /// Lowers a seeded rate that makes the queue grow. If a flow sends at rate r into a bottleneck
    /// of rate c, the queueing delay grows by (r - c) / c seconds per second.
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

    /// Returns the sending rate to which loss and queue are attributed.
    fn send_rate(&self, sample: &DeliverySample) -> u64 {
        // The measured rate counts only if all packets were sent after the last rate reduction and
        // none waited for the application. Otherwise, the rate that the controller set is used.
        if sample.sent_from >= self.epoch_at && sample.send_rate > 0 && !sample.app_limited {
            sample.send_rate
        } else {
            scale(self.rate(), self.gain())
        }
    }

    /// Evaluates a complete interval of feedback.
    pub(super) fn evaluate(&mut self, feedback: &Feedback) {
        let interval = std::mem::take(&mut self.interval);
        let Some(lowest_rtt) = interval.lowest_rtt else {
            return;
        };
        let total = interval.acked + interval.lost;
        let base = if feedback.min_rtt.is_zero() {
            self.min_rtt
        } else {
            self.min_rtt.min(feedback.min_rtt)
        };
        self.update_noise(lowest_rtt);
        let queue = lowest_rtt > base + self.queue_margin(base);
        self.probe_queue |= queue;
        if self.state == State::Cruise
            && self.reaction_seen()
            && self.rounds_in_state() >= MIN_SHARED_ROUNDS
        {
            // This flow has been sending less than the path carries for a while, so a queue that
            // stays is that of other flows.
            self.shared = queue;
            let step = (self.now.since(self.queue_evaluated)).min(MAX_QUEUE_STEP);
            self.queue_evaluated = self.now;
            self.queue_time = match queue {
                true => (self.queue_time + step).min(2 * MIN_COMPETITION_TIME),
                false => self.queue_time.saturating_sub(step),
            };
        }
        let (lost, expected) = (interval.lost as f64, total as f64 * self.floor.rate());
        if let Some(cubic) = &mut self.cubic
            && queue
            && lost > expected + LOSS_DEVIATIONS * expected.sqrt()
        {
            cubic.on_loss(self.now, self.smoothed_rtt);
        }
        let loss = interval.lost as f64 / total.max(1) as f64;
        let sample = feedback.delivery.unwrap_or_default();
        let whole = sample.sent_from >= self.epoch_at;
        // In a start-up the rate rises all the time. So the packets of the interval, which are the
        // last ones of the sampled flight, were sent faster than the flight on average.
        let send_rate = self.send_rate(&sample).max(interval.send_rate());
        let floor = self.floor.rate();
        let through = (1.0 - loss) / (1.0 - floor);
        if !exceeds(interval.lost, total, floor + TOLERATED_LOSS) {
            if !queue {
                self.floor.observe(interval.lost, total);
                if self.reaction_seen() && total >= MIN_CLEAN_PACKETS {
                    self.loss_test = None;
                }
            }
            let deep_queue = lowest_rtt > base * DEEP_QUEUE_ROUND_TRIPS + MIN_DEEP_QUEUE;
            let slow = sample.rate > 0
                && sample.rate < scale(sample.send_rate.min(self.rate()), CONGESTED_DELIVERY);
            if deep_queue && slow && whole && !sample.app_limited && self.reaction_seen() {
                self.congested(sample.rate, true);
            } else if self.state == State::Startup
                && lowest_rtt > base + (base / STARTUP_QUEUE_DIVISOR).max(MIN_STARTUP_QUEUE)
                && self.reaction_seen()
            {
                self.leave_startup();
            }
            return;
        }
        if !self.reaction_seen() {
            return;
        }
        // An overflowing queue is full at the end of the interval, but may have been empty at its
        // start. Then the loss understates the excess, and the bytes delivered in the interval show
        // the rate of the bottleneck.
        let filled = interval.last_rtt > base + self.queue_margin(base);
        if queue || filled {
            let mut target = scale(send_rate, through);
            let time = feedback.now.since(interval.started);
            if time >= MIN_DELIVERY_TIME && !sample.app_limited {
                let came = scale(rate_of(interval.bytes, time), 1.0 / (1.0 - floor));
                if came < scale(target, SHARP_DECREASE) {
                    target = came;
                }
            }
            self.congested(target, false);
        } else if let Some(loss_test) = self.loss_test.take() {
            // Adds one standard deviation to the number of lost packets, to allow for chance.
            let lost = interval.lost as f64;
            if lost + lost.sqrt() > PERSISTENT_LOSS * loss_test.loss * total as f64 {
                // The rate was lower and the loss was not, so the loss is the path's own.
                self.floor.set(loss);
                self.set_rate(loss_test.bandwidth);
                self.flat_rounds = 0;
                self.enter(if loss_test.startup {
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
            self.loss_test = Some(LossTest {
                loss,
                bandwidth,
                startup,
            });
            self.events += 1;
            self.seed_check = None;
            self.set_rate(
                scale(send_rate, through * HEADROOM).min(scale(bandwidth, LOSS_TEST_RATE)),
            );
            self.enter(State::Cruise);
        }
    }

    /// Lowers the rate to about `target`, the rate of the bottleneck. `found` is true if this flow
    /// alone exceeded the rate of the bottleneck, and not only its share among other flows.
    pub(super) fn congested(&mut self, target: u64, found: bool) {
        self.events += 1;
        self.seed_check = None;
        self.loss_test = None;
        self.streak = 0;
        let before = self.rate();
        let probing = match self.state {
            State::Up | State::Wait | State::Startup => true,
            State::Drain => self.own_queue,
            State::Cruise | State::ProbeRtt => false,
        };
        let rate = if target < scale(before, SHARP_DECREASE) || found {
            // The rate of the model was far too high, so the time with a queue that was measured at
            // it is discarded.
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
