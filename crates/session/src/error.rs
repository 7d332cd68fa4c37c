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
    /// The role. One party must be the garbler and the other the evaluator.
    Role = 2,
    /// The circuit.
    Circuit = 3,
    /// The owner of each input value.
    InputSplit = 4,
    /// The garbling scheme.
    Scheme = 5,
    /// The number of consecutive tweaks that share one AES key.
    RekeyPeriod = 6,
    /// The kind of oblivious transfer.
    Ot = 7,
    /// The parties that learn the outputs.
    Output = 8,
    /// The number of evaluations.
    Batch = 9,
    /// The maximum length of a chunk of tables.
    ChunkLen = 10,
    /// Whether the evaluator checks its output labels.
    OutputCheck = 11,
    /// Whether the link is encrypted.
    Encryption = 12,
    /// Whether the run is prepared before its inputs are known.
    Prepared = 14,
    /// The public-key scheme of base OT.
    BaseOt = 15,
    /// The number of runs of the connection.
    Runs = 17,
}

impl Field {
    pub(crate) const ALL: [Self; 15] = [
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
        Self::Runs,
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
            Self::Runs => "number of runs",
        })
    }
}

/// The reason that an aborting party sends to its peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
#[non_exhaustive]
pub enum AbortReason {
    /// The aborting party received a message that the protocol does not allow.
    Protocol = 1,
    /// Garbling or evaluation failed, or an output of the aborting party failed its check.
    OutputCheck = 2,
    /// The aborting party received other bytes than its peer sent.
    Transcript = 3,
    /// The aborting party's settings, input or machine failed.
    Local = 4,
    /// The aborting party's application cancelled the run.
    Cancelled = 5,
    /// The aborting party has reached its maximum number of connections or runs.
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

/// The error of a run or connection that ended before it was complete.
///
/// After an error that ended the connection, the link is in an unknown state. Drop the link.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The settings are not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The parties proposed different values of a setting.
    #[error("the parties disagree on the {field}: {ours} here, {theirs} at the peer")]
    Disagreement {
        /// The differing setting.
        field: Field,
        /// The value that this side proposed.
        ours: String,
        /// The value that the peer proposed.
        theirs: String,
    },
    /// The peer refused this side's value of a setting. The peer's value is not known.
    #[error("the peer does not agree on the {0}")]
    RefusedByPeer(Field),
    /// The first bytes from the peer do not belong to this protocol.
    #[error("the peer does not speak the transpute protocol")]
    NotTranspute,
    /// The received bytes are not a sequence of frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame arrived that is not allowed at this time.
    #[error("unexpected {kind:?} message: {problem}")]
    Unexpected {
        /// The kind of the frame.
        kind: FrameKind,
        /// The reason why the frame is not allowed.
        problem: &'static str,
    },
    /// A message has the wrong length.
    #[error("a {kind:?} message has {found} bytes where {expected} were due")]
    Length {
        /// The kind of the message.
        kind: FrameKind,
        /// The expected length, in bytes.
        expected: usize,
        /// The length found, in bytes.
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
        /// The number of the evaluation in the batch, from 0.
        instance: u64,
        /// The error that [`Inputs::bits`](crate::Inputs::bits) returned.
        source: InputError,
    },
    /// The peer aborted, for the reason that it sent.
    #[error("the peer gave up because {0}")]
    PeerAborted(AbortReason),
    /// The peer closed the link before the session was complete, or this side called for a run
    /// while the connection was closing.
    #[error("the peer closed the connection before the session was complete")]
    Closed,
    /// The peer sent no bytes for this time, which is the driver's idle timeout.
    #[error("no sign of life from the peer for {} s", .0.as_secs())]
    PeerLost(Duration),
    /// The link failed. The source is the error of the transport.
    #[error(transparent)]
    Link(Box<dyn std::error::Error + Send + Sync>),
    /// A computing thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The tables of another prepared run would exceed the agreed limit.
    #[error("a prepared run has {needed} bytes of tables where there is room for {free}")]
    PreparedFull {
        /// Bytes of tables of the new run.
        needed: u64,
        /// Bytes that are still free within the limit for the tables of all prepared runs.
        free: u64,
    },
    /// The connection of the run failed with this error.
    #[error(transparent)]
    Connection(std::sync::Arc<Self>),
    /// The run was cancelled, or the computing thread ended without a result.
    #[error("the session was cancelled")]
    Cancelled,
}

impl SessionError {
    /// Returns the last message to the peer: a refused field, or a reason to abort. `None` if the
    /// peer already knows the error or cannot be informed.
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

    /// Returns whether this error of one run ends the whole connection. It does if the link failed,
    /// or if the peer violated the protocol, because later frames then have no defined meaning.
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

/// Returns the error for a message at a point where the protocol does not allow it, such as a
/// second hello or a message before the hello.
pub(crate) fn out_of_order(kind: FrameKind) -> SessionError {
    SessionError::Unexpected {
        kind,
        problem: "it does not come at this point",
    }
}
