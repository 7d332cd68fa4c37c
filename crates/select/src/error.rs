//! What the selector refuses.

use std::path::PathBuf;

use thiserror::Error;

/// Why an input of the selector cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SelectError {
    /// A number is not what it stands for.
    #[error("{field}: expected {expected}, got {found}")]
    Number {
        /// Which one.
        field: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: f64,
    },
    /// A transport's name or settings cannot be read.
    #[error(
        "{text:?} is not a transport: expected name or name:key=value,..., 100 characters at most"
    )]
    Transport {
        /// What was given, cut.
        text: String,
    },
    /// There is no transport to choose from.
    #[error("no transport can be used{}", because(.reasons))]
    NoCandidate {
        /// Why each one cannot.
        reasons: Vec<String>,
    },
    /// A transport was asked for by name that is not among the candidates.
    #[error("{name:?} is not among the transports at hand: {known}")]
    NotACandidate {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// Too few runs to fit anything.
    #[error("{transport}: expected {expected} runs at least to fit, got {found}")]
    TooFewSamples {
        /// Whose runs.
        transport: String,
        /// How many are needed.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// Some runs of a cell are held out and others are not: the fit would have seen what it is checked by.
    #[error("{cell}: some runs are held out, and others are not")]
    Split {
        /// What names the cell.
        cell: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{origin}: {problem}")]
    Content {
        /// The file, or what else it came from.
        origin: String,
        /// What is wrong with it.
        problem: String,
    },
}

fn because(reasons: &[String]) -> String {
    match reasons {
        [] => String::new(),
        reasons => format!(": {}", reasons.join("; ")),
    }
}

/// Returns the number if it is finite and between the bounds.
pub(crate) fn checked(
    field: &'static str,
    found: f64,
    (low, high): (f64, f64),
    expected: &'static str,
) -> Result<f64, SelectError> {
    // Not a number is in no range.
    if (low..=high).contains(&found) {
        Ok(found)
    } else {
        Err(SelectError::Number {
            field,
            expected,
            found,
        })
    }
}
