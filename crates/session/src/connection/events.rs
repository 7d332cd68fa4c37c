//! The events of a connection.

use std::fmt;

use transpute_garble::Scheme;
use transpute_ot::BaseOt;

use crate::{
    AbortReason, Field, FrameKind, Milestone, OtPlan, Output, Planned, Proposal, Role,
    SessionError, Traffic,
};

/// One run of a connection, as this side sees it.
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

    /// Returns the number of the run among those of its role, from 1.
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

    /// What the frames of this run bear that this side sends.
    pub(super) fn tag(self) -> [u8; 4] {
        (self.number | if self.garbles { GARBLES } else { 0 }).to_le_bytes()
    }
}

/// In the tag of a frame: its sender garbles.
pub(super) const GARBLES: u32 = 1 << 31;

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} as {}", self.number, self.role())
    }
}

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The peer's opening is here.
    Opened,
    /// The peer has called for a run that was not called for here, and waits. `None` if it has given
    /// the run up already.
    Called(RunId, Option<Proposal>),
    /// A run has passed a milestone.
    Reached(RunId, Milestone),
    /// A run has given an output. It is final once the run has ended well.
    Output(RunId, Output),
    /// All tables of a prepared run are there.
    Prepared(RunId),
    /// A run is over, and no further event is about it.
    Ended(RunId, Result<RunReport, SessionError>),
}

/// Why a run that the peer called for is not called for here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decline {
    /// This field of the proposal will not do; the peer gets
    /// [`SessionError::RefusedByPeer`].
    Field(Field),
    /// For another reason; the peer gets [`SessionError::PeerAborted`].
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

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct RunReport {
    /// Payload bytes by purpose.
    pub traffic: Traffic,
    /// Bytes of frames sent, headers included. What extends the pool is not counted.
    pub bytes_sent: u64,
    /// Bytes of frames received, likewise.
    pub bytes_received: u64,
    /// How the oblivious transfers were done.
    pub ot: OtPlan,
    /// The public-key oblivious transfer that the others rested on.
    pub base_ot: BaseOt,
    /// The plan of this party and its reason, if by prediction.
    pub planned: Option<Planned>,
    /// The garbling scheme that both sides agreed on.
    pub scheme: Scheme,
}
