//! Choice of the number of parity symbols of a block.

use std::time::Duration;

/// The number of segments of a full block. Chosen: a block takes 2.4 ms at 1 Gbit/s, and the
/// minimum of two parity symbols adds 1 %.
pub const BLOCK_SEGMENTS: usize = 200;

/// Blocks with fewer segments get no parity until a packet is lost. Chosen: one symbol would cost
/// more than a tenth of the bytes.
pub const SMALL_BLOCK: usize = 8;

/// The minimum target probability that a block cannot be reconstructed. Chosen: in transfers of 200
/// blocks, one in 300 waits for a retransmission.
const MIN_FAILURE: f64 = 1.5e-5;

/// The maximum expected cost of a block's failure, in transmission times of a packet. Chosen: on a
/// path of 110 ms and 1 Gbit/s, where waiting for a retransmission delays everything, the target
/// probability is [`MIN_FAILURE`].
const MAX_FAILURE_COST_PACKETS: f64 = 0.14;

/// The number of round trips at the end of a transfer in which a failed block delays the result.
/// Chosen: a transfer that has lasted a time t is in its last round trips with a probability of
/// this number of round trips, divided by t.
const LAST_ROUND_TRIPS: f64 = 2.0;

/// Bytes in flight up to which a gap never fills the receiver's window. Chosen: the cost of a
/// failure is zero up to here.
const MAX_HARMLESS_FLIGHT_BYTES: f64 = 1e6;

/// The additional bytes in flight at which the data behind a gap fill the window, so that every
/// failed block delays the transfer. Chosen: the cost grows linearly up to here.
const BLOCKING_FLIGHT_BYTES: f64 = 8e6;

/// The minimum number of parity symbols of a full block whose target probability is at most
/// [`MAX_PROTECTED_FAILURE`]. Chosen: the loss of a path is not known well enough for fewer.
const MIN_FULL_PARITY: usize = 2;

/// The maximum target probability of a block that has parity even if no loss is expected. Chosen:
/// above it, parity follows from the expected loss alone.
const MAX_PROTECTED_FAILURE: f64 = 1e-3;

/// The maximum ratio of parity symbols to segments. Chosen: parity is at most a fifth of what is
/// sent.
const MAX_PARITY_SHARE: f64 = 0.25;

/// The maximum number of parity symbols of a block. Chosen: takes effect for blocks of more than
/// 160 segments.
const MAX_PARITY: usize = 40;

/// The memory of the loss estimate, in packets: older packets are forgotten exponentially. Chosen:
/// 6 s at 200 Mbit/s.
const MEMORY_PACKETS: f64 = 100_000.0;

/// Weight of the prior, in packets. Chosen: as much as 25 full blocks.
const PRIOR_PACKETS: f64 = 5_000.0;

/// The loss of the prior, as a share of packets. Chosen: one packet in 10,000.
const PRIOR_LOSS: f64 = 1e-4;

/// The factor that determines how fast the weight of a prior falls with its loss: the weight is
/// divided by one plus this constant times the loss. Chosen: a prior with a loss of 1 % weighs half
/// as much as one without loss.
const PRIOR_DISTRUST: f64 = 100.0;

/// The maximum loss that an estimate returns, as a share of packets. Chosen: `tail` computes
/// without underflow up to it.
const MAX_LOSS: f64 = 0.9;

/// The size of a packet on the wire, in bytes: the MTU of Ethernet.
const PACKET_BYTES: f64 = 1500.0;

