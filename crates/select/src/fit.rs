//! From runs to a model.
//!
//! The factors enter linearly and come from weighted non-negative least squares on relative errors, pulled a little towards
//! the theory so that few runs cannot turn them absurd. Weights are renewed a few times: a run counts with the inverse
//! of the geometric mean of its measured and its predicted time, so that being off by a factor costs the same both ways,
//! and far-off runs count less (Huber). The four figures of the [`Shape`] come from a coordinate search around the theory. All
//! is deterministic: the same runs give the same model, in any order.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    Excess, Factors, Family, Fitted, Law, Model, PathEstimate, RunSet, SelectError, Shape, Spec,
    Spread, Workload,
    error::checked,
    linear::non_negative,
    terms::{Chain, Plausible, Point, Terms},
};

/// Runs of a transport that are needed to fit it.
pub const MIN_SAMPLES: usize = 8;

/// Relative error from which on a run counts less.
const HUBER: f64 = 0.25;

/// How often the weights are renewed.
const REWEIGHTS: usize = 6;

/// How strongly factors are pulled to the theory: as much as so many runs that consist of nothing else.
const PULL: f64 = 0.3;

/// Round trips count for no less than that: paths are as long as measured, and handshakes have as many as their protocols say.
const LEAST_ROUND_TRIPS: f64 = 0.95;

/// How strongly the figures of the shape are pulled to the theory: what being off by a factor of e costs, in the measure of the
/// fit, in which a run that is off by 10 % costs 0.005.
const SHAPE_PULL: f64 = 0.3;

/// Rounds of the search over the shape.
const ROUNDS: usize = 6;

/// Steps of the search, as factors, coarse to fine.
const STEPS: [f64; ROUNDS] = [2.0, 1.6, 1.3, 1.15, 1.07, 1.03];

/// What a single run counts for at most, as a multiple of what is predicted.
const MAX_EXCESS: f64 = 5.0;

/// What a run counts for that chance decides.
const CHANCE: f64 = 0.1;

/// The least spread that is claimed.
const MIN_SIGMA: f64 = 0.03;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The path as it really was, emulated for instance.
    pub path: PathEstimate,
    /// What was computed.
    pub workload: Workload,
    /// Over which transport.
    pub transport: Spec,
    /// From the first packet of the set-up to the output, in seconds.
    pub seconds: f64,
    /// Of these, until the connector's link was up, if it was measured.
    pub setup_s: Option<f64>,
    /// The run was ended at `seconds`: it would have taken longer.
    pub is_cut: bool,
    /// What names path and workload.
    pub cell: String,
    /// The run is left out of the fit, to check it. The same for all runs of a cell, whatever the transport: otherwise the fit has
    /// seen what it is checked by.
    pub is_held_out: bool,
}

/// How well predictions meet what was measured.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Goodness {
    /// Runs compared.
    pub runs: usize,
    /// Coefficient of determination of the times in seconds, as rebane-2012 defines it (section 5.4.1): it is ruled by
    /// the longest runs.
    pub r2: f64,
    /// The same of the logarithms of the times, where all runs count alike.
    pub r2_log: f64,
    /// Median of the relative error, `|predicted - measured| / measured`.
    pub median_error: f64,
    /// 90th percentile of it.
    pub p90_error: f64,
    /// 95th percentile of it.
    pub p95_error: f64,
}

impl Sample {
    fn validate(&self) -> Result<(), SelectError> {
        self.path.validate()?;
        checked("seconds", self.seconds, (1e-6, 1e9), "1e-6 to 1e9 seconds")?;
        checked(
            "setup_s",
            self.setup_s.unwrap_or(0.0),
            (0.0, self.seconds),
            "no more than the whole",
        )?;
        Ok(())
    }
}

impl Goodness {
    /// Compares `(predicted, measured)` pairs.
    #[must_use]
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let r2 = |of: fn(f64) -> f64| {
            let mean = pairs.iter().map(|pair| of(pair.1)).sum::<f64>() / pairs.len() as f64;
            let around = |f: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(f).sum::<f64>();
            let left = around(&|pair| (of(pair.1) - of(pair.0)).powi(2));
            let all = around(&|pair| (of(pair.1) - mean).powi(2));
            if all > 0.0 { 1.0 - left / all } else { 0.0 }
        };
        let mut errors: Vec<f64> = (pairs.iter())
            .map(|(predicted, measured)| (predicted - measured).abs() / measured)
            .collect();
        errors.sort_by(f64::total_cmp);
        Self {
            runs: pairs.len(),
            r2: rounded(r2(|x| x)),
            r2_log: rounded(r2(f64::ln)),
            median_error: rounded(quantile(&errors, 0.5)),
            p90_error: rounded(quantile(&errors, 0.9)),
            p95_error: rounded(quantile(&errors, 0.95)),
        }
    }
}

