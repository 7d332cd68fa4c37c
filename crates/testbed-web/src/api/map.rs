//! Handler for the map, which shows the best transport, predicted and measured, by round-trip time
//! and loss.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use transpute::Scheme;
use transpute_select::Choice;
use transpute_testbed::report::Samples;

use super::{
    Shared, circuits,
    compare::Spread,
    predict::{self, AUTO},
};
use crate::{
    app::App,
    body::JsonBody,
    error::ApiError,
    predictor::{PredictionQuery, Predictions, Source},
    run::Run,
    scenario_choice::ScenarioChoice,
    store::{Filter, Order},
};

/// Maximum number of cells in a map.
pub(super) const MAX_CELLS: usize = 400;

/// Number of runs that are read from the history in one query.
const PAGE_RUNS: usize = 1000;

/// Maximum number of runs that a map takes from the history.
const MAX_RUNS: usize = 50_000;

/// Maximum relative difference between the link rate of a run and the link rate of the map. Runs
/// with a larger difference are not shown.
const RATE_TOLERANCE: f64 = 0.1;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MapRequest {
    circuit: String,
    scheme: Option<String>,
    batch: Option<u64>,
    rate_mbit: Option<f64>,
    rtt_ms: Vec<f64>,
    loss: Vec<f64>,
    transports: Option<Vec<String>>,
    queue_bytes: Option<u64>,
    udp_blocked: Option<bool>,
}

#[derive(Serialize)]
pub(super) struct Map {
    rtt_ms: Vec<f64>,
    loss: Vec<f64>,
    transports: Vec<String>,
    /// `model[i][j]` is the cell for `rtt_ms[i]` and `loss[j]`.
    model: Vec<Vec<Cell>>,
    measured: Vec<Measured>,
    measured_runs: usize,
}

/// The prediction for one path.
#[derive(Serialize)]
struct Cell {
    pick: Option<String>,
    confidence: f64,
    seconds: Option<f64>,
    second: Option<String>,
    second_s: Option<f64>,
    times: BTreeMap<String, f64>,
}

/// The measured results on one path.
#[derive(Debug, Serialize)]
struct Measured {
    rtt_ms: f64,
    loss: f64,
    rate_mbit: Option<f64>,
    best: String,
    best_is_clear: bool,
    pick: Option<String>,
    runs: usize,
    rtt_index: usize,
    loss_index: usize,
    medians_ms: BTreeMap<String, f64>,
    regret: Option<f64>,
}

pub(super) async fn map(
    State(app): Shared,
    JsonBody(request): JsonBody<MapRequest>,
) -> Result<Json<Map>, ApiError> {
    app.heavy(move |app| {
        let axes = [("rtt_ms", &request.rtt_ms), ("loss", &request.loss)];
        if let Some((name, _)) = axes.iter().find(|(_, values)| values.is_empty()) {
            return Err(ApiError::bad(format!(
                "{name}: expected at least one value"
            )));
        }
        if request.rtt_ms.len().saturating_mul(request.loss.len()) > MAX_CELLS {
            return Err(ApiError::bad(format!("expected at most {MAX_CELLS} cells")));
        }
        MapQuery::new(app, &request)?.map().map(Json)
    })
    .await
}

/// The checked request for a map.
struct MapQuery<'a> {
    app: &'a App,
    request: &'a MapRequest,
    source: Source,
    scheme: Scheme,
    batch: u64,
    transports: Vec<String>,
}

impl<'a> MapQuery<'a> {
    fn new(app: &'a App, request: &'a MapRequest) -> Result<Self, ApiError> {
        let (source, ..) = circuits::find(app, &request.circuit)?;
        Ok(Self {
            app,
            request,
            source,
            scheme: predict::scheme(request.scheme.as_deref())?,
            batch: predict::batch(request.batch)?,
            transports: predict::predictable(app, request.transports.clone())?,
        })
    }

    fn map(&self) -> Result<Map, ApiError> {
        let request = self.request;
        let mut model = Vec::with_capacity(request.rtt_ms.len());
        for &rtt in &request.rtt_ms {
            let cells = (request.loss.iter())
                .map(|&loss| self.ask(rtt, loss).map(|answer| Cell::of(&answer)))
                .collect::<Result<_, _>>()?;
            model.push(cells);
        }
        let runs = self.runs()?;
        let measured_runs = runs.len();
        let measured = self.measured(runs)?;
        Ok(Map {
            rtt_ms: request.rtt_ms.clone(),
            loss: request.loss.clone(),
            transports: self.transports.clone(),
            model,
            measured,
            measured_runs,
        })
    }

    fn ask(&self, rtt_ms: f64, loss: f64) -> Result<Predictions, ApiError> {
        let request = self.request;
        let scenario = ScenarioChoice::cell(
            rtt_ms,
            loss,
            request.rate_mbit,
            request.queue_bytes,
            request.udp_blocked.unwrap_or(false),
        )
        .scenario()?;
        let question = PredictionQuery {
            source: &self.source,
            scheme: self.scheme,
            batch: self.batch,
            scenario: &scenario,
            environment: self.app.environment.as_ref(),
            transports: &self.transports,
        };
        self.app.predictor.predict(question).map_err(ApiError::bad)
    }

