//! Errors of parsing and resolving an address, before binding or connecting.

use std::io;

use thiserror::Error;

/// The error of an address that is invalid or cannot be resolved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The address does not have the form that the transport expects.
    #[error("{address:?} is not an address: {reason}")]
    InvalidAddress {
        /// The text given.
        address: String,
        /// The reason why the text is not a valid address.
        reason: &'static str,
    },
    /// The host name has no address.
    #[error("cannot resolve {address:?}: {source}")]
    Resolve {
        /// The text given.
        address: String,
        /// The resolver's error.
        source: io::Error,
    },
}
