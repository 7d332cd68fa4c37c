//! What a connection tells its caller.

use std::time::Duration;

use thiserror::Error;

/// Something that happened.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Packets pass in both directions.
    Established,
    /// A train told how fast the path is in this end's direction.
    PathEstimated {
        /// Bytes on the wire per second.
        rate: u64,
        /// Half the width of the band in which the rate lies, as parts per thousand of it.
        error_permille: u16,
        /// The path is at least this fast; how fast could not be told.
        at_least: bool,
        /// The round-trip time.
        rtt: Duration,
    },
    /// The train of the other end is over:
    /// [`Connection::incoming_train`](crate::Connection::incoming_train) has what it told.
    PathMeasured,
    /// There is something to read, or the stream has ended.
    Readable,
    /// There is room to write again, after [`write`](crate::Connection::write) took less than it
    /// was given.
    Writable,
    /// The other end has everything that was written, and its end.
    Delivered,
    /// Nothing more will happen. `None` if both streams ended and everything was delivered both
    /// ways.
    Closed(Option<ClosedReason>),
}

/// Why a connection ended before its time.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ClosedReason {
    /// No packet came back during the set-up: UDP is blocked, or the other end is not there.
    #[error("no answer over UDP within {0:?}: the path is blocked or the other end is gone")]
    PathBlocked(Duration),
    /// The system refuses to send packets of the least size, because the interface takes none that
    /// large.
    #[error("expected an interface that takes datagrams of 1200 bytes, got one that does not")]
    PathTooNarrow,
    /// The listener knows other versions of the protocol only; the newest of them.
    #[error(
        "expected a listener that knows version {ours} of the protocol, got one that knows version {theirs}"
    )]
    VersionMismatch {
        /// The version of this end.
        ours: u8,
        /// The newest version of the listener.
        theirs: u8,
    },
    /// This end refused the peer during the handshake, with this TLS alert.
    #[error("this end ended the handshake with TLS alert {0}")]
    HandshakeFailed(u8),
    /// The peer refused this end during the handshake, with this TLS alert.
    #[error("the other end ended the handshake with TLS alert {0}")]
    RefusedByPeer(u8),
    /// Nothing authentic was heard for so long.
    #[error("nothing was heard from the other end for {0:?}")]
    TimedOut(Duration),
    /// The other end gave up.
    #[error("the other end closed the connection with code {0}")]
    ClosedByPeer(u64),
    /// This end gave up.
    #[error("this end closed the connection with code {0}")]
    ClosedHere(u64),
    /// The other end sent what the protocol forbids.
    #[error("the other end broke the protocol: {0}")]
    Violation(Violation),
    /// Packets were lost or overtook each other, and
    /// [`Reliability::Detect`](crate::Reliability::Detect) was asked for.
    #[error("{arrived} of {sent} packets arrived in order")]
    Lost {
        /// Packets that had arrived when it was noticed.
        arrived: u64,
        /// Packets that had been sent by then, as far as is known here.
        sent: u64,
    },
    /// 2^48 packets were sent, or more forgeries came than the cipher withstands.
    #[error("the keys of the connection are used up")]
    KeysExhausted,
    /// The cryptographic library refused to work.
    #[error("the cryptographic library refused to seal a packet")]
    Crypto,
}

/// How the other end broke the protocol.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// A frame that does not parse.
    #[error("expected frames, got something else in an authentic packet")]
    Malformed,
    /// Data beyond the limit it was given.
    #[error("expected data below the flow-control limit, got some beyond")]
    FlowControl,
    /// Two different ends of the stream, or data behind the end.
    #[error("expected one end of the stream, got two or data behind it")]
    TwoEnds,
    /// An acknowledgement of something that was never sent.
    #[error("expected acknowledgements of what was sent, got others")]
    AckOfUnsent,
    /// Correction symbols that contradict each other or the data.
    #[error("expected correction symbols that fit their block, got others")]
    BadParity,
}

/// The code with which an end closes that noticed a violation.
pub(crate) const CODE_VIOLATION: u64 = (1 << 62) + 1;

/// The code with which an end closes that noticed a loss which nobody repairs.
pub(crate) const CODE_LOST: u64 = (1 << 62) + 3;

/// The code with which an end says that everything was delivered both ways.
pub(crate) const CODE_COMPLETE: u64 = (1 << 62) + 2;

/// The code of TLS alert 0; the codes of the others follow (RFC 9000, section 20.1, does the same).
pub(crate) const CODE_ALERT: u64 = (1 << 62) + 0x100;
