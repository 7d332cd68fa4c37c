//! The path in the report of `transpute run --repeat`, as measured when the transport was chosen
//! and as measured last.

use serde::Serialize;
use transpute::{
    PathReport,
    select::{Bandwidth, KnownPath, Loss},
};

use crate::output::milliseconds;

/// The path of a connection, in JSON.
#[derive(Serialize)]
pub(super) struct Path {
    /// The path for which the transport was chosen. A figure that was unknown at that time is taken
    /// from the first later measurement.
    chosen_by: Measured,
    /// The last measurement.
    now: Measured,
    is_worse: bool,
    /// The transport that would be chosen now. None unless the path is worse and the choice
    /// differs.
    better_transport: Option<String>,
    /// Predicted time of another run on the path as it is now. None on the side that did not choose
    /// the transport.
    pub(super) predicted_run_ms: Option<f64>,
    /// A message for the user. None unless the path is worse.
    pub(super) warning: Option<String>,
}

/// A measurement of the path. Rate and loss are those of the direction in which this party sends.
#[derive(Serialize)]
struct Measured {
    rtt_ms: Option<f64>,
    rate_mbit: Option<f64>,
    /// The loss as a fraction, from 0 to 1.
    loss: Option<f64>,
}

impl Measured {
    fn new(path: &KnownPath) -> Self {
        Self {
            rtt_ms: path.rtt.map(milliseconds),
            rate_mbit: (path.to_peer.rate).map(Bandwidth::megabits_per_second),
            loss: path.to_peer.loss.map(Loss::fraction),
        }
    }
}

impl Path {
    pub(super) fn new(report: &PathReport) -> Self {
        Self {
            chosen_by: Measured::new(&report.chosen_by),
            now: Measured::new(&report.now),
            is_worse: report.worse.is_some(),
            better_transport: report.better.clone(),
            predicted_run_ms: report.predicted_run.map(milliseconds),
            warning: (report.worse.is_some()).then(|| report.to_string()),
        }
    }
}
