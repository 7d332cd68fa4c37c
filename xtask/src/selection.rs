//! Evaluates transport selection with `transpute testbed selection`.
//!
//! Records are written to `docs/results/selection`, together with the score computed from them. An
//! interrupted sweep continues where it stopped.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{command::succeed, reproduce::build};

/// Measures every transport in every cell. `flags` are passed to `transpute testbed selection run`.
pub(crate) fn run(root: &Path, flags: &[&str]) -> Result<(), Box<dyn Error>> {
    let folder = folder(root)?;
    let mut command = Command::new(build(root)?);
    command.args(["testbed", "selection", "run"]);
    if !gives(flags, "--results") {
        command.arg("--results").arg(folder.join("runs.jsonl"));
    }
    replace(command.args(flags))
}

/// Scores the recorded runs. `arguments` are passed to `transpute testbed selection score`. If they
/// contain no file of records, all records in the directory are used.
pub(crate) fn score(root: &Path, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let folder = folder(root)?;
    let mut command = Command::new(build(root)?);
    command.args(["testbed", "selection", "score"]);
    if !gives(arguments, "--out") {
        command.arg("--out").arg(&folder);
    }
    if !arguments
        .iter()
        .any(|argument| argument.ends_with(".jsonl"))
    {
        command.args(records(&folder)?);
    }
    replace(command.args(arguments))
}

/// Fits the built-in model to the records in the directory and in `files`, and scores its choices.
/// `files` are not used for the score. The fit uses only the cells that are meant for fitting.
pub(crate) fn fit(root: &Path, files: &[&str]) -> Result<(), Box<dyn Error>> {
    let folder = folder(root)?;
    let records = records(&folder)?;
    let program = build(root)?;
    let model = root.join("crates/select/model/default.json");
    let mut command = Command::new(&program);
    command.args(["model", "fit"]).args(&records).args(files);
    command.args(["--name", "docs/results/selection"]);
    succeed(command.arg("--out").arg(&model))?;
    // The built program contains the previous model, so it gets the new one as an argument.
    let mut command = Command::new(&program);
    command
        .args(["testbed", "selection", "score"])
        .args(&records);
    command.arg("--model").arg(&model).arg("--out").arg(&folder);
    succeed(&mut command)
}

fn folder(root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let folder = root.join("docs/results/selection");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Returns the files of records, sorted by name.
fn records(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(format!(
            "{}: no records found: run the sweep first",
            folder.display()
        )
        .into());
    }
    Ok(files)
}

/// Returns whether `arguments` contain `flag` or `flag=value`.
fn gives(arguments: &[&str], flag: &str) -> bool {
    (arguments
        .iter()
        .filter_map(|argument| argument.strip_prefix(flag)))
    .any(|rest| rest.is_empty() || rest.starts_with('='))
}

/// Replaces this process by the command, so that only the command handles an interruption.
#[cfg(unix)]
fn replace(command: &mut Command) -> Result<(), Box<dyn Error>> {
    use std::os::unix::process::CommandExt;

    // `exec` returns only on failure.
    Err(command.exec().into())
}

/// Runs the command as a child process.
#[cfg(not(unix))]
fn replace(command: &mut Command) -> Result<(), Box<dyn Error>> {
    succeed(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found() {
        assert!(gives(&["--limit", "3", "--results", "x"], "--results"));
        assert!(gives(&["--results=x"], "--results"));
        assert!(!gives(&["--resultsx", "results"], "--results"));
    }

    #[test]
    fn records_are_found_by_name() {
        let folder = std::env::temp_dir().join(format!("xtask-selection-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(records(&folder).is_err());
        for name in ["b.jsonl", "a.jsonl", "score.md"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let found = records(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [folder.join("a.jsonl"), folder.join("b.jsonl")]);
    }
}
