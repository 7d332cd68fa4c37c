//! Fits a model to measured runs, with confidence intervals of its parameters.
//!
//! docs/selection.md, "The model", describes the method. The algorithm of Levenberg and Marquardt
//! minimizes the loss. The result does not depend on the order of the runs.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use transpute_transport::Profile;

use crate::{
    FitErrors, Model, PathEstimate, RunSet, SelectError, Spec, Workload,
    error::checked,
    goodness::{quantile, rounded, sorted},
    law::Conditions,
    model::{Estimate, Fitted, Parameters, Values},
    predict::{both_ways, parts},
};

/// Minimum number of cells for the fit of a transport: two for each parameter.
pub const MIN_CELLS: usize = 10;

/// Threshold of the Huber loss, in standard deviations of the error. Above it, the loss grows
/// linearly instead of quadratically. The value has 95 % efficiency for normal errors (P. J. Huber,
/// 1964).
const HUBER: f64 = 1.345;

/// Standard deviation of the prior of a parameter's logarithm: a factor of two around the theory.
const PRIOR_SIGMA: f64 = std::f64::consts::LN_2;

/// Bound on the difference between the logarithms of a parameter and of its theoretical value: a
/// factor of 50. A parameter beyond it would lose its physical meaning.
const MAX_LOG_RATIO: f64 = 3.9;

/// Lower bound on the estimated standard deviation of the prediction error, in logarithms of the
/// time.
const MIN_SIGMA: f64 = 0.03;

/// Number of resamples of the bootstrap. 95 % intervals need some hundreds (Efron and Tibshirani,
/// 1993, section 13.3).
const RESAMPLES: usize = 400;

/// Maximum number of iterations of a fit. Measured: all fits converge within 30.
const MAX_ITERATIONS: usize = 60;

/// A measured run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The actual path, for example an emulated one.
    pub path: PathEstimate,
    /// The workload.
    pub workload: Workload,
    /// The transport.
    pub transport: Spec,
    /// Time from the first packet of the set-up to the output, in seconds.
    pub seconds: f64,
    /// The run was stopped at a time limit. `seconds` is then only a lower bound.
    pub is_cut: bool,
    /// The name of the cell, which is the combination of path and workload.
    pub cell: String,
    /// The run is not used for the fit, but to check the fitted model.
    pub is_held_out: bool,
}

/// All runs of a cell over one transport.
struct Observed {
    profile: Profile,
    path: [Conditions; 2],
    workload: Workload,
    /// Median time of the runs, in seconds. It is only a lower bound if `is_cut` is true.
    seconds: f64,
    is_cut: bool,
}

impl Observed {
    /// Returns the logarithm of predicted over measured time. If the measured time is a lower bound
    /// and the predicted time is above it, the result is 0.
    fn error(&self, theta: &[f64]) -> f64 {
        let values: Vec<f64> = theta.iter().map(|log| log.exp()).collect();
        let values = Values::from_slice(&values);
        let (parts, _) = parts(&self.profile, &values, &self.path, &self.workload);
        let error = (parts.total() / self.seconds).ln();
        match self.is_cut {
            true => error.min(0.0),
            false => error,
        }
    }
}

/// Fits a model to runs, for each transport separately. `name` describes the set of runs.
/// Transports with fewer than [`MIN_CELLS`] cells are left out.
///
/// # Errors
/// Returns [`SelectError::TooFewCells`] if no transport has [`MIN_CELLS`] cells. Returns
/// [`SelectError::Number`] if a number of a run is out of range.
pub fn fit(name: &str, samples: &[Sample]) -> Result<Model, SelectError> {
    let mut by_transport: BTreeMap<Spec, BTreeMap<&str, Vec<&Sample>>> = BTreeMap::new();
    for sample in samples {
        sample.path.validate()?;
        let range = (1e-6, 1e9);
        checked("seconds", sample.seconds, range, "1e-6 to 1e9 seconds")?;
        let control = sample.path.kernel.congestion_control.as_deref();
        let cells = by_transport.entry(sample.transport.in_effect(control));
        let runs = cells.or_default().entry(sample.cell.as_str());
        runs.or_default().push(sample);
    }
    let mut transports = BTreeMap::new();
    let mut most_cells = 0;
    let mut used: Vec<&Sample> = Vec::new();
    for (spec, cells) in by_transport {
        let (held_out, seen): (Vec<_>, Vec<_>) =
            cells.values().partition(|runs| runs[0].is_held_out);
        most_cells = most_cells.max(seen.len());
        if seen.len() < MIN_CELLS {
            continue;
        }
        used.extend(cells.values().flatten());
        let observed = |cells: Vec<&Vec<&Sample>>| -> Vec<Observed> {
            cells.into_iter().map(|runs| observe(&spec, runs)).collect()
        };
        let fitted = fit_one(
            &spec.profile_under(None),
            &observed(seen),
            &observed(held_out),
        );
        transports.insert(spec, fitted);
    }
    if transports.is_empty() {
        return Err(SelectError::TooFewCells {
            min: MIN_CELLS,
            found: most_cells,
        });
    }
    let cells: BTreeMap<&str, bool> = (used.iter())
        .map(|sample| (sample.cell.as_str(), sample.is_held_out))
        .collect();
    let runs = RunSet {
        name: name.to_owned(),
        runs: used.len(),
        cells: cells.len(),
        held_out_cells: cells.values().filter(|is_held_out| **is_held_out).count(),
    };
    Ok(Model::new(runs, transports))
}

