//! The listening end: a TCP port and a UDP port of the same number.

use std::{
    collections::BTreeMap, future::poll_fn, net::SocketAddr, num::NonZeroU16, sync::Arc, task::Poll,
};

use async_trait::async_trait;

use super::{
    Accepted, Offer,
    candidate::{Place, Port, PortListener},
    table::{self, Entry},
};
use crate::{
    Link, Listener, Registry, Security, TransportError,
    rudp::{UdpPort, bind_on_both},
};

/// Listens for connectors that pick one of several transports.
///
/// As every [`Listener`] it takes up connections only while somebody waits for one (or a link of `tcp-striped` lacks
/// connections, for the time of a handshake at most), runs a bounded number of handshakes, and drops strangers and garbage.
pub struct AutoListener {
    listeners: Vec<Box<dyn PortListener>>,
    local: String,
    /// Dropped last.
    _udp: Option<UdpPort>,
}

impl AutoListener {
    /// Starts to listen on `host:port`; port 0 lets the system choose a number that is free on both.
    ///
    /// What has no plaintext is left out of the offer in plaintext. A UDP port is opened only if something in the offer needs it.
    ///
    /// # Errors
    /// [`TransportError::InvalidAddress`], [`TransportError::Resolve`], [`TransportError::Listen`],
    /// [`TransportError::NoPinnedPeer`]; [`TransportError::NoPlaintext`] in plaintext if nothing that is offered has it.
    pub async fn bind(
        address: &str,
        security: &Security,
        offer: Offer,
    ) -> Result<Self, TransportError> {
        Self::bind_among(address, security, offer, &Registry::with_builtins()).await
    }

    /// Listens as [`bind`](Self::bind) does, with the transports of a registry. Those of other crates listen too, each at a port of its own
    /// that the offer states. One that cannot listen is left out of the offer.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
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
        // The TCP port carries the offer, whatever is offered.
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
            let udp = place
                .udp
                .insert(udp.map_err(|source| TransportError::Listen {
                    address: at.to_string(),
                    source,
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
    /// [`TransportError::Accept`] if a listening socket itself is broken.
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
    /// [`TransportError::Accept`] if a listening socket itself is broken.
    pub async fn next_visit(&mut self) -> Result<Option<Accepted>, TransportError> {
        // Each listener is asked first in turn: none can keep the others waiting.
        let count = self.listeners.len();
        self.listeners.rotate_left(1.min(count));
        // All futures are cancel-safe.
        let mut waiting: Vec<_> = self.listeners.iter_mut().map(|it| it.next()).collect();
        poll_fn(|cx| {
            let mut polled = waiting.iter_mut().map(|it| it.as_mut().poll(cx));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }
}

/// Starts to listen with each offered transport that does not share the ports. One that cannot is left out of the offer.
async fn bind_own_ports(
    address: &str,
    security: &Security,
    entries: &[Entry],
    offer: &mut Offer,
) -> Vec<Box<dyn PortListener>> {
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
