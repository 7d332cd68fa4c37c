//! What `transpute run --repeat` tells about the path: as it was when the transport was chosen, and as it was measured last.

use serde::Serialize;
use transpute::{
    PathReport,
    select::{Bandwidth, KnownPath, Loss},
};

use crate::output::milliseconds;

/// The path of a connection, in JSON.
#[derive(Serialize)]
pub(super) struct Path {
    /// What the transport was chosen by; what was not known then is what was measured first.
    chosen_by: Measured,
    /// What was measured last.
    now: Measured,
    is_worse: bool,
    /// The transport that would now be chosen, if the path is worse and that is another one.
    better_transport: Option<String>,
    /// Of one more run, with the path as it is now; nothing on a side that did not choose the transport.
    pub(super) predicted_run_ms: Option<f64>,
    /// For people; nothing if the path is not worse.
    pub(super) warning: Option<String>,
}

/// Rate and loss are of the direction in which this party sends.
#[derive(Serialize)]
struct Measured {
    rtt_ms: Option<f64>,
    rate_mbit: Option<f64>,
    /// A fraction.
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
