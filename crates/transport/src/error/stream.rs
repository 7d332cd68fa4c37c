//! Errors of reading from and writing to a link.

use std::io;

use thiserror::Error;

/// The error of a link after the handshake.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream ended without the peer's confirmation that it is complete: the peer died, or the
    /// connection was cut.
    #[error("the connection ended before the peer closed it: the data may be cut off")]
    Truncated,
    /// The peer reset the connection: its process ended, or it dropped the link.
    #[error("the peer reset the connection")]
    ConnectionReset,
    /// This direction of the link is closed: it was shut down, or has failed before.
    #[error("the link is closed")]
    Closed,
    /// The peer does not answer any more: its machine or the path to it has failed.
    #[error("the peer has stopped answering")]
    PeerVanished,
    /// Packets were lost or arrived out of order on a transport without loss recovery.
    #[error(
        "packets were lost or reordered: {arrived} of {sent} arrived, and the transport udp does not repair that; use the \
         transport rudp or tcp"
    )]
    PacketsLost {
        /// Number of packets that arrived until the loss was detected.
        arrived: u64,
        /// Number of packets that had been sent by then.
        sent: u64,
    },
    /// The operating system reported another error.
    #[error("link failed: {source}")]
    Io {
        /// The system's error.
        source: io::Error,
    },
}
