//! The protection of a link: TLS with pinned keys, TLS without pinned keys, or plaintext.

use std::sync::Arc;

use crate::{Fingerprint, HandshakeError, Identity, TransportError};

/// The protection of a link. Both sides must request the same kind of protection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Security {
    /// Encrypted, with both sides authenticated by their keys.
    Tls {
        /// This side's key.
        identity: Arc<Identity>,
        /// The accepted keys of the peer.
        peers: Vec<Fingerprint>,
    },
    /// Encrypted against passive attackers, with an unauthenticated peer: for benchmarks. A peer
    /// that pins keys rejects such a link, because its ALPN name differs.
    Unpinned {
        /// This side's key. The peer does not check it.
        identity: Arc<Identity>,
    },
    /// Neither encrypted nor authenticated: for comparisons with systems without encryption, and
    /// for paths that are secured by other means.
    Plaintext,
}

impl Security {
    /// Requires encryption and a peer that holds one of the pinned keys.
    #[must_use]
    pub fn tls(identity: Arc<Identity>, peers: impl Into<Vec<Fingerprint>>) -> Self {
        Self::Tls {
            identity,
            peers: peers.into(),
        }
    }

    /// Returns the accepted keys of the peer. Empty if any key is accepted.
    #[cfg(feature = "quic")]
    pub(crate) fn pins(&self) -> &[Fingerprint] {
        match self {
            Self::Tls { peers, .. } => peers,
            Self::Unpinned { .. } | Self::Plaintext => &[],
        }
    }

    /// Returns a copy whose certificate carries `message` to the peer.
    pub(crate) fn saying(&self, message: &[u8]) -> Result<Self, TransportError> {
        let mut security = self.clone();
        if let Self::Tls { identity, .. } | Self::Unpinned { identity } = &mut security {
            let said = identity.saying(message);
            let said = said.map_err(|error| {
                TransportError::Handshake(HandshakeError::Tls {
                    detail: error.to_string(),
                })
            })?;
            *identity = Arc::new(said);
        }
        Ok(security)
    }
}