/// An estimate of the share of packets that the path loses. While few packets were observed, it is
/// mostly the prior.
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
    /// Creates an estimate with a prior for the loss, such as a measured or cached value.
    #[must_use]
    pub fn with_prior(loss: f64) -> Self {
        let prior = if loss.is_finite() {
            loss.clamp(0.0, MAX_LOSS)
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

    /// Adds packets whose outcome is now known.
    pub fn observe(&mut self, lost: u64, total: u64) {
        let total = total.max(lost) as f64;
        let keep = 1.0 - (total / MEMORY_PACKETS).min(1.0);
        self.lost = self.lost * keep + lost as f64;
        self.total = self.total * keep + total;
        self.seen_loss |= lost > 0;
    }

    /// Returns the expected loss.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let weight = self.prior_weight();
        ((self.lost + self.prior * weight) / (self.total + weight)).clamp(0.0, MAX_LOSS)
    }

    /// Returns the upper end of the confidence interval of the loss: the expected loss plus one
    /// standard deviation. The loss exceeds it with a probability of about one in six.
    #[must_use]
    pub fn cautious_rate(&self) -> f64 {
        let rate = self.rate();
        let weight = self.total + self.prior_weight();
        (rate + (rate * (1.0 - rate) / weight.max(1.0)).sqrt()).min(MAX_LOSS)
    }

    /// Returns the weight of the prior, in packets.
    fn prior_weight(&self) -> f64 {
        PRIOR_PACKETS / (1.0 + PRIOR_DISTRUST * self.prior)
    }

    /// Returns whether any loss was observed, or is expected by the prior.
    #[must_use]
    pub fn expects_loss(&self) -> bool {
        self.seen_loss || self.prior > PRIOR_LOSS
    }
}

/// The inputs to the number of parity symbols of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockPlan {
    /// The loss of the path.
    pub loss: LossEstimate,
    /// The number of segments of the block.
    pub segments: usize,
    /// Bytes that remain to be sent after the block, or `None` if the application did not specify
    /// it.
    pub bytes_left: Option<u64>,
    /// The time for which the application has been sending without a pause.
    pub busy: Duration,
    /// The sending rate, in bytes per second.
    pub rate: u64,
    /// The round-trip time.
    pub rtt: Duration,
}

impl BlockPlan {
    /// Returns the number of parity symbols to compute.
    ///
    /// It is the minimum with which the block fails at most with the target probability, by the
    /// tail of the binomial distribution. A failed block costs a round trip in two cases: it is
    /// among the last ones, or the data behind it fill the receiver's window.
    ///
    /// So a block with more than three round trips of data behind it has no parity. For other
    /// blocks, the target probability grows if fewer bytes are in flight, and if the application
    /// has been sending for longer. The reason is that a transfer which has lasted for some time
    /// lasts for the same time again, in the median.
    ///
    /// ```
    /// use transpute_rudp::fec::{LossEstimate, BlockPlan};
    /// use std::time::Duration;
    ///
    /// let mut loss = LossEstimate::default();
    /// loss.observe(1000, 100_000);
    /// let (rate, rtt) = (125_000_000, Duration::from_millis(110));
    /// let mut plan = BlockPlan { loss, segments: 200, bytes_left: None, busy: rtt, rate, rtt };
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
        let min = match segments >= BLOCK_SEGMENTS / 2 {
            _ if failure > MAX_PROTECTED_FAILURE => 0,
            true => MIN_FULL_PARITY,
            false => 1,
        };
        let share = (segments as f64 * MAX_PARITY_SHARE).ceil() as usize;
        let max = share.min(MAX_PARITY).min(super::MAX_SYMBOLS - segments);
        let loss = self.loss.cautious_rate();
        (min.min(max)..max)
            .find(|&parity| tail(segments + parity, loss, parity) <= failure)
            .unwrap_or(max)
    }

    /// Returns the target probability that the block cannot be reconstructed.
    fn failure(&self) -> f64 {
        let three_rounds = crate::rate::bytes_in(self.rate, self.rtt * 3);
        if self.bytes_left.is_some_and(|left| left > three_rounds) {
            return 1.0;
        }
        let (busy, rtt) = (self.busy.as_secs_f64(), self.rtt.as_secs_f64());
        let flight = crate::rate::bytes_in(self.rate, self.rtt) as f64;
        let last = LAST_ROUND_TRIPS * rtt / busy.max(1e-9);
        let delays = last
            .max((flight - MAX_HARMLESS_FLIGHT_BYTES) / BLOCKING_FLIGHT_BYTES)
            .min(1.0);
        let cost = MAX_FAILURE_COST_PACKETS * PACKET_BYTES;
        (cost / (flight * delays).max(1.0)).clamp(MIN_FAILURE, 1.0)
    }
}

