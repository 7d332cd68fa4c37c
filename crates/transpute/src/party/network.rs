//! The settings of a party that concern its peers and the transport to them.

use std::{sync::Arc, time::Duration};

use transpute_select::{Chooser, Rule, Workload};
use transpute_transport::{Fingerprint, Identity, Listener, Registry, Security};
#[cfg(feature = "auto")]
use transpute_transport::{Transport, auto::Offer};

use super::Party;
#[cfg(feature = "auto")]
use crate::auto::Auto;
use crate::{Error, TransportChoice, choice::Chosen, registry};

/// The settings of a party that concern its peers and the transport to them.
pub(super) struct Network {
    identity: Option<Arc<Identity>>,
    peers: Vec<Fingerprint>,
    is_plaintext: bool,
    registry: Registry,
    choice: TransportChoice,
    chooser: Arc<dyn Chooser>,
    /// The transports that a connecting peer may choose from. `None` allows all of the registry.
    #[cfg(feature = "auto")]
    offer: Option<Offer>,
    /// Time for which the party retries connecting while the peer refuses connections.
    pub(super) patience: Duration,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            identity: None,
            peers: Vec::new(),
            is_plaintext: false,
            registry: registry(),
            choice: TransportChoice::default(),
            chooser: Arc::new(Rule),
            #[cfg(feature = "auto")]
            offer: None,
            patience: Duration::ZERO,
        }
    }
}

impl Network {
    /// Returns whether this party's links are encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        !self.is_plaintext
    }

    /// Returns the chooser of the transport.
    pub(super) fn chooser(&self) -> Arc<dyn Chooser> {
        self.chooser.clone()
    }

    /// Returns the security settings of this party's links: TLS with keys, or plaintext.
    ///
    /// # Errors
    /// Returns [`Error::Unprotected`] if TLS is required and this party has no identity or no
    /// pinned peer.
    pub(super) fn security(&self) -> Result<Security, Error> {
        if self.is_plaintext {
            return Ok(Security::Plaintext);
        }
        let identity = (self.identity.clone()).ok_or(Error::Unprotected("identity"))?;
        if self.peers.is_empty() {
            return Err(Error::Unprotected("fingerprint of the peer"));
        }
        Ok(Security::tls(identity, self.peers.clone()))
    }

    /// Returns the transport with which this party connects, or `auto` with the candidates for
    /// `workload`.
    ///
    /// # Errors
    /// Returns [`Error::Transport`] if the registry does not have the transport, or the error that
    /// `workload` returns.
    #[cfg_attr(
        not(feature = "auto"),
        expect(unused_variables, reason = "only `auto` needs the workload")
    )]
    pub(super) fn to_connect(
        &self,
        workload: impl FnOnce() -> Result<Workload, Error>,
    ) -> Result<Chosen, Error> {
        Ok(match self.choice.among(&self.registry)? {
            #[cfg(feature = "auto")]
            Chosen::Automatic(auto) => Chosen::Automatic(Box::new(Auto {
                workload: workload()?,
                chooser: self.chooser(),
                ..*auto
            })),
            fixed => fixed,
        })
    }

    /// Starts to listen at `address`. Returns the listener and the reason for its transport.
    pub(super) async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<(Box<dyn Listener>, String), Error> {
        match self.choice.among(&self.registry)? {
            Chosen::Fixed(transport, reason) => {
                Ok((transport.listen(address, security).await?, reason))
            }
            #[cfg(feature = "auto")]
            Chosen::Automatic(mut auto) => {
                if let Some(offer) = &self.offer {
                    for name in offer.names() {
                        self.registry.get(name)?;
                    }
                    auto.offer = offer.clone();
                }
                let listener = auto.listen(address, security).await?;
                Ok((listener, "chosen by the party that connected".to_owned()))
            }
        }
    }
}

/// # Peers and transports
impl Party {
    /// Sets the key pair with which this party authenticates itself. Several parties can share one
    /// identity in an [`Arc`].
    #[must_use]
    pub fn identity(mut self, identity: impl Into<Arc<Identity>>) -> Self {
        self.network.identity = Some(identity.into());
        self
    }

    /// Adds the fingerprint of a key that the peer may have. The peer must prove that it holds one
    /// of the added keys.
    #[must_use]
    pub fn peer(mut self, fingerprint: Fingerprint) -> Self {
        self.network.peers.push(fingerprint);
        self
    }

    /// Disables encryption and authentication. The peer must do the same.
    ///
    /// # Security
    /// Anyone on the path can read all traffic and impersonate either party.
    #[must_use]
    pub fn plaintext(mut self) -> Self {
        self.network.is_plaintext = true;
        self
    }

    /// Sets the transport by name, or [`TransportChoice::Auto`]. Default:
    /// [`TransportChoice::Auto`].
    #[must_use]
    pub fn transport(mut self, choice: impl Into<TransportChoice>) -> Self {
        self.network.choice = choice.into();
        self
    }

    /// Sets the chooser, which selects the transport when this party connects with
    /// [`TransportChoice::Auto`]. Default: [`Rule`].
    #[must_use]
    pub fn chooser(mut self, chooser: Arc<dyn Chooser>) -> Self {
        self.network.chooser = chooser;
        self
    }

    /// Sets the transports that the peer may choose from with [`TransportChoice::Auto`] when this
    /// party listens. Default: all in the registry.
    #[cfg(feature = "auto")]
    #[must_use]
    pub fn offer(mut self, offer: Offer) -> Self {
        self.network.offer = Some(offer);
        self
    }

    /// Sets the registry, in which transports are found by name. Default: the built-in transports.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.network.registry = registry;
        self
    }

    /// Sets the time for which this party retries when its connection is refused, for example
    /// because the peer has not started yet. Default: zero, so that a refusal is an error at once.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.network.patience = patience;
        self
    }
}
