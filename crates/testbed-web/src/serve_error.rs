//! The error of the server as a whole.

use std::{io, net::SocketAddr};

use thiserror::Error;

use super::store::StoreError;

/// Why there is no server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Whoever reaches it could use it.
    #[error("{address} can be reached from other machines: a token is needed")]
    NeedsToken {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// Whoever may use this machine could run commands as the user of the server.
    #[error("programs of one's own need a token, whoever can reach the server")]
    ProgramsNeedToken,
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The history cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system does not give threads.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}
