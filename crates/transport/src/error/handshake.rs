//! Errors of the handshake: TLS, pinned keys, the plaintext preamble, the common transport.

use std::{error::Error as StdError, fmt, time::Duration};

use thiserror::Error;

use crate::Fingerprint;

/// The error of a connection whose two ends do not accept each other.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// A step of the handshake did not complete within the time limit.
    #[error("timed out after {after:?} waiting for {waiting_for} ({address})")]
    Timeout {
        /// The step that did not complete, as a phrase for the error message.
        waiting_for: &'static str,
        /// The peer's address.
        address: String,
        /// The time limit.
        after: Duration,
    },
    /// No fingerprint is pinned, so no peer could be accepted.
    #[error(
        "no peer fingerprint is given, so no peer can be trusted; give the other side's fingerprint"
    )]
    NoPinnedPeer,
    /// The peer proved to hold a key that is not pinned.
    #[error("the peer is {found}, expected {}", list(expected))]
    WrongPeer {
        /// The pinned fingerprints.
        expected: Vec<Fingerprint>,
        /// The fingerprint of the peer's key.
        found: Fingerprint,
    },
    /// The peer rejected this side's key, because the peer has not pinned its fingerprint.
    #[error("the peer refused our identity ({alert}); it must be given our fingerprint")]
    PeerRefusedUs {
        /// The TLS alert that the peer sent.
        alert: String,
    },
    /// One side uses TLS and the other plaintext.
    #[error(
        "this side speaks {ours} and the peer {theirs}: --plaintext must be given on both sides or on neither"
    )]
    SecurityMismatch {
        /// This side's protocol.
        ours: &'static str,
        /// The peer's protocol.
        theirs: &'static str,
    },
    /// The two sides have no transport in common.
    #[error(
        "this side uses the transport {ours} and the peer {theirs}: give the same --transport on both sides, or on \
         neither"
    )]
    NoCommonTransport {
        /// The transports that this side can use.
        ours: String,
        /// The transports that the peer can use, as described by the peer.
        theirs: String,
    },
    /// The peer is another program, or another version of this one.
    #[error("the peer does not speak {}: {evidence}", crate::PROTOCOL)]
    NotTranspute {
        /// A phrase that describes the peer's data that violates the protocol.
        evidence: String,
    },
    /// The TLS layer failed in another way, for example on a record that fails authentication.
    #[error("TLS failed: {detail}")]
    Tls {
        /// The TLS library's message.
        detail: String,
    },
    /// The peer closed the connection before it had authenticated itself.
    #[error("the peer closed the connection during the handshake")]
    ClosedDuringHandshake,
}

/// A key that is not pinned, passed through the TLS library from the verifier to
/// [`crate::tls::explain`].
#[derive(Clone, Error)]
#[error("the peer is {found}, expected {}", list(expected))]
pub(crate) struct PinMismatch {
    pub(crate) expected: Vec<Fingerprint>,
    pub(crate) found: Fingerprint,
}

/// The TLS library puts this text into its message, which QUIC also sends to the peer. So the text
/// has the peer's key and not the pinned ones.
impl fmt::Debug for PinMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::MARK, self.found)
    }
}

impl PinMismatch {
    /// The words before the peer's key in a message of the TLS library.
    const MARK: &str = "not a pinned key: ";

    /// Finds the peer's key in a message of the TLS library, for QUIC, whose library passes on only
    /// this message.
    #[cfg(feature = "quic")]
    pub(crate) fn found_in(message: &str) -> Option<Fingerprint> {
        let (_, found) = message.split_once(Self::MARK)?;
        let end = found.find(|c: char| c != ':' && !c.is_ascii_alphanumeric());
        found[..end.unwrap_or(found.len())].parse().ok()
    }

    pub(crate) fn find(error: &(dyn StdError + 'static)) -> Option<HandshakeError> {
        error
            .downcast_ref::<Self>()
            .map(|mismatch| HandshakeError::WrongPeer {
                expected: mismatch.expected.clone(),
                found: mismatch.found,
            })
    }
}

fn list(fingerprints: &[Fingerprint]) -> String {
    fingerprints
        .iter()
        .map(Fingerprint::to_string)
        .collect::<Vec<_>>()
        .join(" or ")
}
