//! How much parity is worth its bytes.

use std::time::Duration;

/// Segments of a full block: 2.4 ms at 1 Gbit/s, and parity for rare losses costs 1 %.
pub const BLOCK_SEGMENTS: usize = 200;

/// Blocks with fewer segments get no parity as long as nothing was ever lost.
pub const SMALL_BLOCK: usize = 8;

/// No block need fail less often: with two hundred blocks in a transfer, one transfer in three hundred waits for a
/// retransmission.
const FAILURE: f64 = 1.5e-5;

/// What a block costs by failing, in the mean, as a share of the time that a packet takes. On a path of 110 ms and 1 Gbit/s that
/// makes for the failure above, where waiting for a retransmission delays all.
const WAITING: f64 = 0.14;

/// A transfer that has lasted as long may be in its last round trips: so many of them, of the time that it has lasted.
const LAST_ROUNDS: f64 = 2.0;

/// With so few bytes under way there is always room for more at the receiver, whatever it waits for.
const LITTLE: f64 = 1e6;

/// With so many more, a gap delays all in any case: what comes behind it fills the window.
const MUCH: f64 = 8e6;

/// A full block that may not fail has at least this much parity: nobody knows the loss of a path better than that.
const LEAST_FULL: usize = 2;

/// That is one that may fail no more often than this.
const SURE: f64 = 1e-3;

/// Parity is at most this share of the segments.
const MOST_SHARE: f64 = 0.25;

/// Parity symbols of a block at most.
const MOST: usize = 40;

/// Packets that the estimate remembers, by exponential forgetting.
const MEMORY: f64 = 100_000.0;

/// The prior: this many packets at this loss.
const PRIOR_PACKETS: f64 = 5_000.0;
const PRIOR_LOSS: f64 = 1e-4;

/// Bytes of a packet on the wire.
const PACKET: f64 = 1500.0;

/// The share of packets that the path loses, with a prior for when few were seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossEstimate {
    lost: f64,
    total: f64,
    prior: f64,
    seen_loss: bool,
}

impl Default for LossEstimate {
    fn default() -> Self {
        Self::with_prior(PRIOR_LOSS)
    }
}

impl LossEstimate {
    /// Begins with what a probe or a cache knows about the loss.
    #[must_use]
    pub fn with_prior(loss: f64) -> Self {
        let prior = if loss.is_finite() {
            loss.clamp(0.0, 0.9)
        } else {
            PRIOR_LOSS
        };
        Self {
            lost: 0.0,
            total: 0.0,
            prior,
            seen_loss: false,
        }
    }

    /// Takes in packets whose fate is now known.
    pub fn observe(&mut self, lost: u64, total: u64) {
        let total = total.max(lost) as f64;
        let keep = 1.0 - (total / MEMORY).min(1.0);
        self.lost = self.lost * keep + lost as f64;
        self.total = self.total * keep + total;
        self.seen_loss |= lost > 0;
    }

    /// Returns the expected loss.
    #[must_use]
    pub fn rate(&self) -> f64 {
        // The prior weighs as much as the packets of a few blocks, and less where it claims much.
        let weight = PRIOR_PACKETS / (1.0 + 100.0 * self.prior);
        ((self.lost + self.prior * weight) / (self.total + weight)).clamp(0.0, 0.9)
    }

    /// Returns a rate that the loss exceeds with a probability of about one in six: the expected one and a standard
    /// deviation.
    #[must_use]
    pub fn cautious_rate(&self) -> f64 {
        let rate = self.rate();
        let weight = self.total + PRIOR_PACKETS / (1.0 + 100.0 * self.prior);
        (rate + (rate * (1.0 - rate) / weight.max(1.0)).sqrt()).min(0.9)
    }

    /// Returns whether any loss was ever seen, or told by the prior.
    #[must_use]
    pub fn expects_loss(&self) -> bool {
        self.seen_loss || self.prior > PRIOR_LOSS
    }
}

/// What decides about the parity of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The loss of the path.
    pub loss: LossEstimate,
    /// Segments of the block.
    pub segments: usize,
    /// Bytes still to send after the block. `None`: the application did not say.
    pub bytes_left: Option<u64>,
    /// For how long the application has been sending without a pause.
    pub busy: Duration,
    /// The rate of sending, in bytes per second.
    pub rate: u64,
    /// The round-trip time.
    pub rtt: Duration,
}

impl Plan {
    /// Returns how many parity symbols to make.
    ///
    /// The fewest with which the block fails rarely, by the tail of the binomial distribution. A block that fails costs a
    /// round trip if it is among the last of what is sent, or if so much comes behind it that the receiver has no room for
    /// more meanwhile. So one with more than three round trips of data behind it has no parity, and another may fail the
    /// more often the less is under way, and the longer the application has been sending: what has lasted for long goes on
    /// for as long, in the median.
    ///
    /// ```
    /// use transpute_rudp::fec::{LossEstimate, Plan};
    /// use std::time::Duration;
    ///
    /// let mut loss = LossEstimate::default();
    /// loss.observe(1000, 100_000);
    /// let (rate, rtt) = (125_000_000, Duration::from_millis(110));
    /// let mut plan = Plan { loss, segments: 200, bytes_left: None, busy: rtt, rate, rtt };
    /// assert_eq!(plan.parity_count(), 10);
    /// plan.rtt = Duration::from_millis(1);
    /// plan.busy = Duration::from_secs(10);
    /// assert_eq!(plan.parity_count(), 0);
    /// ```
    #[must_use]
    pub fn parity_count(&self) -> usize {
        let segments = self.segments.min(super::MAX_SYMBOLS - 1);
        if segments == 0 || (segments < SMALL_BLOCK && !self.loss.expects_loss()) {
            return 0;
        }
        let failure = self.failure();
        let least = match segments >= BLOCK_SEGMENTS / 2 {
            _ if failure > SURE => 0,
            true => LEAST_FULL,
            false => 1,
        };
        let share = (segments as f64 * MOST_SHARE).ceil() as usize;
        let most = share.min(MOST).min(super::MAX_SYMBOLS - segments);
        let loss = self.loss.cautious_rate();
        (least.min(most)..most)
            .find(|&parity| tail(segments + parity, loss, parity) <= failure)
            .unwrap_or(most)
    }

