//! Executes one run: creates a path, starts both parties on it, and returns the record.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicBool,
    time::{Duration, SystemTime},
};

use transpute_netem::{
    lab::{Lab, PARTY_PORT, Side},
    model::PathCounters,
    scenario::Scenario,
};
use transpute_units::Bandwidth;

use super::{
    environment::Environments,
    error::RunError,
    inputs::{CircuitInputs, InputMaker},
    matrix::Cell,
    options::{MatrixOptions, Timelines},
    party::{self, Computation, Keys, Report},
};
use crate::{
    flow::Flows,
    live::Live,
    measure::{Deadline, Finished, MeasureError, Process},
    record::{Measured, PathLimit, RECORD_FORMAT, RunRecord},
};

/// Time limit for generating a key.
const KEY_LIMIT: Duration = Duration::from_secs(20);

/// Time that a party has to end after the other party has failed.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// The key files of both parties, and their fingerprints.
pub(crate) struct Identities {
    pub(crate) garbler: (PathBuf, String),
    pub(crate) evaluator: (PathBuf, String),
}

impl Identities {
    /// Generates key files in a folder with the program `binary`.
    pub(crate) fn new(binary: &Path, folder: &Path, cancel: &AtomicBool) -> Result<Self, RunError> {
        let make = |name: &str| {
            let path = folder.join(name);
            let mut command = Command::new(binary);
            command.args(["id", "new"]).arg(&path);
            let fail = |reason: String| RunError::Tool {
                program: binary.display().to_string(),
                reason,
            };
            let finished = Process::start(command)
                .and_then(|process| process.finish(Deadline::new(KEY_LIMIT, cancel)))
                .map_err(|error| RunError::from_measure(error, |error| fail(error.to_string())))?;
            if !finished.status.success() {
                return Err(fail(finished.complaint().to_owned()));
            }
            Ok((path, finished.stdout.trim().to_owned()))
        };
        Ok(Self {
            garbler: make("garbler.key")?,
            evaluator: make("evaluator.key")?,
        })
    }
}

/// The state that all runs of a matrix share.
pub(super) struct MatrixRunner<'a> {
    pub(super) options: &'a MatrixOptions,
    pub(super) cancel: &'a AtomicBool,
    pub(super) environments: Environments,
    pub(super) identities: Identities,
    pub(super) inputs: InputMaker<'a>,
}

/// The reason why a run has no measurements.
pub(super) enum Stop {
    Run(String),
    /// The run was cut off. The values are the milliseconds since the parties' first packet, if
    /// there was one, and the message.
    CutOff(Option<f64>, String),
    All(RunError),
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        Self::All(error)
    }
}