    /// Returns the matching runs of the history.
    fn runs(&self) -> Result<Vec<Run>, ApiError> {
        let filter = Filter::of_work(&self.request.circuit, &self.scheme.to_string(), self.batch);
        let mut runs = Vec::new();
        let mut after = None;
        loop {
            let page = self
                .app
                .store
                .page(&filter, Order::Newest, after, PAGE_RUNS)?;
            runs.extend(page.runs.into_iter().filter(|run| self.belongs(run)));
            match page.next {
                Some(next) if runs.len() < MAX_RUNS => after = Some(next),
                _ => return Ok(runs),
            }
        }
    }

    fn belongs(&self, run: &Run) -> bool {
        let same_rate = match (run.rate_mbit, self.request.rate_mbit) {
            (Some(rate), Some(of_map)) => (rate / of_map - 1.0).abs() <= RATE_TOLERANCE,
            (None, None) => true,
            _ => false,
        };
        same_rate
            && run.udp_blocked == self.request.udp_blocked.unwrap_or(false)
            && run.total_ms.is_some()
            && run.encrypted
            && run.transport != AUTO
    }

    /// Returns the fastest transport on each path. Paths on which only one transport was measured
    /// are left out.
    fn measured(&self, runs: Vec<Run>) -> Result<Vec<Measured>, ApiError> {
        let mut paths: BTreeMap<(u64, u64), Vec<Run>> = BTreeMap::new();
        for run in runs {
            // The key uses bit patterns, because `f64` does not implement `Ord`. For non-negative
            // numbers, bit patterns have the same order as the numbers.
            let key = (run.rtt_ms.to_bits(), run.loss.to_bits());
            paths.entry(key).or_default().push(run);
        }
        let mut all = Vec::new();
        for ((rtt, loss), runs) in paths {
            let (rtt, loss) = (f64::from_bits(rtt), f64::from_bits(loss));
            all.extend(self.of_path(rtt, loss, &runs)?);
        }
        Ok(all)
    }

    fn of_path(&self, rtt_ms: f64, loss: f64, runs: &[Run]) -> Result<Option<Measured>, ApiError> {
        let mut times: BTreeMap<&str, Samples> = BTreeMap::new();
        for run in runs {
            if let Some(total) = run.total_ms {
                times.entry(&run.transport).or_default().push(total);
            }
        }
        let spreads: BTreeMap<&str, Spread> = (times.iter())
            .filter_map(|(&name, samples)| Some((name, Spread::of(samples)?)))
            .collect();
        let best = (spreads.iter()).min_by(|a, b| a.1.median.total_cmp(&b.1.median));
        let (Some((&best, fastest)), true) = (best, spreads.len() > 1) else {
            return Ok(None);
        };
        let choice = self.ask(rtt_ms, loss)?.choice.ok();
        let pick = choice.map(|choice| choice.winner().to_string());
        let picked = pick.as_deref().and_then(|pick| spreads.get(pick));
        let others = spreads.iter().filter(|(name, _)| **name != best);
        Ok(Some(Measured {
            rtt_ms,
            loss,
            rate_mbit: self.request.rate_mbit,
            best: best.to_owned(),
            best_is_clear: others
                .map(|(_, other)| other.min)
                .all(|min| min > fastest.max),
            runs: runs.len(),
            rtt_index: nearest(&self.request.rtt_ms, rtt_ms, 0.1),
            loss_index: nearest(&self.request.loss, loss, 1e-6),
            medians_ms: (spreads.iter())
                .map(|(&name, spread)| (name.to_owned(), spread.median))
                .collect(),
            regret: picked.map(|spread| spread.median / fastest.median - 1.0),
            pick,
        }))
    }
}

impl Cell {
    fn of(answer: &Predictions) -> Self {
        let choice = answer.choice.as_ref().ok();
        let ranking = choice.map_or(&[][..], Choice::ranking);
        let second = ranking.get(1);
        Self {
            pick: choice.map(|choice| choice.winner().to_string()),
            confidence: choice.map_or(0.0, |choice| choice.confidence),
            seconds: choice.map(|choice| choice.prediction().seconds),
            second: second.map(|ranked| ranked.transport.to_string()),
            second_s: second.map(|ranked| ranked.prediction.seconds),
            times: (ranking.iter())
                .map(|ranked| (ranked.transport.to_string(), ranked.prediction.seconds))
                .collect(),
        }
    }
}

/// Returns the index of the element of `values` whose ratio to `value` is nearest to 1. Values
/// below `floor` are replaced by `floor`, because zero has no logarithm.
fn nearest(values: &[f64], value: f64, floor: f64) -> usize {
    let log = |value: f64| value.max(floor).ln();
    let distance = |other: f64| (log(other) - log(value)).abs();
    (values.iter().enumerate())
        .min_by(|a, b| distance(*a.1).total_cmp(&distance(*b.1)))
        .map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_cell_is_found_by_ratio() {
        let rtt = [0.0, 1.0, 10.0, 100.0];
        for (value, index) in [(0.0, 0), (0.5, 1), (3.0, 1), (4.0, 2), (1e4, 3)] {
            assert_eq!(nearest(&rtt, value, 0.1), index, "{value}");
        }
        assert_eq!(nearest(&[0.0, 1e-4, 1e-2], 0.0, 1e-6), 0);
    }
}