    /// Returns how often the block may fail.
    fn failure(&self) -> f64 {
        let three_rounds = crate::rate::bytes_in(self.rate, self.rtt * 3);
        if self.bytes_left.is_some_and(|left| left > three_rounds) {
            return 1.0;
        }
        let (busy, rtt) = (self.busy.as_secs_f64(), self.rtt.as_secs_f64());
        let flight = crate::rate::bytes_in(self.rate, self.rtt) as f64;
        let last = LAST_ROUNDS * rtt / busy.max(1e-9);
        let delays = last.max((flight - LITTLE) / MUCH).min(1.0);
        (WAITING * PACKET / (flight * delays).max(1.0)).clamp(FAILURE, 1.0)
    }
}

/// Returns the probability that more than `most` of `n` are lost.
fn tail(n: usize, loss: f64, most: usize) -> f64 {
    if loss <= 0.0 {
        return 0.0;
    }
    // Terms by recurrence; the first one does not underflow for n <= 255 and loss <= 0.9.
    let mut term = (1.0 - loss).powi(n as i32);
    let mut sum = term;
    for k in 0..most.min(n) {
        term *= (n - k) as f64 / (k + 1) as f64 * loss / (1.0 - loss);
        sum += term;
    }
    // What remains of rounding is far below the probabilities compared with.
    (1.0 - sum).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(loss: f64, segments: usize) -> Plan {
        let mut estimate = LossEstimate::default();
        estimate.observe((loss * 100_000.0) as u64, 100_000);
        Plan {
            loss: estimate,
            segments,
            bytes_left: None,
            busy: Duration::ZERO,
            rate: 125_000_000,
            rtt: Duration::from_millis(110),
        }
    }

    #[test]
    fn full_blocks_have_the_parity_that_was_found_to_work() {
        for (loss, parity) in [(0.0, 2), (0.0001, 2), (0.0005, 3), (0.01, 10)] {
            assert_eq!(plan(loss, 200).parity_count(), parity, "{loss}");
        }
    }

    #[test]
    fn overhead_stays_below_four_times_the_loss_and_two_percent() {
        for loss in [
            0.0, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3,
        ] {
            let parity = plan(loss, 200).parity_count() as f64;
            let overhead = parity / (200.0 + parity) + loss;
            assert!(overhead <= 4.0 * loss + 0.02, "{loss}: {parity}");
        }
    }

    #[test]
    fn small_blocks_are_bare_until_something_is_lost() {
        assert_eq!(plan(0.0, 3).parity_count(), 0);
        assert_eq!(plan(0.0, 8).parity_count(), 1);
        let mut lost = plan(0.0, 3);
        lost.loss.observe(1, 1000);
        assert_eq!(lost.parity_count(), 1);
        assert_eq!(plan(0.0, 0).parity_count(), 0);
    }

    #[test]
    fn blocks_with_time_for_retransmission_have_none() {
        let mut early = plan(0.01, 200);
        early.bytes_left = Some(100_000_000);
        assert_eq!(early.parity_count(), 0);
        early.loss = plan(0.0, 200).loss;
        assert_eq!(early.parity_count(), 0);
        early.bytes_left = Some(40_000_000);
        assert_eq!(early.parity_count(), 2);
    }

    #[test]
    fn the_longer_it_lasts_the_less_is_worth_a_round_trip() {
        let mut before = usize::MAX;
        for (seconds, expected) in [(0.1, 8), (1.0, 7), (10.0, 5), (100.0, 3)] {
            let mut long = plan(0.01, 200);
            long.rate = 5_000_000;
            long.busy = Duration::from_secs_f64(seconds);
            let parity = long.parity_count();
            assert!(
                parity <= before && parity.abs_diff(expected) <= 1,
                "{seconds}: {parity}"
            );
            before = parity;
        }
    }

    #[test]
    fn next_door_a_retransmission_is_cheaper() {
        for (rtt_us, busy_ms, most) in [(500, 0, 4), (500, 1000, 0), (5000, 1000, 2)] {
            let mut near = plan(0.01, 100);
            (near.rate, near.rtt) = (12_500_000, Duration::from_micros(rtt_us));
            near.busy = Duration::from_millis(busy_ms);
            let parity = near.parity_count();
            assert!(parity <= most, "{rtt_us} {busy_ms}: {parity}");
        }
    }

    #[test]
    fn the_tail_is_the_binomial_one() {
        // P(X > 0) and P(X > 1) of ten at one half.
        assert!((tail(10, 0.5, 0) - 1023.0 / 1024.0).abs() < 1e-12);
        assert!((tail(10, 0.5, 1) - 1013.0 / 1024.0).abs() < 1e-12);
        assert_eq!(tail(10, 0.0, 0), 0.0);
        assert!(tail(255, 0.9, 40) > 0.999);
    }

    #[test]
    fn a_prior_gives_way_to_evidence() {
        let mut estimate = LossEstimate::with_prior(0.01);
        assert!((estimate.rate() - 0.01).abs() < 1e-9 && estimate.expects_loss());
        estimate.observe(0, 100_000);
        assert!(estimate.rate() < 0.0004);
        assert!(LossEstimate::with_prior(f64::NAN).rate() < 0.001);
    }
}
