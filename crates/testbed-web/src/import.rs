//! Rows of earlier runs, brought into the history.

use std::path::Path;

use transpute_testbed::row::Row;

use super::{
    run::Run,
    store::{Store, StoreError},
};

/// How many runs are written at once.
const BLOCK: usize = 500;

/// Adds rows, such as those of a file of `transpute testbed run`, to the history in a folder that no server uses, and
/// returns how many. The folder is created if it does not exist.
///
/// # Errors
/// [`StoreError`]: the history cannot be used.
pub fn import(folder: &Path, rows: &[Row]) -> Result<usize, StoreError> {
    let store = Store::open(folder)?;
    let mut added = 0;
    for block in rows.chunks(BLOCK) {
        let entries: Vec<_> = (block.iter())
            .map(|row| {
                let detail = serde_json::json!({ "row": row, "samples": [], "phases": [] });
                (Run::of_row(row, &row.circuit), detail.to_string())
            })
            .collect();
        let pairs: Vec<_> = (entries.iter())
            .map(|(run, detail)| (run, detail.as_str()))
            .collect();
        added += store.add_all(&pairs)?.len();
    }
    Ok(added)
}
