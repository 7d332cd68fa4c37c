//! The trait behind which every transport stands, and the registry that finds one by name.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;

use crate::{Fingerprint, Identity, Link, TransportError};

/// A way of carrying bytes between two parties.
///
/// To add one: implement this trait, register it ([`Registry::register`]), and run
/// [`conformance::run`](crate::conformance::run) over it. All methods need a Tokio runtime with I/O and time enabled.
#[async_trait]
pub trait Transport: Send + Sync {
    /// The name users choose it by: short, lower case.
    fn name(&self) -> &'static str;

    /// One line on what it is good for.
    fn describe(&self) -> &'static str;

    /// Starts to listen.
    ///
    /// `address` is `host:port`, with an IPv6 host in brackets; port 0 lets the system choose one, which
    /// [`Listener::local_address`] then tells.
    ///
    /// # Errors
    /// [`TransportError::InvalidAddress`], [`TransportError::Resolve`], [`TransportError::Listen`],
    /// [`TransportError::NoPinnedPeer`].
    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError>;

    /// Connects to a listening peer, once: trying again while the peer is not up yet is the caller's business.
    ///
    /// The peer is authenticated when this returns (unless `security` is plaintext). It may still refuse *us*; that
    /// shows at the first read, as [`TransportError::PeerRefusedUs`].
    ///
    /// # Errors
    /// Those of addressing as in [`listen`](Self::listen), [`TransportError::Connect`], [`TransportError::Timeout`],
    /// and what is wrong with the peer: [`TransportError::WrongPeer`], [`TransportError::SecurityMismatch`],
    /// [`TransportError::NotTranspute`] and the rest.
    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError>;
}

/// A transport's listening end. Dropping it stops the listening and whatever handshakes are under way.
#[async_trait]
pub trait Listener: Send {
    /// Returns the address listened on, as another party on this machine can give it to [`Transport::connect`].
    fn local_address(&self) -> String;

    /// Waits for the next link.
    ///
    /// Only an authenticated peer becomes a link. Strangers, garbage and broken handshakes are logged and dropped, and
    /// listening continues. Cancel-safe.
    ///
    /// # Errors
    /// [`TransportError::Accept`] if the listening socket itself is broken.
    async fn accept(&mut self) -> Result<Link, TransportError>;
}

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
}

/// The transports a program knows, by name.
#[derive(Clone, Default)]
pub struct Registry {
    transports: BTreeMap<&'static str, Arc<dyn Transport>>,
}

impl Registry {
    /// Makes a registry without transports.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a registry of the transports in this crate.
    #[must_use]
    pub fn with_builtins() -> Self {
        let builtins: [Arc<dyn Transport>; 2] = [
            Arc::new(crate::Tcp::default()),
            Arc::new(crate::Quic::default()),
        ];
        Self {
            transports: builtins
                .into_iter()
                .map(|transport| (transport.name(), transport))
                .collect(),
        }
    }

    /// Adds a transport.
    ///
    /// # Errors
    /// [`TransportError::DuplicateTransport`] if its name is taken.
    pub fn register(&mut self, transport: Arc<dyn Transport>) -> Result<(), TransportError> {
        let name = transport.name();
        if self.transports.contains_key(name) {
            return Err(TransportError::DuplicateTransport { name: name.into() });
        }
        self.transports.insert(name, transport);
        Ok(())
    }

    /// Finds a transport by name.
    ///
    /// # Errors
    /// [`TransportError::UnknownTransport`], which lists the known names.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Transport>, TransportError> {
        self.transports
            .get(name)
            .cloned()
            .ok_or_else(|| TransportError::UnknownTransport {
                name: name.into(),
                known: self.names().map(str::to_owned).collect(),
            })
    }

    /// Iterates over the names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.transports.keys().copied()
    }

    /// Iterates over the transports, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Transport>> {
        self.transports.values()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_transports_by_name() {
        let mut registry = Registry::with_builtins();
        assert_eq!(registry.get("tcp").unwrap().name(), "tcp");
        assert_eq!(
            registry.get("smoke").err().unwrap().to_string(),
            "there is no transport named \"smoke\"; known are: quic, tcp"
        );
        assert!(matches!(
            registry.register(Arc::new(crate::Tcp::default())),
            Err(TransportError::DuplicateTransport { name }) if name == "tcp"
        ));
    }
}
