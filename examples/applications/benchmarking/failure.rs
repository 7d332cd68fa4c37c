//! How it can fail, for each program.

use std::{io, path::PathBuf, time::Duration};

use thiserror::Error;
use transpute::{CircuitError, IdentityError, SessionError, TransportError, transport::{ConnectError, HandshakeError, StreamError}};

use crate::wire::{Refusal, WireError};

/// Why a program did not do its part.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// An argument is wrong, or several do not go together.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {problem}", path.display())]
    Content { path: PathBuf, problem: String },
    /// A key file.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No link to somebody, or none any more.
    #[error("{whom}: {source}")]
    Link {
        whom: &'static str,
        #[source]
        source: TransportError,
    },
    /// Somebody said something that does not belong there.
    #[error("{whom} broke the protocol: {source}")]
    Protocol {
        whom: &'static str,
        #[source]
        source: WireError,
    },
    /// Somebody will not have us, or gave up.
    #[error("{whom} says: {why}")]
    Refused { whom: &'static str, why: Refusal },
    /// The servers were not told the same.
    #[error("the other server was told something else: it has {theirs}, this one {ours}")]
    Terms { ours: String, theirs: String },
    /// The servers do not tell a company the same.
    #[error(
        "the servers do not agree: the garbler's is about {garbler} companies, the evaluator's about {evaluator}"
    )]
    Disagreement { garbler: usize, evaluator: usize },
    /// Not enough companies.
    #[error("{got} companies reached both servers, and at least {least} are wanted")]
    TooFew { got: usize, least: usize },
    /// Something did not happen in time.
    #[error("{what} took more than {limit:?}")]
    TooLate { what: &'static str, limit: Duration },
    /// The results are not those of the figures.
    #[error("{0} of the companies have results other than those of a plain computation")]
    Wrong(usize),
    /// The connection of the servers.
    #[error("between the servers: {0}")]
    Between(#[from] transpute::Error),
    /// The computation.
    #[error("between the servers: {0}")]
    Session(#[from] SessionError),
    /// The circuit.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
    /// No randomness.
    #[error("the operating system gave no randomness: {0}")]
    Random(String),
    /// A task was ended before it was done.
    #[error("a task of this program broke off")]
    Broken,
}

impl Failure {
    /// Says what went wrong on the link to somebody.
    pub(crate) fn of_wire(whom: &'static str, error: WireError) -> Self {
        match error {
            WireError::Io(source) => Self::Link {
                whom,
                source: TransportError::from_io(source),
            },
            source => Self::Protocol { whom, source },
        }
    }

    /// Says whether it may go away when it is tried again.
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

    /// What companies and the other server are told of it.
    pub(crate) fn told(&self) -> Refusal {
        match self {
            Self::TooFew { .. } => Refusal::TooFew,
            Self::Refused { why, .. } => *why,
            _ => Refusal::Failed,
        }
    }
}