/// Returns a number with four decimal digits that matter.
fn rounded(value: f64) -> f64 {
    // The shortest text that is that number has few digits, which JSON carries exactly.
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl Shape {
    fn rounded(self) -> Self {
        Self {
            initial_window: rounded(self.initial_window),
            window_fill: rounded(self.window_fill),
            loss: rounded(self.loss),
            processor_rate: rounded(self.processor_rate),
        }
    }
}

impl Factors {
    fn rounded(self) -> Self {
        Self {
            // Less than a nanosecond is what arithmetic leaves of nothing.
            fixed_s: if self.fixed_s < 1e-9 {
                0.0
            } else {
                rounded(self.fixed_s)
            },
            setup: rounded(self.setup),
            rounds: rounded(self.rounds),
            carriage: rounded(self.carriage),
            growth: rounded(self.growth),
            loss: rounded(self.loss),
            compute: rounded(self.compute),
        }
    }
}

/// Returns a quantile of sorted values, interpolated; 0 of none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = q * last as f64;
    // Between 0 and `last`.
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Fits a model to runs, transport by transport. Those that are [held out](Sample::is_held_out) tell how well the model does on
/// what it has not seen. `name` says which runs these are.
///
/// # Errors
/// [`SelectError::TooFewSamples`] if no transport has [`MIN_SAMPLES`]; transports with fewer are left out if another has
/// enough. [`SelectError::Number`] if a run has a number that is none. [`SelectError::Split`] if a cell has runs that are held
/// out and others that are not.
pub fn fit(name: &str, samples: &[Sample]) -> Result<Model, SelectError> {
    let mut by_transport: BTreeMap<Spec, Vec<&Sample>> = BTreeMap::new();
    let mut sides: BTreeMap<&str, bool> = BTreeMap::new();
    for sample in samples {
        sample.validate()?;
        let side = *sides
            .entry(sample.cell.as_str())
            .or_insert(sample.is_held_out);
        if side != sample.is_held_out {
            return Err(SelectError::Split {
                cell: sample.cell.clone(),
            });
        }
        let control = sample.path.kernel.congestion_control.as_deref();
        let spec = sample.transport.in_effect(control);
        by_transport.entry(spec).or_default().push(sample);
    }
    let mut transports = BTreeMap::new();
    let mut most = (String::from("all"), 0);
    let mut used = Vec::new();
    for (spec, mut runs) in by_transport {
        // Sums of floating-point numbers depend on their order.
        runs.sort_by(|a, b| (a.cell.cmp(&b.cell)).then(a.seconds.total_cmp(&b.seconds)));
        let (held_out, seen): (Vec<&Sample>, Vec<&Sample>) =
            runs.iter().partition(|sample| sample.is_held_out);
        if seen.len() < MIN_SAMPLES {
            if seen.len() >= most.1 {
                most = (spec.to_string(), seen.len());
            }
            continue;
        }
        used.extend(runs);
        let fitted = fit_one(&spec, &seen, &held_out);
        transports.insert(spec, fitted);
    }
    if transports.is_empty() {
        return Err(SelectError::TooFewSamples {
            transport: most.0,
            expected: MIN_SAMPLES,
            found: most.1,
        });
    }
    let cells: BTreeSet<&str> = used.iter().map(|sample| sample.cell.as_str()).collect();
    let held_out_cells: BTreeSet<&str> = (used.iter())
        .filter(|sample| sample.is_held_out)
        .map(|sample| sample.cell.as_str())
        .collect();
    let runs = RunSet {
        name: name.to_owned(),
        runs: used.len(),
        cells: cells.len(),
        held_out_cells: held_out_cells.len(),
    };
    Ok(Model::new(runs, transports))
}

/// A run ready to be fitted.
struct Run<'a> {
    law: Law,
    point: Point,
    sample: &'a Sample,
}

impl<'a> Run<'a> {
    fn of(spec: &Spec, sample: &'a Sample) -> Self {
        Self {
            // The kernel's default is in the name already.
            law: spec.law(None),
            point: Plausible::of(&sample.path).mid(),
            sample,
        }
    }

    fn terms(&self, shape: &Shape) -> Terms {
        Terms::of(&self.law, shape, &self.point, &self.sample.workload)
    }

