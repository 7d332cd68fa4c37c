//! Events that a connection reports to its caller.

use std::time::Duration;

use thiserror::Error;

/// An event of a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RudpEvent {
    /// The handshake is complete: packets pass in both directions.
    Established,
    /// The peer reported the rate that it measured for the path from this end to the peer.
    PathEstimated {
        /// The rate, in bytes on the wire per second.
        rate: u64,
        /// Half the width of the interval in which the rate lies, as parts per thousand of the
        /// rate.
        error_permille: u16,
        /// `true` if the rate is only a lower bound.
        at_least: bool,
        /// The minimum round-trip time so far.
        rtt: Duration,
    },
    /// The peer's train is over:
    /// [`RudpConnection::incoming_train`](crate::RudpConnection::incoming_train) returns its
    /// result.
    PathMeasured,
    /// Data can be read, or the stream has ended.
    Readable,
    /// The send buffer has room again, after [`write`](crate::RudpConnection::write) took less than
    /// it was given.
    Writable,
    /// The peer has received all data that was written, and the end of the stream.
    Delivered,
    /// The connection is closed, with the reason. This is the last event. The reason is `None` if
    /// both streams ended and all data were delivered in both directions.
    Closed(Option<ClosedReason>),
}

/// The reason why a connection ended early.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ClosedReason {
    /// No packet of the peer arrived within this time: UDP is blocked, or the peer does not exist.
    #[error("no answer over UDP within {0:?}: the path is blocked or the other end is gone")]
    PathBlocked(Duration),
    /// The system rejects datagrams of the minimum size, because the MTU of the interface is
    /// smaller.
    #[error("expected an interface that takes datagrams of 1200 bytes, got one that does not")]
    PathTooNarrow,
    /// The listener supports only other versions of the protocol.
    #[error(
        "expected a listener that knows version {ours} of the protocol, got one that knows version {theirs}"
    )]
    VersionMismatch {
        /// The version of this end.
        ours: u8,
        /// The newest version that the listener supports.
        theirs: u8,
    },
    /// This end rejected the peer during the handshake, with this TLS alert.
    #[error("this end ended the handshake with TLS alert {0}")]
    HandshakeFailed(u8),
    /// The peer rejected this end during the handshake, with this TLS alert.
    #[error("the other end ended the handshake with TLS alert {0}")]
    RefusedByPeer(u8),
    /// No authentic packet arrived for this time.
    #[error("expected a packet from the other end, got none for {0:?}")]
    TimedOut(Duration),
    /// The peer closed the connection.
    #[error("the other end closed the connection with code {0}")]
    ClosedByPeer(u64),
    /// This end closed the connection.
    #[error("this end closed the connection with code {0}")]
    ClosedHere(u64),
    /// The peer violated the protocol.
    #[error("the other end violated the protocol: {0}")]
    Violation(Violation),
    /// Packets were lost or reordered, with [`Reliability::Detect`](crate::Reliability::Detect).
    #[error("{arrived} of {sent} packets arrived in order")]
    Lost {
        /// Number of packets that had arrived when the loss was detected.
        arrived: u64,
        /// Number of packets that had been sent by then, as far as this end knows.
        sent: u64,
    },
    /// 2^48 packets were sent, or the number of forged packets reached the limit of the cipher.
    #[error("the keys of the connection have reached their limit of packets or forgeries")]
    KeysExhausted,
    /// The cryptographic library failed.
    #[error("the cryptographic library failed to encrypt a packet")]
    Crypto,
}

/// A violation of the protocol by the peer.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// A frame that cannot be parsed.
    #[error("expected frames in an authentic packet, got other bytes")]
    Malformed,
    /// Data beyond the flow-control limit.
    #[error("expected data below the flow-control limit, got data beyond it")]
    FlowControl,
    /// Two different final sizes of the stream, or data beyond its end.
    #[error("expected one final size of the stream, got two or data beyond it")]
    TwoEnds,
    /// An acknowledgement of a packet or of data that was not sent.
    #[error("expected acknowledgements of sent packets, got others")]
    AckOfUnsent,
    /// Parity symbols that contradict each other or the data.
    #[error("expected parity symbols that match their block, got others")]
    BadParity,
}

/// The close code of an end that detected a violation.
pub(crate) const CODE_VIOLATION: u64 = (1 << 62) + 1;

/// The close code of an end that detected a loss which will not be repaired.
pub(crate) const CODE_LOST: u64 = (1 << 62) + 3;

/// The close code of an end that knows that everything was delivered in both directions.
pub(crate) const CODE_COMPLETE: u64 = (1 << 62) + 2;

/// The close code of TLS alert 0; those of other alerts follow it (compare RFC 9000, section 20.1).
pub(crate) const CODE_ALERT: u64 = (1 << 62) + 0x100;
