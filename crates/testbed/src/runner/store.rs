//! The results file. It shows which runs are complete, so that an interrupted matrix can continue.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{error::RunError, matrix::Cell};
use crate::record::{Record, RunRecord, read_records};

/// A results file that is locked against other processes.
#[derive(Debug)]
pub(crate) struct Store<R = RunRecord> {
    file: File,
    path: PathBuf,
    done: Vec<R>,
}

/// Time to wait for the lock of a killed runner. If the runner was just starting a child process,
/// the child has the file open and keeps the lock until it executes its program.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Locks the file. Fails if another process holds the lock for longer than [`LOCK_PATIENCE`].
fn lock(file: &File) -> Result<(), TryLockError> {
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_PATIENCE => {
                thread::sleep(Duration::from_millis(20));
            }
            locked => return locked,
        }
    }
}

impl<R: Record> Store<R> {
    /// Opens or creates the file. Removes an incomplete last line.
    pub(crate) fn open(path: &Path) -> Result<Self, RunError> {
        let cannot = |source| RunError::Results {
            path: path.to_owned(),
            source,
        };
        let mut file = (OpenOptions::new().read(true).write(true).create(true))
            .truncate(false)
            .open(path)
            .map_err(cannot)?;
        lock(&file).map_err(|error| match error {
            TryLockError::WouldBlock => RunError::Locked {
                path: path.to_owned(),
            },
            TryLockError::Error(error) => cannot(error),
        })?;
        let done = read_records(path)?;
        let end = end_of_lines(&mut file).map_err(cannot)?;
        file.set_len(end).map_err(cannot)?;
        file.seek(SeekFrom::Start(end)).map_err(cannot)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            done,
        })
    }

    /// Returns the records of the file, in order.
    pub(crate) fn done(&self) -> &[R] {
        &self.done
    }

    /// Appends a record.
    pub(crate) fn append(&mut self, record: R) -> Result<(), RunError> {
        let written = serde_json::to_vec(&record)
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                self.file.write_all(&line)
            });
        written.map_err(|source| RunError::Results {
            path: self.path.clone(),
            source,
        })?;
        self.done.push(record);
        Ok(())
    }
}

impl Store {
    /// Returns whether this repetition has a result. A cut-off is a result only if
    /// [`Cell::cut_off`] is set, and a failure only if [`Cell::may_fail`] is true.
    pub(super) fn has(&self, cell: &Cell, repetition: u32) -> bool {
        (self.done.iter()).any(|record| {
            let cut_off = record.cut_off_ms.is_some() && cell.cut_off.is_some();
            (record.measured.is_some() || cut_off || cell.may_fail)
                && is_run_of(record, cell, repetition)
        })
    }
}

fn is_run_of(record: &RunRecord, cell: &Cell, repetition: u32) -> bool {
    record.repetition == repetition && is_of(record, cell)
}

/// Returns whether a record belongs to a run of this cell.
pub(super) fn is_of(record: &RunRecord, cell: &Cell) -> bool {
    record.circuit == cell.circuit
        && record.scheme == cell.scheme
        && record.transport == cell.transport
        && record.batch == cell.batch
        && record.encrypted == cell.encrypted
        && record.scenario == cell.scenario
}

/// Returns the position after the last newline.
fn end_of_lines(file: &mut File) -> io::Result<u64> {
    use std::io::Read;

    const BLOCK: u64 = 64 << 10;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        (&mut *file).take(end - start).read_to_end(&mut block)?;
        if let Some(position) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + position as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use transpute_netem::scenario::Scenario;

    use super::*;
    use crate::record::{Environment, RECORD_FORMAT, read_run_records};

    fn cell(circuit: &str) -> Cell {
        Cell {
            scenario: Scenario::named("lan").unwrap(),
            circuit: circuit.to_owned(),
            scheme: "prf".to_owned(),
            transport: "tcp".to_owned(),
            batch: 1,
            encrypted: true,
            cut_off: None,
            may_fail: false,
        }
    }

    fn failed(cell: &Cell, repetition: u32) -> RunRecord {
        RunRecord {
            format: RECORD_FORMAT,
            scenario: cell.scenario.clone(),
            circuit: cell.circuit.clone(),
            scheme: cell.scheme.clone(),
            transport: cell.transport.clone(),
            batch: cell.batch,
            encrypted: cell.encrypted,
            repetition,
            path_seed: 1,
            started_unix_ms: 0,
            environment: Environment::default(),
            error: Some("x".to_owned()),
            cut_off_ms: None,
            measured: None,
        }
    }

    #[test]
    fn a_torn_line_is_cut_off_and_records_follow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        Store::<RunRecord>::open(&path)
            .unwrap()
            .append(failed(&cell("a"), 0))
            .unwrap();
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend_from_slice(b"{\"format\":2,\"scen");
        std::fs::write(&path, torn).unwrap();
        let mut store = Store::<RunRecord>::open(&path).unwrap();
        store.append(failed(&cell("b"), 1)).unwrap();
        // A failure is not a result, so the run is repeated.
        assert!(!store.has(&cell("b"), 1));
        drop(store);
        let circuits: Vec<_> = (read_run_records(&path).unwrap().into_iter())
            .map(|record| record.circuit)
            .collect();
        assert_eq!(circuits, ["a", "b"]);
    }

    #[test]
    fn what_was_cut_off_is_a_result_where_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::<RunRecord>::open(&folder.path().join("rows.jsonl")).unwrap();
        let plain = cell("a");
        let record = RunRecord {
            cut_off_ms: Some(2e3),
            ..failed(&plain, 0)
        };
        store.append(record).unwrap();
        assert!(!store.has(&plain, 0));
        let cut_off = Cell {
            cut_off: Some(Duration::from_secs(2)),
            ..plain.clone()
        };
        assert!(store.has(&cut_off, 0) && !store.has(&cut_off, 1));
        store.append(failed(&plain, 1)).unwrap();
        let may_fail = Cell {
            may_fail: true,
            ..plain
        };
        assert!(store.has(&may_fail, 1) && !store.has(&cut_off, 1));
    }

    #[test]
    fn a_run_is_known_by_all_of_its_conditions() {
        let record = failed(&cell("a"), 2);
        assert!(is_run_of(&record, &cell("a"), 2));
        assert!(!is_run_of(&record, &cell("a"), 1));
        assert!(!is_run_of(&record, &cell("b"), 2));
        let mut other = cell("a");
        other.scenario.up.loss = 0.01;
        assert!(!is_run_of(&record, &other, 2));
    }

    #[test]
    fn only_one_runner_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let _first = Store::<RunRecord>::open(&path).unwrap();
        assert!(matches!(
            Store::<RunRecord>::open(&path),
            Err(RunError::Locked { .. })
        ));
    }
}
