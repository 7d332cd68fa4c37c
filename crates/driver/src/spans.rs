//! The `tracing` spans of connections and runs.
//!
//! | span | from | to |
//! | --- | --- | --- |
//! | `conn` | the link is established | the connection has ended |
//! | `run`, in `conn` | the call | the end of the run |
//! | `ot`, in `run` | the call | the labels of the evaluator's first inputs |
//! | `garble` or `evaluate`, in `run` | the first table | the last table |
//! | `transfer`, in `run` | the last table | the last output |
//!
//! `ot` and `garble` overlap, because tables do not wait for oblivious transfers. All spans except
//! `conn` have the debug level. At the end of each phase, an event with the debug level reports the
//! duration of the phase.

use std::time::Duration;

use tracing::{Span, debug, debug_span, info_span};
use transpute_session::{Milestone, Role, RunId};
use transpute_transport::LinkInfo;

/// Opens the span of a connection.
pub(crate) fn connection(link: &LinkInfo) -> Span {
    info_span!("conn", transport = link.transport, peer = %link.peer_address)
}

/// The span of a run, with the spans of its current phases.
pub(crate) struct RunSpan {
    run: Span,
    role: Role,
    transfers: Option<Phase>,
    tables: Option<Phase>,
    output: Option<Phase>,
}

struct Phase {
    name: &'static str,
    span: Span,
    /// Time from the call to the start of the phase.
    since: Duration,
}

impl Phase {
    fn begin(name: &'static str, span: Span, since: Duration) -> Option<Self> {
        Some(Self { name, span, since })
    }

    fn end(self, now: Duration) {
        let took = now.saturating_sub(self.since);
        debug!(parent: &self.span, phase = self.name, ?took, "phase finished");
    }
}

impl RunSpan {
    /// Opens the span of a run inside the span of its connection. Starts its first phase, `ot`.
    pub(crate) fn open(connection: &Span, id: RunId) -> Self {
        let run = debug_span!(parent: connection, "run", number = id.number(), role = %id.role());
        let ot = debug_span!(parent: &run, "ot");
        Self {
            run,
            role: id.role(),
            transfers: Phase::begin("ot", ot, Duration::ZERO),
            tables: None,
            output: None,
        }
    }

    /// Starts and ends phases when the run reaches a milestone. `now` is the time since the call.
    pub(crate) fn reach(&mut self, milestone: Milestone, now: Duration) {
        let ended = match milestone {
            Milestone::Agreed => {
                debug!(parent: &self.run, after = ?now, "the parties agreed on the run");
                None
            }
            Milestone::FirstLabels => self.transfers.take(),
            Milestone::FirstTable => {
                let (name, span) = match self.role {
                    Role::Garbler => ("garble", debug_span!(parent: &self.run, "garble")),
                    Role::Evaluator => ("evaluate", debug_span!(parent: &self.run, "evaluate")),
                };
                self.tables = Phase::begin(name, span, now);
                None
            }
            Milestone::LastTable => {
                let span = debug_span!(parent: &self.run, "transfer");
                self.output = Phase::begin("transfer", span, now);
                self.tables.take()
            }
            Milestone::LastOutput => self.output.take(),
        };
        if let Some(phase) = ended {
            phase.end(now);
        }
    }
}
