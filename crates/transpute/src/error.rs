//! How a run fails.

use thiserror::Error;
use transpute_circuit::SplitError;
use transpute_select::SelectError;
use transpute_session::SessionError;
use transpute_transport::TransportError;

/// Why a run gave no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A choice of inputs does not fit the circuit.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// There is neither an identity with a pinned peer nor the wish for plaintext.
    #[error(
        "no {0} given: name this party's identity and the peer's fingerprint, or ask for plaintext"
    )]
    Unprotected(&'static str),
    /// No link to the peer.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The run cannot be described for choosing a transport.
    #[error(transparent)]
    Workload(#[from] SelectError),
    /// The protocol failed.
    #[error(transparent)]
    Session(#[from] SessionError),
}
