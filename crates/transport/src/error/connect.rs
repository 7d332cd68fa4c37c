//! Errors of reaching a peer and of choosing a transport to it.

use std::{io, sync::Arc, time::Duration};

use thiserror::Error;

use super::TransportError;

/// The error of connecting to a peer, or of connecting over the chosen transport.
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
    /// The name was not resolved, or the peer did not answer, within the time limit.
    #[error("timed out after {after:?} waiting for {waiting_for} ({address})")]
    Timeout {
        /// The event that was waited for.
        waiting_for: &'static str,
        /// The peer's address.
        address: String,
        /// The time limit.
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
        /// The time limit of the answer.
        after: Duration,
    },
    /// The listener does not allow the chosen transport.
    #[error("the listener does not allow the transport {transport}; it allows: {}", offered.join(", "))]
    NotOffered {
        /// The chosen transport.
        transport: &'static str,
        /// The names of the allowed transports.
        offered: Vec<String>,
    },
    /// The listener refused the chosen transport.
    #[error("the listener refused the transport that was picked")]
    ChoiceRefused,
    /// One of several transports did not connect.
    #[error("the transport {transport} did not come up: {source}")]
    NotUp {
        /// The transport.
        transport: &'static str,
        /// The reason. The progress of the race contains it as well.
        source: Arc<TransportError>,
    },
}
