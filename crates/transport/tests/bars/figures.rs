//! The settings of a measurement, and its figures.

use std::{env, str::FromStr};

use transpute_netem::lab::Lab;

/// Returns the number of measurements of each cell.
pub(crate) fn repetitions() -> u32 {
    let repetitions = list("REPETITIONS", &[3])[0];
    assert!(repetitions > 0, "REPETITIONS is 0");
    repetitions
}

/// Returns the transport to measure, with its settings.
pub(crate) fn transport() -> String {
    env::var("TRANSPORT").unwrap_or_else(|_| "rudp".into())
}

/// Reads a comma-separated list from an environment variable that may replace the default.
pub(crate) fn list<T: Copy + FromStr>(name: &str, default: &[T]) -> Vec<T> {
    let Ok(text) = env::var(name) else {
        return default.to_vec();
    };
    let parse = |part: &str| {
        let parsed = part.trim().parse();
        parsed.unwrap_or_else(|_| panic!("{name}: expected numbers with commas, found {text:?}"))
    };
    text.split(',').map(parse).collect()
}

/// Returns the median: the mean of the two middle values of an even number.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
    (values[low] + values[high]) / 2.0
}

/// Prints a row of a Markdown table.
pub(crate) fn row<T: AsRef<str>>(cells: &[T]) {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    println!("| {} |", cells.join(" | "));
}

/// Prints the head of a Markdown table with columns of numbers.
pub(crate) fn head(names: &[&str]) {
    row(names);
    row(&vec!["--:"; names.len()]);
}

/// Prints a warning if the emulator was too slow to read packets. The run then did not have the
/// conditions of its path.
pub(crate) fn warn_of_overruns(lab: &mut Lab) {
    let overruns: u64 = lab.overruns().unwrap().iter().sum();
    if overruns > 0 {
        println!("warning: the emulator lost {overruns} packets of the next row itself");
    }
}
