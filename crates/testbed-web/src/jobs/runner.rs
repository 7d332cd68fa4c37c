//! Runs a job: its cells or its programs, in sequence.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
};

use serde::Serialize;
use serde_json::json;
use transpute_netem::scenario::Scenario;
use transpute_testbed::{
    live::{Live, LiveState, PartyName, Phase, PhaseName},
    pair::{self, PairOptions, PairReport},
    record::{Environment, Measured, PartyRecord, RunRecord},
    runner::{self, MatrixOptions, MatrixProgress, RunError, Timelines},
};

use super::{
    CurrentRun, Log, Plan, Shared, Work,
    sampler::{Sample, Sampler},
    unix_ms,
};
use crate::{
    predictor::Source,
    run::{Predicted, Run, RunKind, RunState},
    store::StoreError,
};

/// The data of the event for the start of a run.
#[derive(Serialize)]
struct RunStart<'a> {
    number: u64,
    transport: &'a str,
    repetition: u32,
    at_unix_ms: u64,
    rate_up_mbit: Option<f64>,
    rate_down_mbit: Option<f64>,
    predicted_s: Option<f64>,
}

/// The details of a run. They are stored separately from the run, because lists do not show them.
#[derive(Serialize)]
struct Detail<'a> {
    #[serde(rename = "row", skip_serializing_if = "Option::is_none")]
    record: Option<&'a RunRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    programs: Option<Programs<'a>>,
    samples: &'a [Sample],
    phases: Vec<Phase>,
}

/// The commands, output and measurements of users' programs.
#[derive(Serialize)]
struct Programs<'a> {
    scenario: &'a Scenario,
    a: &'a str,
    b: &'a str,
    #[serde(flatten)]
    report: Option<PairReport>,
    a_output: String,
    b_output: String,
}

/// Runs a job to its end. Returns an error as one line of text.
pub(super) fn run(
    shared: &Shared,
    id: i64,
    plan: &Plan,
    log: &Log,
    cancel: &AtomicBool,
) -> Result<(), String> {
    let live = Live::default();
    let sampler = Sampler::start(live.clone(), log.clone())
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let run = JobRun {
        shared,
        id,
        plan,
        log,
        live,
        sampler,
    };
    match &plan.work {
        Work::Circuit { .. } => run.circuit(cancel),
        Work::Programs { label, a, b } => run.programs(label, [a, b], cancel),
    }
}

/// A job in progress.
struct JobRun<'a> {
    shared: &'a Shared,
    id: i64,
    plan: &'a Plan,
    log: &'a Log,
    live: Live,
    sampler: Sampler,
}

