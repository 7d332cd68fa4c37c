//! What is predicted before anything runs.

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};
use transpute::Scheme;
use transpute_select::{Bound, Choice, Ranked, Workload};
use transpute_testbed::row::Limit;

use super::{Shared, circuits};
use crate::{
    app::App,
    body::Asked,
    choose::ScenarioChoice,
    error::ApiError,
    knowledge::{Answer, Question, TransportEntry},
};

/// The most transports of a question or a job.
pub(super) const MOST_TRANSPORTS: usize = 12;

/// The scheme of a run for which none is named.
pub(super) const DEFAULT_SCHEME: Scheme = Scheme::HalfGates;

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
        let scheme = scheme(wanted.scheme.as_deref())?;
        let batch = batch(wanted.batch)?;
        let transports = predictable(app, wanted.transports)?;
        let (source, ..) = circuits::find(app, &wanted.circuit)?;
        let answer = app.knowledge.predict(Question {
            source: &source,
            scheme,
            batch,
            scenario: &scenario,
            environment: app.environment.as_ref(),
            transports: &transports,
        });
        let answer = answer.map_err(ApiError::bad)?;
        let limit = Limit::of(
            &scenario,
            round_trips(&answer.workload),
            answer.workload.garbler_bytes,
            answer.workload.evaluator_bytes,
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
        "reason": choice.map_or("no transport can be used here", |choice| &choice.reason),
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

/// Returns the round trips from connected to output.
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

/// Reads a scheme, or takes the default one.
pub(super) fn scheme(given: Option<&str>) -> Result<Scheme, ApiError> {
    match given {
        Some(name) => name.parse().map_err(ApiError::bad),
        None => Ok(DEFAULT_SCHEME),
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
    let known = app.knowledge.transports();
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
    let known = app.knowledge.transports();
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
