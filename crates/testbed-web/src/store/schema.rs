//! The schema of the SQLite file, and its format version.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode};

use super::StoreError;

/// The SQLite application identifier, "TpTB". It distinguishes these files from those of other
/// programs.
const APPLICATION_ID: i64 = 0x5470_5442;

/// The format version of the file, stored in `user_version`. A file of another format is rejected.
const FORMAT: i64 = 1;

/// Maximum size of the file, in bytes.
const MAX_BYTES: i64 = 8 << 30;

/// Time that a connection waits for the lock of another one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The SQL that creates the tables. `runs` has the columns that lists and filters use. `details`
/// has the records and samples, which are large, so that lists do not read them.
const TABLES: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER,
    kind TEXT NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    circuit TEXT NOT NULL,
    circuit_label TEXT NOT NULL,
    scheme TEXT NOT NULL,
    transport TEXT NOT NULL,
    batch INTEGER NOT NULL,
    scenario TEXT NOT NULL,
    rtt_ms REAL NOT NULL,
    loss REAL NOT NULL,
    rate_mbit REAL,
    total_ms REAL,
    error TEXT,
    conditions TEXT NOT NULL,
    summary TEXT NOT NULL
) STRICT;
CREATE INDEX runs_by_job ON runs (job);
CREATE INDEX runs_by_start ON runs (started_unix_ms);
CREATE INDEX runs_by_transport ON runs (transport);
CREATE INDEX runs_by_scenario ON runs (scenario);
CREATE INDEX runs_by_work ON runs (circuit, scheme, batch, state);
CREATE TABLE details (
    run INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    detail TEXT NOT NULL
) STRICT;
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    state TEXT NOT NULL,
    job TEXT NOT NULL
) STRICT;
CREATE TABLE uploads (
    digest TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    facts TEXT NOT NULL
) STRICT;
";

pub(super) const INSERT_RUN: &str = "
INSERT INTO runs (job, kind, started_unix_ms, state, circuit, circuit_label, scheme, transport, batch, scenario, rtt_ms, loss,
                  rate_mbit, total_ms, error, conditions, summary)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

pub(super) const INSERT_DETAIL: &str = "INSERT INTO details (run, detail) VALUES (?, ?)";

/// Opens or creates the file, and checks its format and integrity.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let failed = |error| failed(path, error);
    let damaged = |problem: String| StoreError::Damaged {
        path: path.to_owned(),
        problem,
    };
    let mut connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    let number = |connection: &Connection, name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
    };
    let application = number(&connection, "application_id").map_err(failed)?;
    let format = number(&connection, "user_version").map_err(failed)?;
    let tables: i64 = (connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)))
    .map_err(failed)?;
    match (application, format, tables) {
        (0, 0, 0) => {
            let made = (|| {
                let transaction = connection.transaction()?;
                transaction.execute_batch(TABLES)?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
                transaction.pragma_update(None, "user_version", FORMAT)?;
                transaction.commit()
            })();
            made.map_err(failed)?;
        }
        (APPLICATION_ID, FORMAT, _) => {}
        (APPLICATION_ID, found, _) if found > FORMAT => {
            return Err(StoreError::NewerFormat {
                path: path.to_owned(),
                found,
                expected: FORMAT,
            });
        }
        _ => return Err(damaged("it belongs to another program".to_owned())),
    }
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    if verdict != "ok" {
        return Err(damaged(verdict.replace('\n', " ")));
    }
    let set = (|| {
        connection.pragma_update(None, "journal_mode", "wal")?;
        // With a write-ahead log, a power failure loses the last runs at most and damages nothing.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        let page = number(&connection, "page_size")?.max(512);
        connection.pragma_update(None, "max_page_count", MAX_BYTES / page)
    })();
    set.map_err(failed)?;
    Ok(connection)
}

/// Converts an error of SQLite to a [`StoreError`].
pub(super) fn failed(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Damaged {
            path,
            problem: error.to_string(),
        },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        _ => StoreError::Sqlite {
            path,
            source: error,
        },
    }
}