fn observe(spec: &Spec, runs: &[&Sample]) -> Observed {
    // Runs that were cut off sort last, because their true times exceed the time limit.
    let mut runs = runs.to_vec();
    runs.sort_by(|a, b| (a.is_cut.cmp(&b.is_cut)).then(a.seconds.total_cmp(&b.seconds)));
    let median = runs[runs.len() / 2];
    Observed {
        // The transport's name already includes the kernel's default congestion control.
        profile: spec.profile_under(None),
        path: both_ways(&median.path),
        workload: median.workload,
        seconds: median.seconds,
        is_cut: median.is_cut,
    }
}

fn fit_one(profile: &Profile, seen: &[Observed], held_out: &[Observed]) -> Fitted {
    let theory: Vec<f64> = (Values::theory(profile).named())
        .map(|(_, value)| value.ln())
        .collect();
    let once = vec![1.0; seen.len()];
    // The standard deviation of the first fit's errors determines the weight of the prior.
    let first = minimize(seen, &once, &theory, &theory, 0.15);
    let sigma = spread(seen, &first);
    let best = minimize(seen, &once, &theory, &first, sigma);
    let mut random = StdRng::seed_from_u64(1);
    let resampled: Vec<Vec<f64>> = (0..RESAMPLES)
        .map(|_| {
            let mut weights = vec![0.0; seen.len()];
            for _ in seen {
                weights[random.random_range(0..seen.len())] += 1.0;
            }
            let center: Vec<f64> = (theory.iter())
                .map(|log| log + PRIOR_SIGMA * normal(&mut random))
                .collect();
            minimize(seen, &weights, &center, &best, sigma)
        })
        .collect();
    let estimates: Vec<Estimate> = (best.iter().enumerate())
        .map(|(place, log)| {
            let all = sorted(resampled.iter().map(|theta| theta[place]).collect());
            let value = rounded(log.exp());
            Estimate {
                value,
                low: rounded(quantile(&all, 0.025).exp()).min(value),
                high: rounded(quantile(&all, 0.975).exp()).max(value),
            }
        })
        .collect();
    Fitted {
        parameters: Parameters::from_slice(&estimates),
        sigma: rounded(spread(seen, &best)),
        fit: goodness(seen, &best),
        held_out: (!held_out.is_empty()).then(|| goodness(held_out, &best)),
    }
}

