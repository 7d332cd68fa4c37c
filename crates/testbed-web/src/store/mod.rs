//! The history: runs, jobs and uploads in an SQLite file.

mod filter;
mod jobs;
mod private;
mod schema;
#[cfg(test)]
mod tests;
mod uploads;

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rusqlite::{Connection, OptionalExtension, params, params_from_iter, types::Value};
use serde::Serialize;
use thiserror::Error;

pub(super) use filter::{Filter, Params, check_ids};
pub(super) use uploads::{Upload, UploadError};

use super::{error::ApiError, run::Run};

/// The name of the SQLite file.
const FILE: &str = "history.sqlite3";

/// The name of the lock file. The server that holds its lock owns the folder.
const LOCK: &str = "lock";

/// Maximum number of values of a column that [`Store::facet`] lists.
const MAX_VALUES: i64 = 200;

/// The reason why the history cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite reports an error.
    #[error("{}: the history cannot be used", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The file is damaged or belongs to another program.
    #[error("{}: not a history of runs, or damaged: {problem}; move it away to start a new one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem that was found.
        problem: String,
    },
    /// A later version of this program wrote the file.
    #[error("{}: a history of format {found}, made by a later version; expected {expected} at most", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// The latest format that this program supports.
        expected: i64,
    },
    /// Another server uses the folder.
    #[error("{}: in use by another server", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The file has reached its maximum size, or the disk is full.
    #[error("{}: the history is full; delete some runs", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// A file or folder cannot be used.
    #[error("{}: cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Other users of the machine could replace the files of the history.
    #[error("{0}: mode {mode:04o} lets other users write, expected 0755 at most: run `chmod go-w {0}` or choose another folder", path.display())]
    Writable {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// An entry of the history is not valid JSON.
    #[error("an entry of the history cannot be read")]
    Entry(#[source] serde_json::Error),
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::internal(&error)
    }
}

/// The history. Its methods wait for the disk, so they must not be called from an asynchronous
/// task.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    /// The connection for changes.
    writer: Mutex<Connection>,
    /// The connection for queries, so that lists do not wait while a run is written.
    reader: Mutex<Connection>,
    _lock: File,
}

/// A page of the list of runs.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) runs: Vec<Run>,
    /// The cursor of the next page, if there is one.
    pub(super) next: Option<i64>,
}

/// A value of a column, and the number of runs with this value.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Facet {
    pub(super) value: String,
    pub(super) label: String,
    pub(super) runs: i64,
}

/// A run with its details: the record and samples, as JSON.
#[derive(Debug)]
pub(super) struct Detailed {
    pub(super) run: Run,
    pub(super) detail: String,
}

/// The order of a list of runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Order {
    Newest,
    Oldest,
}

