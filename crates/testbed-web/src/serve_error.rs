//! Errors of starting the server.

use std::{io, net::SocketAddr};

use thiserror::Error;

use super::store::StoreError;

/// The reason why the server cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A token is required, because the address is not a loopback address.
    #[error("{address} can be reached from other machines: a token is needed")]
    NeedsToken {
        /// The address to listen on.
        address: SocketAddr,
    },
    /// A token is required, because users may run programs. Without a token, every user of this
    /// machine could run commands as the server's user.
    #[error("running users' programs requires a token, even on a loopback address")]
    ProgramsNeedToken,
    /// Listening on the address fails.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The history cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system cannot start a thread.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}
