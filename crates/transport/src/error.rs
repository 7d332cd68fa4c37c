//! What can go wrong between two parties, as values.

use std::{error::Error as StdError, io, sync::Arc, time::Duration};

use thiserror::Error;

use crate::Fingerprint;

/// Why a link could not be made, or broke.
///
/// Reading from and writing to a link yields [`io::Error`]; [`TransportError::from_io`] finds out what it means.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No transport of this name is registered.
    #[error("there is no transport named {name:?}; known are: {}", known.join(", "))]
    UnknownTransport {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A transport of this name is registered already.
    #[error("a transport named {name:?} is registered already")]
    DuplicateTransport {
        /// The name.
        name: String,
    },
    /// The transport has no setting of this name.
    #[error(
        "transport {transport} has no setting {key:?}; it has: {}",
        list_or_none(known)
    )]
    UnknownSetting {
        /// The transport's name.
        transport: &'static str,
        /// The setting asked for.
        key: String,
        /// The settings there are.
        known: Vec<&'static str>,
    },
    /// A setting after the transport's name is not of the expected form.
    #[error("setting {setting:?} of transport {transport}: {reason}")]
    InvalidSetting {
        /// The transport's name.
        transport: &'static str,
        /// The setting as given.
        setting: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel does not have, or does not let us use, a congestion control.
    #[error(
        "this system offers no congestion control {name:?}: it has {available}, and unprivileged processes may use {allowed} \
         (net.ipv4.tcp_allowed_congestion_control)"
    )]
    CongestionControl {
        /// The name asked for.
        name: String,
        /// The names the kernel knows, with blanks between; a word in brackets if they cannot be read.
        available: String,
        /// The names that every process may use, likewise.
        allowed: String,
        /// What the system said: for a name that is unknown, that there is no such file.
        os: io::Error,
    },
    /// The address is not of the form the transport expects.
    #[error("{address:?} is not an address: {reason}")]
    InvalidAddress {
        /// The text given.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The host name has no address.
    #[error("cannot resolve {address:?}: {source}")]
    Resolve {
        /// The text given.
        address: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The listening socket broke; no further link will arrive.
    #[error("cannot accept on {address}: {source}")]
    Accept {
        /// The address listened on.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// None of the addresses of the peer could be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address as given.
        address: String,
        /// What the system said about the last address tried.
        source: io::Error,
    },
    /// Something did not happen in time.
    #[error("timed out after {after:?} waiting for {waiting_for} ({address})")]
    Timeout {
        /// What was waited for.
        waiting_for: &'static str,
        /// The peer's address.
        address: String,
        /// The time allowed.
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
        /// The fingerprint of the key the peer presented.
        found: Fingerprint,
    },
    /// The peer did not accept our key: it has another fingerprint pinned.
    #[error("the peer refused our identity ({alert}); it must be given our fingerprint")]
    PeerRefusedUs {
        /// The TLS alert it sent.
        alert: String,
    },
    /// One side speaks TLS and the other plaintext.
    #[error(
        "this side speaks {ours} and the peer {theirs}: --plaintext must be given on both sides or on neither"
    )]
    SecurityMismatch {
        /// What this side speaks.
        ours: &'static str,
        /// What the peer speaks.
        theirs: &'static str,
    },
    /// The two sides were told to use transports of which they have none in common.
    #[error(
        "this side uses the transport {ours} and the peer {theirs}: give the same --transport on both sides, or on \
         neither"
    )]
    NoCommonTransport {
        /// What this side can use.
        ours: String,
        /// What the peer says that it can use.
        theirs: String,
    },
    /// The transport has no plaintext mode.
    #[error(
        "the transport {transport} is always encrypted; for a plaintext link use the transport {instead}"
    )]
    NoPlaintext {
        /// The transport asked for.
        transport: &'static str,
        /// A transport that offers plaintext.
        instead: &'static str,
    },
    /// What answers is another program, or another version of this one.
    #[error("the peer does not speak {}: {evidence}", crate::PROTOCOL)]
    NotTranspute {
        /// What gave it away.
        evidence: String,
    },
    /// The TLS layer failed in another way; a record that does not authenticate is here.
    #[error("TLS failed: {detail}")]
    Tls {
        /// What the TLS library said.
        detail: String,
    },
    /// The peer closed the connection before it had authenticated itself.
    #[error("the peer closed the connection during the handshake")]
    ClosedDuringHandshake,
    /// The stream ended without the peer's word that it was complete: it died, or somebody cut the connection.
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
    /// The peer is there, but nothing comes back over UDP.
    #[error(
        "{address} answers over TCP but not over UDP (waited {after:?}): a firewall may block UDP; open the port for UDP as \
         well, or use the transport tcp"
    )]
    UdpBlocked {
        /// The peer's address.
        address: String,
        /// How long was waited for an answer.
        after: Duration,
    },
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
    /// The listener does not allow the transport that was picked.
    #[error("the listener does not allow the transport {transport}; it allows: {}", offered.join(", "))]
    NotOffered {
        /// The transport picked.
        transport: &'static str,
        /// The names of those it allows.
        offered: Vec<String>,
    },
    /// The listener refused what was picked.
    #[error("the listener refused the transport that was picked")]
    ChoiceRefused,
    /// One of several transports that were tried did not come up.
    #[error("the transport {transport} did not come up: {source}")]
    NotUp {
        /// The transport.
        transport: &'static str,
        /// Why; others may have been told as well.
        source: Arc<Self>,
    },
    /// The operating system reported something else.
    #[error("link failed: {source}")]
    Io {
        /// What it reported.
        source: io::Error,
    },
}

