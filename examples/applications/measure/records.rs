//! Helpers that render records of runs: values, groups, medians and cells of tables.

use std::error::Error;

use transpute_testbed::{
    programs::Setting,
    report::{Samples, number},
};

/// A record of a run of two commands.
pub(super) use transpute_testbed::programs::ProgramRecord as Record;
/// A table that is rendered as Markdown.
pub(super) use transpute_testbed::report::Table;

/// Returns the value of a variable of the record's cell as text.
pub(super) fn text(record: &Record, variable: &str) -> Result<String, Box<dyn Error>> {
    setting(record, variable).map(Setting::to_string)
}

/// Returns the value of a variable of the record's cell as a number.
pub(super) fn value(record: &Record, variable: &str) -> Result<f64, Box<dyn Error>> {
    match setting(record, variable)? {
        Setting::Integer(value) => Ok(*value as f64),
        Setting::Number(value) => Ok(*value),
        other => Err(format!(
            "{}: expected a number for {variable}, found {other}",
            record.experiment
        )
        .into()),
    }
}

fn setting<'a>(record: &'a Record, variable: &str) -> Result<&'a Setting, Box<dyn Error>> {
    let found = record.variables.get(variable);
    found.ok_or_else(|| format!("{}: no variable {variable}", record.experiment).into())
}

/// Returns a number that the command on side B printed, by JSON pointer such as `/seconds/online`.
pub(super) fn said_by_b(record: &Record, pointer: &str) -> Result<f64, Box<dyn Error>> {
    said(record, "B", record.said.b.as_ref(), pointer)
}

/// Returns a number that the command on side A printed, by JSON pointer.
pub(super) fn said_by_a(record: &Record, pointer: &str) -> Result<f64, Box<dyn Error>> {
    said(record, "A", record.said.a.as_ref(), pointer)
}

fn said(
    record: &Record,
    side: &str,
    said: Option<&serde_json::Value>,
    pointer: &str,
) -> Result<f64, Box<dyn Error>> {
    let found = said.and_then(|said| said.pointer(pointer)?.as_f64());
    found.ok_or_else(|| {
        let name = &record.experiment;
        format!(
            "{name}: side {side} printed no number {pointer} in {:?}",
            record.variables
        )
        .into()
    })
}

/// Returns the transports that the command on side B reported as `transport`.
pub(super) fn used(records: &[&Record]) -> String {
    let mut names: Vec<&str> = (records.iter())
        .filter_map(|record| record.said.b.as_ref()?.get("transport")?.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Returns the records of an experiment.
pub(super) fn of<'a>(records: &'a [Record], experiment: &str) -> Vec<&'a Record> {
    (records.iter())
        .filter(|record| record.experiment == experiment)
        .collect()
}

/// A key and its records.
pub(super) type Group<'a, K> = (K, Vec<&'a Record>);

/// Groups records by a key, in the order of the first record of each group.
pub(super) fn groups<'a, K: PartialEq>(
    records: impl IntoIterator<Item = &'a Record>,
    key: impl Fn(&Record) -> Result<K, Box<dyn Error>>,
) -> Result<Vec<Group<'a, K>>, Box<dyn Error>> {
    let mut groups: Vec<(K, Vec<&Record>)> = Vec::new();
    for record in records {
        let key = key(record)?;
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(record),
            None => groups.push((key, vec![record])),
        }
    }
    Ok(groups)
}

/// Returns the median of a value over the successful runs; `None` if there are none.
pub(super) fn median(
    records: &[&Record],
    value: impl Fn(&Record) -> Result<f64, Box<dyn Error>>,
) -> Result<Option<f64>, Box<dyn Error>> {
    let mut samples = Samples::default();
    for record in records.iter().filter(|record| record.error.is_none()) {
        samples.push(value(record)?);
    }
    Ok(samples.median())
}

