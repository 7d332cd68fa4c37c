//! Errors of a listening socket.

use std::io;

use thiserror::Error;

/// The error of a transport that cannot listen, or can no longer accept connections.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The transport cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The listening socket failed. No further link will arrive.
    #[error("cannot accept on {address}: {source}")]
    Accept {
        /// The local address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
}
