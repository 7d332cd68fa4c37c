//! Data rates.

use std::{cmp::Ordering, fmt, ops::Mul, time::Duration};

/// A data rate in bits per second, of a path, a link or a sender.
///
/// It is finite and not negative. The constructors replace an invalid number (negative, infinite or
/// NaN) by zero.
///
/// ```
/// use transpute_units::Bandwidth;
///
/// let rate = Bandwidth::from_bytes_per_second(1_562_500.0);
/// assert_eq!(rate, Bandwidth::from_bits_per_second(12_500_000.0));
/// assert_eq!(rate.to_string(), "12.5 Mbit/s");
/// assert_eq!(rate.time_to_send(3_125_000).as_secs(), 2);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Bandwidth {
    bits_per_second: f64,
}

impl Bandwidth {
    /// The rate that is assumed for a path between two hosts if the true rate is unknown: 100
    /// Mbit/s. The choices of the garbling scheme and of the kind of oblivious transfers depend on
    /// the rate. Any rate from 100 Mbit/s to 8 Gbit/s leads to the same choice of the scheme.
    pub const ASSUMED: Self = Self::from_megabits_per_second(100.0);

    /// Returns the rate of `rate` bits per second.
    #[must_use]
    pub const fn from_bits_per_second(rate: f64) -> Self {
        Self {
            // Comparisons with NaN are false, so NaN becomes zero.
            bits_per_second: if rate > 0.0 && rate < f64::INFINITY {
                rate
            } else {
                0.0
            },
        }
    }

    /// Returns the rate of `rate` bytes per second.
    #[must_use]
    pub const fn from_bytes_per_second(rate: f64) -> Self {
        Self::from_bits_per_second(rate * 8.0)
    }

    /// Returns the rate of `rate` megabits (10^6 bits) per second.
    #[must_use]
    pub const fn from_megabits_per_second(rate: f64) -> Self {
        Self::from_bits_per_second(rate * 1e6)
    }

    /// Returns the average rate of a transfer of `bytes` in `time`, or zero if `time` is zero.
    #[must_use]
    pub fn of_transfer(bytes: u64, time: Duration) -> Self {
        // For a `time` of zero, the quotient is infinite or NaN, which becomes zero.
        Self::from_bytes_per_second(bytes as f64 / time.as_secs_f64())
    }

    /// Returns the rate in bits per second.
    #[must_use]
    pub const fn bits_per_second(self) -> f64 {
        self.bits_per_second
    }

    /// Returns the rate in bytes per second.
    #[must_use]
    pub const fn bytes_per_second(self) -> f64 {
        self.bits_per_second / 8.0
    }

    /// Returns the rate in megabits (10^6 bits) per second.
    #[must_use]
    pub const fn megabits_per_second(self) -> f64 {
        self.bits_per_second / 1e6
    }

    /// Returns the number of seconds that a transfer of `bytes` takes at this rate. At a rate of
    /// zero, this is infinite, or 0 if `bytes` is 0.
    #[must_use]
    pub fn seconds_to_send(self, bytes: f64) -> f64 {
        match bytes > 0.0 {
            true => bytes / self.bytes_per_second(),
            false => 0.0,
        }
    }

    /// Returns the time that a transfer of `bytes` takes at this rate, or [`Duration::MAX`] if it
    /// takes longer.
    #[must_use]
    pub fn time_to_send(self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(self.seconds_to_send(bytes as f64)).unwrap_or(Duration::MAX)
    }

    /// Returns the number of bytes that are transferred in `time` at this rate. If `time` is the
    /// round-trip time, this is the bandwidth-delay product.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> f64 {
        self.bytes_per_second() * time.as_secs_f64()
    }
}

impl PartialEq for Bandwidth {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Bandwidth {}

impl PartialOrd for Bandwidth {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bandwidth {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bits_per_second.total_cmp(&other.bits_per_second)
    }
}

/// Multiplies a rate by a factor.
impl Mul<f64> for Bandwidth {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self::from_bits_per_second(self.bits_per_second * factor)
    }
}

/// Formats the rate in Mbit/s. The precision of the format string is the number of decimals.
/// Without a precision, all decimals are written.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabits = self.megabits_per_second();
        match f.precision() {
            Some(decimals) => write!(f, "{megabits:.decimals$} Mbit/s"),
            None => write!(f, "{megabits} Mbit/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_are_shown_in_megabits() {
        let rate = Bandwidth::from_megabits_per_second(12.5);
        assert_eq!(rate.to_string(), "12.5 Mbit/s");
        assert_eq!(format!("{rate:.2}"), "12.50 Mbit/s");
        assert_eq!(Bandwidth::default().to_string(), "0 Mbit/s");
        assert_eq!(
            format!("{:.0}", Bandwidth::from_bytes_per_second(125e6)),
            "1000 Mbit/s"
        );
    }

    #[test]
    fn a_rate_of_zero_sends_nothing() {
        let none = Bandwidth::default();
        assert_eq!(none.time_to_send(0), Duration::ZERO);
        assert_eq!(none.time_to_send(1), Duration::MAX);
        assert_eq!(none.bytes_in(Duration::MAX), 0.0);
        for bytes in [0, u64::MAX] {
            assert_eq!(Bandwidth::of_transfer(bytes, Duration::ZERO), none);
        }
    }

    proptest! {
        #[test]
        fn any_number_is_a_finite_rate(rate in any::<f64>(), factor in any::<f64>()) {
            let constructors = [
                Bandwidth::from_bits_per_second,
                Bandwidth::from_bytes_per_second,
                Bandwidth::from_megabits_per_second,
            ];
            for constructor in constructors {
                for rate in [constructor(rate), constructor(rate) * factor] {
                    prop_assert!(rate.bits_per_second().is_finite());
                    prop_assert!(rate.bits_per_second().is_sign_positive());
                    prop_assert!(rate >= Bandwidth::default());
                }
            }
        }

        #[test]
        fn bytes_and_bits_convert_without_loss(bytes in 0_u64..1 << 53) {
            let rate = Bandwidth::from_bytes_per_second(bytes as f64);
            prop_assert_eq!(rate.bytes_per_second(), bytes as f64);
            prop_assert_eq!(rate, Bandwidth::from_bits_per_second(bytes as f64 * 8.0));
            prop_assert_eq!(rate == Bandwidth::default(), bytes == 0);
        }

        #[test]
        fn time_and_bytes_are_inverse(megabits in 1e-3_f64..1e6, bytes in 1_u64..1 << 40) {
            let rate = Bandwidth::from_megabits_per_second(megabits);
            let sent = rate.bytes_in(rate.time_to_send(bytes));
            // The time is rounded to nanoseconds.
            let error = rate.bytes_per_second() * 1e-9 + bytes as f64 * 1e-12;
            prop_assert!((sent - bytes as f64).abs() <= error, "{sent} {bytes}");
            let mean = Bandwidth::of_transfer(bytes, rate.time_to_send(bytes));
            let same = (mean.bits_per_second() / rate.bits_per_second() - 1.0).abs();
            prop_assert!(same <= 1e-9 / rate.seconds_to_send(bytes as f64) + 1e-12, "{mean} {rate}");
            prop_assert!((rate * 2.0).time_to_send(bytes) <= rate.time_to_send(bytes));
        }
    }
}
