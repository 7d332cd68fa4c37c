//! Statistics of several measurements of one quantity.

/// Measurements of one quantity under the same conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a measurement. Values that are not finite are ignored.
    pub fn push(&mut self, value: f64) {
        if value.is_finite() {
            self.0.push(value);
        }
    }

    /// Returns the number of measurements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no measurements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the arithmetic mean. None without measurements.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// Returns the median. For an even number of measurements, it is the mean of the two middle
    /// values. None without measurements.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            odd if odd % 2 == 1 => Some(sorted[middle]),
            _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        }
    }

    /// Returns the sample standard deviation (divisor n - 1). None for fewer than two measurements.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self.0.iter().map(|value| (value - mean).powi(2)).sum();
        (self.len() > 1).then(|| (squares / (self.len() - 1) as f64).sqrt())
    }

    /// Returns the smallest and the largest measurement. None without measurements.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let smallest = self.0.iter().copied().min_by(f64::total_cmp)?;
        let largest = self.0.iter().copied().max_by(f64::total_cmp)?;
        Some((smallest, largest))
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        Self(
            values
                .into_iter()
                .filter(|value| value.is_finite())
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let samples: Samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
            .into_iter()
            .collect();
        assert_eq!(samples.mean(), Some(5.0));
        assert_eq!(samples.median(), Some(4.5));
        assert!((samples.deviation().unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(samples.range(), Some((2.0, 9.0)));
        let odd: Samples = [3.0, 1.0, 2.0].into_iter().collect();
        assert_eq!(odd.median(), Some(2.0));
    }

    #[test]
    fn few_samples_say_little() {
        let none = Samples::default();
        assert_eq!(
            (none.mean(), none.median(), none.deviation(), none.range()),
            (None, None, None, None)
        );
        let mut one = Samples::default();
        one.push(f64::NAN);
        one.push(7.0);
        one.push(f64::INFINITY);
        assert_eq!(
            (one.len(), one.mean(), one.median(), one.deviation()),
            (1, Some(7.0), Some(7.0), None)
        );
    }
}
