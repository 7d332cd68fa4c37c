//! Handler for predictions, and the checks of the parameters that jobs and maps share with it.

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};
use transpute::Scheme;
use transpute_select::{Bound, Choice, Ranked, Workload};
use transpute_testbed::record::PathLimit;

use super::{Shared, circuits};
use crate::{
    app::App,
    body::JsonBody,
    error::ApiError,
    predictor::{PredictionQuery, Predictions, TransportEntry},
    scenario_choice::ScenarioChoice,
};

/// Maximum number of transports in a prediction or a job.
pub(super) const MAX_TRANSPORTS: usize = 12;

/// The garbling scheme for requests that name none.
pub(super) const DEFAULT_SCHEME: Scheme = Scheme::HalfGates;

/// Maximum number of evaluations in a run.
pub(super) const MAX_BATCH: u64 = 1_000_000;

/// The name of the transport that lets the parties choose one of the others.
pub(super) const AUTO: &str = "auto";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PredictRequest {
    circuit: String,
    scheme: Option<String>,
    batch: Option<u64>,
    scenario: ScenarioChoice,
    transports: Option<Vec<String>>,
}

pub(super) async fn predict(
    State(app): Shared,
    JsonBody(request): JsonBody<PredictRequest>,
) -> Result<Json<Value>, ApiError> {
    app.heavy(move |app| {
        let scenario = request.scenario.scenario()?;
        let scheme = scheme(request.scheme.as_deref())?;
        let batch = batch(request.batch)?;
        let transports = predictable(app, request.transports)?;
        let (source, ..) = circuits::find(app, &request.circuit)?;
        let answer = app.predictor.predict(PredictionQuery {
            source: &source,
            scheme,
            batch,
            scenario: &scenario,
            environment: app.environment.as_ref(),
            transports: &transports,
        });
        let answer = answer.map_err(ApiError::bad)?;
        let limit = PathLimit::of(
            &scenario,
            round_trips(&answer.workload),
            answer.workload.garbler_bytes,
            answer.workload.evaluator_bytes,
            0.0,
        );
        let limit = PathLimit {
            ratio: None,
            ..limit
        };
        Ok(Json(shown(&scenario.name, &answer, &limit)))
    })
    .await
}

fn shown(scenario: &str, answer: &Predictions, limit: &PathLimit) -> Value {
    let (choice, excluded) = match &answer.choice {
        Ok(choice) => {
            let excluded = choice.excluded.iter();
            let excluded = excluded.map(|(spec, why)| (spec.to_string(), why.clone()));
            (Some(choice), excluded.collect())
        }
        Err(excluded) => (None, excluded.clone()),
    };
    let ranking = choice.map_or(&[][..], Choice::ranking);
    let predictions: Vec<_> = (ranking.iter().enumerate())
        .map(|(index, ranked)| prediction(index + 1, ranked))
        .collect();
    let excluded: Vec<_> = (excluded.iter())
        .map(|(transport, reason)| json!({ "transport": transport, "reason": reason }))
        .collect();
    json!({
        "scenario": scenario,
        "path": answer.path.to_string(),
        "pick": choice.map(|choice| choice.winner().to_string()),
        "reason": choice.map_or("no transport is usable on this path", |choice| &choice.reason),
        "confidence": choice.map_or(0.0, |choice| choice.confidence),
        "predictions": predictions,
        "excluded": excluded,
        "workload": {
            "garbler_bytes": answer.workload.garbler_bytes,
            "evaluator_bytes": answer.workload.evaluator_bytes,
            "round_trips": round_trips(&answer.workload),
            "and_gates": answer.and_gates,
        },
        "limit": limit,
    })
}

/// Returns the number of round trips from both parties being connected to the output.
fn round_trips(workload: &Workload) -> f64 {
    f64::from(workload.flights) / 2.0
}

fn prediction(rank: usize, ranked: &Ranked) -> Value {
    let prediction = &ranked.prediction;
    let (low, high) = prediction.interval();
    let bound = match prediction.bound {
        Bound::Path => "the bottleneck of the path",
        Bound::KernelWindow => "the buffers of the kernel",
        Bound::Loss => "losses, which keep the window small",
        Bound::Processor => "the processors",
    };
    json!({
        "transport": ranked.transport.to_string(),
        "seconds": prediction.seconds,
        "low_s": low,
        "high_s": high,
        "rank": rank,
        "bound": bound,
        "parts": prediction.parts,
    })
}

/// Returns the garbling schemes, the default one first.
pub(super) fn schemes() -> impl Iterator<Item = Scheme> {
    let others = Scheme::ALL
        .into_iter()
        .filter(|&scheme| scheme != DEFAULT_SCHEME);
    std::iter::once(DEFAULT_SCHEME).chain(others)
}

/// Parses the name of a scheme, or returns the default.
pub(super) fn scheme(given: Option<&str>) -> Result<Scheme, ApiError> {
    match given {
        Some(name) => name.parse().map_err(ApiError::bad),
        None => Ok(DEFAULT_SCHEME),
    }
}

/// Checks the number of evaluations of a run.
pub(super) fn batch(given: Option<u64>) -> Result<u64, ApiError> {
    let batch = given.unwrap_or(1);
    match (1..=MAX_BATCH).contains(&batch) {
        true => Ok(batch),
        false => Err(ApiError::bad(format!(
            "batch: {batch} is not between 1 and {MAX_BATCH}"
        ))),
    }
}

/// Checks the names of transports and removes duplicates.
pub(super) fn transports(app: &App, given: &[String]) -> Result<Vec<String>, ApiError> {
    if given.is_empty() || given.len() > MAX_TRANSPORTS {
        return Err(ApiError::bad(format!(
            "transports: expected 1 to {MAX_TRANSPORTS}, found {}",
            given.len()
        )));
    }
    let known = app.predictor.transports();
    let mut transports = Vec::with_capacity(given.len());
    for name in given {
        if !known.iter().any(|known| known.name == *name) {
            let names: Vec<_> = known.iter().map(|known| known.name.as_str()).collect();
            return Err(ApiError::bad(format!(
                "unknown transport {name:?}; known are {}",
                names.join(", ")
            )));
        }
        if !transports.contains(name) {
            transports.push(name.clone());
        }
    }
    Ok(transports)
}

/// Returns those of the given transports whose time the model can predict. Returns the default set
/// if none is given.
pub(super) fn predictable(app: &App, given: Option<Vec<String>>) -> Result<Vec<String>, ApiError> {
    let known = app.predictor.transports();
    let usual = || {
        let is_compared = |known: &&TransportEntry| known.is_predictable && known.is_usual;
        (known.iter().filter(is_compared))
            .map(|known| known.name.clone())
            .collect()
    };
    let Some(given) = given else {
        return Ok(usual());
    };
    let chosen = transports(app, &given)?;
    // If only `auto` is given, it chooses from the default set.
    if chosen.iter().all(|name| name == AUTO) {
        return Ok(usual());
    }
    let is_predictable =
        |name: &String| (known.iter()).any(|known| known.name == *name && known.is_predictable);
    Ok(chosen.into_iter().filter(is_predictable).collect())
}
