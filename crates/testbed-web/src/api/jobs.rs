//! Handlers that start, list and cancel jobs.

use std::{collections::HashMap, time::Duration};

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use transpute::Scheme;
use transpute_netem::scenario::Scenario;

use super::{
    QueryPairs, Shared, circuits, number, params,
    predict::{self, AUTO},
};
use crate::{
    app::App,
    body::JsonBody,
    error::ApiError,
    jobs::{Job, JobError, JobRequest, Plan, Work},
    predictor::{PredictionQuery, Predictions, Source},
    run::Predicted,
};

/// Default number of runs per transport. [`MAX_REPETITIONS`] is the maximum.
pub(super) const REPETITIONS: u32 = 3;
pub(super) const MAX_REPETITIONS: u32 = 1000;

/// Default time limit of a run, in seconds. [`MAX_TIMEOUT_S`] is the maximum.
const TIMEOUT_S: u64 = 300;
pub(super) const MAX_TIMEOUT_S: u64 = 3600;

/// Maximum length of a user's command, in bytes.
const MAX_COMMAND_BYTES: usize = 4096;

/// Maximum length of the label of users' programs, in characters.
const MAX_LABEL_CHARS: usize = 80;

/// Maximum number of jobs in one page of the list.
const MAX_PAGE: usize = 200;

pub(super) async fn submit(
    State(app): Shared,
    JsonBody(request): JsonBody<JobRequest>,
) -> Result<Response, ApiError> {
    let job = app.heavy(move |app| {
        let (request, plan) = plan(app, request)?;
        if let Some(reason) = &app.cannot_run {
            return Err(ApiError::conflict(format!(
                "this machine cannot run jobs: {reason}"
            )));
        }
        app.jobs.submit(request, plan).map_err(refused)
    });
    Ok((StatusCode::CREATED, Json(job.await?)).into_response())
}

pub(super) async fn list(State(app): Shared, pairs: QueryPairs) -> Result<Json<Value>, ApiError> {
    let mut params = params(pairs)?;
    let limit = params
        .read::<usize>("limit")?
        .unwrap_or(50)
        .clamp(1, MAX_PAGE);
    let before = params.read::<i64>("cursor")?;
    params.finish()?;
    let mut jobs = (app.blocking(move |app| Ok(app.jobs.list(before, limit + 1)?))).await?;
    let has_more = jobs.len() > limit;
    jobs.truncate(limit);
    let next = (jobs.last().filter(|_| has_more)).map(|job| job.id.to_string());
    Ok(Json(json!({ "jobs": jobs, "next": next })))
}

pub(super) async fn get(State(app): Shared, Path(id): Path<String>) -> Result<Json<Job>, ApiError> {
    let id = number(&id, "job")?;
    let found = (app.blocking(move |app| Ok(app.jobs.get(id)?))).await?;
    (found.map(Json)).ok_or_else(|| ApiError::missing(format!("job {id}")))
}

pub(super) async fn cancel(
    State(app): Shared,
    Path(id): Path<String>,
) -> Result<Json<Job>, ApiError> {
    let id = number(&id, "job")?;
    (app.blocking(move |app| app.jobs.cancel(id).map(Json).map_err(refused))).await
}

fn refused(error: JobError) -> ApiError {
    match error {
        JobError::Full => ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "the queue is full; wait for jobs to end, or cancel some",
        ),
        JobError::Stopping => ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is shutting down",
        ),
        JobError::Missing => ApiError::missing("such job"),
        JobError::Over => ApiError::conflict("this job has already ended"),
        JobError::Store(error) => error.into(),
    }
}

/// Checks a request and fills in its defaults. Returns the completed request and the plan of its
/// runs.
fn plan(app: &App, request: JobRequest) -> Result<(JobRequest, Plan), ApiError> {
    let scenario = request.scenario.scenario()?;
    let repetitions = within(
        "repetitions",
        request.repetitions.unwrap_or(REPETITIONS),
        MAX_REPETITIONS,
    )?;
    let timeout_s = within(
        "timeout_s",
        request.timeout_s.unwrap_or(TIMEOUT_S),
        MAX_TIMEOUT_S,
    )?;
    let kind = request.kind.as_deref().unwrap_or("runs").to_owned();
    let filled = JobRequest {
        kind: Some(kind.clone()),
        repetitions: Some(repetitions),
        timeout_s: Some(timeout_s),
        ..request
    };
    let (filled, work) = match kind.as_str() {
        "runs" => circuit(app, filled, &scenario)?,
        "programs" => programs(app, filled)?,
        _ => return Err(ApiError::bad("kind: expected runs or programs")),
    };
    let plan = Plan {
        scenario,
        repetitions,
        timeout: Duration::from_secs(timeout_s),
        work,
    };
    Ok((filled, plan))
}

