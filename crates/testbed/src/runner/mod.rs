//! Running a matrix: every repetition is two real processes on a path of its own.
//!
//! Repetitions are interleaved (A B C A B C), so that whatever drifts hits all cells alike. Each is
//! recorded before the next one starts; a matrix that was interrupted goes on where it was.

pub(crate) mod environment;
mod error;
mod estimate;
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
pub use options::{Options, Timelines};

use crate::row::{Environment, Row};
use environment::Environments;
use estimate::Estimate;
use inputs::InputMaker;
use repetition::Bench;
pub(crate) use repetition::Identities;
use store::Store;
use transpute_netem::scenario::Scenario;

/// How far a matrix is.
#[derive(Debug)]
pub struct Progress<'a, C = Cell, R = Row> {
    /// Runs that are over.
    pub done: u64,
    /// All runs that were not in the results before.
    pub total: u64,
    /// Of the runs that are over, those that failed.
    pub failed: u64,
    /// How long the rest will take, once there is something to judge by.
    pub remaining: Option<Duration>,
    /// What runs next; nothing at the end.
    pub next: Option<&'a C>,
    /// Why the run before failed, if it did.
    pub error: Option<&'a str>,
    /// The row of the run before, which is in the results by now; nothing at the start.
    pub last: Option<&'a R>,
}

/// What became of a matrix.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// Runs that were measured.
    pub measured: u64,
    /// Runs that failed; rows say why, and the next start tries them again.
    pub failed: u64,
    /// Runs that were cut off, of cells that say after how long.
    pub cut_off: u64,
    /// Runs whose results were there before.
    pub skipped: u64,
}

/// Returns what is in force for TCP within the namespaces of a scenario: its congestion control and its buffers. The rest stays
/// empty.
///
/// # Errors
/// [`RunError`]: the path cannot be emulated, or does not tell.
pub fn environment_inside(scenario: &Scenario) -> Result<Environment, RunError> {
    let mut environment = Environment::default();
    environment::describe_inside(&mut environment, scenario, &AtomicBool::new(false))?;
    Ok(environment)
}

/// Runs what of a matrix has no results yet, and appends them: see [`run_cells`].
///
/// # Errors
/// [`RunError`] where nothing more can be measured. A run that fails is a row with its reason, and
/// no error.
pub fn run(
    matrix: &Matrix,
    options: &Options,
    cancel: &AtomicBool,
    report: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Summary, RunError> {
    let cells = matrix.cells();
    if cells.is_empty() || matrix.repetitions == 0 {
        return Err(RunError::Empty(missing(matrix)));
    }
    run_cells(&cells, matrix.repetitions, options, cancel, report)
}

/// Returns the rows that are of a matrix: those of this run and of earlier ones.
#[must_use]
pub fn rows_of(matrix: &Matrix, mut rows: Vec<Row>) -> Vec<Row> {
    let cells = matrix.cells();
    rows.retain(|row| cells.iter().any(|cell| store::is_of(row, cell)));
    rows
}

/// Runs what of these cells has no results yet, in this order, all of them once before any a second
/// time; and appends the results.
///
/// `report` is called before every run and at the end; nothing more is run once it breaks. When
/// `cancel` becomes true, the current run is given up, both parties are killed, and the emulated path
/// is taken down.
///
/// # Errors
/// [`RunError`] where nothing more can be measured. A run that fails is a row with its reason, and
/// no error.
pub fn run_cells(
    cells: &[Cell],
    repetitions: u32,
    options: &Options,
    cancel: &AtomicBool,
    report: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Summary, RunError> {
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
    let mut bench = Bench {
        options,
        cancel,
        environments: Environments::new(&options.binary, cancel)?,
        identities: Identities::new(&options.binary, &work.0, cancel)?,
        inputs: InputMaker::new(&options.binary, &work.0),
    };
    // Nobody should wait for hours to learn of a typing error in the last circuit.
    for &(_, cell) in &to_do.runs {
        bench.inputs.inputs(&cells[cell].circuit, cancel)?;
    }
    to_do.run(cancel, report, |cell, repetition| {
        let row = bench.run(cell, repetition)?;
        let ending = match (&row.error, row.cut_off_ms) {
            (Some(error), Some(_)) if cell.cut_off.is_some() => Ending::CutOff(error.clone()),
            (Some(error), _) => Ending::Failed(error.clone()),
            (None, _) => Ending::Measured,
        };
        store.append(row.clone())?;
        Ok((ending, row))
    })
}

/// What came of a run whose row was recorded, with why it was no other.
pub(crate) enum Ending {
    Measured,
    CutOff(String),
    Failed(String),
}

/// Runs that have no results yet, in order: all cells once before any a second time.
pub(crate) struct Series<'a, C> {
    cells: &'a [C],
    /// Repetition and index of the cell.
    pub(crate) runs: Vec<(u32, usize)>,
    skipped: u64,
}

impl<'a, C> Series<'a, C> {
    /// Finds the runs of `cells` that `has` knows no result of.
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

    /// Makes them with `run`, until `report` breaks, `cancel` becomes true or nothing more can be measured.
    pub(crate) fn run<R>(
        self,
        cancel: &AtomicBool,
        mut report: impl FnMut(Progress<'_, C, R>) -> ControlFlow<()>,
        mut run: impl FnMut(&C, u32) -> Result<(Ending, R), RunError>,
    ) -> Result<Summary, RunError> {
        let mut summary = Summary {
            skipped: self.skipped,
            ..Summary::default()
        };
        let total = self.runs.len() as u64;
        let mut error: Option<String> = None;
        let mut last = None;
        let mut estimate = Estimate::new(self.cells.len());
        for (index, &(repetition, cell)) in self.runs.iter().enumerate() {
            let told = report(Progress {
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
            let (ending, row) = run(&self.cells[cell], repetition)?;
            last = Some(row);
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
        // There is nothing left to break off.
        let _ = report(Progress {
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

/// A folder for keys and inputs beside the results, removed on drop; and what a killed runner has
/// left of it, at the next start.
pub(crate) struct WorkFolder(pub(crate) PathBuf);

impl WorkFolder {
    /// Makes the folder. Whoever does this has locked the results, so nobody else uses it.
    pub(crate) fn new(results: &Path) -> Result<Self, RunError> {
        // Absolute: the parties are other processes.
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
        // The next start removes what is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}
