//! How to run a matrix.

use std::{path::PathBuf, time::Duration};

use crate::live::Live;

/// How to run a matrix.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `transpute` program, which both parties are.
    pub binary: PathBuf,
    /// The file that rows are appended to, one JSON object a line. Runs that it holds are not run
    /// again.
    pub results: PathBuf,
    /// How long one run may take before it counts as failed.
    pub timeout: Duration,
    /// Which rows have what arrived when, which for long runs is most of the row.
    pub timelines: Timelines,
    /// Where runs can be looked at while they go on.
    pub live: Option<Live>,
}

/// Which rows have what arrived when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Timelines {
    /// None.
    None,
    /// Those of the first repetition of each cell.
    First,
    /// All.
    All,
}
