//! What the file of the history is like inside.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode};

use super::StoreError;

/// Tells such files from those of other programs: "TpTB".
const APPLICATION: i64 = 0x5470_5442;

/// The format of the file. It is raised with every change; older files are brought up to it.
const FORMAT: i64 = 1;

/// The most bytes of the file.
const MOST_BYTES: i64 = 8 << 30;

/// How long a connection waits for another one.
const PATIENCE: Duration = Duration::from_secs(10);

/// What lists and filters need of a run is in `runs`; what is large and rarely asked for is in `details`, so that lists stay quick.
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

/// Opens the file, or makes it, and checks it.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let failed = |error| failed(path, error);
    let damaged = |problem: String| StoreError::Damaged {
        path: path.to_owned(),
        problem,
    };
    let mut connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
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
                transaction.pragma_update(None, "application_id", APPLICATION)?;
                transaction.pragma_update(None, "user_version", FORMAT)?;
                transaction.commit()
            })();
            made.map_err(failed)?;
        }
        (APPLICATION, FORMAT, _) => {}
        (APPLICATION, found, _) if found > FORMAT => {
            return Err(StoreError::Later {
                path: path.to_owned(),
                found,
                expected: FORMAT,
            });
        }
        _ => return Err(damaged("it is of another program".to_owned())),
    }
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    if verdict != "ok" {
        return Err(damaged(verdict.replace('\n', " ")));
    }
    let set = (|| {
        connection.pragma_update(None, "journal_mode", "wal")?;
        // With a write-ahead log, a loss of power costs the last runs at most, and no damage.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        let page = number(&connection, "page_size")?.max(512);
        connection.pragma_update(None, "max_page_count", MOST_BYTES / page)
    })();
    set.map_err(failed)?;
    Ok(connection)
}

/// Says what SQLite means.
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