impl JobRun<'_> {
    fn circuit(&self, cancel: &AtomicBool) -> Result<(), String> {
        let Work::Circuit {
            circuit,
            label,
            source,
            predicted,
            pick,
            ..
        } = &self.plan.work
        else {
            return Ok(());
        };
        let cells = self.plan.cells();
        let scratch = (tempfile::Builder::new()
            .prefix("transpute-testbed-")
            .tempdir())
        .map_err(|error| format!("cannot create a folder for keys and inputs: {error}"))?;
        let results = scratch.path().join("rows.jsonl");
        let mut options = MatrixOptions::new(&self.shared.binary, results, self.plan.timeout);
        options.timelines = Timelines::All;
        options.live = Some(self.live.clone());
        // Users must not learn the path of an upload on the server.
        let hidden = |text: &str| match source {
            Source::Upload(path) => text.replace(&*path.to_string_lossy(), label),
            Source::BuiltIn(_) => text.to_owned(),
        };
        let mut broken = None;
        let report = |progress: MatrixProgress<'_>| {
            if let Some(record) = progress.last {
                let record = RunRecord {
                    circuit: circuit.clone(),
                    error: record.error.as_deref().map(hidden),
                    ..record.clone()
                };
                if let Err(error) =
                    self.keep_record(progress.done, &record, label, (predicted, pick))
                {
                    broken = Some(with_causes(&error));
                    return ControlFlow::Break(());
                }
            }
            let repetition = (progress.done / cells.len().max(1) as u64) as u32;
            let next = progress
                .next
                .map(|cell| (cell.transport.as_str(), repetition));
            let remaining = progress.remaining.map(|left| left.as_secs_f64());
            self.begin(progress.done, progress.failed, remaining, next, predicted);
            ControlFlow::Continue(())
        };
        let ended = runner::run_cells(&cells, self.plan.repetitions, &options, cancel, report);
        match (ended, broken) {
            (_, Some(error)) => Err(error),
            (Ok(_), None) => Ok(()),
            (Err(error), None) => Err(hidden(&with_causes(&error))),
        }
    }

    fn programs(
        &self,
        label: &str,
        commands: [&String; 2],
        cancel: &AtomicBool,
    ) -> Result<(), String> {
        let mut failed = 0;
        let none = HashMap::new();
        for repetition in 0..self.plan.repetitions {
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled.to_string());
            }
            let done = u64::from(repetition);
            self.begin(done, failed, None, Some(("programs", repetition)), &none);
            let scenario = Scenario {
                seed: self.plan.scenario.seed.wrapping_add(repetition.into()),
                ..self.plan.scenario.clone()
            };
            let mut run = Run::under(&scenario, RunKind::Programs, unix_ms());
            label.clone_into(&mut run.circuit);
            label.clone_into(&mut run.circuit_label);
            "programs".clone_into(&mut run.transport);
            run.encrypted = false;
            run.repetition = repetition;
            let mut options = PairOptions::default();
            options.timeout = Some(self.plan.timeout);
            options.live = Some(&self.live);
            options.keeps = true;
            let [a, b] = commands;
            let mut report = match pair::run_with(&scenario, [a, b], options, cancel) {
                Ok(report) => Some(report),
                Err(RunError::Tool { program, reason }) => {
                    run.state = RunState::Failed;
                    run.error = Some(format!("{program}: {reason}"));
                    None
                }
                Err(error) => return Err(with_causes(&error)),
            };
            if let Some(report) = &report {
                run.take_programs(report);
            }
            failed += u64::from(run.state != RunState::Ok);
            let output = report.as_mut().and_then(|report| report.output.take());
            let [a_output, b_output] = output.unwrap_or_default();
            let programs = Programs {
                scenario: &scenario,
                a,
                b,
                report,
                a_output,
                b_output,
            };
            (self.keep(done + 1, run, None, Some(programs)))
                .map_err(|error| with_causes(&error))?;
        }
        self.begin(u64::from(self.plan.repetitions), failed, None, None, &none);
        Ok(())
    }

    /// Reports the progress of the job and the start of the next run.
    fn begin(
        &self,
        done: u64,
        failed: u64,
        remaining_s: Option<f64>,
        next: Option<(&str, u32)>,
        predicted: &HashMap<String, Predicted>,
    ) {
        let now = unix_ms();
        let number = done + 1;
        if next.is_some() {
            self.sampler.begin(number);
        }
        self.shared.change(self.id, |job| {
            (job.done, job.failed, job.remaining_s) = (done, failed, remaining_s);
            job.current = next.map(|(transport, repetition)| CurrentRun {
                number,
                transport: transport.to_owned(),
                repetition,
                started_unix_ms: now,
            });
        });
        if let Some((transport, repetition)) = next {
            self.log.push(
                "run-start",
                &RunStart {
                    number,
                    transport,
                    repetition,
                    at_unix_ms: now,
                    rate_up_mbit: self.plan.scenario.up.rate_mbit,
                    rate_down_mbit: self.plan.scenario.down.rate_mbit,
                    predicted_s: predicted.get(transport).map(|predicted| predicted.seconds),
                },
            );
        }
    }

    fn keep_record(
        &self,
        number: u64,
        record: &RunRecord,
        label: &str,
        (predicted, pick): (&HashMap<String, Predicted>, &Option<String>),
    ) -> Result<(), StoreError> {
        let mut run = Run::of_record(record, label);
        run.pick.clone_from(pick);
        if let Some(&predicted) = predicted.get(&record.transport) {
            run.take_prediction(predicted);
        }
        self.keep(number, run, Some(record), None)
    }

    /// Adds a run to the history and reports it as an event.
    fn keep(
        &self,
        number: u64,
        mut run: Run,
        record: Option<&RunRecord>,
        programs: Option<Programs<'_>>,
    ) -> Result<(), StoreError> {
        let last = self.live.take_last();
        let samples = self.sampler.end(last.as_ref(), self.log);
        if let Some(look) = &last {
            run.take_last_look(look);
        }
        if run.kind == RunKind::Programs {
            // Processes that have ended cannot be sampled. The processor time in their last sample
            // is close to their total.
            let seen = |party: usize| {
                samples
                    .iter()
                    .rev()
                    .find_map(|sample| sample.cpu_s()[party])
            };
            (run.garbler_cpu_s, run.evaluator_cpu_s) = (seen(0), seen(1));
        }
        run.job = Some(self.id);
        let measured = record.and_then(|record| record.measured.as_ref());
        let phases = match (measured, &last) {
            (Some(measured), _) => phases(measured),
            (None, Some(LiveState { phases, .. })) => phases.clone(),
            (None, None) => Vec::new(),
        };
        let detail = Detail {
            record,
            programs,
            samples: &samples,
            phases,
        };
        let detail = serde_json::to_string(&detail).map_err(StoreError::Entry)?;
        run.id = self.shared.store.add(&run, &detail)?;
        self.log
            .push("run", &json!({ "number": number, "run": run }));
        Ok(())
    }
}