/// Formats the median of a value over the successful runs as a table cell. If some runs failed, the
/// cell also has the number of successful ones. If all runs were cut off, it has the time limit.
pub(super) fn cell(
    records: &[&Record],
    value: impl Fn(&Record) -> Result<f64, Box<dyn Error>>,
) -> Result<String, Box<dyn Error>> {
    let worked = records
        .iter()
        .filter(|record| record.error.is_none())
        .count();
    let cut_off = records.iter().filter(|record| record.cut_off).count();
    Ok(match median(records, value)? {
        _ if records.is_empty() => "-".to_owned(),
        Some(median) if worked == records.len() => number(median),
        Some(median) => format!("{} ({worked} of {})", number(median), records.len()),
        None if cut_off == records.len() => {
            let limits = records.iter().map(|record| record.time_limit_s);
            format!("> {} s", number(limits.fold(0.0, f64::max)))
        }
        None => "failed".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns records of one cell, given the width, the printed time and the error of each run.
    fn records(runs: &[(i64, f64, Option<&str>)]) -> Vec<Record> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let counters = r#"{"packets_in":1,"bytes_in":2,"packets_out":1,"bytes_out":2,"lost_packets":0,"lost_bytes":0,
            "overflowed_packets":0,"overflowed_bytes":0,"duplicated_packets":0,"duplicated_bytes":0,"reordered_packets":0,
            "queue_peak_bytes":0}"#
            .replace('\n', "");
        let environment = r#"{"testbed":"","transpute":"","emulator":"","kernel":"","cpu":"","cpus":2,"memory_bytes":1,
            "congestion_control":"","tcp_rmem":"","tcp_wmem":""}"#
            .replace('\n', "");
        let lines: String = (runs.iter().enumerate())
            .map(|(repetition, (width, said, error))| {
                let error = error.map_or(String::new(), |error| {
                    format!("\"error\":\"{error}\",\"cut_off\":{},", error == "cut off")
                });
                format!(
                    "{{\"format\":1,\"experiment\":\"e\",\"variables\":{{\"width\":{width},\"way\":\"fast\"}},\
                     \"scenario\":{{\"name\":\"near\",\"up\":{{}},\"down\":{{}}}},\"commands\":[\"a\",\"b\"],\
                     \"repetition\":{repetition},\"path_seed\":1,\"started_unix_ms\":0,\"environment\":{environment},\
                     \"time_limit_s\":60.0,{error}\"seconds\":1.5,\"codes\":[null,0],\
                     \"said\":{{\"a\":null,\"b\":{{\"time\":{{\"online\":{said}}}}}}},\"up\":{counters},\
                     \"down\":{counters},\"party_bytes\":[1,2],\"overruns\":[0,0]}}\n"
                )
            })
            .collect();
        fs::write(&file, lines).unwrap();
        transpute_testbed::programs::read(file.path()).unwrap()
    }

    #[test]
    fn values_are_read_and_grouped() {
        let records = records(&[
            (8, 3.0, None),
            (16, 5.0, None),
            (8, 1.0, None),
            (8, 2.0, None),
        ]);
        assert_eq!(text(&records[0], "way").unwrap(), "fast");
        assert_eq!(value(&records[1], "width").unwrap(), 16.0);
        assert!(value(&records[0], "way").is_err() && value(&records[0], "key").is_err());
        let online = |record: &Record| said_by_b(record, "/time/online");
        assert!(said_by_b(&records[0], "/time/offline").is_err());
        assert!(said_by_a(&records[0], "/time/online").is_err());
        let groups = groups(&records, |record| value(record, "width")).unwrap();
        let medians: Vec<_> = (groups.iter())
            .map(|(width, records)| {
                (
                    *width,
                    records.len(),
                    median(records, online).unwrap().unwrap(),
                )
            })
            .collect();
        assert_eq!(medians, [(8.0, 3, 2.0), (16.0, 1, 5.0)]);
        assert_eq!((of(&records, "e").len(), of(&records, "f").len()), (4, 0));
    }

    #[test]
    fn cells_show_failed_runs() {
        let shown = |runs: &[(i64, f64, Option<&str>)]| {
            let records = records(runs);
            let records: Vec<_> = records.iter().collect();
            cell(&records, |record| said_by_b(record, "/time/online")).unwrap()
        };
        assert_eq!(shown(&[(8, 1.5, None), (8, 2.5, None)]), "2.00");
        assert_eq!(
            shown(&[(8, 1.5, None), (8, 0.0, Some("no")), (8, 1.5, None)]),
            "1.50 (2 of 3)"
        );
        assert_eq!(shown(&[(8, 0.0, Some("cut off"))]), "> 60.0 s");
        assert_eq!(
            shown(&[
                (8, 0.0, Some("cut off")),
                (8, 0.0, Some("no")),
                (8, 0.0, Some("x")),
                (8, 0.0, Some("y"))
            ]),
            "failed"
        );
    }
}
