//! Errors of connecting to a peer, and of choosing the transport.

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
        /// The peer's address, as given by the caller.
        address: String,
        /// The system's error for the last address tried.
        source: io::Error,
    },
    /// The name was not resolved, or the peer did not answer, within the time limit.
    #[error("timed out after {after:?} waiting for {waiting_for} ({address})")]
    Timeout {
        /// The event for which this side has waited, as a phrase for the error message.
        waiting_for: &'static str,
        /// The peer's address.
        address: String,
        /// The time limit.
        after: Duration,
    },
    /// The peer answers over TCP, but not over UDP.
    #[error(
        "{address} answers over TCP but not over UDP (waited {} ms): a firewall may block UDP, or the listener offers no \
         transport over UDP; open the port for UDP as well, or use the transport tcp", after.as_millis()
    )]
    UdpBlocked {
        /// The peer's address.
        address: String,
        /// The time for which this side has waited for an answer over UDP.
        after: Duration,
    },
    /// The listener does not allow the chosen transport.
    #[error("the listener does not allow the transport {transport}; it allows: {}", offered.join(", "))]
    NotOffered {
        /// The chosen transport.
        transport: &'static str,
        /// The names of the transports that the listener allows.
        offered: Vec<String>,
    },
    /// The listener refused the chosen transport.
    #[error("the listener refused the transport that was picked")]
    ChoiceRefused,
    /// A connection that `auto` attempted was not established.
    #[error("the transport {transport} did not come up: {source}")]
    NotUp {
        /// The name of the transport.
        transport: &'static str,
        /// The error of the attempt, shared with the progress of the race.
        source: Arc<TransportError>,
    },
}
