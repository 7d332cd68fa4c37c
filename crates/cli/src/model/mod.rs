//! `transpute model`: predictions of the time of transports.

mod predict;
mod show;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use transpute::auto::registry;
use transpute_select::{Candidate, Model, PathEstimate, SelectError, Spec};

use crate::{
    failure::{Failure, FailureKind},
    testbed::Testbed,
};

pub use show::print;

#[derive(Subcommand)]
pub(crate) enum Command<F: clap::Args> {
    /// Fit the model to your own runs, and report its errors
    Fit(F),
    /// Predict the time of circuits over each transport, and which one would be chosen
    Predict(Box<predict::Args>),
    /// Show the parameters of the model and its errors
    Show(show::Args),
}

pub(crate) fn run<T: Testbed>(command: Command<T::FitArgs>) -> Result<(), Failure> {
    match command {
        Command::Fit(args) => T::fit(args),
        Command::Predict(args) => predict::predict(&args, T::path),
        Command::Show(args) => show::show(&args),
    }
}

/// Reads a model, or returns the built-in one.
///
/// # Errors
/// Returns an error if the file cannot be read or is not a model.
pub fn load(path: Option<&Path>) -> Result<Model, Failure> {
    match path {
        Some(path) => Model::load(path).map_err(failure),
        None => Ok(Model::shipped().clone()),
    }
}

/// A function that returns the path of a preset or a scenario file.
pub(crate) type Scenarios = fn(&str) -> Result<PathEstimate, Failure>;

/// Returns a path: a preset of the testbed, a scenario file (`.toml`), or an estimate (`.json`),
/// also in the output of `transpute probe --json`.
pub(crate) fn path(name: &str, scenarios: Scenarios) -> Result<PathEstimate, Failure> {
    if name.ends_with(".json") {
        let file = PathBuf::from(name);
        let text = std::fs::read_to_string(&file)
            .map_err(|error| Failure::file(&file, "cannot be read").because(error))?;
        return read_path(&text, name).map_err(failure);
    }
    scenarios(name)
}

fn read_path(text: &str, name: &str) -> Result<PathEstimate, SelectError> {
    // The output of `transpute probe` has the path as one of its fields.
    let answer = serde_json::from_str::<serde_json::Value>(text).ok();
    match answer.as_ref().and_then(|answer| answer.get("path")) {
        Some(path) => PathEstimate::from_json(&path.to_string(), name),
        None => PathEstimate::from_json(text, name),
    }
}

/// Parses names of transports with their settings into candidates.
pub(crate) fn candidates(names: &[String]) -> Result<Vec<Candidate>, Failure> {
    (names.iter())
        .map(|name| {
            Spec::in_registry(name, &registry())
                .map(Candidate::from)
                .map_err(|error| Failure::usage(format!("--transports: {error}")))
        })
        .collect()
}

/// Returns the names of the transports that are compared by default.
fn usual_transports() -> Vec<String> {
    let all = Candidate::all(&registry()).into_iter();
    all.map(|candidate| candidate.spec.to_string()).collect()
}

/// Converts an error of the selection into a failure of the command.
pub fn failure(error: SelectError) -> Failure {
    let kind = match error {
        SelectError::File { .. } | SelectError::Content { .. } => FailureKind::File,
        SelectError::Number { .. } | SelectError::Transport { .. } => FailureKind::Usage,
        _ => FailureKind::Other,
    };
    Failure::new(kind, error.to_string()).because(error)
}