impl Store {
    /// Opens the history in a folder. Creates the folder and the history if they do not exist.
    /// Other users can neither read nor write the history.
    pub(super) fn open(folder: &Path) -> Result<Self, StoreError> {
        let file_error = |path: &Path| {
            let path = path.to_owned();
            |source| StoreError::File { path, source }
        };
        // The path is made absolute, because the parties' processes have other working folders.
        let folder = &std::path::absolute(folder).map_err(file_error(folder))?;
        private::create_folder(folder)?;
        let lock_path = folder.join(LOCK);
        let lock = private::open_file(&lock_path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let path = folder.to_owned();
                return Err(StoreError::Locked { path });
            }
            Err(TryLockError::Error(error)) => return Err(file_error(&lock_path)(error)),
        }
        let path = folder.join(FILE);
        private::open_file(&path)?;
        let writer = schema::open(&path)?;
        let reader = schema::open(&path)?;
        (reader.pragma_update(None, "query_only", true))
            .map_err(|error| schema::failed(&path, error))?;
        let store = Self {
            path,
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            _lock: lock,
        };
        store.interrupt_jobs()?;
        Ok(store)
    }

    /// Adds a run and returns its number.
    pub(super) fn add(&self, run: &Run, detail: &str) -> Result<i64, StoreError> {
        self.add_all(&[(run, detail)])?.pop().ok_or_else(|| {
            let problem = "a run got no number".to_owned();
            self.damaged(problem)
        })
    }

    /// Adds runs in one transaction and returns their numbers.
    pub(super) fn add_all(&self, runs: &[(&Run, &str)]) -> Result<Vec<i64>, StoreError> {
        let mut writer = self.writer();
        let transaction = writer.transaction().map_err(|error| self.failed(error))?;
        let mut ids = Vec::with_capacity(runs.len());
        for (run, detail) in runs {
            let summary = serde_json::to_string(run).map_err(StoreError::Entry)?;
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let word = |value: Result<serde_json::Value, _>| {
                value.map(|value| text(&value)).map_err(StoreError::Entry)
            };
            let kind = word(serde_json::to_value(run.kind))?;
            let state = word(serde_json::to_value(run.state))?;
            let inserted = transaction
                .prepare_cached(schema::INSERT_RUN)
                .and_then(|mut insert| {
                    insert.execute(params![
                        run.job,
                        kind,
                        sql_integer(run.started_unix_ms),
                        state,
                        run.circuit,
                        run.circuit_label,
                        run.scheme,
                        run.transport,
                        sql_integer(run.batch),
                        run.scenario,
                        run.rtt_ms,
                        run.loss,
                        run.rate_mbit,
                        run.total_ms,
                        run.error,
                        run.conditions,
                        summary,
                    ])
                })
                .and_then(|_| {
                    let id = transaction.last_insert_rowid();
                    (transaction.prepare_cached(schema::INSERT_DETAIL)?)
                        .execute(params![id, detail])?;
                    Ok(id)
                });
            ids.push(inserted.map_err(|error| self.failed(error))?);
        }
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(ids)
    }

    /// Lists at most `limit` runs that follow the run with the number `after` in the given order.
    pub(super) fn page(
        &self,
        filter: &Filter,
        order: Order,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let (mut wanted, mut values) = filter.condition();
        let (beyond, direction) = match order {
            Order::Newest => ("id < ?", "DESC"),
            Order::Oldest => ("id > ?", "ASC"),
        };
        if let Some(after) = after {
            wanted.push_str(&format!(" AND {beyond}"));
            values.push(after.into());
        }
        let query =
            format!("SELECT id, summary FROM runs WHERE {wanted} ORDER BY id {direction} LIMIT ?");
        values.push(sql_integer(limit as u64).saturating_add(1).into());
        let mut runs = self.query(&query, values, |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        let has_more = runs.len() > limit;
        runs.truncate(limit);
        let next = (runs.last().filter(|_| has_more)).map(|&(id, _)| id);
        let runs = (runs.into_iter())
            .map(|(id, summary)| read_run(id, &summary))
            .collect::<Result<_, _>>()?;
        Ok(Page { runs, next })
    }

    /// Returns the number of runs that match a filter.
    pub(super) fn count(&self, filter: &Filter) -> Result<i64, StoreError> {
        let (wanted, values) = filter.condition();
        let query = format!("SELECT count(*) FROM runs WHERE {wanted}");
        let counts = self.query(&query, values, |row| row.get(0))?;
        Ok(counts.into_iter().next().unwrap_or(0))
    }

    /// Lists the values of a column and the number of matching runs with each value, most frequent
    /// value first.
    pub(super) fn facet(&self, filter: &Filter, column: Column) -> Result<Vec<Facet>, StoreError> {
        let (wanted, mut values) = filter.condition();
        let (column, label) = column.names();
        let query = format!(
            "SELECT {column}, max({label}), count(*) FROM runs WHERE {wanted} GROUP BY {column} \
             ORDER BY count(*) DESC, {column} LIMIT ?"
        );
        values.push(MAX_VALUES.into());
        self.query(&query, values, |row| {
            Ok(Facet {
                value: row.get(0)?,
                label: row.get(1)?,
                runs: row.get(2)?,
            })
        })
    }

    /// Returns a run with its details.
    pub(super) fn detailed(&self, id: i64) -> Result<Option<Detailed>, StoreError> {
        let filter = Filter::of_ids(vec![id]);
        let mut page = self.details(&filter, None, 1)?;
        Ok(page.pop())
    }

    /// Lists at most `limit` runs with their details, oldest first, after the one with the number
    /// `after`.
    pub(super) fn details(
        &self,
        filter: &Filter,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Detailed>, StoreError> {
        let (mut wanted, mut values) = filter.condition();
        if let Some(after) = after {
            wanted.push_str(" AND id > ?");
            values.push(after.into());
        }
        let query = format!(
            "SELECT id, summary, detail FROM runs JOIN details ON details.run = runs.id WHERE {wanted} \
             ORDER BY id LIMIT ?"
        );
        values.push(sql_integer(limit as u64).into());
        let found = self.query(&query, values, |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
            ))
        })?;
        (found.into_iter())
            .map(|(id, summary, detail)| {
                let run = read_run(id, &summary)?;
                Ok(Detailed { run, detail })
            })
            .collect()
    }

    /// Deletes the matching runs and returns their number. If their number differs from `expected`,
    /// deletes nothing and returns the number as the error.
    pub(super) fn delete(
        &self,
        filter: &Filter,
        expected: Option<i64>,
    ) -> Result<Result<i64, i64>, StoreError> {
        let (wanted, values) = filter.condition();
        let mut writer = self.writer();
        let deleted = (|| {
            let transaction = writer.transaction()?;
            let deleted = transaction.execute(
                &format!("DELETE FROM runs WHERE {wanted}"),
                params_from_iter(values),
            )?;
            let deleted = sql_integer(deleted as u64);
            if expected.is_some_and(|expected| expected != deleted) {
                transaction.rollback()?;
                return Ok(Err(deleted));
            }
            transaction.commit()?;
            Ok(Ok(deleted))
        })();
        deleted.map_err(|error| self.failed(error))
    }

    fn query<T>(
        &self,
        query: &str,
        values: Vec<Value>,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let reader = self.reader();
        let found = (reader.prepare_cached(query)).and_then(|mut statement| {
            (statement.query_map(params_from_iter(values), read))?.collect()
        });
        found.map_err(|error| self.failed(error))
    }

    fn query_one<T>(
        &self,
        query: &str,
        values: Vec<Value>,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let reader = self.reader();
        let found = (reader.query_row(query, params_from_iter(values), read)).optional();
        found.map_err(|error| self.failed(error))
    }

    fn execute(&self, query: &str, values: Vec<Value>) -> Result<(usize, i64), StoreError> {
        let writer = self.writer();
        (writer.execute(query, params_from_iter(values)))
            .map(|changed| (changed, writer.last_insert_rowid()))
            .map_err(|error| self.failed(error))
    }

    fn writer(&self) -> MutexGuard<'_, Connection> {
        // A panic of another thread rolls back its transaction, so the connection stays usable.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: rusqlite::Error) -> StoreError {
        schema::failed(&self.path, error)
    }

    fn damaged(&self, problem: String) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            problem,
        }
    }
}

/// A column whose values [`Store::facet`] counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    Circuit,
    Scheme,
    Transport,
    Scenario,
    State,
    Kind,
}

impl Column {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Circuit => ("circuit", "circuit_label"),
            Self::Scheme => ("scheme", "scheme"),
            Self::Transport => ("transport", "transport"),
            Self::Scenario => ("scenario", "scenario"),
            Self::State => ("state", "state"),
            Self::Kind => ("kind", "kind"),
        }
    }
}

fn read_run(id: i64, summary: &str) -> Result<Run, StoreError> {
    let run: Run = serde_json::from_str(summary).map_err(StoreError::Entry)?;
    Ok(Run { id, ..run })
}

/// Converts a number to a signed 64-bit integer, as SQLite stores it. A larger number becomes the
/// maximum.
fn sql_integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