fn circuit(
    app: &App,
    request: JobRequest,
    scenario: &Scenario,
) -> Result<(JobRequest, Work), ApiError> {
    if request.a.is_some() || request.b.is_some() || request.label.is_some() {
        return Err(ApiError::bad(
            "a, b and label are allowed only with kind programs",
        ));
    }
    let name = (request.circuit.clone()).ok_or_else(|| ApiError::bad("circuit is missing"))?;
    let given =
        (request.transports.as_deref()).ok_or_else(|| ApiError::bad("transports are missing"))?;
    let transports = predict::transports(app, given)?;
    let scheme = predict::scheme(request.scheme.as_deref())?;
    let batch = predict::batch(request.batch)?;
    let encrypted = request.encrypted.unwrap_or(true);
    let (source, label, _) = circuits::find(app, &name)?;
    let (predicted, pick) = predicted(app, &source, scheme, batch, scenario, &transports);
    let filled = JobRequest {
        scheme: Some(scheme.to_string()),
        batch: Some(batch),
        encrypted: Some(encrypted),
        transports: Some(transports.clone()),
        ..request
    };
    let work = Work::Circuit {
        circuit: name,
        label,
        source,
        scheme: scheme.to_string(),
        batch,
        encrypted,
        transports,
        predicted,
        pick,
    };
    Ok((filled, work))
}

/// Returns the predicted time of each transport that the model knows, and the transport that the
/// model would choose.
fn predicted(
    app: &App,
    source: &Source,
    scheme: Scheme,
    batch: u64,
    scenario: &Scenario,
    transports: &[String],
) -> (HashMap<String, Predicted>, Option<String>) {
    let mut predicted = HashMap::new();
    let mut ask = |wanted: Vec<String>| {
        let answer = app.predictor.predict(PredictionQuery {
            source,
            scheme,
            batch,
            scenario,
            environment: app.environment.as_ref(),
            transports: &wanted,
        });
        // A failed prediction is not an error. The job then runs without one.
        let Ok(Predictions {
            choice: Ok(choice), ..
        }) = answer
        else {
            return None;
        };
        for ranked in choice.ranking() {
            let (low, high) = ranked.prediction.interval();
            let known = Predicted {
                seconds: ranked.prediction.seconds,
                low,
                high,
            };
            predicted.insert(ranked.transport.to_string(), known);
        }
        Some(choice.winner().to_string())
    };
    let chosen = predict::predictable(app, Some(transports.to_vec())).unwrap_or_default();
    let pick = match chosen.is_empty() {
        true => None,
        false => ask(chosen),
    };
    if transports.iter().any(|name| name == AUTO) {
        // The prediction for `auto` is that of the transport that it would choose from the default
        // set.
        let own = predict::predictable(app, None).ok().and_then(&mut ask);
        if let Some(known) = own.and_then(|own| predicted.get(&own).copied()) {
            predicted.insert(AUTO.to_owned(), known);
        }
    }
    (predicted, pick)
}

fn programs(app: &App, request: JobRequest) -> Result<(JobRequest, Work), ApiError> {
    if !app.allow_programs {
        return Err(ApiError::forbidden(
            "this server does not run users' programs; start it with --allow-programs",
        ));
    }
    let other = [
        request.circuit.is_some(),
        request.scheme.is_some(),
        request.batch.is_some(),
        request.encrypted.is_some(),
        request.transports.is_some(),
    ];
    if other.contains(&true) {
        return Err(ApiError::bad(
            "circuit, scheme, batch, encrypted and transports are allowed only with kind runs",
        ));
    }
    let command = |name: &str, text: &Option<String>| match text {
        Some(text) if text.trim().is_empty() => {
            Err(ApiError::bad(format!("{name}: the command is empty")))
        }
        Some(text) if text.len() > MAX_COMMAND_BYTES || text.contains('\0') => Err(ApiError::bad(
            format!("{name}: expected at most {MAX_COMMAND_BYTES} bytes and no zero byte"),
        )),
        Some(text) => Ok(text.clone()),
        None => Err(ApiError::bad(format!("{name}: the command is missing"))),
    };
    let (a, b) = (command("a", &request.a)?, command("b", &request.b)?);
    let label: String = (request
        .label
        .as_deref()
        .unwrap_or("programs")
        .trim()
        .chars())
    .filter(|character| !character.is_control())
    .take(MAX_LABEL_CHARS)
    .collect();
    let work = Work::Programs {
        label: match label.is_empty() {
            true => "programs".to_owned(),
            false => label,
        },
        a,
        b,
    };
    Ok((request, work))
}

fn within<T: PartialOrd + From<u8> + std::fmt::Display>(
    name: &str,
    value: T,
    max: T,
) -> Result<T, ApiError> {
    match T::from(1) <= value && value <= max {
        true => Ok(value),
        false => Err(ApiError::bad(format!(
            "{name}: {value} is not between 1 and {max}"
        ))),
    }
}
