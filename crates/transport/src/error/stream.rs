//! Errors of reading from and writing to a link.

use std::io;

use thiserror::Error;

/// Why a link broke after the handshake.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream ended without the peer's confirmation that it is complete: the peer died, or the connection was cut.
    #[error("the connection ended before the peer closed it: the data may be cut off")]
    Truncated,
    /// The peer reset the connection: its process ended, or it gave up.
    #[error("the peer reset the connection")]
    ConnectionReset,
    /// The link is closed for this direction.
    #[error("the link is closed")]
    Closed,
    /// The peer stopped answering: its machine or the path to it is gone.
    #[error("the peer has stopped answering")]
    PeerVanished,
    /// Packets were lost or overtaken on a transport that does not repair that.
    #[error(
        "packets were lost or reordered: {arrived} of {sent} arrived, and the transport udp does not repair that; use the \
         transport rudp or tcp"
    )]
    PacketsLost {
        /// Packets that arrived, until the loss was noticed.
        arrived: u64,
        /// Packets that had been sent by then.
        sent: u64,
    },
    /// The operating system reported another error.
    #[error("link failed: {source}")]
    Io {
        /// The system's error.
        source: io::Error,
    },
}
