//! Errors of the selector.

use std::path::PathBuf;

#[cfg(feature = "serde")]
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The reason why the selector rejects an input or cannot choose.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SelectError {
    /// A number is out of its range.
    #[error("{field}: expected {expected}, got {found}")]
    Number {
        /// The name of the field that has the number.
        field: &'static str,
        /// The accepted range, as text.
        expected: &'static str,
        /// The value found.
        found: f64,
    },
    /// The name or the settings of a transport cannot be parsed.
    #[error(
        "{text:?} is not a transport: expected name or name:key=value,..., 100 characters at most"
    )]
    Transport {
        /// The text, truncated to 100 characters.
        text: String,
    },
    /// There is no transport to choose from.
    #[error("no transport can be used{}", because(.reasons))]
    NoCandidate {
        /// The reasons why the candidates cannot be used, one per candidate.
        reasons: Vec<String>,
    },
    /// No transport has runs in enough cells (combinations of path and workload) for a fit.
    #[error("expected at least {min} cells of a transport to fit, got {found}")]
    TooFewCells {
        /// The minimum number of cells.
        min: usize,
        /// The number of cells of the transport with the most cells.
        found: usize,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The content of a file is not valid.
    #[error("{origin}: {problem}")]
    Content {
        /// The path of the file, or a description of another origin.
        origin: String,
        /// A description of the problem.
        problem: String,
    },
}

fn because(reasons: &[String]) -> String {
    match reasons {
        [] => String::new(),
        reasons => format!(": {}", reasons.join("; ")),
    }
}

/// Returns an error unless the number is between the bounds.
pub(crate) fn checked(
    field: &'static str,
    found: f64,
    (low, high): (f64, f64),
    expected: &'static str,
) -> Result<(), SelectError> {
    // NaN is in no range, so it is rejected.
    match (low..=high).contains(&found) {
        true => Ok(()),
        false => Err(SelectError::Number {
            field,
            expected,
            found,
        }),
    }
}

/// Reads JSON from `origin` and checks it.
#[cfg(feature = "serde")]
pub(crate) fn parsed<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    check: impl FnOnce(&T) -> Result<(), SelectError>,
) -> Result<T, SelectError> {
    let content = |problem: String| SelectError::Content {
        origin: origin.to_owned(),
        problem,
    };
    let value = serde_json::from_str(text).map_err(|error| content(error.to_string()))?;
    check(&value).map_err(|error| content(error.to_string()))?;
    Ok(value)
}