/// Returns the probability that more than `max` of `n` packets are lost.
fn tail(n: usize, loss: f64, max: usize) -> f64 {
    if loss <= 0.0 {
        return 0.0;
    }
    // The terms are computed by recurrence. The first one does not underflow for n <= 255 and loss
    // <= 0.9.
    let mut term = (1.0 - loss).powi(n as i32);
    let mut sum = term;
    for k in 0..max.min(n) {
        term *= (n - k) as f64 / (k + 1) as f64 * loss / (1.0 - loss);
        sum += term;
    }
    // The rounding error of the sum is far below the target probabilities with which the caller
    // compares the result.
    (1.0 - sum).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(loss: f64, segments: usize) -> BlockPlan {
        let mut estimate = LossEstimate::default();
        estimate.observe((loss * 100_000.0) as u64, 100_000);
        BlockPlan {
            loss: estimate,
            segments,
            bytes_left: None,
            busy: Duration::ZERO,
            rate: 125_000_000,
            rtt: Duration::from_millis(110),
        }
    }

    #[test]
    fn full_blocks_have_the_measured_number_of_parity_symbols() {
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
    fn small_blocks_have_no_parity_before_a_loss() {
        assert_eq!(plan(0.0, 3).parity_count(), 0);
        assert_eq!(plan(0.0, 8).parity_count(), 1);
        let mut lost = plan(0.0, 3);
        lost.loss.observe(1, 1000);
        assert_eq!(lost.parity_count(), 1);
        assert_eq!(plan(0.0, 0).parity_count(), 0);
    }

    #[test]
    fn blocks_with_time_for_retransmission_have_no_parity() {
        let mut early = plan(0.01, 200);
        early.bytes_left = Some(100_000_000);
        assert_eq!(early.parity_count(), 0);
        early.loss = plan(0.0, 200).loss;
        assert_eq!(early.parity_count(), 0);
        early.bytes_left = Some(40_000_000);
        assert_eq!(early.parity_count(), 2);
    }

    #[test]
    fn parity_decreases_with_the_duration_of_a_transfer() {
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
    fn parity_decreases_with_the_round_trip_time() {
        for (rtt_us, busy_ms, max) in [(500, 0, 4), (500, 1000, 0), (5000, 1000, 2)] {
            let mut near = plan(0.01, 100);
            (near.rate, near.rtt) = (12_500_000, Duration::from_micros(rtt_us));
            near.busy = Duration::from_millis(busy_ms);
            let parity = near.parity_count();
            assert!(parity <= max, "{rtt_us} {busy_ms}: {parity}");
        }
    }

    #[test]
    fn the_tail_is_that_of_the_binomial_distribution() {
        // P(X > 0) and P(X > 1) of ten packets at a loss of one half.
        assert!((tail(10, 0.5, 0) - 1023.0 / 1024.0).abs() < 1e-12);
        assert!((tail(10, 0.5, 1) - 1013.0 / 1024.0).abs() < 1e-12);
        assert_eq!(tail(10, 0.0, 0), 0.0);
        assert!(tail(255, 0.9, 40) > 0.999);
    }

    #[test]
    fn observations_outweigh_the_prior() {
        let mut estimate = LossEstimate::with_prior(0.01);
        assert!((estimate.rate() - 0.01).abs() < 1e-9 && estimate.expects_loss());
        estimate.observe(0, 100_000);
        assert!(estimate.rate() < 0.0004);
        assert!(LossEstimate::with_prior(f64::NAN).rate() < 0.001);
    }
}
