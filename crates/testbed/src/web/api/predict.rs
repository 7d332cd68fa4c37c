//! What is predicted before anything runs.

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Shared, circuits};
use crate::{
    row::Limit,
    web::{
        app::App,
        body::Asked,
        choose::ScenarioChoice,
        error::ApiError,
        oracle::{Answer, Estimate, Question, TransportEntry},
    },
};

/// The most transports of a question or a job.
pub(super) const MOST_TRANSPORTS: usize = 12;

/// The most evaluations of a run.
pub(super) const MOST_BATCH: u64 = 1_000_000;

/// What lets the parties choose.
pub(super) const AUTO: &str = "auto";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    circuit: String,
    scheme: Option<String>,
    batch: Option<u64>,
    scenario: ScenarioChoice,
    transports: Option<Vec<String>>,
}

pub(super) async fn predict(
    State(app): Shared,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Value>, ApiError> {
    app.heavy(move |app| {
        let scenario = wanted.scenario.scenario()?;
        let scheme = scheme(app, wanted.scheme)?;
        let batch = batch(wanted.batch)?;
        let transports = predictable(app, wanted.transports)?;
        let (source, ..) = circuits::find(app, &wanted.circuit)?;
        let answer = app.oracle.predict(Question {
            source: &source,
            scheme: &scheme,
            batch,
            scenario: &scenario,
            environment: app.environment.as_ref(),
            transports: &transports,
        });
        let answer = answer.map_err(ApiError::bad)?;
        let limit = Limit::of(
            &scenario,
            answer.round_trips,
            answer.garbler_bytes,
            answer.evaluator_bytes,
            0.0,
        );
        let limit = Limit {
            ratio: None,
            ..limit
        };
        Ok(Json(shown(&scenario.name, &answer, &limit)))
    })
    .await
}

fn shown(scenario: &str, answer: &Answer, limit: &Limit) -> Value {
    let predictions: Vec<_> = (answer.ranking.iter().enumerate())
        .map(|(index, estimate)| prediction(index + 1, estimate))
        .collect();
    let excluded: Vec<_> = (answer.excluded.iter())
        .map(|(transport, reason)| json!({ "transport": transport, "reason": reason }))
        .collect();
    json!({
        "scenario": scenario,
        "path": answer.path,
        "pick": answer.pick,
        "reason": answer.reason,
        "confidence": answer.confidence,
        "predictions": predictions,
        "excluded": excluded,
        "workload": {
            "garbler_bytes": answer.garbler_bytes,
            "evaluator_bytes": answer.evaluator_bytes,
            "round_trips": answer.round_trips,
            "and_gates": answer.and_gates,
        },
        "limit": limit,
    })
}

fn prediction(rank: usize, estimate: &Estimate) -> Value {
    let parts: Map<String, Value> = (estimate.parts.iter())
        .map(|&(name, seconds)| (name.to_owned(), seconds.into()))
        .collect();
    json!({
        "transport": estimate.transport,
        "seconds": estimate.seconds,
        "low_s": estimate.interval.0,
        "high_s": estimate.interval.1,
        "rank": rank,
        "bound": estimate.bound,
        "parts": parts,
    })
}

/// Checks a scheme, or takes the usual one.
pub(super) fn scheme(app: &App, given: Option<String>) -> Result<String, ApiError> {
    let known = app.oracle.schemes();
    let given = match given {
        Some(given) => given,
        None => known.first().cloned().unwrap_or_default(),
    };
    match known.contains(&given) {
        true => Ok(given),
        false => Err(ApiError::bad(format!(
            "there is no scheme {given:?}; there are {}",
            known.join(", ")
        ))),
    }
}

/// Checks how many evaluations there are.
pub(super) fn batch(given: Option<u64>) -> Result<u64, ApiError> {
    let batch = given.unwrap_or(1);
    match (1..=MOST_BATCH).contains(&batch) {
        true => Ok(batch),
        false => Err(ApiError::bad(format!(
            "batch: {batch} is not between 1 and {MOST_BATCH}"
        ))),
    }
}

/// Checks transports; each counts once.
pub(super) fn transports(app: &App, given: &[String]) -> Result<Vec<String>, ApiError> {
    if given.is_empty() || given.len() > MOST_TRANSPORTS {
        return Err(ApiError::bad(format!(
            "transports: 1 to {MOST_TRANSPORTS} are needed"
        )));
    }
    let known = app.oracle.transports();
    let mut transports = Vec::with_capacity(given.len());
    for name in given {
        if !known.iter().any(|known| known.name == *name) {
            let names: Vec<_> = known.iter().map(|known| known.name.as_str()).collect();
            return Err(ApiError::bad(format!(
                "there is no transport {name:?}; there are {}",
                names.join(", ")
            )));
        }
        if !transports.contains(name) {
            transports.push(name.clone());
        }
    }
    Ok(transports)
}

/// Returns those of the given transports that the model predicts; of none given, those that are compared usually.
pub(super) fn predictable(app: &App, given: Option<Vec<String>>) -> Result<Vec<String>, ApiError> {
    let known = app.oracle.transports();
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
    // That is to choose from those that are compared usually.
    if chosen.iter().all(|name| name == AUTO) {
        return Ok(usual());
    }
    let is_predictable =
        |name: &String| (known.iter()).any(|known| known.name == *name && known.is_predictable);
    Ok(chosen.into_iter().filter(is_predictable).collect())
}