/// Draws from the standard normal distribution (Box and Muller, 1958).
fn normal(random: &mut StdRng) -> f64 {
    let (u, v): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Returns the standard deviation of errors, estimated by the 68th percentile of their absolute
/// values, which is robust against outliers.
fn spread(cells: &[Observed], theta: &[f64]) -> f64 {
    let whole = cells.iter().filter(|cell| !cell.is_cut);
    let errors = sorted(whole.map(|cell| cell.error(theta).abs()).collect());
    quantile(&errors, 0.68).max(MIN_SIGMA)
}

fn goodness(cells: &[Observed], theta: &[f64]) -> FitErrors {
    let whole = cells.iter().filter(|cell| !cell.is_cut);
    let pairs = whole.map(|cell| (cell.seconds * cell.error(theta).exp(), cell.seconds));
    FitErrors::of(&pairs.collect::<Vec<_>>())
}

/// Returns the logarithms of the parameters that minimize the sum of the weighted loss and of the
/// squared distance from the center of the prior.
fn minimize(
    cells: &[Observed],
    weights: &[f64],
    center: &[f64],
    start: &[f64],
    sigma: f64,
) -> Vec<f64> {
    /// Half the distance between the two points of a central difference quotient, in logarithms.
    const STEP: f64 = 1e-4;
    let cells: Vec<_> = (cells.iter().zip(weights))
        .filter(|(_, weight)| **weight > 0.0)
        .collect();
    let errors = |theta: &[f64]| -> Vec<f64> {
        let errors = cells.iter().map(|(cell, _)| cell.error(theta) / sigma);
        errors.collect()
    };
    let cost = |theta: &[f64]| {
        let losses = errors(theta).into_iter().map(huber).zip(&cells);
        let prior = theta.iter().zip(center);
        losses
            .map(|(loss, (_, weight))| loss * **weight)
            .sum::<f64>()
            + prior
                .map(|(log, center)| ((log - center) / PRIOR_SIGMA).powi(2) / 2.0)
                .sum::<f64>()
    };
    let (mut theta, mut damping) = (start.to_vec(), 1e-3);
    let mut best = cost(&theta);
    for _ in 0..MAX_ITERATIONS {
        let now = errors(&theta);
        let slopes = (0..theta.len()).map(|place| {
            let at = |step: f64| {
                let mut moved = theta.clone();
                moved[place] += step;
                errors(&moved)
            };
            let ends = at(STEP).into_iter().zip(at(-STEP));
            ends.map(|(after, before)| (after - before) / (2.0 * STEP))
                .collect()
        });
        let slopes: Vec<Vec<f64>> = slopes.collect();
        // The weights implement the Huber loss: an error above the threshold counts less
        // (iteratively reweighted least squares).
        let product = |a: &[f64], b: &[f64]| -> f64 {
            (0..now.len())
                .map(|cell| {
                    cells[cell].1 * (HUBER / now[cell].abs().max(HUBER)) * a[cell] * b[cell]
                })
                .sum()
        };
        // Builds one row of the normal equations. Its last column is the gradient.
        let row = |(place, slope): (usize, &Vec<f64>)| {
            let mut row: Vec<f64> = slopes.iter().map(|other| product(slope, other)).collect();
            row[place] += PRIOR_SIGMA.powi(-2);
            let prior = (theta[place] - center[place]) / PRIOR_SIGMA.powi(2);
            row.push(product(slope, &now) + prior);
            row
        };
        let equations: Vec<Vec<f64>> = slopes.iter().enumerate().map(row).collect();
        let mut improved = false;
        while damping < 1e6 && !improved {
            let mut damped = equations.clone();
            for (place, row) in damped.iter_mut().enumerate() {
                row[place] *= 1.0 + damping;
            }
            let next = theta.iter().zip(solve(damped)).zip(center);
            let next: Vec<f64> = next
                .map(|((log, step), center)| {
                    (log - step).clamp(center - MAX_LOG_RATIO, center + MAX_LOG_RATIO)
                })
                .collect();
            let found = cost(&next);
            improved = found < best * (1.0 - 1e-9);
            damping = (damping * if improved { 0.2 } else { 5.0 }).max(1e-9);
            if improved {
                (theta, best) = (next, found);
            }
        }
        if !improved {
            break;
        }
    }
    theta
}

fn huber(off: f64) -> f64 {
    match off.abs() {
        off if off <= HUBER => off * off / 2.0,
        off => HUBER * (off - HUBER / 2.0),
    }
}

/// Solves a system of linear equations by Gauss-Jordan elimination. The matrix must be positive
/// definite; the last column has the right-hand sides.
fn solve(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    for pivot in 0..rows.len() {
        let scale = rows[pivot][pivot];
        let top: Vec<f64> = rows[pivot].iter().map(|entry| entry / scale).collect();
        for row in &mut rows {
            let factor = row[pivot];
            for (entry, above) in row.iter_mut().zip(&top) {
                *entry -= factor * above;
            }
        }
        rows[pivot] = top;
    }
    rows.iter().map(|row| row[rows.len()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved() {
        let x = solve(vec![vec![4.0, 1.0, 1.0], vec![1.0, 3.0, 2.0]]);
        assert!((x[0] - 1.0 / 11.0).abs() < 1e-12 && (x[1] - 7.0 / 11.0).abs() < 1e-12);
    }

    #[test]
    fn draws_are_normal() {
        let mut random = StdRng::seed_from_u64(7);
        let draws: Vec<f64> = (0..10_000).map(|_| normal(&mut random)).collect();
        let mean = draws.iter().sum::<f64>() / 1e4;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e4;
        assert!(
            mean.abs() < 0.04 && (variance - 1.0).abs() < 0.06,
            "{mean} {variance}"
        );
    }
}
