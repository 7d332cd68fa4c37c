//! Random loss.

use super::random::Stream;
use crate::scenario::GilbertElliott;

/// Independent loss and burst loss, combined.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    /// The probability of independent loss.
    pub(super) independent: f64,
    /// The Markov chain of burst loss.
    pub(super) burst: Option<GilbertElliott>,
    in_burst: bool,
    stream: Stream,
}

impl Loss {
    /// Creates the loss model in the good state.
    pub(super) fn new(independent: f64, burst: Option<GilbertElliott>, stream: Stream) -> Self {
        Self {
            independent,
            burst,
            in_burst: false,
            stream,
        }
    }

    /// Returns whether the next packet is lost.
    ///
    /// Every packet takes three random numbers, whatever kinds of loss are configured. So the
    /// outcome of the n-th packet depends on the seed and n alone.
    pub(super) fn drops_next(&mut self) -> bool {
        let (alone, step, bursty) = (self.stream.unit(), self.stream.unit(), self.stream.unit());
        let mut lost = alone < self.independent;
        if let Some(chain) = &self.burst {
            self.in_burst = if self.in_burst {
                step >= chain.p_leave
            } else {
                step < chain.p_enter
            };
            let probability = if self.in_burst {
                chain.loss_bad
            } else {
                chain.loss_good
            };
            lost |= bursty < probability;
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts losses, and runs of losses, among `packets`.
    fn count(mut loss: Loss, packets: u32) -> (f64, f64) {
        let (mut lost, mut runs, mut before) = (0u32, 0u32, false);
        for _ in 0..packets {
            let now = loss.drops_next();
            lost += u32::from(now);
            runs += u32::from(now && !before);
            before = now;
        }
        (f64::from(lost), f64::from(lost) / f64::from(runs.max(1)))
    }

    #[test]
    fn independent_loss_is_binomial() {
        for (seed, p) in [(1, 0.0005), (2, 0.01), (3, 0.2)] {
            let n = 1_000_000;
            let (lost, _) = count(Loss::new(p, None, Stream::new(seed, 0)), n);
            let mean = f64::from(n) * p;
            let deviation = (mean * (1.0 - p)).sqrt();
            assert!(
                (lost - mean).abs() < 4.0 * deviation,
                "{lost} of {n} at {p}"
            );
        }
    }

    #[test]
    fn bursts_have_the_stationary_rate_and_mean_length_of_the_chain() {
        let chain = GilbertElliott {
            p_enter: 0.001,
            p_leave: 0.25,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        let n = 2_000_000;
        let (lost, length) = count(Loss::new(0.0, Some(chain), Stream::new(5, 0)), n);
        let rate = lost / f64::from(n);
        // The expected loss rate is p_enter / (p_enter + p_leave), and the expected length of a
        // burst is 1 / p_leave packets.
        assert!((rate - 0.001 / 0.251).abs() < 0.0004, "{rate}");
        assert!((length - 4.0).abs() < 0.3, "{length}");
    }

    #[test]
    fn certain_and_impossible_loss() {
        assert_eq!(count(Loss::new(0.0, None, Stream::new(1, 0)), 1000).0, 0.0);
        assert_eq!(
            count(Loss::new(1.0, None, Stream::new(1, 0)), 1000).0,
            1000.0
        );
    }
}
