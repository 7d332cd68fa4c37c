//! Handlers for the options that the web UI offers, and for health checks.

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::{Value, json};
use transpute_netem::scenario::{Scenario, presets};

use super::{Shared, circuits, compare, jobs, map, predict, runs};
use crate::{
    app::{App, MAX_STREAMS},
    body::JsonBody,
    connection,
    error::ApiError,
    jobs::MAX_QUEUED,
    scenario_choice::{ScenarioChoice, ScenarioView},
    store::Filter,
};

/// The default scenario: a path on which the transports differ clearly.
const SCENARIO: &str = "eu-us";

/// A preset with the text of its scenario file.
#[derive(Serialize)]
struct Preset {
    #[serde(flatten)]
    shown: ScenarioView,
    toml: &'static str,
}

/// The answer to a request for the options. The sliders are a struct, because the web UI shows them
/// in the order of its fields. A [`Value`] would sort them by name.
#[derive(Serialize)]
pub(super) struct Options {
    #[serde(flatten)]
    others: Value,
    sliders: Sliders,
}

/// The sliders for the values of a preset that users may change, most important first.
#[derive(Serialize)]
struct Sliders {
    rtt_ms: Slider,
    loss: Slider,
    rate_mbit: Slider,
    queue_bytes: Slider,
    jitter_ms: Slider,
}

#[derive(Serialize)]
struct Slider {
    min: f64,
    max: f64,
    unit: &'static str,
    scale: &'static str,
    /// An additional field of the slider, such as `zero` or `unlimited`: see docs/testbed-http.md.
    #[serde(flatten)]
    flag: Value,
}

impl Sliders {
    fn new() -> Self {
        let log = |min, max, unit, flag: &str| Slider {
            min,
            max,
            unit,
            scale: "log",
            flag: json!({ flag: true }),
        };
        Self {
            rtt_ms: log(0.1, 1000.0, "ms", "zero"),
            loss: log(1e-5, 0.2, "", "zero"),
            rate_mbit: log(0.1, 10_000.0, "Mbit/s", "unlimited"),
            queue_bytes: log(3000.0, f64::from(64 << 20), "B", "default"),
            jitter_ms: Slider {
                min: 0.0,
                max: 100.0,
                unit: "ms",
                scale: "linear",
                flag: json!({}),
            },
        }
    }
}

pub(super) async fn options(State(app): Shared) -> Result<Json<Options>, ApiError> {
    app.blocking(|app| all(app).map(Json)).await
}

fn all(app: &App) -> Result<Options, ApiError> {
    let scenarios = (presets().iter())
        .map(|preset| {
            let scenario =
                Scenario::named(preset.name).map_err(|error| ApiError::internal(&error))?;
            Ok(Preset {
                shown: ScenarioView::of(&scenario),
                toml: preset.toml,
            })
        })
        .collect::<Result<Vec<_>, ApiError>>()?;
    let transports = app.predictor.transports();
    let usual: Vec<_> = (transports.iter())
        .filter(|transport| transport.is_usual)
        .map(|transport| &*transport.name)
        .chain([predict::AUTO])
        .collect();
    let transports: Vec<_> = (transports.iter())
        .map(|transport| {
            let name = &transport.name;
            json!({ "name": name, "label": name, "predictable": transport.is_predictable })
        })
        .collect();
    let schemes = predict::schemes().map(|scheme| {
        let name = scheme.to_string();
        json!({ "name": name, "label": name })
    });
    let others = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "binary": concat!("transpute ", env!("CARGO_PKG_VERSION")),
        "machine": machine(),
        "can_run": app.cannot_run.is_none(),
        "cannot_run": app.cannot_run,
        "programs_allowed": app.allow_programs,
        "circuits": circuits::all(app)?,
        "schemes": schemes.collect::<Vec<_>>(),
        "transports": transports,
        "scenarios": scenarios,
        "defaults": {
            "circuit": "aes128",
            "scheme": predict::DEFAULT_SCHEME.to_string(),
            "scenario": SCENARIO,
            "transports": usual,
            "repetitions": jobs::REPETITIONS,
            "batch": 1,
            "encrypted": true,
        },
        "limits": {
            "upload_bytes": circuits::MAX_BYTES,
            "repetitions": jobs::MAX_REPETITIONS,
            "batch": predict::MAX_BATCH,
            "transports": predict::MAX_TRANSPORTS,
            "queue": MAX_QUEUED,
            "page": runs::MAX_PAGE,
            "map_cells": map::MAX_CELLS,
            "compare": compare::MAX_RUNS,
            "streams": MAX_STREAMS,
            "connections": connection::MAX_CONNECTIONS,
            "timeout_s": jobs::MAX_TIMEOUT_S,
        },
    });
    let sliders = Sliders::new();
    Ok(Options { others, sliders })
}

/// Describes the processor, memory and kernel of this machine.
fn machine() -> Value {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, name: &str| {
        (text.lines())
            .find_map(|line| {
                line.strip_prefix(name)?
                    .split_once(':')
                    .map(|(_, value)| value)
            })
            .map(|value| value.trim().to_owned())
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = after(&file("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.strip_suffix(" kB")?.trim().parse::<u64>().ok());
    let release = file("/proc/sys/kernel/osrelease");
    json!({
        "cpu": after(&file("/proc/cpuinfo"), "model name"),
        "cpus": cpus,
        "memory_bytes": memory.map(|kib| kib.saturating_mul(1024)),
        "kernel": format!("Linux {}", release.trim()),
    })
}

pub(super) async fn scenario(
    JsonBody(choice): JsonBody<ScenarioChoice>,
) -> Result<Json<ScenarioView>, ApiError> {
    choice
        .scenario()
        .map(|scenario| Json(ScenarioView::of(&scenario)))
}

pub(super) async fn health(State(app): Shared) -> Result<Json<Value>, ApiError> {
    let runs = (app.blocking(|app| Ok(app.store.count(&Filter::default())?))).await?;
    let (running, queued) = app.jobs.counts();
    Ok(Json(json!({
        "status": "ok",
        "jobs_running": running,
        "jobs_queued": queued,
        "runs": runs,
    })))
}
