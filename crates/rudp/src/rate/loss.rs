//! The loss floor: the random loss of a path, which occurs at any rate.

/// The memory of the estimate, in packets: older packets are forgotten exponentially. Chosen: half
/// a second at 700 Mbit/s.
const MEMORY_PACKETS: f64 = 30_000.0;

/// The maximum floor, as a share of packets. Chosen: the sending rate is at most twice the delivery
/// rate.
const MAX_FLOOR: f64 = 0.5;

/// The weight of the prior, in packets without loss. Chosen: the first lost packet of a connection
/// raises the estimate to at most 0.5 %.
const PRIOR_PACKETS: f64 = 200.0;

/// Estimates the share of packets that are lost while no queue is full.
///
/// It observes intervals of a transfer without signs of congestion, and remembers about the last
/// 30,000 packets.
#[derive(Clone, Debug, Default)]
pub(super) struct LossFloor {
    lost: f64,
    total: f64,
}

impl LossFloor {
    /// Returns the estimate. It is zero before the first loss.
    pub(super) fn rate(&self) -> f64 {
        (self.lost / (self.total + PRIOR_PACKETS)).min(MAX_FLOOR)
    }

    /// Adds the packets of an interval without congestion: `lost` of `total` were lost.
    pub(super) fn observe(&mut self, lost: u64, total: u64) {
        let keep = 1.0 - (total as f64 / MEMORY_PACKETS).min(1.0);
        self.lost = self.lost * keep + lost as f64;
        self.total = self.total * keep + total as f64;
    }

    /// Replaces the estimate by this rate, which a test of the path has shown.
    pub(super) fn set(&mut self, rate: f64) {
        self.total = MEMORY_PACKETS / 8.0;
        self.lost = rate * (self.total + PRIOR_PACKETS);
    }
}

/// Returns whether the number of lost packets exceeds a loss rate by more than chance.
///
/// The threshold is three standard deviations of the binomial distribution, and at least five
/// packets.
pub(super) fn exceeds(lost: u64, total: u64, rate: f64) -> bool {
    let mean = total as f64 * rate;
    lost >= 5 && lost as f64 > mean + 3.0 * (mean * (1.0 - rate)).max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_loss_and_forgets() {
        let mut floor = LossFloor::default();
        assert_eq!(floor.rate(), 0.0);
        for _ in 0..100 {
            floor.observe(10, 1000);
        }
        assert!((floor.rate() - 0.01).abs() < 0.0005, "{}", floor.rate());
        for _ in 0..200 {
            floor.observe(0, 1000);
        }
        assert!(floor.rate() < 0.0001, "{}", floor.rate());
        floor.set(0.2);
        assert!((floor.rate() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn few_losses_are_not_significant() {
        assert!(!exceeds(4, 10, 0.0));
        assert!(exceeds(5, 100, 0.0));
        assert!(!exceeds(30, 1000, 0.02));
        assert!(exceeds(40, 1000, 0.02));
    }
}
