//! The report of a single run.

use std::time::Duration;

use transpute_garble::Scheme;
use transpute_ot::BaseOt;
use transpute_session::{Milestone, OtPlan, Planned, Traffic};

use crate::RunOutcome;

/// The report of a completed single run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Payload bytes by purpose.
    pub traffic: Traffic,
    /// Bytes of frames sent, headers included.
    pub bytes_sent: u64,
    /// Bytes of frames received, headers included.
    pub bytes_received: u64,
    /// When each [`Milestone`] was passed, from the start of the driver.
    pub milestones: [Option<Duration>; Milestone::COUNT],
    /// From the start of the driver to the end of the run.
    pub elapsed: Duration,
    /// One-way flights the protocol needs until the evaluator can have its output.
    pub flights: u32,
    /// The garbling scheme that both sides agreed on.
    pub scheme: Scheme,
    /// How the oblivious transfers were done.
    pub ot: OtPlan,
    /// What public-key oblivious transfer rested on.
    pub base_ot: BaseOt,
    /// What this party had planned and why, if by prediction. What was done, [`ot`](Self::ot), is as
    /// the evaluator had planned.
    pub planned: Option<Planned>,
}

impl Report {
    /// Returns when a milestone was passed, from the start of the driver.
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
