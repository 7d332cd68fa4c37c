//! How a session fails.

use std::{fmt, time::Duration};

use thiserror::Error;
use transpute_garble::GarbleError;
use transpute_ot::OtError;

use crate::{FrameError, FrameKind, InputError, config_error::ConfigError};

/// Something both parties must agree on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Field {
    /// The version of the protocol.
    Version = 1,
    /// One garbler and one evaluator.
    Role = 2,
    /// The circuit.
    Circuit = 3,
    /// Which input values are the garbler's.
    InputSplit = 4,
    /// The garbling scheme.
    Scheme = 5,
    /// Tweaks per AES key.
    RekeyPeriod = 6,
    /// How oblivious transfers are done.
    Ot = 7,
    /// Who learns the outputs.
    Output = 8,
    /// Evaluations in the session.
    Batch = 9,
    /// Bytes per chunk of tables.
    ChunkLen = 10,
    /// Whether outputs are checked.
    OutputCheck = 11,
    /// Whether the link is encrypted.
    Encryption = 12,
    /// Whether a run is prepared before its inputs are known.
    Prepared = 14,
    /// What base OT rests on.
    BaseOt = 15,
}

impl Field {
    pub(crate) const ALL: [Self; 14] = [
        Self::Version,
        Self::Role,
        Self::Circuit,
        Self::InputSplit,
        Self::Scheme,
        Self::RekeyPeriod,
        Self::Ot,
        Self::Output,
        Self::Batch,
        Self::ChunkLen,
        Self::OutputCheck,
        Self::Encryption,
        Self::Prepared,
        Self::BaseOt,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|field| *field as u8 == code)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Version => "protocol version",
            Self::Role => "role",
            Self::Circuit => "circuit",
            Self::InputSplit => "garbler's input values",
            Self::Scheme => "garbling scheme",
            Self::RekeyPeriod => "re-key period",
            Self::Ot => "oblivious transfer",
            Self::Output => "output recipient",
            Self::Batch => "batch size",
            Self::ChunkLen => "chunk length",
            Self::OutputCheck => "output check",
            Self::Encryption => "encryption",
            Self::Prepared => "preparation before the inputs",
            Self::BaseOt => "base OT",
        })
    }
}

/// Why a peer gave up, as far as it says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
#[non_exhaustive]
pub enum AbortReason {
    /// It received something the protocol does not allow.
    Protocol = 1,
    /// Its output did not pass the check.
    OutputCheck = 2,
    /// It received other bytes than were sent.
    Transcript = 3,
    /// Its own input or machine failed.
    Local = 4,
    /// Its application does not want the run any more.
    Cancelled = 5,
    /// It serves as many peers, or does as much, as it has room for.
    Busy = 6,
}

impl AbortReason {
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        [
            Self::Protocol,
            Self::OutputCheck,
            Self::Transcript,
            Self::Local,
            Self::Cancelled,
            Self::Busy,
        ]
        .into_iter()
        .find(|reason| *reason as u8 == code)
    }
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Protocol => "it received a message that the protocol does not allow",
            Self::OutputCheck => "its outputs did not pass the check",
            Self::Transcript => "it did not receive what was sent",
            Self::Local => "of a failure on its side",
            Self::Cancelled => "it does not want the run any more",
            Self::Busy => "it has no room for more at the moment",
        })
    }
}

