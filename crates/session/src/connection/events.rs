//! The identifiers, events and reports of the runs of a connection.

use std::fmt;

use transpute_garble::Scheme;
use transpute_ot::BaseOt;

use crate::{
    AbortReason, Field, FrameKind, Milestone, OtPlan, Output, Planned, Proposal, Role,
    SessionError, Traffic,
};

/// The identifier of a run on this side of a connection: this side's role and a number.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RunId {
    pub(super) garbles: bool,
    pub(super) number: u32,
}

impl RunId {
    /// Returns this side's role in the run.
    #[must_use]
    pub fn role(self) -> Role {
        if self.garbles {
            Role::Garbler
        } else {
            Role::Evaluator
        }
    }

    /// Returns the number of the run, from 1, among the runs in which this side has the same role.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    pub(super) fn new(role: Role, number: u32) -> Self {
        Self {
            garbles: role == Role::Garbler,
            number,
        }
    }

    /// Returns the tag of the frames that this side sends in this run.
    pub(super) fn tag(self) -> [u8; 4] {
        (self.number | if self.garbles { GARBLES } else { 0 }).to_le_bytes()
    }
}

/// Bit in the tag of a frame that is set if the sender of the frame garbles in the run.
pub(super) const GARBLES: u32 = 1 << 31;

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} as {}", self.number, self.role())
    }
}

/// An event of a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The peer's opening has arrived.
    Opened,
    /// The peer has started a run that this side has not called for, with this proposal. The run
    /// waits for this side's call. `None` if the peer has already ended the run.
    Called(RunId, Option<Proposal>),
    /// A run has reached a milestone.
    Reached(RunId, Milestone),
    /// A run has an output for this party. The output is final when the run has ended without an
    /// error.
    Output(RunId, Output),
    /// This side has sent or received all tables of a prepared run.
    Prepared(RunId),
    /// A run has ended, with its report or its error. No further event refers to the run.
    Ended(RunId, Result<RunReport, SessionError>),
}

/// The reason to decline a run that the peer called for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decline {
    /// This field of the proposal is not acceptable. The peer receives
    /// [`SessionError::RefusedByPeer`].
    Field(Field),
    /// The run is declined for another reason. The peer receives [`SessionError::PeerAborted`].
    Reason(AbortReason),
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => write!(f, "this side does not agree on the {field}"),
            Self::Reason(AbortReason::Local) => f.write_str("because of a failure on this side"),
            Self::Reason(AbortReason::Busy) => f.write_str("there is no room for more"),
            Self::Reason(reason) => write!(f, "{reason:?}"),
        }
    }
}

impl Decline {
    pub(super) fn frame(self) -> (FrameKind, u8) {
        match self {
            Self::Field(field) => (FrameKind::Refuse, field as u8),
            Self::Reason(reason) => (FrameKind::Abort, reason as u8),
        }
    }
}

/// The report of a run that ended without an error.
#[derive(Clone, Copy, Debug)]
pub struct RunReport {
    /// Number of bytes of the run by purpose.
    pub traffic: Traffic,
    /// Number of bytes of sent frames of the run, with headers. Extensions of the random-OT pool
    /// are not included.
    pub bytes_sent: u64,
    /// Number of bytes of received frames of the run, with headers. Extensions of the random-OT
    /// pool are not included.
    pub bytes_received: u64,
    /// The kind of oblivious transfer that both sides agreed on.
    pub ot: OtPlan,
    /// The public-key scheme of base oblivious transfer.
    pub base_ot: BaseOt,
    /// The oblivious-transfer plan that this party chose by predicted times. `None` if it predicted
    /// no times. The agreed plan, in `ot`, can differ.
    pub planned: Option<Planned>,
    /// The garbling scheme that both sides agreed on.
    pub scheme: Scheme,
}
