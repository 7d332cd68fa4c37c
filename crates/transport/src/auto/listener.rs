//! The listening end: a TCP port and a UDP port of the same number.

use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;

use super::{
    AutoOptions, NAME, Offer, Pick,
    handler::{Handler, Incoming},
    others::Others,
};
use crate::{
    BindError, Link, Listener, Quic, Registry, Rudp, Security, Tcp, TcpStriped, TransportError,
    quic::QuicListener,
    rudp::{Foreign, Listening, RudpListener, bind_on_both, ports},
    striped::{Gatherer, Groups},
    tcp::{Acceptor, Port},
};

/// Listens for connectors that pick one of several transports.
///
/// As every [`Listener`] it takes up connections only while somebody waits for one (or a link of `tcp-striped` lacks
/// connections, for the time of a handshake at most), runs a bounded number of handshakes, and drops strangers and garbage.
pub struct AutoListener {
    tcp: Gatherer<Handler, Incoming>,
    quic: Option<QuicListener<Handler>>,
    rudp: Option<RudpListener<Handler>>,
    others: Option<(Others, Offer)>,
    /// Dropped last.
    _listening: Option<Listening>,
}

/// A link, and the transport that the connector picked for it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Accepted {
    /// The link.
    pub link: Link,
    /// What was picked.
    pub pick: Pick,
}

impl AutoListener {
    /// Starts to listen on `host:port`; port 0 lets the system choose a number that is free on both.
    ///
    /// In plaintext `quic` is left out of the offer. A UDP port is opened only if something in the offer needs it.
    ///
    /// # Errors
    /// [`AddressError::InvalidAddress`](crate::AddressError::InvalidAddress), [`AddressError::Resolve`](crate::AddressError::Resolve), [`BindError::Listen`],
    /// [`HandshakeError::NoPinnedPeer`](crate::HandshakeError::NoPinnedPeer); [`UnsupportedError::NoPlaintext`](crate::UnsupportedError::NoPlaintext) if only `quic` is offered and that in plaintext.
    pub async fn bind(
        address: &str,
        security: &Security,
        offer: Offer,
        options: AutoOptions,
    ) -> Result<Self, TransportError> {
        Self::bind_among(address, security, offer, options, &Registry::new()).await
    }

    /// Listens as [`bind`](Self::bind) does. The transports of other crates in the registry that are offered listen too, each at a port of
    /// its own that the offer states. One that cannot listen is left out of the offer.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub async fn bind_among(
        address: &str,
        security: &Security,
        offer: Offer,
        options: AutoOptions,
        registry: &Registry,
    ) -> Result<Self, TransportError> {
        let mut offer = offer.fit_for(security)?;
        let timeout = options.tcp.handshake_timeout;
        let others = Others::bind(address, security, &mut offer, registry, timeout).await;
        let mut listener = Self::bind_shared(address, security, &offer, options).await?;
        listener.others = Some((others, offer));
        Ok(listener)
    }

    async fn bind_shared(
        address: &str,
        security: &Security,
        offer: &Offer,
        options: AutoOptions,
    ) -> Result<Self, TransportError> {
        let security = security.saying(&offer.encode())?;
        let named = (offer.names()).filter(|&name| [Tcp::NAME, TcpStriped::NAME].contains(&name));
        let transports: Vec<_> = [NAME].into_iter().chain(named).collect();
        let acceptor = Acceptor::new(&security, &transports, offer.describe())?;
        bind_on_both(address, |candidate| {
            Self::bind_both(candidate, &security, &acceptor, offer, options)
        })
        .await
    }

    async fn bind_both(
        candidate: SocketAddr,
        security: &Security,
        acceptor: &Acceptor,
        offer: &Offer,
        options: AutoOptions,
    ) -> Result<Self, TransportError> {
        let listen_error = |source| {
            TransportError::Bind(BindError::Listen {
                address: candidate.to_string(),
                source,
            })
        };
        let (has_quic, has_rudp) = (offer.allows(Quic::NAME), offer.allows(Rudp::NAME));
        let foreign = has_quic.then(Arc::<Foreign>::default);
        let listening = if has_quic || has_rudp {
            let buffer = (options.rudp.socket_buffer).max(options.quic.socket_buffer);
            let listening = ports::listen(candidate, buffer, foreign.clone()).await;
            Some(listening.map_err(listen_error)?)
        } else {
            None
        };
        let door = (listening.as_ref()).map(|listening| Arc::clone(listening.door()));
        let local = door.as_ref().map_or(candidate, |door| door.local());
        let groups = Groups::new(TcpStriped::default(), options.tcp.handshake_timeout);
        let handler = Handler {
            acceptor: acceptor.clone(),
            offer: Arc::new(offer.clone()),
            groups: groups.clone(),
        };
        let tcp = Port::bind(&local.to_string(), handler.clone(), options.tcp).await?;
        let mut listener = Self {
            tcp: Gatherer::new(tcp, groups),
            quic: None,
            rudp: None,
            others: None,
            _listening: None,
        };
        if let (Some(door), Some(foreign)) = (door.clone(), foreign) {
            let quic = QuicListener::beside(handler.clone(), door, foreign, security, options.quic);
            listener.quic = Some(quic?);
        }
        if let Some(door) = door.filter(|_| has_rudp) {
            let message = offer.encode();
            let rudp = RudpListener::beside(handler, door, security, &message, options.rudp);
            listener.rudp = Some(rudp?);
        }
        listener._listening = listening;
        Ok(listener)
    }

    /// Waits for the next link. Cancel-safe.
    ///
    /// # Errors
    /// [`BindError::Accept`] if a listening socket itself is broken.
    pub async fn next(&mut self) -> Result<Accepted, TransportError> {
        loop {
            if let Some(accepted) = self.next_visit().await? {
                return Ok(accepted);
            }
        }
    }

    /// Waits for the next link. Returns `None` if an authenticated peer closes its TCP connection without picking it, as after a
    /// probe or after it picked another connection. Cancel-safe.
    ///
    /// # Errors
    /// [`BindError::Accept`] if a listening socket itself is broken.
    pub async fn next_visit(&mut self) -> Result<Option<Accepted>, TransportError> {
        let quic = async {
            match &mut self.quic {
                Some(quic) => quic.next().await,
                None => std::future::pending().await,
            }
        };
        let rudp = async {
            match &mut self.rudp {
                Some(rudp) => rudp.next().await,
                None => std::future::pending().await,
            }
        };
        let others = async {
            match &mut self.others {
                Some((others, offer)) => others.next(offer).await,
                None => std::future::pending().await,
            }
        };
        // All branches are cancel-safe.
        tokio::select! {
            incoming = self.tcp.next() => Ok(match incoming? {
                Incoming::Link(accepted) => Some(*accepted),
                Incoming::Unpicked => None,
            }),
            accepted = quic => Ok(Some(*accepted?)),
            accepted = rudp => Ok(Some(*accepted?)),
            accepted = others => Ok(Some(accepted)),
        }
    }
}

#[async_trait]
impl Listener for AutoListener {
    fn local_address(&self) -> String {
        self.tcp.local_address()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        Ok(self.next().await?.link)
    }
}
