//! Imports the records of earlier runs into the history.

use std::path::Path;

use transpute_testbed::record::RunRecord;

use super::{
    run::Run,
    store::{Store, StoreError},
};

/// Maximum number of runs that one transaction adds.
const TRANSACTION_RUNS: usize = 500;

/// Adds records, such as those that `transpute testbed run` writes, to the history in `folder`.
/// Creates the folder if it does not exist. Returns the number of added runs.
///
/// # Errors
/// Returns [`StoreError`] if the history cannot be used, for example because a server uses the
/// folder.
pub fn import(folder: &Path, records: &[RunRecord]) -> Result<usize, StoreError> {
    let store = Store::open(folder)?;
    let mut added = 0;
    for block in records.chunks(TRANSACTION_RUNS) {
        let entries: Vec<_> = (block.iter())
            .map(|record| {
                let detail = serde_json::json!({ "row": record, "samples": [], "phases": [] });
                (Run::of_record(record, &record.circuit), detail.to_string())
            })
            .collect();
        let pairs: Vec<_> = (entries.iter())
            .map(|(run, detail)| (run, detail.as_str()))
            .collect();
        added += store.add_all(&pairs)?.len();
    }
    Ok(added)
}
