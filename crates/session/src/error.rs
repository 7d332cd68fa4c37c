//! Errors of a session.

use std::{fmt, time::Duration};

use thiserror::Error;
use transpute_garble::GarbleError;
use transpute_ot::OtError;

use crate::{FrameError, FrameKind, InputError, config_error::ConfigError};

/// A setting that both parties must agree on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Field {
    /// The version of the protocol.
    Version = 1,
    /// Exactly one party garbles.
    Role = 2,
    /// The circuit.
    Circuit = 3,
    /// The owner of each input value.
    InputSplit = 4,
    /// The garbling scheme.
    Scheme = 5,
    /// Number of tweaks per AES key.
    RekeyPeriod = 6,
    /// The kind of oblivious transfer.
    Ot = 7,
    /// The parties that learn the outputs.
    Output = 8,
    /// Number of evaluations.
    Batch = 9,
    /// Maximum length of a chunk of tables.
    ChunkLen = 10,
    /// The check of outputs.
    OutputCheck = 11,
    /// The encryption of the link.
    Encryption = 12,
    /// The run is prepared before its inputs are known.
    Prepared = 14,
    /// The public-key scheme of base OT.
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

/// The reason for which a peer aborted, as it reports it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
#[non_exhaustive]
pub enum AbortReason {
    /// It received a message that the protocol does not allow.
    Protocol = 1,
    /// Its output failed the check.
    OutputCheck = 2,
    /// It received other bytes than this side sent.
    Transcript = 3,
    /// Its own input or machine failed.
    Local = 4,
    /// Its application cancelled the run.
    Cancelled = 5,
    /// It has its maximum number of peers or runs.
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

/// The error of a session that ended without its outputs.
///
/// After an error of the connection, the link is in an unknown state and must be dropped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The settings are not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The proposals of the parties differ.
    #[error("the parties disagree on the {field}: {ours} here, {theirs} at the peer")]
    Disagreement {
        /// The differing setting.
        field: Field,
        /// This side's proposal.
        ours: String,
        /// The peer's proposal.
        theirs: String,
    },
    /// The peer refused a setting before this side saw the difference.
    #[error("the peer does not agree on the {0}")]
    RefusedByPeer(Field),
    /// The first bytes do not belong to this protocol.
    #[error("the peer does not speak the transpute protocol")]
    NotTranspute,
    /// The stream is not a sequence of frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame arrived that is not allowed at this time.
    #[error("unexpected {kind:?} message: {problem}")]
    Unexpected {
        /// Its kind.
        kind: FrameKind,
        /// The problem.
        problem: &'static str,
    },
    /// A message has the wrong length.
    #[error("a {kind:?} message has {found} bytes where {expected} were due")]
    Length {
        /// Its kind.
        kind: FrameKind,
        /// Expected number of bytes.
        expected: usize,
        /// Number of bytes found.
        found: usize,
    },
    /// Oblivious transfer failed.
    #[error(transparent)]
    Ot(#[from] OtError),
    /// Garbling or evaluation failed, or an output failed its check.
    #[error(transparent)]
    Garble(#[from] GarbleError),
    /// The received bytes differ from those that the peer sent.
    #[error("the bytes received are not the bytes the peer sent")]
    Transcript,
    /// This party's input could not be read.
    #[error("input of evaluation {instance}: {source}")]
    Input {
        /// The number of the evaluation.
        instance: u64,
        /// The error of the input.
        source: InputError,
    },
    /// The peer aborted.
    #[error("the peer gave up because {0}")]
    PeerAborted(AbortReason),
    /// The link ended before the session.
    #[error("the peer closed the connection before the session was complete")]
    Closed,
    /// The peer sent nothing for this time.
    #[error("no sign of life from the peer for {} s", .0.as_secs())]
    PeerLost(Duration),
    /// The link failed. The source is the error of the transport.
    #[error(transparent)]
    Link(Box<dyn std::error::Error + Send + Sync>),
    /// A computing thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// There is no room for the tables of another prepared run.
    #[error("a prepared run has {needed} bytes of tables where there is room for {free}")]
    PreparedFull {
        /// Bytes of its tables.
        needed: u64,
        /// Free bytes within the limit that both sides agreed on.
        free: u64,
    },
    /// The connection of the run has failed.
    #[error(transparent)]
    Connection(std::sync::Arc<Self>),
    /// The run was cancelled: the computing thread ended without a result.
    #[error("the session was cancelled")]
    Cancelled,
}

impl SessionError {
    /// Returns the message for the peer: a field to refuse, or a reason to abort. `None` if the
    /// peer knows already or cannot be informed.
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

    /// Returns whether the peer is informed of the error before the link is closed.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.farewell().is_some()
    }

    /// Returns whether the error of one run ends the whole connection. That is so if the peer
    /// violated the protocol, because later frames would have no meaning.
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

/// The last message of a failed session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Farewell {
    Refuse(Field),
    Abort(AbortReason),
}

/// Returns the error for a hello that arrived twice, or for a message before it.
pub(crate) fn out_of_order(kind: FrameKind) -> SessionError {
    SessionError::Unexpected {
        kind,
        problem: "it does not come at this point",
    }
}
