//! Why a matrix cannot go on.

use std::{io, path::PathBuf};

use thiserror::Error;
use transpute_netem::lab::LabError;

use crate::{measure::MeasureError, row::RowError};

/// Why a matrix cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is nothing to run.
    #[error("nothing to run: {0} is empty")]
    Empty(&'static str),
    /// The results cannot be written.
    #[error("{}: cannot write the results", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another runner appends to the results.
    #[error("{}: in use by another run", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The results of an earlier run cannot be read.
    #[error(transparent)]
    Rows(#[from] RowError),
    /// Keys and inputs cannot be put into files.
    #[error("cannot prepare keys and inputs")]
    Prepare(#[source] io::Error),
    /// A circuit does not exist or cannot be evaluated.
    #[error("circuit {circuit}: {reason}")]
    Circuit {
        /// The circuit.
        circuit: String,
        /// One line.
        reason: String,
    },
    /// A program that a run needs does not work.
    #[error("{program}: {reason}")]
    Tool {
        /// The program.
        program: String,
        /// One line.
        reason: String,
    },
    /// Traffic over the path does not flow.
    #[error("no traffic over the emulated path")]
    Flow(#[source] io::Error),
    /// The path cannot be emulated.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Whoever asked for it wants it no more.
    #[error("interrupted")]
    Cancelled,
}

impl RunError {
    /// Keeps a cancellation apart from all other reasons.
    pub(super) fn from_measure(
        error: MeasureError,
        other: impl FnOnce(MeasureError) -> Self,
    ) -> Self {
        match error {
            MeasureError::Cancelled => Self::Cancelled,
            error => other(error),
        }
    }
}
