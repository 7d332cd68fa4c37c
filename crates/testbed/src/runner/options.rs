//! Options for the execution of a matrix.

use std::{path::PathBuf, time::Duration};

use crate::live::Live;

/// Options for the execution of a matrix.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MatrixOptions {
    /// The `transpute` program of both parties.
    pub binary: PathBuf,
    /// The file to which records are appended, one JSON object per line. Runs that have a result in
    /// this file are skipped.
    pub results: PathBuf,
    /// Time limit of a run. A run that exceeds it has failed.
    pub timeout: Duration,
    /// The records that contain a timeline. It is the largest part of a long run's record.
    pub timelines: Timelines,
    /// The handle through which other threads observe the run in progress.
    pub live: Option<Live>,
}

impl MatrixOptions {
    /// Returns options with a timeline of the first repetition of each cell, and without a handle
    /// for other threads.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>, results: impl Into<PathBuf>, timeout: Duration) -> Self {
        Self {
            binary: binary.into(),
            results: results.into(),
            timeout,
            timelines: Timelines::First,
            live: None,
        }
    }
}

/// The records that contain a timeline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Timelines {
    /// No records.
    None,
    /// The first repetition of each cell.
    First,
    /// All records.
    All,
}
