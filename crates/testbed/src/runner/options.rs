//! Options for the execution of a matrix.

use std::{path::PathBuf, time::Duration};

use crate::live::Live;

/// Options for the execution of a matrix.
#[derive(Clone, Debug)]
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