impl MatrixRunner<'_> {
    /// Runs the computation of `cell` once over a new emulated path, and returns the record.
    pub(super) fn run(&mut self, cell: &Cell, repetition: u32) -> Result<RunRecord, RunError> {
        let inputs = self.inputs.inputs(&cell.circuit, self.cancel)?;
        // Losses differ between repetitions, but are the same if the whole matrix is run again.
        let path_seed = cell.scenario.seed.wrapping_add(repetition.into());
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // Every run has a new path. So no packets of the previous run remain, and the kernel has
        // no cached congestion window.
        let mut lab = Lab::start(&Scenario {
            seed: path_seed,
            ..cell.scenario.clone()
        })?;
        let environment = self.environments.of(&cell.scenario, self.cancel)?;
        let mut cut_off_ms = None;
        let (measured, error) = match self.measure(cell, &lab, &inputs) {
            Ok(measured) => {
                let overruns = lab.overruns()?;
                let is_wanted = match self.options.timelines {
                    Timelines::None => false,
                    Timelines::First => repetition == 0,
                    Timelines::All => true,
                };
                let timeline = is_wanted.then(|| lab.timeline());
                let measured = Measured {
                    overruns,
                    timeline,
                    ..measured
                };
                (Some(measured), None)
            }
            Err(Stop::Run(error)) => (None, Some(error)),
            Err(Stop::CutOff(after, error)) => {
                cut_off_ms = after;
                (None, Some(error))
            }
            Err(Stop::All(error)) => return Err(error),
        };
        Ok(RunRecord {
            format: RECORD_FORMAT,
            scenario: cell.scenario.clone(),
            circuit: cell.circuit.clone(),
            scheme: cell.scheme.clone(),
            transport: cell.transport.clone(),
            batch: cell.batch,
            encrypted: cell.encrypted,
            repetition,
            path_seed,
            started_unix_ms: started.map_or(0, |time| time.as_millis() as u64),
            environment,
            error,
            cut_off_ms,
            measured,
        })
    }

    fn measure(&self, cell: &Cell, lab: &Lab, inputs: &CircuitInputs) -> Result<Measured, Stop> {
        let cross = Flows::of_scenario(lab, &cell.scenario)
            .map_err(|error| Stop::Run(format!("cross traffic: {error}")))?;
        let shown = (self.options.live.as_ref()).map(|live: &Live| live.begin(lab, false));
        let before = lab.counters();
        let limit = (cell.cut_off).map_or(self.options.timeout, |limit| {
            limit.min(self.options.timeout)
        });
        let patience = Deadline::new(limit, self.cancel);
        let address = SocketAddr::new(lab.address(Side::A), PARTY_PORT).to_string();
        let start = |side, role, address: (&str, &str), inputs: &[String]| {
            let mut command = lab.command(side, &self.options.binary);
            let (own, peer) = match side {
                Side::A => (&self.identities.garbler, &self.identities.evaluator),
                Side::B => (&self.identities.evaluator, &self.identities.garbler),
            };
            let keys = cell.encrypted.then_some(Keys {
                identity: &own.0,
                peer: &peer.1,
            });
            let seconds = self.options.timeout;
            let computation = Computation {
                circuit: &cell.circuit,
                scheme: &cell.scheme,
                transport: &cell.transport,
                batch: cell.batch,
            };
            party::arguments(
                &mut command,
                computation,
                role,
                address,
                inputs,
                keys,
                seconds,
            );
            let Some(shown) = &shown else {
                return Process::start_counted(command).map_err(|error| failed(role, error));
            };
            command.arg("--tell-phases");
            let process = Process::start_counted_observed(command, shown.on_stderr(side))
                .map_err(|error| failed(role, error))?;
            shown.party(side, process.id());
            Ok(process)
        };
        let mut garbler = start(Side::A, "garbler", ("--listen", &address), &inputs.garbler)?;
        garbler
            .wait_for_line("listening on ", patience)
            .map_err(|error| failed("garbler", error))?;
        let connect = ("--connect", &*address);
        let evaluator = start(Side::B, "evaluator", connect, &inputs.evaluator)?;
        let evaluator = evaluator.finish(patience);
        if let Err(error @ MeasureError::TooLong { .. }) = &evaluator {
            // The run would take too long, so both parties are killed.
            let first = lab.party_traffic().first_packet;
            let after = first.and_then(|first| first.elapsed().ok());
            return Err(Stop::CutOff(
                after.map(|after| after.as_secs_f64() * 1e3),
                with_causes("evaluator: ", error),
            ));
        }
        let garbler = garbler.finish(garbler_deadline(&evaluator, patience, self.cancel));
        let [up, down] = lab.counters();
        let parties = lab.party_traffic();
        drop(cross);
        let (evaluator, report) = report_of("evaluator", evaluator)?;
        let (garbler, garbler_report) = report_of("garbler", garbler)?;
        check_outputs(&report, cell.batch, &inputs.outputs)?;
        let evaluator = report.record(evaluator.wall, evaluator.usage, parties.first_packet);
        let garbler = garbler_report.record(garbler.wall, garbler.usage, parties.first_packet);
        let runtime_ms = evaluator.output_ms.unwrap_or(evaluator.session_ms);
        let payload_up_bytes = garbler.sent_bytes;
        let payload_down_bytes = evaluator.sent_bytes;
        let connected_at_ms =
            (evaluator.connected_at_ms).unwrap_or(evaluator.connect_ms + evaluator.handshake_ms);
        Ok(Measured {
            runtime_ms,
            total_ms: connected_at_ms + runtime_ms,
            up: since(up, before[0]),
            down: since(down, before[1]),
            wire_up_bytes: parties.sent_bytes[0],
            wire_down_bytes: parties.sent_bytes[1],
            and_gates: Some(report.circuit.and),
            payload_up_bytes,
            payload_down_bytes,
            overruns: [0; 2],
            timeline: None,
            chosen: report.chosen(),
            selection: report.selection(),
            achieved_mbit: achieved_mbit(payload_up_bytes, runtime_ms),
            limit: PathLimit::of(
                &cell.scenario,
                report.round_trips,
                payload_up_bytes,
                payload_down_bytes,
                runtime_ms,
            ),
            garbler,
            evaluator,
        })
    }
}

