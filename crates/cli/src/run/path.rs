//! The path in the report of `transpute run --repeat`: its properties when the transport was
//! chosen, and at the last measurement.

use serde::Serialize;
use transpute::{
    PathReport,
    select::{Bandwidth, KnownPath, Loss},
};

use crate::output::milliseconds;

/// The path of a connection, in JSON.
#[derive(Serialize)]
pub(super) struct Path {
    /// The measurement by which the transport was chosen. A property that was unknown at that time
    /// is taken from the first later measurement that has it.
    chosen_by: Measured,
    /// The last measurement.
    now: Measured,
    is_worse: bool,
    /// The transport that would be chosen now. `None` unless the path has become worse and this
    /// transport is not the one in use.
    better_transport: Option<String>,
    /// Predicted time of another run on this connection, for the properties in `now`. `None` for
    /// the party that did not choose the transport.
    pub(super) predicted_run_ms: Option<f64>,
    /// A warning for the user that the path has become worse. `None` if it has not.
    pub(super) warning: Option<String>,
}

/// Measured properties of the path. `None` means unknown. Rate and loss are those of the direction
/// from this party to its peer.
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
