//! Errors of reaching a peer and of choosing a transport to it.

use std::{io, sync::Arc, time::Duration};

use thiserror::Error;

use super::TransportError;

/// Why there is no connection to a peer, or none over the transport that was picked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// None of the addresses of the peer could be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address as given.
        address: String,
        /// The system's error for the last address tried.
        source: io::Error,
    },
    /// The name was not resolved, or the peer did not answer, in the time allowed.
    #[error("timed out after {after:?} waiting for {waiting_for} ({address})")]
    Timeout {
        /// The event that was waited for.
        waiting_for: &'static str,
        /// The peer's address.
        address: String,
        /// The time allowed.
        after: Duration,
    },
    /// The peer answers over TCP, but not over UDP.
    #[error(
        "{address} answers over TCP but not over UDP (waited {after:?}): a firewall may block UDP; open the port for UDP as \
         well, or use the transport tcp"
    )]
    UdpBlocked {
        /// The peer's address.
        address: String,
        /// The time for which an answer was waited for.
        after: Duration,
    },
    /// The listener does not allow the transport that was picked.
    #[error("the listener does not allow the transport {transport}; it allows: {}", offered.join(", "))]
    NotOffered {
        /// The transport picked.
        transport: &'static str,
        /// The names of those it allows.
        offered: Vec<String>,
    },
    /// The listener refused the transport that was picked.
    #[error("the listener refused the transport that was picked")]
    ChoiceRefused,
    /// One of several transports that were tried did not come up.
    #[error("the transport {transport} did not come up: {source}")]
    NotUp {
        /// The transport.
        transport: &'static str,
        /// The reason; the progress of the race holds it as well.
        source: Arc<TransportError>,
    },
}
