//! Errors of tunnels.

use std::io;

use thiserror::Error;
use transpute_transport::TransportError;

use crate::address::TunnelAddress;

/// The error that ended a tunnel or prevented its start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// The link failed.
    #[error(transparent)]
    Link(#[from] TransportError),
    /// The peer closed the link. In plaintext, this can also mean that the peer's process was
    /// killed.
    #[error("the peer closed the tunnel")]
    ClosedByPeer,
    /// No byte arrived within the idle timeout, although the peer sends keep-alives.
    #[error("the peer is silent: nothing arrived for {seconds} s")]
    Silent {
        /// The idle timeout, in seconds.
        seconds: u64,
    },
    /// The peer does not speak the protocol of tunnels.
    #[error(
        "the peer does not run a tunnel: expected a message that starts with {expected:?}, found \
         {found:?}"
    )]
    NotATunnel {
        /// The expected first bytes, as text.
        expected: String,
        /// The received first bytes, as text.
        found: String,
    },
    /// The peer speaks another version of the protocol of tunnels.
    #[error(
        "the peer uses another version of the tunnel protocol: expected {expected}, found {found}; \
         use the same version of transpute on both sides"
    )]
    Version {
        /// This side's version.
        expected: u32,
        /// The peer's version.
        found: u32,
    },
    /// The peer violated the protocol of tunnels.
    #[error("the peer violated the tunnel protocol: {0}")]
    Protocol(#[from] TunnelProtocolError),
    /// A local address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: TunnelAddress,
        /// The system's error.
        source: io::Error,
    },
}

/// A violation of the protocol of tunnels by the peer.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum TunnelProtocolError {
    /// The type of a frame is unknown.
    #[error("expected a frame type from 1 to 8, found {found}")]
    UnknownFrame {
        /// The received type.
        found: u8,
    },
    /// The length of a frame is not allowed for its type.
    #[error("expected {min} to {max} bytes in a frame of type {kind}, found {found}")]
    Length {
        /// The frame's type.
        kind: &'static str,
        /// Minimum length in bytes.
        min: u32,
        /// Maximum length in bytes.
        max: u32,
        /// The received length.
        found: u32,
    },
    /// A text is not valid UTF-8.
    #[error("expected UTF-8 text in a frame of type {kind}")]
    NotText {
        /// The frame's type.
        kind: &'static str,
    },
    /// The peer opened a stream whose identifier it may not use.
    #[error("expected a new {parity} stream identifier above {last}, found {found}")]
    StreamId {
        /// The parity of the peer's identifiers.
        parity: &'static str,
        /// The peer's last identifier. Zero if it has opened no stream.
        last: u32,
        /// The received identifier.
        found: u32,
    },
    /// A frame names a stream that was never opened.
    #[error("expected an opened stream, found a frame of type {kind} for stream {id}")]
    UnknownStream {
        /// The frame's type.
        kind: &'static str,
        /// The received identifier.
        id: u32,
    },
    /// A frame is not allowed in the state of its stream.
    #[error("a frame of type {kind} is not allowed now on stream {id}")]
    Unexpected {
        /// The frame's type.
        kind: &'static str,
        /// The stream's identifier.
        id: u32,
    },
    /// The peer sent more data than it had credit for.
    #[error("expected at most {credit} bytes of data on stream {id}, found {found}")]
    CreditExceeded {
        /// The stream's identifier.
        id: u32,
        /// The remaining credit in bytes.
        credit: u64,
        /// Number of received bytes.
        found: u64,
    },
    /// The peer granted more credit than the maximum window.
    #[error("expected at most {max} bytes of credit on stream {id}, found {found}")]
    CreditOverflow {
        /// The stream's identifier.
        id: u32,
        /// The maximum window in bytes.
        max: u64,
        /// The resulting credit in bytes.
        found: u64,
    },
    /// The peer causes answers faster than it receives them.
    #[error("expected at most {max} bytes of unsent answers to the peer")]
    TooManyAnswers {
        /// Maximum number of bytes.
        max: usize,
    },
}

/// A text is not the address of a tunnel.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{text:?} is not an address: {reason}")]
pub struct InvalidTunnelAddress {
    /// The text.
    pub text: String,
    /// The problem.
    pub reason: &'static str,
}