impl TransportError {
    /// Says what an error from reading or writing a [`Link`](crate::Link) means.
    ///
    /// A transport that knows more than an error kind can say puts a `TransportError` inside the [`io::Error`]
    /// ([`into_io`](Self::into_io)); it comes out here unchanged.
    #[must_use]
    pub fn from_io(error: io::Error) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(ours) => return ours,
            Err(error) => error,
        };
        if let Some(tls) = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            return crate::tls::explain(tls);
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
                Self::ConnectionReset
            }
            io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected | io::ErrorKind::WriteZero => {
                Self::Closed
            }
            io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => Self::PeerVanished,
            _ => Self::Io { source: error },
        }
    }

    /// Returns what is behind an error that only says which transport had it, and this error otherwise.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::NotUp { source, .. } => source.root(),
            other => other,
        }
    }

    /// Wraps this error so that it can pass through [`AsyncRead`](tokio::io::AsyncRead) and
    /// [`AsyncWrite`](tokio::io::AsyncWrite).
    #[must_use]
    pub fn into_io(self) -> io::Error {
        let kind = match &self {
            Self::Truncated | Self::ClosedDuringHandshake => io::ErrorKind::UnexpectedEof,
            Self::ConnectionReset => io::ErrorKind::ConnectionReset,
            Self::Closed => io::ErrorKind::BrokenPipe,
            Self::PeerVanished | Self::Timeout { .. } => io::ErrorKind::TimedOut,
            Self::WrongPeer { .. } | Self::PeerRefusedUs { .. } => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, self)
    }
}

/// A key that is not pinned, as it travels through the TLS library from the verifier to [`crate::tls::explain`].
#[derive(Clone, Debug, Error)]
#[error("the peer is {found}, expected {}", list(expected))]
pub(crate) struct PinMismatch {
    pub(crate) expected: Vec<Fingerprint>,
    pub(crate) found: Fingerprint,
}

impl PinMismatch {
    pub(crate) fn find(error: &(dyn StdError + 'static)) -> Option<TransportError> {
        error
            .downcast_ref::<Self>()
            .map(|mismatch| TransportError::WrongPeer {
                expected: mismatch.expected.clone(),
                found: mismatch.found,
            })
    }
}

fn list_or_none(names: &[&str]) -> String {
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

fn list(fingerprints: &[Fingerprint]) -> String {
    fingerprints
        .iter()
        .map(Fingerprint::to_string)
        .collect::<Vec<_>>()
        .join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_error_survives_the_io_layer() {
        let found = Fingerprint::from([1; 32]);
        let error = TransportError::WrongPeer {
            expected: vec![],
            found,
        };
        assert!(matches!(
            TransportError::from_io(error.into_io()),
            TransportError::WrongPeer { found: got, .. } if got == found
        ));
    }

    #[test]
    fn system_errors_are_told_apart() {
        for (kind, expected) in [
            (io::ErrorKind::UnexpectedEof, "may be cut off"),
            (io::ErrorKind::ConnectionReset, "reset"),
            (io::ErrorKind::BrokenPipe, "is closed"),
            (io::ErrorKind::TimedOut, "stopped answering"),
            (io::ErrorKind::PermissionDenied, "link failed"),
        ] {
            let message = TransportError::from_io(kind.into()).to_string();
            assert!(message.contains(expected), "{kind:?}: {message}");
        }
    }
}
