//! The error of a run.

use thiserror::Error;
use transpute_circuit::SplitError;
use transpute_select::SelectError;
use transpute_session::SessionError;
use transpute_transport::TransportError;

/// The error of a run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The garbler's inputs do not fit the circuit.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The party has neither an identity and a pinned peer nor plaintext enabled.
    #[error(
        "no {0} given: set this party's identity and the peer's fingerprint, or enable plaintext"
    )]
    Unprotected(&'static str),
    /// The link could not be established.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The figures of the run are out of range for the choice of a transport.
    #[error(transparent)]
    Workload(#[from] SelectError),
    /// The protocol failed.
    #[error(transparent)]
    Session(#[from] SessionError),
}