/// Why a session ended without its outputs.
///
/// After any of these the link is in an unknown state and must be dropped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The settings cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The parties propose different things.
    #[error("the parties disagree on the {field}: {ours} here, {theirs} at the peer")]
    Disagreement {
        /// What they disagree on.
        field: Field,
        /// This side's proposal.
        ours: String,
        /// The peer's proposal.
        theirs: String,
    },
    /// The peer refused before this side saw why.
    #[error("the peer does not agree on the {0}")]
    RefusedByPeer(Field),
    /// The first bytes are not those of this protocol.
    #[error("the peer does not speak the transpute protocol")]
    NotTranspute,
    /// The stream is no sequence of frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame came that may not come now.
    #[error("unexpected {kind:?} message: {problem}")]
    Unexpected {
        /// Its kind.
        kind: FrameKind,
        /// What is wrong about it.
        problem: &'static str,
    },
    /// A message has the wrong length.
    #[error("a {kind:?} message has {found} bytes where {expected} were due")]
    Length {
        /// Its kind.
        kind: FrameKind,
        /// Bytes due.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// Oblivious transfer failed.
    #[error(transparent)]
    Ot(#[from] OtError),
    /// Garbling or evaluation failed, or an output did not pass its check.
    #[error(transparent)]
    Garble(#[from] GarbleError),
    /// The bytes received are not the bytes the peer sent.
    #[error("the bytes received are not the bytes the peer sent")]
    Transcript,
    /// This party's input could not be read.
    #[error("input of evaluation {instance}: {source}")]
    Input {
        /// The evaluation.
        instance: u64,
        /// Why.
        source: InputError,
    },
    /// The peer gave up.
    #[error("the peer gave up because {0}")]
    PeerAborted(AbortReason),
    /// The link ended before the session did.
    #[error("the peer closed the connection before the session was complete")]
    Closed,
    /// The peer showed no sign of life.
    #[error("no sign of life from the peer for {} s", .0.as_secs())]
    PeerLost(Duration),
    /// The link failed. The error is that of the driver's transport.
    #[error(transparent)]
    Link(Box<dyn std::error::Error + Send + Sync>),
    /// A thread to compute on cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// There is no room for the tables of another prepared run.
    #[error("a prepared run has {needed} bytes of tables where there is room for {free}")]
    PreparedFull {
        /// Bytes of its tables.
        needed: u64,
        /// Bytes that are free of what both sides agreed to.
        free: u64,
    },
    /// The connection that the run is part of has failed.
    #[error(transparent)]
    Connection(std::sync::Arc<Self>),
    /// The computing thread ended without a result.
    #[error("the session was cancelled")]
    Cancelled,
}

impl SessionError {
    /// Returns what to tell the peer: a field to refuse or a reason to abort; `None` where it knows
    /// or cannot be told.
    pub(crate) fn farewell(&self) -> Option<Farewell> {
        Some(match self {
            Self::Disagreement { field, .. } => Farewell::Refuse(*field),
            Self::NotTranspute
            | Self::Frame(_)
            | Self::Unexpected { .. }
            | Self::Length { .. }
            | Self::Ot(_) => Farewell::Abort(AbortReason::Protocol),
            Self::Garble(_) => Farewell::Abort(AbortReason::OutputCheck),
            Self::Transcript => Farewell::Abort(AbortReason::Transcript),
            Self::Config(_)
            | Self::Input { .. }
            | Self::Thread(_)
            | Self::Cancelled
            | Self::PreparedFull { .. } => Farewell::Abort(AbortReason::Local),
            Self::RefusedByPeer(_)
            | Self::PeerAborted(_)
            | Self::Closed
            | Self::PeerLost(_)
            | Self::Link(_)
            | Self::Connection(_) => return None,
        })
    }

    /// Says whether the peer is told of the error before the link is closed.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.farewell().is_some()
    }

    /// Says whether the error of one run ends all of it: what came is not
    /// what the protocol allows, so nothing that follows can be made sense of.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(
            self,
            Self::NotTranspute
                | Self::Frame(_)
                | Self::Unexpected { .. }
                | Self::Length { .. }
                | Self::Ot(_)
                | Self::Transcript
                | Self::Closed
                | Self::PeerLost(_)
                | Self::Link(_)
        )
    }
}

/// The last words of a failed session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Farewell {
    Refuse(Field),
    Abort(AbortReason),
}

/// The error for a hello that came twice or a message that came before it.
pub(crate) fn out_of_order(kind: FrameKind) -> SessionError {
    SessionError::Unexpected {
        kind,
        problem: "it does not come at this point",
    }
}
