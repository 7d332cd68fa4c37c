//! How a link is protected.

use std::sync::Arc;

use crate::{Fingerprint, Identity, TransportError};

/// How a link is protected. Both sides must ask for the same.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Security {
    /// Encrypted, and both sides authenticated by their keys.
    Tls {
        /// Our key.
        identity: Arc<Identity>,
        /// The peers we talk to: any one of these keys.
        peers: Vec<Fingerprint>,
    },
    /// Encrypted against whoever merely listens, but with whoever it is: for benchmarks. A peer that pins keys refuses
    /// it, because the protocol goes by another name.
    Unpinned {
        /// Our key. The peer learns it and does not care.
        identity: Arc<Identity>,
    },
    /// Neither encrypted nor authenticated: for like-for-like benchmarks, and for paths secured by other means.
    Plaintext,
}

impl Security {
    /// Encrypts, and talks only to the holder of one of the pinned keys.
    #[must_use]
    pub fn tls(identity: Arc<Identity>, peers: impl Into<Vec<Fingerprint>>) -> Self {
        Self::Tls {
            identity,
            peers: peers.into(),
        }
    }

    /// Puts a message into this end's certificate.
    #[cfg(unix)]
    pub(crate) fn saying(&self, message: &[u8]) -> Result<Self, TransportError> {
        let mut security = self.clone();
        if let Self::Tls { identity, .. } | Self::Unpinned { identity } = &mut security {
            let said = identity.saying(message);
            let said = said.map_err(|error| TransportError::Tls {
                detail: error.to_string(),
            })?;
            *identity = Arc::new(said);
        }
        Ok(security)
    }
}