/// Returns the phases of both parties, sorted by time. Times are relative to the parties' first
/// packet.
fn phases(measured: &Measured) -> Vec<Phase> {
    let mut phases = Vec::new();
    for (party, record) in [
        (PartyName::Garbler, &measured.garbler),
        (PartyName::Evaluator, &measured.evaluator),
    ] {
        let PartyRecord {
            connected_at_ms: Some(connected),
            agreed_ms,
            first_labels_ms,
            first_table_ms,
            last_table_ms,
            output_ms,
            session_ms,
            ..
        } = record
        else {
            continue;
        };
        let moments = [
            (PhaseName::Connected, Some(0.0)),
            (PhaseName::Agreed, *agreed_ms),
            (PhaseName::FirstLabels, *first_labels_ms),
            (PhaseName::FirstTable, *first_table_ms),
            (PhaseName::LastTable, *last_table_ms),
            (PhaseName::Output, *output_ms),
            (PhaseName::End, Some(*session_ms)),
        ];
        phases.extend((moments.into_iter()).filter_map(|(phase, after)| {
            let at_ms = Some(connected + after?);
            Some(Phase {
                party,
                phase,
                at_ms,
            })
        }));
    }
    phases.sort_by(|a, b| a.at_ms.unwrap_or(0.0).total_cmp(&b.at_ms.unwrap_or(0.0)));
    phases
}

/// Returns an error with its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some errors already include the text of their cause.
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(&format!(": {text}"));
        }
        cause = error.source();
    }
    line.replace(['\n', '\r'], " ")
}

/// Returns the kernel settings of emulated paths. If this machine cannot emulate paths, returns the
/// reason.
pub(crate) fn probe_environment() -> Result<Environment, String> {
    let scenario = Scenario::named("loopback").map_err(|error| error.to_string())?;
    runner::environment_inside(&scenario).map_err(|error| with_causes(&error))
}

#[cfg(test)]
mod tests {
    use transpute_testbed::report::fixture::record;

    use super::*;

    #[test]
    fn phases_of_both_parties_are_on_one_clock() {
        let record = record("aes128", "lan", 9.0);
        let phases = phases(record.measured.as_ref().unwrap());
        assert_eq!(phases.len(), 14);
        assert_eq!(phases[0].phase, PhaseName::Connected);
        assert_eq!(phases[0].at_ms, Some(30.0));
        assert_eq!(phases[13].at_ms, Some(40.0));
        assert!(phases.is_sorted_by(|a, b| a.at_ms <= b.at_ms));
    }
}
