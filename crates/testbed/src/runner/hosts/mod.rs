//! Runs a matrix between two real hosts, which are reached by the program `ssh`.
//!
//! The program and the circuits are copied into a temporary directory of each host. Each party gets
//! its own key there. The session of each host removes the directory at the end.

pub mod agent;
mod clock;
mod error;
mod matrix;
mod pair;
mod quote;
mod record;
mod repetition;
mod ssh;

use std::{
    ops::ControlFlow,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
};

pub use error::HostError;
pub use matrix::{HostsCell, records_of};
pub use pair::HostPair;
pub use record::{HostRecord, HostsMeasured, HostsPath, HostsRecord, read_hosts_records};

use super::{
    Ending, MatrixProgress, MatrixSummary, Series, WorkFolder, environment::printed,
    error::RunError, inputs::InputMaker, matrix::Matrix, missing, options::MatrixOptions,
    repetition::Identities, store::Store,
};
use crate::record::Environment;
use repetition::{HostsRunner, KEY, Prepared};
use ssh::{Host, LIMIT, PROGRAM};

/// Executes the runs of a matrix between two hosts that have no results, and appends the results to
/// a file. The scenarios of the matrix are ignored.
///
/// `report` and `cancel` have the same effects as for [`run_cells`](super::run_cells).
///
/// # Errors
/// Returns [`RunError`] if no more runs are possible. A failed run is not an error: its record
/// contains the failure.
pub fn run(
    matrix: &Matrix,
    hosts: &HostPair,
    options: &MatrixOptions,
    cancel: &AtomicBool,
    report: impl FnMut(MatrixProgress<'_, HostsCell, HostsRecord>) -> ControlFlow<()>,
) -> Result<MatrixSummary, RunError> {
    let cells = matrix::cells(matrix, hosts);
    if cells.is_empty() || matrix.repetitions == 0 {
        return Err(RunError::Empty(missing(matrix)));
    }
    let mut store = Store::<HostsRecord>::open(&options.results)?;
    let has = |cell: &HostsCell, repetition| {
        (store.done().iter()).any(|record| {
            record.measured.is_some() && record.repetition == repetition && record.is_of(cell)
        })
    };
    let to_do = Series::new(&cells, |_| matrix.repetitions, has);
    if to_do.runs.is_empty() {
        return to_do.run(cancel, report, |_, _| Err(RunError::Empty("what is to do")));
    }
    let work = WorkFolder::new(&options.results)?;
    let identities = Identities::new(&options.binary, &work.0, cancel)?;
    let mut maker = InputMaker::new(&options.binary, &work.0);
    // An invalid circuit is reported before anything is copied.
    for &(_, cell) in &to_do.runs {
        maker.inputs(&cells[cell].circuit, cancel)?;
    }
    let name = match &hosts.address {
        Some(_) => String::new(),
        None => ssh::host_name(&hosts.garbler, cancel)?,
    };
    let connect = hosts.connect_address(&name);
    let listen = hosts.listen_address(&connect);
    let garbler = prepare(&hosts.garbler, &identities.garbler.0, options, cancel)?;
    let evaluator = prepare(&hosts.evaluator, &identities.evaluator.0, options, cancel)?;
    let parties = [garbler, evaluator];
    let mut runner = HostsRunner::new(options, cancel, parties, identities, [listen, connect])?;
    for &(_, cell) in &to_do.runs {
        runner.copy_circuit(&cells[cell].circuit, &mut maker)?;
    }
    let summary = to_do.run(cancel, report, |cell, repetition| {
        let record = runner.run(cell, repetition)?;
        let ending = match &record.error {
            Some(error) => Ending::Failed(error.clone()),
            None => Ending::Measured,
        };
        store.append(record.clone())?;
        Ok((ending, record))
    })?;
    runner.garbler.host.close()?;
    runner.evaluator.host.close()?;
    Ok(summary)
}

/// Logs in on a host, copies the program and the key of its party, and describes the host.
fn prepare(
    destination: &str,
    key: &Path,
    options: &MatrixOptions,
    cancel: &AtomicBool,
) -> Result<Prepared, RunError> {
    let host = Host::connect(destination, cancel)?;
    host.check_machine(cancel)?;
    host.copy(&options.binary, PROGRAM, "700", cancel)?;
    let program = host.path(PROGRAM);
    let ask = |args: &[&str]| {
        let words = [&["exec", &program], args].concat();
        host.printed(&words, Stdio::null(), LIMIT, cancel)
    };
    let mut version = Command::new(&options.binary);
    version.arg("--version");
    host.expect(printed(version, cancel)?, &ask(&["--version"])?)?;
    host.copy(key, KEY, "600", cancel)?;
    let description = ask(&["testbed", "party"])?;
    let environment: Environment =
        serde_json::from_str(&description).map_err(|_| HostError::Unexpected {
            host: destination.to_owned(),
            expected: "a description of the host".to_owned(),
            got: description,
        })?;
    Ok(Prepared { host, environment })
}
