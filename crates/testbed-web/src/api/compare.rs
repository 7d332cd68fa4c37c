//! Handlers for comparisons. They group measured runs by conditions, and add the minimum run time
//! that the conditions allow.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{Path, State},
};
use serde::Serialize;
use transpute_testbed::{record::PathLimit, report::Samples};

use super::{QueryPairs, Shared, number, params};
use crate::{
    app::App,
    error::ApiError,
    run::{Run, RunState},
    store::{Filter, Order},
};

/// Maximum number of runs in a comparison or a chart.
pub(super) const MAX_RUNS: usize = 2000;

#[derive(Serialize)]
pub(super) struct Comparison {
    groups: Vec<Group>,
    runs: usize,
}

/// Runs under equal conditions.
#[derive(Debug, Serialize)]
struct Group {
    scenario: String,
    circuit: String,
    circuit_label: String,
    scheme: String,
    batch: u64,
    encrypted: bool,
    rtt_ms: f64,
    loss: f64,
    rate_mbit: Option<f64>,
    limit: Option<PathLimit>,
    pick: Option<String>,
    best: Option<String>,
    best_is_clear: bool,
    rows: Vec<Line>,
}

/// The runs of a group over one transport.
#[derive(Debug, Serialize)]
struct Line {
    transport: String,
    runs: usize,
    failed: usize,
    cut_off: usize,
    total_ms: Option<Spread>,
    runtime_ms: Option<Spread>,
    ratio: Option<f64>,
    predicted_s: Option<f64>,
    predicted_low_s: Option<f64>,
    predicted_high_s: Option<f64>,
    wire_up_bytes: Option<f64>,
    wire_down_bytes: Option<f64>,
    payload_up_bytes: Option<f64>,
    lost_packets: Option<f64>,
    retransmitted_segments: Option<f64>,
    achieved_mbit: Option<f64>,
    cpu_s: Option<f64>,
    used: BTreeMap<String, usize>,
    error: Option<String>,
    ids: Vec<i64>,
}

/// Median, minimum and maximum of the measurements of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    pub(super) fn of(samples: &Samples) -> Option<Self> {
        let (min, max) = samples.range()?;
        let median = samples.median()?;
        Some(Self { median, min, max })
    }
}

pub(super) async fn compare(
    State(app): Shared,
    pairs: QueryPairs,
) -> Result<Json<Comparison>, ApiError> {
    let mut params = params(pairs)?;
    let filter = Filter::parse(&mut params)?;
    params.finish()?;
    (app.blocking(move |app| of(app, &filter))).await
}

pub(super) async fn of_job(
    State(app): Shared,
    Path(id): Path<String>,
) -> Result<Json<Comparison>, ApiError> {
    let id = number(&id, "job")?;
    app.blocking(move |app| {
        if app.jobs.get(id)?.is_none() {
            return Err(ApiError::missing(format!("job {id}")));
        }
        of(app, &Filter::of_job(id))
    })
    .await
}

fn of(app: &App, filter: &Filter) -> Result<Json<Comparison>, ApiError> {
    let page = app.store.page(filter, Order::Oldest, None, MAX_RUNS)?;
    if page.next.is_some() {
        return Err(ApiError::bad(format!(
            "more than {MAX_RUNS} runs; narrow the filter"
        )));
    }
    Ok(Json(Comparison {
        groups: groups(&page.runs),
        runs: page.runs.len(),
    }))
}

fn groups(runs: &[Run]) -> Vec<Group> {
    // This is a list, not a map, so that the groups stay in the order of their first runs.
    let mut groups: Vec<(String, Vec<&Run>)> = Vec::new();
    for run in runs {
        let key = format!(
            "{}\n{}\n{}\n{}\n{}\n{:?}",
            run.conditions, run.circuit, run.scheme, run.batch, run.encrypted, run.kind
        );
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(run),
            None => groups.push((key, vec![run])),
        }
    }
    (groups.iter())
        .filter_map(|(_, runs)| Group::of(runs))
        .collect()
}

impl Group {
    fn of(runs: &[&Run]) -> Option<Self> {
        let one = runs.first()?;
        let mut names: Vec<&str> = Vec::new();
        for run in runs {
            if !names.contains(&run.transport.as_str()) {
                names.push(&run.transport);
            }
        }
        let mut rows: Vec<Line> = (names.into_iter())
            .map(|name| {
                let own: Vec<&Run> = (runs.iter().copied())
                    .filter(|run| run.transport == name)
                    .collect();
                Line::of(name, &own)
            })
            .collect();
        let time = |row: &Line| row.total_ms.map_or(f64::INFINITY, |total| total.median);
        // The sort is stable, so transports without a successful run keep their order.
        rows.sort_by(|a, b| time(a).total_cmp(&time(b)));
        let best = rows.first().filter(|row| row.total_ms.is_some());
        let slowest = best.and_then(|row| row.total_ms).map(|total| total.max);
        let others = rows.iter().skip(1).filter_map(|row| row.total_ms);
        let best_is_clear = slowest.is_some_and(|slowest| {
            let mut others = others.peekable();
            others.peek().is_some() && others.all(|other| other.min > slowest)
        });
        Some(Self {
            scenario: one.scenario.clone(),
            circuit: one.circuit.clone(),
            circuit_label: one.circuit_label.clone(),
            scheme: one.scheme.clone(),
            batch: one.batch,
            encrypted: one.encrypted,
            rtt_ms: one.rtt_ms,
            loss: one.loss,
            rate_mbit: one.rate_mbit,
            limit: runs.iter().find_map(|run| run.limit()),
            pick: runs.iter().rev().find_map(|run| run.pick.clone()),
            best: best.map(|row| row.transport.clone()),
            best_is_clear,
            rows,
        })
    }
}

