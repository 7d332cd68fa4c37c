//! Counts of lost packets, and confidence intervals of the loss probability.

/// The 97.5 % quantile of the standard normal distribution, for two-sided intervals of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// The smallest quotient of a later and an earlier loss fraction at which the later one counts as
/// worse. The value is a requirement of the project: a path is worse if its loss doubles.
const WORSE_LOSS: f64 = 2.0;

/// Number of standard deviations above which an increase of the loss fraction is significant. In
/// the normal approximation, 1 of 740 comparisons on an unchanged path exceeds it by chance.
const NOISE_DEVIATIONS: f64 = 3.0;

/// A count of the packets sent and lost in one direction of a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Loss {
    lost: u64,
    sent: u64,
}

impl Loss {
    /// The number of sent packets in the result of [`known`](Self::known). It is so large that the
    /// confidence interval is negligibly narrow.
    const KNOWN: u64 = 1_000_000_000;

    /// Creates a count from the numbers of lost and sent packets. Returns `None` if `lost` exceeds
    /// `sent`.
    #[must_use]
    pub fn new(lost: u64, sent: u64) -> Option<Self> {
        (lost <= sent).then_some(Self { lost, sent })
    }

    /// Returns a count for a loss probability that is known exactly, such as that of an emulated
    /// path. Returns `None` if `probability` is not between 0 and 1.
    #[must_use]
    pub fn known(probability: f64) -> Option<Self> {
        (0.0..=1.0).contains(&probability).then(|| Self {
            // The product is at most `KNOWN`, so the conversion does not overflow.
            lost: (probability * Self::KNOWN as f64).round() as u64,
            sent: Self::KNOWN,
        })
    }

    /// Returns the number of lost packets.
    #[must_use]
    pub fn lost(self) -> u64 {
        self.lost
    }

    /// Returns the number of sent packets.
    #[must_use]
    pub fn sent(self) -> u64 {
        self.sent
    }

    /// Returns the number of lost packets divided by that of sent packets, or 0 if none were sent.
    #[must_use]
    pub fn fraction(self) -> f64 {
        match self.sent {
            0 => 0.0,
            sent => self.lost as f64 / sent as f64,
        }
    }

    /// Returns whether this loss is worse than `before`. It is worse if its fraction is at least
    /// twice as high, and if the difference is statistically significant (3 standard deviations in
    /// the two-proportion z-test with the pooled proportion).
    #[must_use]
    pub fn is_worse_than(self, before: Self) -> bool {
        let (now, then) = (self.fraction(), before.fraction());
        if self.sent == 0 || before.sent == 0 || now <= then || now < WORSE_LOSS * then {
            return false;
        }
        let [sent, sent_before] = [self.sent, before.sent].map(|count| count as f64);
        let pooled = (self.lost as f64 + before.lost as f64) / (sent + sent_before);
        let variance = pooled * (1.0 - pooled) * (1.0 / sent + 1.0 / sent_before);
        now - then > NOISE_DEVIATIONS * variance.sqrt()
    }

    /// Returns the 95 % confidence interval of the loss probability, or `(0, 1)` if no packet was
    /// sent. It is the score interval of E. B. Wilson, *Probable inference, the law of succession,
    /// and statistical inference*, 1927.
    ///
    /// The interval is valid if packets are lost independently of each other. If losses occur in
    /// bursts, it is too narrow.
    #[must_use]
    pub fn interval(self) -> (f64, f64) {
        if self.sent == 0 {
            return (0.0, 1.0);
        }
        let (n, p, z2) = (self.sent as f64, self.fraction(), Z * Z);
        let center = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = Z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        // Because of rounding, the ends may lie slightly outside of 0 to 1.
        let (low, high) = ((center - half).max(0.0), (center + half).min(1.0));
        (
            if self.lost == 0 { 0.0 } else { low },
            if self.lost == self.sent { 1.0 } else { high },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_wilson() {
        // The expected values were computed independently, in double precision.
        for (lost, sent, low, high) in [
            (1, 128, 0.001_380_4, 0.042_926_3),
            (10, 1000, 0.005_440_8, 0.018_309_5),
        ] {
            let interval = Loss::new(lost, sent).unwrap().interval();
            assert!((interval.0 - low).abs() < 1e-7, "{interval:?}");
            assert!((interval.1 - high).abs() < 1e-7, "{interval:?}");
        }
        assert_eq!(Loss::new(0, 0).unwrap().interval(), (0.0, 1.0));
        assert_eq!(Loss::new(9, 9).unwrap().interval().1, 1.0);
    }

    #[test]
    fn more_lost_than_sent_is_refused() {
        assert_eq!(Loss::new(2, 1), None);
        for probability in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Loss::known(probability), None);
        }
        assert!((Loss::known(0.0005).unwrap().fraction() - 0.0005).abs() < 1e-12);
    }
}
