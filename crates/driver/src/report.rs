//! The report of a connection for a single run.

use std::time::Duration;

use transpute_garble::Scheme;
use transpute_ot::BaseOt;
use transpute_session::{Milestone, OtPlan, Planned, Traffic};

use crate::RunOutcome;

/// The report of a completed single run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Payload bytes, by purpose.
    pub traffic: Traffic,
    /// Bytes of frames sent, headers included.
    pub bytes_sent: u64,
    /// Bytes of frames received, headers included.
    pub bytes_received: u64,
    /// Time from the start of the driver to each [`Milestone`].
    pub milestones: [Option<Duration>; Milestone::COUNT],
    /// Time from the start of the driver to the end of the run.
    pub elapsed: Duration,
    /// Number of one-way flights until the evaluator can have its output.
    pub flights: u32,
    /// The garbling scheme that both sides agreed on.
    pub scheme: Scheme,
    /// The method of the oblivious transfers.
    pub ot: OtPlan,
    /// The base OT used.
    pub base_ot: BaseOt,
    /// The plan of this party and its reason, if a prediction chose it. The method used,
    /// [`ot`](Self::ot), is the evaluator's plan.
    pub planned: Option<Planned>,
}

impl Report {
    /// Returns the time from the start of the driver to a milestone.
    #[must_use]
    pub fn at(&self, milestone: Milestone) -> Option<Duration> {
        self.milestones[milestone as usize]
    }

    pub(crate) fn new(outcome: &RunOutcome) -> Self {
        let run = &outcome.report;
        Self {
            traffic: run.traffic,
            bytes_sent: run.bytes_sent,
            bytes_received: run.bytes_received,
            milestones: outcome.milestones,
            elapsed: outcome.ended,
            flights: run.ot.flights(),
            scheme: run.scheme,
            ot: run.ot,
            base_ot: run.base_ot,
            planned: run.planned,
        }
    }
}