/// Returns the deadline for the end of the garbler: that of the run, or [`GRACE`] from now if the
/// evaluator failed.
pub(super) fn garbler_deadline<'a>(
    evaluator: &Result<Finished, MeasureError>,
    run: Deadline<'a>,
    cancel: &'a AtomicBool,
) -> Deadline<'a> {
    match evaluator {
        Ok(evaluator) if evaluator.status.success() => run,
        _ => Deadline::new(GRACE, cancel),
    }
}

/// Returns the payload per run time, in Mbit/s.
pub(super) fn achieved_mbit(payload_bytes: u64, runtime_ms: f64) -> f64 {
    let seconds = runtime_ms.max(1e-3) / 1e3;
    Bandwidth::from_bytes_per_second(payload_bytes as f64 / seconds).megabits_per_second()
}

pub(super) fn failed(who: &str, error: MeasureError) -> Stop {
    match error {
        MeasureError::Cancelled => Stop::All(RunError::Cancelled),
        error => Stop::Run(with_causes(&format!("{who}: "), &error)),
    }
}

/// Formats an error with its sources on one line.
fn with_causes(start: &str, error: &dyn std::error::Error) -> String {
    let mut line = format!("{start}{error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {error}"));
        cause = error.source();
    }
    line.replace(['\n', '\r'], " ")
}

/// Returns the output and the report of a party, or the reason for its failure.
pub(super) fn report_of(
    who: &str,
    end: Result<Finished, MeasureError>,
) -> Result<(Finished, Report), Stop> {
    let finished = end.map_err(|error| failed(who, error))?;
    if !finished.status.success() {
        let complaint = finished.complaint();
        return Err(Stop::Run(format!(
            "{who}: {} ({complaint})",
            finished.status
        )));
    }
    match serde_json::from_str(&finished.stdout) {
        Ok(report) => Ok((finished, report)),
        Err(error) => Err(Stop::Run(format!("{who}: no report: {error}"))),
    }
}

pub(super) fn check_outputs(report: &Report, batch: u64, expected: &[String]) -> Result<(), Stop> {
    let right = (report.evaluations.iter())
        .filter(|outputs| outputs.iter().map(|value| &value.hex).eq(expected))
        .count();
    if right as u64 == batch && right == report.evaluations.len() {
        return Ok(());
    }
    Err(Stop::Run(format!(
        "evaluator: {right} of {batch} evaluations have the output of the circuit in the clear"
    )))
}

/// Returns the counts since `before`. A peak value cannot be subtracted and is taken from `now`.
fn since(now: PathCounters, before: PathCounters) -> PathCounters {
    PathCounters {
        packets_in: now.packets_in.saturating_sub(before.packets_in),
        bytes_in: now.bytes_in.saturating_sub(before.bytes_in),
        packets_out: now.packets_out.saturating_sub(before.packets_out),
        bytes_out: now.bytes_out.saturating_sub(before.bytes_out),
        lost_packets: now.lost_packets.saturating_sub(before.lost_packets),
        lost_bytes: now.lost_bytes.saturating_sub(before.lost_bytes),
        oversized_packets: (now.oversized_packets).saturating_sub(before.oversized_packets),
        oversized_bytes: now.oversized_bytes.saturating_sub(before.oversized_bytes),
        overflowed_packets: (now.overflowed_packets).saturating_sub(before.overflowed_packets),
        overflowed_bytes: now.overflowed_bytes.saturating_sub(before.overflowed_bytes),
        blocked_packets: now.blocked_packets.saturating_sub(before.blocked_packets),
        duplicated_packets: (now.duplicated_packets).saturating_sub(before.duplicated_packets),
        duplicated_bytes: now.duplicated_bytes.saturating_sub(before.duplicated_bytes),
        reordered_packets: (now.reordered_packets).saturating_sub(before.reordered_packets),
        queue_peak_bytes: now.queue_peak_bytes,
    }
}
