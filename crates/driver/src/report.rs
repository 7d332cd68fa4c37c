//! The report of a connection for a single run.

use std::time::Duration;

use transpute_garble::Scheme;
use transpute_ot::BaseOt;
use transpute_session::{Milestone, OtPlan, Planned, Traffic};

use crate::RunOutcome;

/// The report of a completed single run.
#[derive(Clone, Debug)]
pub struct SingleRunReport {
    /// Number of bytes of the run by purpose, in both directions together.
    pub traffic: Traffic,
    /// Number of bytes of sent frames, including headers.
    pub bytes_sent: u64,
    /// Number of bytes of received frames, including headers.
    pub bytes_received: u64,
    /// Time from the start of the driver to each [`Milestone`]. `None` if the run did not reach it.
    pub milestones: [Option<Duration>; Milestone::COUNT],
    /// Time from the start of the driver to the end of the run.
    pub elapsed: Duration,
    /// Number of one-way flights from both parties being connected to the evaluator's output.
    pub flights: u32,
    /// The garbling scheme that both sides agreed on.
    pub scheme: Scheme,
    /// The kind of oblivious transfer that both sides agreed on.
    pub ot: OtPlan,
    /// The public-key scheme of base oblivious transfer.
    pub base_ot: BaseOt,
    /// The oblivious-transfer plan that this party chose by predicted times. `None` if it predicted
    /// no times. The agreed plan, in [`ot`](Self::ot), can differ.
    pub planned: Option<Planned>,
}

impl SingleRunReport {
    /// Returns the time from the start of the driver to a milestone, if the run reached it.
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
