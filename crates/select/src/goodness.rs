//! Errors of a model's predictions.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// Errors of predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct FitErrors {
    /// Number of cells compared.
    pub cells: usize,
    /// Median of the relative error, `|predicted - measured| / measured`.
    pub median_error: f64,
    /// 90th percentile of the relative error.
    pub p90_error: f64,
    /// Coefficient of determination (R²) of the logarithms of the times.
    pub r2_log: f64,
}

impl FitErrors {
    /// Compares `(predicted, measured)` pairs.
    #[must_use]
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|&(a, b)| of(a, b)).sum::<f64>();
        let mean = sum(&|_, measured| measured.ln()) / pairs.len() as f64;
        let left = sum(&|predicted, measured| (predicted / measured).ln().powi(2));
        let all = sum(&|_, measured| (measured.ln() - mean).powi(2));
        let errors = (pairs.iter()).map(|(predicted, measured)| (predicted / measured - 1.0).abs());
        let errors = sorted(errors.collect());
        Self {
            cells: pairs.len(),
            median_error: rounded(quantile(&errors, 0.5)),
            p90_error: rounded(quantile(&errors, 0.9)),
            r2_log: if all > 0.0 {
                rounded(1.0 - left / all)
            } else {
                0.0
            },
        }
    }
}

/// Rounds a number to four significant digits, so that JSON stores it exactly.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Sorts values in ascending order.
pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the quantile `q` of sorted values, interpolated linearly; 0 if there are no values.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = q * last as f64;
    // `place` is between 0 and `last`.
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}