impl Line {
    fn of(transport: &str, runs: &[&Run]) -> Self {
        let count = |state| runs.iter().filter(|run| run.state == state).count();
        let samples = |quantity: &dyn Fn(&Run) -> Option<f64>| -> Samples {
            (runs.iter())
                .filter(|run| run.state == RunState::Ok)
                .filter_map(|run| quantity(run))
                .collect()
        };
        let median = |quantity: &dyn Fn(&Run) -> Option<f64>| samples(quantity).median();
        let bytes = |value: Option<u64>| value.map(|value| value as f64);
        let mut used = BTreeMap::new();
        for name in runs.iter().filter_map(|run| run.used_transport.clone()) {
            *used.entry(name).or_insert(0) += 1;
        }
        let predicted = runs.iter().rev().find(|run| run.predicted_s.is_some());
        Self {
            transport: transport.to_owned(),
            runs: runs.len(),
            failed: count(RunState::Failed),
            cut_off: count(RunState::CutOff),
            total_ms: Spread::of(&samples(&|run| run.total_ms)),
            runtime_ms: Spread::of(&samples(&|run| run.runtime_ms)),
            ratio: median(&|run| run.ratio),
            predicted_s: predicted.and_then(|run| run.predicted_s),
            predicted_low_s: predicted.and_then(|run| run.predicted_low_s),
            predicted_high_s: predicted.and_then(|run| run.predicted_high_s),
            wire_up_bytes: median(&|run| bytes(run.wire_up_bytes)),
            wire_down_bytes: median(&|run| bytes(run.wire_down_bytes)),
            payload_up_bytes: median(&|run| bytes(run.payload_up_bytes)),
            lost_packets: median(&|run| bytes(run.lost_packets)),
            retransmitted_segments: median(&|run| bytes(run.retransmitted_segments)),
            achieved_mbit: median(&|run| run.achieved_mbit),
            cpu_s: median(&|run| Some(run.garbler_cpu_s? + run.evaluator_cpu_s?)),
            used,
            error: runs.iter().find_map(|run| run.error.clone()),
            ids: runs.iter().map(|run| run.id).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use transpute_testbed::report::fixture::record;

    use super::*;

    fn run(transport: &str, scenario: &str, runtime_ms: f64, predicted_s: f64) -> Run {
        let mut run = Run::of_record(&record("aes128", scenario, runtime_ms), "aes128");
        run.transport = transport.to_owned();
        run.predicted_s = Some(predicted_s);
        run.pick = Some("tcp".to_owned());
        run
    }

    #[test]
    fn the_fastest_transport_is_first_even_if_another_one_was_picked() {
        let mut runs = vec![
            run("tcp", "eu-us", 300.0, 0.3),
            run("quic", "eu-us", 200.0, 0.4),
            run("tcp", "eu-us", 320.0, 0.3),
            run("quic", "eu-us", 210.0, 0.4),
            run("tcp", "lan", 1.0, 0.1),
        ];
        runs[2].lost_packets = Some(4);
        let groups = groups(&runs);
        assert_eq!(groups.len(), 2);
        let group = &groups[0];
        assert_eq!(group.best.as_deref(), Some("quic"));
        assert_eq!(group.pick.as_deref(), Some("tcp"));
        assert!(group.best_is_clear && group.limit.is_some());
        let quic = &group.rows[0];
        assert_eq!((quic.transport.as_str(), quic.runs), ("quic", 2));
        let expected = Spread {
            median: 235.0,
            min: 230.0,
            max: 240.0,
        };
        assert_eq!(quic.total_ms, Some(expected));
        assert_eq!(group.rows[1].lost_packets, Some(2.0));
        // With a single transport, there is nothing to compare, so the best is not clear.
        assert!(!groups[1].best_is_clear);
    }

    #[test]
    fn a_failed_transport_has_no_times_and_is_last() {
        let mut bad = run("rudp", "eu-us", 1.0, 0.1);
        (bad.state, bad.error) = (RunState::Failed, Some("x".to_owned()));
        let groups = groups(&[bad, run("tcp", "eu-us", 300.0, 0.3)]);
        let rows = &groups[0].rows;
        assert_eq!(rows[0].transport, "tcp");
        assert_eq!((rows[1].failed, rows[1].total_ms), (1, None));
        assert!(!groups[0].best_is_clear);
    }

    #[test]
    fn overlapping_times_make_no_clear_winner() {
        let runs = [
            run("tcp", "eu-us", 300.0, 0.3),
            run("tcp", "eu-us", 100.0, 0.3),
            run("quic", "eu-us", 210.0, 0.4),
        ];
        assert!(!groups(&runs)[0].best_is_clear);
    }
}
