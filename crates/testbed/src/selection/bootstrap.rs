//! Confidence intervals of means, by the bootstrap (B. Efron, 1979).

use transpute_netem::model::derive_seed;

/// Number of resamples. With 2,000, the bounds of a 95 % interval vary between seeds by a few
/// hundredths of its width.
const RESAMPLES: u64 = 2000;

/// Returns the 95 % confidence interval of the mean of `values`. The same values always give the
/// same interval. None for fewer than two values.
pub(super) fn interval_of_mean(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as u64;
    if count < 2 {
        return None;
    }
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|resample| {
            let drawn = (0..count).map(|place| {
                let drawn = derive_seed(resample, place) % count;
                values[drawn as usize]
            });
            drawn.sum::<f64>() / count as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[(share * RESAMPLES as f64) as usize];
    Some((at(0.025), at(0.975)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_the_width_of_the_standard_error() {
        // The standard error of the mean of 400 values with a standard deviation of 1 is 0.05, so
        // the interval extends 1.96 · 0.05 to each side.
        let values: Vec<f64> = (0..400)
            .map(|i| if i % 2 == 0 { 9.0 } else { 11.0 })
            .collect();
        let (low, high) = interval_of_mean(&values).unwrap();
        assert!(
            (low - 9.9).abs() < 0.02 && (high - 10.1).abs() < 0.02,
            "{low} {high}"
        );
        assert_eq!(interval_of_mean(&[3.0; 5]), Some((3.0, 3.0)));
        assert_eq!(interval_of_mean(&[3.0]), None);
    }
}