    /// Returns what the run counts for. Where the first windows of several connections do not fit into path and queue together,
    /// a timer of the kernel decides, and such runs differ by a factor of six: they say how unsure predictions are, and little
    /// about what they should be.
    fn weight(&self) -> f64 {
        let first = self.law.connections * Shape::theory(&self.law).initial_window;
        let overflows = |direction: usize| {
            let held = self.point.rate[direction] / 8.0 * self.point.rtt;
            self.point.queue[direction].is_some_and(|queue| first > queue + held)
        };
        match self.law.connections > 1.0 && (overflows(0) || overflows(1)) {
            true => CHANCE,
            false => 1.0,
        }
    }
}

fn fit_one(spec: &Spec, seen: &[&Sample], held_out: &[&Sample]) -> Fitted {
    let seen: Vec<Run<'_>> = seen.iter().map(|sample| Run::of(spec, sample)).collect();
    let held_out: Vec<Run<'_>> = held_out
        .iter()
        .map(|sample| Run::of(spec, sample))
        .collect();
    let family = seen[0].law.family;
    let theory = Shape::theory(&seen[0].law);
    let cost_of = |shape: &Shape| {
        let (factors, cost) = factors_for(shape, &seen);
        (factors, cost + SHAPE_PULL * shape.distance(&theory))
    };
    let mut shape = theory;
    let mut best = cost_of(&shape);
    for step in STEPS {
        for place in 0..4 {
            for factor in [step, 1.0 / step] {
                // As far as it gets better this way.
                while let Some(next) = moved(&shape, &seen[0].law, place, factor) {
                    let found = cost_of(&next);
                    if found.1 >= best.1 * (1.0 - 1e-6) {
                        break;
                    }
                    (shape, best) = (next, found);
                }
            }
        }
    }
    // As many digits as mean something, so that what is in a file is what was fitted.
    let (factors, shape) = (best.0.rounded(), shape.rounded());
    Fitted {
        shape,
        factors,
        spread: spread(&shape, &factors, &seen, family),
        fit: goodness(&shape, &factors, &seen),
        held_out: (!held_out.is_empty()).then(|| goodness(&shape, &factors, &held_out)),
    }
}

/// Returns the shape with one figure multiplied, unless that leaves what is physical.
fn moved(shape: &Shape, law: &Law, place: usize, factor: f64) -> Option<Shape> {
    let theory = Shape::theory(law);
    let mut next = *shape;
    let (value, start, most) = match place {
        0 => (&mut next.initial_window, theory.initial_window, 64.0),
        1 => (&mut next.window_fill, theory.window_fill, 3.0),
        2 => (&mut next.loss, theory.loss, 5.0),
        _ => (&mut next.processor_rate, theory.processor_rate, 30.0),
    };
    *value *= factor;
    ((1.0 / most)..=most)
        .contains(&(*value / start))
        .then_some(next)
}

