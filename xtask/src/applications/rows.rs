//! What the pages of applications are made of: values of rows, groups, medians and cells of tables.

use std::error::Error;

use transpute_testbed::{
    programs::Setting,
    report::{Samples, number},
};

/// A run of two commands.
pub(super) use transpute_testbed::programs::ProgramRow as Row;
/// Tables as Markdown.
pub(super) use transpute_testbed::report::Table;

/// Returns a variable as it stands in commands.
pub(super) fn text(row: &Row, variable: &str) -> Result<String, Box<dyn Error>> {
    setting(row, variable).map(Setting::to_string)
}

/// Returns a variable that is a number.
pub(super) fn value(row: &Row, variable: &str) -> Result<f64, Box<dyn Error>> {
    match setting(row, variable)? {
        Setting::Integer(value) => Ok(*value as f64),
        Setting::Number(value) => Ok(*value),
        other => Err(format!("{}: {variable} is {other}, and no number", row.experiment).into()),
    }
}

fn setting<'a>(row: &'a Row, variable: &str) -> Result<&'a Setting, Box<dyn Error>> {
    let found = row.variables.get(variable);
    found.ok_or_else(|| format!("{}: no variable {variable}", row.experiment).into())
}

/// Returns a number that the command on side B said, by JSON pointer, such as `/seconds/online`.
pub(super) fn said_by_b(row: &Row, pointer: &str) -> Result<f64, Box<dyn Error>> {
    said(row, "B", row.said.b.as_ref(), pointer)
}

/// Returns a number that the command on side A said, by JSON pointer.
pub(super) fn said_by_a(row: &Row, pointer: &str) -> Result<f64, Box<dyn Error>> {
    said(row, "A", row.said.a.as_ref(), pointer)
}

fn said(
    row: &Row,
    side: &str,
    said: Option<&serde_json::Value>,
    pointer: &str,
) -> Result<f64, Box<dyn Error>> {
    let found = said.and_then(|said| said.pointer(pointer)?.as_f64());
    found.ok_or_else(|| {
        let name = &row.experiment;
        format!(
            "{name}: side {side} said no number {pointer} in {:?}",
            row.variables
        )
        .into()
    })
}

/// Returns the transports that the command on side B said it had taken, as `transport`.
pub(super) fn used(rows: &[&Row]) -> String {
    let mut names: Vec<&str> = (rows.iter())
        .filter_map(|row| row.said.b.as_ref()?.get("transport")?.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Returns the rows of an experiment.
pub(super) fn of<'a>(rows: &'a [Row], experiment: &str) -> Vec<&'a Row> {
    (rows.iter())
        .filter(|row| row.experiment == experiment)
        .collect()
}

/// Puts rows with the same key together, in the order in which keys come first.
pub(super) fn groups<'a, K: PartialEq>(
    rows: impl IntoIterator<Item = &'a Row>,
    key: impl Fn(&Row) -> Result<K, Box<dyn Error>>,
) -> Result<Vec<(K, Vec<&'a Row>)>, Box<dyn Error>> {
    let mut groups: Vec<(K, Vec<&Row>)> = Vec::new();
    for row in rows {
        let key = key(row)?;
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    Ok(groups)
}

/// Returns the median of a value over the rows that worked; nothing where none did.
pub(super) fn median(
    rows: &[&Row],
    value: impl Fn(&Row) -> Result<f64, Box<dyn Error>>,
) -> Result<Option<f64>, Box<dyn Error>> {
    let mut samples = Samples::default();
    for row in rows.iter().filter(|row| row.error.is_none()) {
        samples.push(value(row)?);
    }
    Ok(samples.median())
}

/// Returns the median of a value for a table. Where not all runs worked it says how many did, and of runs that
/// were all cut off, after how many seconds.
pub(super) fn cell(
    rows: &[&Row],
    value: impl Fn(&Row) -> Result<f64, Box<dyn Error>>,
) -> Result<String, Box<dyn Error>> {
    let worked = rows.iter().filter(|row| row.error.is_none()).count();
    let cut_off = rows.iter().filter(|row| row.cut_off).count();
    Ok(match median(rows, value)? {
        _ if rows.is_empty() => "-".to_owned(),
        Some(median) if worked == rows.len() => number(median),
        Some(median) => format!("{} ({worked} of {})", number(median), rows.len()),
        None if cut_off == rows.len() => {
            let limits = rows.iter().map(|row| row.time_limit_s);
            format!("> {} s", number(limits.fold(0.0, f64::max)))
        }
        None => "failed".to_owned(),
    })
}
