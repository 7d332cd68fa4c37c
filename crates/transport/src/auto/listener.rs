//! The listening end of `auto`: a TCP port and a UDP port with the same number.

use std::{
    collections::BTreeMap, future::poll_fn, net::SocketAddr, num::NonZeroU16, sync::Arc, task::Poll,
};

use async_trait::async_trait;

use super::{
    Accepted, Offer,
    candidate::{CandidateListener, Place, Port},
    table::{self, Entry},
};
use crate::{
    BindError, Link, Listener, Registry, Security, TransportError,
    rudp::{UdpPort, bind_on_both},
};

/// A listener for connectors that choose one of several transports.
///
/// Like every [`Listener`], it accepts connections only while the user waits for a link, with one
/// exception: it accepts the further connections of a new `tcp-striped` link for at most the time
/// limit of a handshake. The number of concurrent handshakes is limited. The listener drops
/// connections of peers that are not authenticated or send invalid data.
pub struct AutoListener {
    listeners: Vec<CandidateListener>,
    local: String,
    /// Declared last, so that the UDP port is released after all listeners that use it.
    _udp: Option<UdpPort>,
}

impl AutoListener {
    /// Starts to listen on `host:port`. With port 0, the system chooses a number that is free for
    /// both protocols.
    ///
    /// In plaintext, the offer omits the transports that are always encrypted. A UDP port is opened
    /// only if an offered transport needs it.
    ///
    /// # Errors
    /// Returns [`AddressError::InvalidAddress`](crate::AddressError::InvalidAddress),
    /// [`AddressError::Resolve`](crate::AddressError::Resolve),
    /// [`BindError::Listen`](crate::BindError::Listen),
    /// [`HandshakeError::NoPinnedPeer`](crate::HandshakeError::NoPinnedPeer). Returns
    /// [`UnsupportedError::NoPlaintext`](crate::UnsupportedError::NoPlaintext) in plaintext if no
    /// offered transport supports plaintext.
    pub async fn bind(
        address: &str,
        security: &Security,
        offer: Offer,
    ) -> Result<Self, TransportError> {
        Self::bind_among(address, security, offer, &Registry::with_builtins()).await
    }

    /// Listens like [`bind`](Self::bind), with the transports of a registry. Each transport of
    /// another crate listens on a separate port, whose number is in the offer. The offer omits a
    /// transport that fails to listen.
    ///
    /// # Errors
    /// See [`bind`](Self::bind).
    pub async fn bind_among(
        address: &str,
        security: &Security,
        offer: Offer,
        registry: &Registry,
    ) -> Result<Self, TransportError> {
        let entries = table::of(registry);
        let mut offer = offer.fit_for(&entries, security)?;
        let mut own_ports = bind_own_ports(address, security, &entries, &mut offer).await;
        let place = Place {
            address: address.into(),
            security: security.saying(&offer.encode())?,
            offer: Arc::new(offer),
            udp: None,
        };
        let mut listener =
            bind_on_both(address, |at| Self::bind_shared(at, &entries, place.clone())).await?;
        listener.listeners.append(&mut own_ports);
        Ok(listener)
    }

    async fn bind_shared(
        at: SocketAddr,
        entries: &[Entry],
        mut place: Place,
    ) -> Result<Self, TransportError> {
        // The TCP port is always needed, because the connection on it carries the offer.
        let is_needed = |entry: &&Entry| match entry.port {
            Port::Stream => true,
            Port::Datagrams { .. } => entry.is_offered(&place.offer),
            Port::Own => false,
        };
        let needed: Vec<&Entry> = entries.iter().filter(is_needed).collect();
        let datagrams = needed.iter().filter_map(|entry| match entry.port {
            Port::Datagrams { buffer, is_foreign } => Some((buffer, is_foreign)),
            _ => None,
        });
        let all = datagrams.reduce(|one, other| (one.0.max(other.0), one.1 || other.1));
        let mut local = at;
        if let Some((buffer, has_foreign)) = all {
            let udp = UdpPort::bind(at, buffer, has_foreign).await;
            let udp = place.udp.insert(udp.map_err(|source| {
                TransportError::Bind(BindError::Listen {
                    address: at.to_string(),
                    source,
                })
            })?);
            local = udp.local();
        }
        place.address = local.to_string();
        let mut listeners = Vec::new();
        for entry in needed {
            listeners.push(entry.candidate.listen(place.clone()).await?);
        }
        let first = listeners.first().map(|it| it.local_address());
        Ok(Self {
            listeners,
            local: first.unwrap_or(place.address),
            _udp: place.udp,
        })
    }

    /// Waits for the next link. Cancel-safe.
    ///
    /// # Errors
    /// Returns [`BindError::Accept`](crate::BindError::Accept) if a listening socket itself fails.
    pub async fn next(&mut self) -> Result<Accepted, TransportError> {
        loop {
            if let Some(accepted) = self.next_visit().await? {
                return Ok(accepted);
            }
        }
    }

    /// Waits for the next link. Returns `None` if an authenticated peer closes a connection without
    /// choosing it, for example after a probe, or because it chose another connection. Cancel-safe.
    ///
    /// # Errors
    /// Returns [`BindError::Accept`](crate::BindError::Accept) if a listening socket itself fails.
    pub async fn next_visit(&mut self) -> Result<Option<Accepted>, TransportError> {
        // Rotate the order, so that no listener can starve the others.
        let count = self.listeners.len();
        self.listeners.rotate_left(1.min(count));
        // Dropping the pending futures loses nothing, because `next` is cancel-safe.
        let mut waiting: Vec<_> = self.listeners.iter_mut().map(|it| it.next()).collect();
        poll_fn(|cx| {
            let mut polled = waiting.iter_mut().map(|it| it.as_mut().poll(cx));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }
}

/// Starts to listen with each offered transport that needs a separate port. If a transport fails to
/// listen, removes it from the offer.
async fn bind_own_ports(
    address: &str,
    security: &Security,
    entries: &[Entry],
    offer: &mut Offer,
) -> Vec<CandidateListener> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let place = Place {
        address: format!("{host}:0"),
        security: security.clone(),
        offer: Arc::new(offer.clone()),
        udp: None,
    };
    let (mut listeners, mut ports) = (Vec::new(), BTreeMap::new());
    for entry in (entries.iter()).filter(|it| it.port == Port::Own && it.is_offered(offer)) {
        let name = entry.transports.first().copied().unwrap_or_default();
        match entry.candidate.listen(place.clone()).await {
            Ok(listener) => {
                let address = listener.local_address();
                let port = address.rsplit_once(':').map(|(_, port)| port);
                match port.and_then(|port| port.parse::<NonZeroU16>().ok()) {
                    Some(port) => {
                        ports.insert(name, port);
                        listeners.push(listener);
                    }
                    None => tracing::warn!(name, address, "auto needs an address host:port"),
                }
            }
            Err(error) => tracing::warn!(name, %error, "a transport cannot listen"),
        }
    }
    offer.set_ports(&ports);
    listeners
}

#[async_trait]
impl Listener for AutoListener {
    fn local_address(&self) -> String {
        self.local.clone()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        Ok(self.next().await?.link)
    }
}