/// Returns the best factors for a shape, and what they cost.
fn factors_for(shape: &Shape, runs: &[Run<'_>]) -> (Factors, f64) {
    let terms: Vec<Terms> = runs.iter().map(|run| run.terms(shape)).collect();
    let mut factors = Factors::THEORY;
    for _ in 0..REWEIGHTS {
        let rows = terms.iter().zip(runs).flat_map(|(terms, run)| {
            let sample = run.sample;
            let [up, rest] = terms.seconds(&factors);
            let predicted = up + rest;
            let ratio = (predicted / sample.seconds).max(1e-9);
            let mut weight = run.weight() / (predicted * sample.seconds).max(1e-18);
            if ratio.ln().abs() > HUBER {
                weight *= HUBER / ratio.ln().abs();
            }
            if sample.is_cut && ratio >= 1.0 {
                // It took longer than that, which is what is predicted.
                weight = 0.0;
            }
            // What happens at the same time counts with its share, by the factors so far.
            let [carrying, computing] = terms.slopes(&factors);
            let Chain {
                waiting,
                transfer,
                growth,
                loss,
                ..
            } = *terms.chain(&factors);
            let run_row = [
                0.0,
                0.0,
                terms.rounds + carrying * waiting,
                carrying * transfer,
                carrying * (transfer + growth),
                carrying * (transfer + growth + loss),
                terms.serial + computing * terms.compute,
            ];
            let setup_row = [1.0, terms.setup, 0.0, 0.0, 0.0, 0.0, 0.0];
            match sample.setup_s {
                Some(setup) => [
                    Some((setup_row, setup, weight)),
                    Some((run_row, sample.seconds - setup, weight)),
                ],
                None => {
                    let mut row = run_row;
                    (row[0], row[1]) = (1.0, terms.setup);
                    [Some((row, sample.seconds, weight)), None]
                }
            }
            .into_iter()
            .flatten()
        });
        // Coming to a rate, and losses, are what a transfer takes more than at that rate throughout. If they counted for more
        // than the transfer itself, a faster path could seem slower. So what is found is by how much carriage counts for more than
        // growth, and growth for more than losses.
        let above = 1.0 - LEAST_ROUND_TRIPS;
        let start = [0.0, above, above, 0.0, 0.0, 1.0, 1.0];
        // A fixed tenth of a second is as far from the theory as a factor of 2 is.
        let pull = [PULL * 1e2, PULL, PULL, PULL, PULL, PULL, PULL];
        // Of round trips, by how much they count for more than the least.
        let rows = rows.map(|(row, target, weight)| {
            let least = LEAST_ROUND_TRIPS * (row[1] + row[2]);
            (row, target - least, weight)
        });
        let [
            fixed_s,
            over_setup,
            over_rounds,
            over_growth,
            over_loss,
            loss,
            compute,
        ] = non_negative(rows, start, pull);
        let (setup, rounds) = (
            over_setup + LEAST_ROUND_TRIPS,
            over_rounds + LEAST_ROUND_TRIPS,
        );
        let growth = loss + over_loss;
        let carriage = growth + over_growth;
        factors = Factors {
            fixed_s,
            setup,
            rounds,
            carriage,
            growth,
            loss,
            compute,
        };
    }
    let cost = terms.iter().zip(runs).map(|(terms, run)| {
        let [up, rest] = terms.seconds(&factors);
        let off = ((up + rest) / run.sample.seconds).max(1e-9).ln();
        match run.sample.is_cut && off >= 0.0 {
            true => 0.0,
            false => run.weight() * huber(off),
        }
    });
    (factors, cost.sum())
}

fn huber(off: f64) -> f64 {
    match off.abs() {
        off if off <= HUBER => off * off / 2.0,
        off => HUBER * (off - HUBER / 2.0),
    }
}

fn pairs(shape: &Shape, factors: &Factors, runs: &[Run<'_>]) -> Vec<(f64, f64)> {
    let whole = runs.iter().filter(|run| !run.sample.is_cut);
    whole
        .map(|run| {
            let [up, rest] = run.terms(shape).seconds(factors);
            (up + rest, run.sample.seconds)
        })
        .collect()
}

fn goodness(shape: &Shape, factors: &Factors, runs: &[Run<'_>]) -> Goodness {
    Goodness::of(&pairs(shape, factors, runs))
}

/// Returns how much longer runs take on average than is predicted; those that were cut off by as much as is known.
fn excess(shape: &Shape, factors: &Factors, runs: &[Run<'_>]) -> Excess {
    let mean = |weight: fn(f64) -> f64| {
        let (mut sum, mut weights) = (0.0, 0.0);
        for run in runs {
            let [up, rest] = run.terms(shape).seconds(factors);
            let ratio = run.sample.seconds / (up + rest).max(1e-9);
            let least = if run.sample.is_cut { 1.0 } else { 0.0 };
            let weight = weight(Excess::farness(run.point.rtt));
            sum += weight * ratio.clamp(least, MAX_EXCESS);
            weights += weight;
        }
        // Of few runs nothing is known.
        if weights < MIN_SAMPLES as f64 {
            return 1.0;
        }
        rounded((sum / weights).max(1.0))
    };
    Excess {
        near: mean(|farness| 1.0 - farness),
        far: mean(|farness| farness),
    }
}

/// Returns how far off predictions are, where losses are unlikely and where they are not.
fn spread(shape: &Shape, factors: &Factors, runs: &[Run<'_>], family: Family) -> Spread {
    let scale = |is_in: &dyn Fn(f64) -> bool| {
        let mut off: Vec<f64> = (runs.iter())
            .filter(|run| !run.sample.is_cut && is_in(run.terms(shape).lossiness))
            .map(|run| {
                let [up, rest] = run.terms(shape).seconds(factors);
                ((up + rest) / run.sample.seconds).ln().abs()
            })
            .collect();
        off.sort_by(f64::total_cmp);
        // The 68th percentile of what is off is a standard deviation, and knows of tails that a median does not.
        (off.len() >= MIN_SAMPLES).then(|| quantile(&off, 0.68).max(MIN_SIGMA))
    };
    let all = scale(&|_| true).unwrap_or(0.5);
    let quiet = scale(&|lossiness| lossiness < 0.5).unwrap_or(all);
    let lossy = scale(&|lossiness| lossiness >= 0.5).unwrap_or(match family {
        // Unknown, and certainly more than without.
        Family::Window => 3.0 * quiet,
        Family::Model | Family::Rate => 1.5 * quiet,
    });
    Spread {
        quiet: rounded(quiet),
        lossy: rounded(lossy.max(quiet)),
        excess: excess(shape, factors, runs),
    }
}
