//! The error type for running a matrix.

use std::{io, path::PathBuf};

use thiserror::Error;
use transpute_netem::lab::LabError;

use super::hosts::HostError;
use crate::{measure::MeasureError, record::RecordError};

/// The reason why a matrix cannot be run or continued.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A list of the matrix is empty, so there are no runs.
    #[error("nothing to run: {0} is empty")]
    Empty(&'static str),
    /// The results cannot be written.
    #[error("{}: cannot write the results", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another runner has locked the results.
    #[error("{}: in use by another run", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The results of an earlier run cannot be read.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// Keys and inputs cannot be written to files.
    #[error("cannot prepare keys and inputs")]
    Prepare(#[source] io::Error),
    /// A circuit does not exist or cannot be evaluated.
    #[error("circuit {circuit}: {reason}")]
    Circuit {
        /// The circuit.
        circuit: String,
        /// The reason, in one line.
        reason: String,
    },
    /// A program that a run needs failed.
    #[error("{program}: {reason}")]
    Tool {
        /// The program.
        program: String,
        /// The reason, in one line.
        reason: String,
    },
    /// Traffic over the path failed.
    #[error("no traffic over the emulated path")]
    Flow(#[source] io::Error),
    /// The path cannot be emulated.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A host of a matrix between two real hosts cannot be used.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The caller cancelled the run.
    #[error("interrupted")]
    Cancelled,
}

impl RunError {
    /// Converts an error of a command. [`MeasureError::Cancelled`] becomes
    /// [`RunError::Cancelled`].
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
