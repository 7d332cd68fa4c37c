//! Runs the cells of a matrix. Every run starts two processes on a new path.
//!
//! Repetitions are interleaved (A B C A B C), so that slow changes of the machine affect all cells
//! alike. Each run is recorded before the next one starts. A matrix that was interrupted continues
//! with the first run that has no result.

pub(crate) mod environment;
mod error;
mod estimate;
pub mod hosts;
mod inputs;
mod matrix;
mod options;
mod party;
mod repetition;
pub(crate) mod store;

use std::{
    fs::{self, DirBuilder},
    io,
    ops::ControlFlow,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

pub use error::RunError;
pub use matrix::{AUTO, Cell, Matrix, Sweep};
pub use options::{MatrixOptions, Timelines};

use crate::record::{Environment, RunRecord};
use environment::Environments;
use estimate::Estimate;
use inputs::InputMaker;
pub(crate) use repetition::Identities;
use repetition::MatrixRunner;
use store::Store;
use transpute_netem::scenario::Scenario;

/// The progress of a matrix.
#[derive(Debug)]
pub struct MatrixProgress<'a, C = Cell, R = RunRecord> {
    /// Number of runs that have ended.
    pub done: u64,
    /// Number of runs of this execution. Runs that had results before are not included.
    pub total: u64,
    /// Number of ended runs that failed.
    pub failed: u64,
    /// Estimated remaining time. None before the end of the first run.
    pub remaining: Option<Duration>,
    /// The cell of the next run. None at the end.
    pub next: Option<&'a C>,
    /// The error of the previous run, if it failed.
    pub error: Option<&'a str>,
    /// The record of the previous run. It is in the results file already. None at the start.
    pub last: Option<&'a R>,
}

/// The result of a matrix.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MatrixSummary {
    /// Number of measured runs.
    pub measured: u64,
    /// Number of failed runs. Their records contain the errors. The next execution repeats them.
    pub failed: u64,
    /// Number of runs that were cut off ([`Cell::cut_off`]).
    pub cut_off: u64,
    /// Number of runs that were skipped because they had results already.
    pub skipped: u64,
}

/// Returns the congestion control and the buffer sizes of TCP inside the network namespaces of a
/// scenario. All other fields are empty.
///
/// # Errors
/// Returns [`RunError`] if the path cannot be emulated or the settings cannot be read.
pub fn environment_inside(scenario: &Scenario) -> Result<Environment, RunError> {
    let mut environment = Environment::default();
    environment::describe_inside(&mut environment, scenario, &AtomicBool::new(false))?;
    Ok(environment)
}

