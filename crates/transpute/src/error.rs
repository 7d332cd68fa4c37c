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
    /// The garbler's input values, as set by the party, do not exist in the circuit.
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
    /// No transport can be chosen, because a figure of the run, such as its bytes, is out of range.
    #[error(transparent)]
    Workload(#[from] SelectError),
    /// The two-party protocol failed, or its settings are not valid.
    #[error(transparent)]
    Session(#[from] SessionError),
}
