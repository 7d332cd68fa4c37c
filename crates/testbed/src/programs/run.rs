//! Runs the cells of a plan. Each run starts two commands on a new path and appends a record to the
//! results file.

use std::{
    ops::ControlFlow,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::atomic::AtomicBool,
    time::SystemTime,
};

use transpute_netem::scenario::Scenario;

use super::{PROGRAM_RECORD_FORMAT, ProgramCell, ProgramRecord, Said};
use crate::{
    pair::{Outcome, Pair, PairOptions},
    runner::{
        Ending, Identities, MatrixProgress, MatrixSummary, RunError, Series, WorkFolder,
        environment::Environments, store::Store,
    },
};

/// Options for the execution of cells.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProgramOptions {
    /// The `transpute` program, which generates the keys.
    pub binary: PathBuf,
    /// The working folder of the commands.
    pub folder: PathBuf,
    /// The file to which records are appended, one JSON object per line. Runs that have a result in
    /// this file are skipped.
    pub results: PathBuf,
}

impl ProgramOptions {
    /// Returns options for commands that run in `folder`, with keys from the program `binary` and
    /// records in the file `results`.
    #[must_use]
    pub fn new(
        binary: impl Into<PathBuf>,
        folder: impl Into<PathBuf>,
        results: impl Into<PathBuf>,
    ) -> Self {
        Self {
            binary: binary.into(),
            folder: folder.into(),
            results: results.into(),
        }
    }
}

/// Executes the runs that have no results, and appends the results to a file. All cells are run
/// once before any is run a second time.
///
/// `report` is called before every run and at the end. If it returns `Break`, no more runs start.
/// When `cancel` becomes true, the current run is abandoned, both commands are killed, and the
/// emulated path is removed.
///
/// # Errors
/// Returns [`RunError`] if no more runs are possible. A command that fails is not an error: the
/// record of its run contains the failure.
pub fn run(
    cells: &[ProgramCell],
    options: &ProgramOptions,
    cancel: &AtomicBool,
    report: impl FnMut(MatrixProgress<'_, ProgramCell, ProgramRecord>) -> ControlFlow<()>,
) -> Result<MatrixSummary, RunError> {
    if cells.is_empty() {
        return Err(RunError::Empty("the list of cells"));
    }
    let mut store = Store::<ProgramRecord>::open(&options.results)?;
    let has = |cell: &ProgramCell, repetition| {
        (store.done().iter()).any(|record| record.is_result_of(cell, repetition))
    };
    let to_do = Series::new(cells, |cell| cell.repetitions, has);
    if to_do.runs.is_empty() {
        return to_do.run(cancel, report, |_, _| Err(RunError::Empty("what is to do")));
    }
    let work = WorkFolder::new(&options.results)?;
    let mut bench = ProgramRunner {
        identities: Identities::new(&options.binary, &work.0, cancel)?,
        environments: Environments::new(&options.binary, cancel)?,
        folder: &options.folder,
        cancel,
    };
    to_do.run(cancel, report, |cell, repetition| {
        let record = bench.run(cell, repetition)?;
        let ending = match (&record.error, record.cut_off) {
            (Some(error), true) => Ending::CutOff(error.clone()),
            (Some(error), false) => Ending::Failed(error.clone()),
            (None, _) => Ending::Measured,
        };
        store.append(record.clone())?;
        Ok((ending, record))
    })
}

/// The state that all runs share.
struct ProgramRunner<'a> {
    identities: Identities,
    environments: Environments,
    folder: &'a Path,
    cancel: &'a AtomicBool,
}

impl ProgramRunner<'_> {
    fn run(&mut self, cell: &ProgramCell, repetition: u32) -> Result<ProgramRecord, RunError> {
        let environment = self.environments.of(&cell.scenario, self.cancel)?;
        let commands = cell.commands_of(repetition);
        // Losses differ between repetitions. They are the same when the whole plan is repeated.
        let path_seed = cell.scenario.seed.wrapping_add(repetition.into());
        let scenario = Scenario {
            seed: path_seed,
            ..cell.scenario.clone()
        };
        let [of_a, of_b] = [&self.identities.garbler, &self.identities.evaluator];
        let a = [
            ("TRANSPUTE_KEY", of_a.0.as_os_str()),
            ("TRANSPUTE_PEER", of_b.1.as_ref()),
        ];
        let b = [
            ("TRANSPUTE_KEY", of_b.0.as_os_str()),
            ("TRANSPUTE_PEER", of_a.1.as_ref()),
        ];
        let pair = Pair {
            commands: commands.each_ref().map(String::as_str),
            folder: Some(self.folder),
            variables: [&a, &b],
            options: PairOptions {
                timeout: Some(cell.time_limit),
                live: None,
                keeps: true,
            },
        };
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let outcome = pair.run(&scenario, self.cancel)?;
        let time_limit_s = cell.time_limit.as_secs_f64();
        let error = problem(&outcome, time_limit_s);
        let [a, b] = outcome.printed.map(|printed| printed.said);
        let report = outcome.report;
        Ok(ProgramRecord {
            format: PROGRAM_RECORD_FORMAT,
            experiment: cell.experiment.clone(),
            variables: cell.variables.clone(),
            scenario: cell.scenario.clone(),
            commands,
            repetition,
            path_seed,
            started_unix_ms: started.map_or(0, |time| time.as_millis() as u64),
            environment,
            time_limit_s,
            error,
            cut_off: outcome.is_cut_off,
            seconds: report.seconds,
            codes: [report.a_code, report.b_code],
            said: Said { a, b },
            up: report.up,
            down: report.down,
            party_bytes: report.party_bytes,
            overruns: report.overruns,
        })
    }
}

/// Returns the error of a run in one line. None if it succeeded.
fn problem(outcome: &Outcome, time_limit_s: f64) -> Option<String> {
    let mut problems = Vec::new();
    if outcome.is_cut_off {
        problems.push(format!("cut off after {time_limit_s} s"));
    }
    for (index, side) in ["A", "B"].into_iter().enumerate() {
        // The exit code of a command that this process ended by a signal is not a failure.
        if outcome.is_told[index] {
            continue;
        }
        if let Some(ending) = bad_ending(outcome.statuses[index]) {
            let complaint = &outcome.printed[index].complaint;
            let complaint = match complaint.as_str() {
                "" => "it said nothing",
                complaint => complaint,
            };
            problems.push(format!("the command on side {side} {ending} ({complaint})"));
        }
    }
    if problems.is_empty() && outcome.printed[1].said.is_none() {
        problems.push("the command on side B printed no JSON object".to_owned());
    }
    (!problems.is_empty()).then(|| problems.join("; ").replace(['\n', '\r'], " "))
}

fn bad_ending(status: ExitStatus) -> Option<String> {
    if status.success() {
        return None;
    }
    Some(match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "has not ended well".to_owned(),
    })
}