/// Runs the cells of a matrix that have no results, and appends the results: see [`run_cells`].
///
/// # Errors
/// Returns [`RunError`] if no more runs are possible. A failed run is not an error: its record
/// contains the failure.
pub fn run(
    matrix: &Matrix,
    options: &MatrixOptions,
    cancel: &AtomicBool,
    report: impl FnMut(MatrixProgress<'_>) -> ControlFlow<()>,
) -> Result<MatrixSummary, RunError> {
    let cells = matrix.cells();
    if cells.is_empty() || matrix.repetitions == 0 {
        return Err(RunError::Empty(missing(matrix)));
    }
    run_cells(&cells, matrix.repetitions, options, cancel, report)
}

/// Returns the records that belong to a matrix.
#[must_use]
pub fn records_of(matrix: &Matrix, mut records: Vec<RunRecord>) -> Vec<RunRecord> {
    let cells = matrix.cells();
    records.retain(|record| cells.iter().any(|cell| store::is_of(record, cell)));
    records
}

/// Executes the runs that have no results, and appends the results to a file. All cells are run
/// once before any is run a second time.
///
/// `report` is called before every run and at the end. If it returns `Break`, no more runs start.
/// When `cancel` becomes true, the current run is abandoned, both parties are killed, and the
/// emulated path is removed.
///
/// # Errors
/// Returns [`RunError`] if no more runs are possible. A failed run is not an error: its record
/// contains the failure.
pub fn run_cells(
    cells: &[Cell],
    repetitions: u32,
    options: &MatrixOptions,
    cancel: &AtomicBool,
    report: impl FnMut(MatrixProgress<'_>) -> ControlFlow<()>,
) -> Result<MatrixSummary, RunError> {
    let mut store = Store::open(&options.results)?;
    let to_do = Series::new(
        cells,
        |_| repetitions,
        |cell, number| store.has(cell, number),
    );
    if to_do.runs.is_empty() {
        return to_do.run(cancel, report, |_, _| Err(RunError::Empty("what is to do")));
    }
    let work = WorkFolder::new(&options.results)?;
    let mut bench = MatrixRunner {
        options,
        cancel,
        environments: Environments::new(&options.binary, cancel)?,
        identities: Identities::new(&options.binary, &work.0, cancel)?,
        inputs: InputMaker::new(&options.binary, &work.0),
    };
    // All circuits are checked before the first run. So an invalid circuit is reported at once, not
    // when its first run starts.
    for &(_, cell) in &to_do.runs {
        bench.inputs.inputs(&cells[cell].circuit, cancel)?;
    }
    to_do.run(cancel, report, |cell, repetition| {
        let record = bench.run(cell, repetition)?;
        let ending = match (&record.error, record.cut_off_ms) {
            (Some(error), Some(_)) if cell.cut_off.is_some() => Ending::CutOff(error.clone()),
            (Some(error), _) => Ending::Failed(error.clone()),
            (None, _) => Ending::Measured,
        };
        store.append(record.clone())?;
        Ok((ending, record))
    })
}

/// The outcome of a run whose record was appended to the results.
pub(crate) enum Ending {
    Measured,
    CutOff(String),
    Failed(String),
}

/// The runs that have no results, in the order of their execution: all cells once before any a
/// second time.
pub(crate) struct Series<'a, C> {
    cells: &'a [C],
    /// Pairs of the repetition and the index of the cell.
    pub(crate) runs: Vec<(u32, usize)>,
    skipped: u64,
}

impl<'a, C> Series<'a, C> {
    /// Returns the runs of `cells` for which `has` has no result.
    pub(crate) fn new(
        cells: &'a [C],
        repetitions: impl Fn(&C) -> u32,
        has: impl Fn(&C, u32) -> bool,
    ) -> Self {
        let most = cells.iter().map(&repetitions).max().unwrap_or(0);
        let mut runs = Vec::new();
        let mut skipped = 0;
        for repetition in 0..most {
            for (index, cell) in cells.iter().enumerate() {
                if repetition >= repetitions(cell) {
                    continue;
                }
                if has(cell, repetition) {
                    skipped += 1;
                } else {
                    runs.push((repetition, index));
                }
            }
        }
        Self {
            cells,
            runs,
            skipped,
        }
    }

    /// Executes the runs by calls of `run`. Stops when `report` returns `Break`, `cancel` becomes
    /// true or `run` returns an error.
    pub(crate) fn run<R>(
        self,
        cancel: &AtomicBool,
        mut report: impl FnMut(MatrixProgress<'_, C, R>) -> ControlFlow<()>,
        mut run: impl FnMut(&C, u32) -> Result<(Ending, R), RunError>,
    ) -> Result<MatrixSummary, RunError> {
        let mut summary = MatrixSummary {
            skipped: self.skipped,
            ..MatrixSummary::default()
        };
        let total = self.runs.len() as u64;
        let mut error: Option<String> = None;
        let mut last = None;
        let mut estimate = Estimate::new(self.cells.len());
        for (index, &(repetition, cell)) in self.runs.iter().enumerate() {
            let told = report(MatrixProgress {
                done: index as u64,
                total,
                failed: summary.failed,
                remaining: estimate.remaining(self.runs[index..].iter().map(|&(_, cell)| cell)),
                next: Some(&self.cells[cell]),
                error: error.as_deref(),
                last: last.as_ref(),
            });
            if told.is_break() {
                return Ok(summary);
            }
            let start = Instant::now();
            let (ending, record) = run(&self.cells[cell], repetition)?;
            last = Some(record);
            estimate.record(cell, start.elapsed());
            error = match ending {
                Ending::Measured => {
                    summary.measured += 1;
                    None
                }
                Ending::CutOff(error) => {
                    summary.cut_off += 1;
                    Some(error)
                }
                Ending::Failed(error) => {
                    summary.failed += 1;
                    Some(error)
                }
            };
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
        }
        // The returned value is ignored, because all runs have ended.
        let _ = report(MatrixProgress {
            done: total,
            total,
            failed: summary.failed,
            remaining: Some(Duration::ZERO),
            next: None,
            error: error.as_deref(),
            last: last.as_ref(),
        });
        Ok(summary)
    }
}

fn missing(matrix: &Matrix) -> &'static str {
    [
        ("the list of scenarios", matrix.scenarios.is_empty()),
        ("the list of circuits", matrix.circuits.is_empty()),
        ("the list of schemes", matrix.schemes.is_empty()),
        ("the list of transports", matrix.transports.is_empty()),
        ("the list of batches", matrix.batches.is_empty()),
    ]
    .into_iter()
    .find_map(|(name, is_empty)| is_empty.then_some(name))
    .unwrap_or("the number of repetitions")
}

/// A temporary folder for keys and inputs, next to the results file. It is removed on drop. If this
/// process is killed, the next start removes it.
pub(crate) struct WorkFolder(pub(crate) PathBuf);

impl WorkFolder {
    /// Creates the folder. The caller has locked the results, so no other process uses it.
    pub(crate) fn new(results: &Path) -> Result<Self, RunError> {
        // An absolute path is valid in any working folder of the parties' processes.
        let results = std::path::absolute(results).map_err(RunError::Prepare)?;
        let name = results.file_name().unwrap_or_default().to_string_lossy();
        let path = results.with_file_name(format!(".{name}.transpute-testbed"));
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(RunError::Prepare(error));
            }
            _ => {}
        }
        (DirBuilder::new().mode(0o700).create(&path)).map_err(RunError::Prepare)?;
        Ok(Self(path))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // If removing fails, the next start removes the folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}
