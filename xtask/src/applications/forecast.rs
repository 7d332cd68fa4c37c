//! The page of this application.

use std::error::Error;

use super::rows::{Row, Table, cell, groups};

/// One line for each cell.
pub(super) fn render(rows: &[Row]) -> Result<String, Box<dyn Error>> {
    let mut table = Table::new("Runs", ["experiment", "path", "seconds"]);
    let key = |row: &Row| Ok((row.experiment.clone(), row.scenario.name.clone()));
    for ((experiment, path), rows) in groups(rows, key)? {
        table.push([experiment, path, cell(&rows, |row| Ok(row.seconds))?]);
    }
    Ok(table.markdown())
}
