//! The error type of the servers and companies.

use std::{io, path::PathBuf, time::Duration};

use thiserror::Error;
use transpute::{
    CircuitError, IdentityError, SessionError, TransportError,
    transport::{ConnectError, HandshakeError, StreamError},
};

use crate::wire::{Refusal, WireError};

/// The reason why a party did not complete its part.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// An argument is invalid, or arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The content of a file is invalid.
    #[error("{}: {problem}", path.display())]
    Content { path: PathBuf, problem: String },
    /// A key file is invalid.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A connection to another party failed.
    #[error("{peer}: {source}")]
    Link {
        peer: &'static str,
        #[source]
        source: TransportError,
    },
    /// Another party sent an invalid or unexpected message.
    #[error("{peer} violated the protocol: {source}")]
    Protocol {
        peer: &'static str,
        #[source]
        source: WireError,
    },
    /// Another party refused an upload or gave up the round.
    #[error("{peer} refused: {why}")]
    Refused { peer: &'static str, why: Refusal },
    /// The two servers have different parameters.
    #[error("the servers have different parameters: the other one has {theirs}, this one {ours}")]
    ParameterMismatch { ours: String, theirs: String },
    /// The servers sent results of different numbers of companies.
    #[error(
        "the servers disagree: results of {garbler} companies from the garbler's, of {evaluator} from the evaluator's"
    )]
    Disagreement { garbler: usize, evaluator: usize },
    /// Fewer companies took part than required.
    #[error("expected at least {min_companies} companies, {got} companies reached both servers")]
    TooFew { got: usize, min_companies: usize },
    /// A time limit was exceeded.
    #[error("{what} took more than {limit:?}")]
    TooLate { what: &'static str, limit: Duration },
    /// This number of companies learned results that differ from a computation in the clear.
    #[error("{0} companies have results that differ from the plain computation")]
    Wrong(usize),
    /// The connection between the servers failed.
    #[error("between the servers: {0}")]
    Between(#[from] transpute::Error),
    /// The garbled computation failed.
    #[error("between the servers: {0}")]
    Session(#[from] SessionError),
    /// The circuit cannot be built.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
    /// The system provides no randomness.
    #[error("the operating system provided no randomness: {0}")]
    Random(String),
    /// A task panicked or was aborted.
    #[error("a task of this program ended unexpectedly")]
    Broken,
}

impl Failure {
    /// Converts an error of a connection to another party.
    pub(crate) fn of_wire(peer: &'static str, error: WireError) -> Self {
        match error {
            WireError::Io(source) => Self::Link {
                peer,
                source: TransportError::from_io(source),
            },
            source => Self::Protocol { peer, source },
        }
    }

    /// Returns whether the error may be temporary, so that the caller should connect again.
    pub(crate) fn may_pass(&self) -> bool {
        let Self::Link { source, .. } = self else {
            return false;
        };
        matches!(
            source.root(),
            TransportError::Connect(ConnectError::Connect { .. } | ConnectError::Timeout { .. })
                | TransportError::Handshake(
                    HandshakeError::Timeout { .. } | HandshakeError::ClosedDuringHandshake
                )
                | TransportError::Stream(
                    StreamError::Truncated
                        | StreamError::ConnectionReset
                        | StreamError::Closed
                        | StreamError::PeerVanished
                )
        )
    }

    /// Returns the reason that is sent to companies and to the other server.
    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            Self::TooFew { .. } => Refusal::TooFew,
            Self::Refused { why, .. } => *why,
            _ => Refusal::Failed,
        }
    }
}
