//! Transports of other crates in `auto`: which take part, how they listen, and how their links are checked.

use std::{
    collections::BTreeMap, future::poll_fn, num::NonZeroU16, pin::Pin, sync::Arc, task::Poll,
    time::Duration,
};

use tokio::task::JoinSet;

use super::{Accepted, Offer, Pick, message};
use crate::{HandshakeError, Link, Listener, Registry, Security, Transport, TransportError};

/// Transports of other crates that take part at most: each takes a port of the listener and a connection of the connector.
const MAX_OTHERS: usize = 8;

/// The longest name of one, in bytes: the names of all fit into an offer.
const MAX_NAME: usize = 32;

/// Links on which the choice is awaited at once, as handshakes of the TCP transport.
const MAX_CHOOSING: usize = 64;

/// Returns the transports of a registry that do not share the ports of the listener, and that `auto` may choose.
pub(super) fn of(registry: &Registry) -> Vec<Arc<dyn Transport>> {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let fits = |name: &str| (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain);
    let others = registry.candidates().filter(|it| Pick::is_other(it.name()));
    let others = others.filter(|it| fits(it.name())).take(MAX_OTHERS);
    others.cloned().collect()
}

/// Checks that a link is protected as it was asked for: a transport of another crate must not weaken that.
///
/// # Errors
/// [`HandshakeError::NotTranspute`].
pub(super) fn check(link: &Link, security: &Security) -> Result<(), TransportError> {
    let info = link.info();
    let is_protected = match security {
        Security::Tls { peers, .. } => {
            info.encrypted && info.peer_fingerprint.is_some_and(|it| peers.contains(&it))
        }
        Security::Unpinned { .. } => info.encrypted,
        Security::Plaintext => true,
    };
    match is_protected {
        true => Ok(()),
        false => Err(TransportError::Handshake(HandshakeError::NotTranspute {
            evidence: format!(
                "its link of {} is not protected as this side asks",
                info.transport
            ),
        })),
    }
}

/// The listeners of transports of other crates, and links whose peers have not chosen yet.
pub(super) struct Others {
    listeners: Vec<(&'static str, Box<dyn Listener>)>,
    choosing: JoinSet<Option<Accepted>>,
    security: Security,
    timeout: Duration,
}

impl Others {
    /// Starts to listen with each transport that is offered, at a port of its own. One that cannot is left out of the offer.
    pub(super) async fn bind(
        address: &str,
        security: &Security,
        offer: &mut Offer,
        registry: &Registry,
        timeout: Duration,
    ) -> Self {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let (mut listeners, mut ports) = (Vec::new(), BTreeMap::new());
        for transport in of(registry) {
            let name = transport.name();
            let is_plaintext = matches!(security, Security::Plaintext);
            let has_plaintext = transport.profile().is_some_and(|it| it.has_plaintext);
            if !offer.allows(name) || (is_plaintext && !has_plaintext) {
                continue;
            }
            match transport.listen(&format!("{host}:0"), security).await {
                Ok(listener) => {
                    let address = listener.local_address();
                    let port = address.rsplit_once(':').map(|(_, port)| port);
                    match port.and_then(|port| port.parse::<NonZeroU16>().ok()) {
                        Some(port) => {
                            ports.insert(name.to_owned(), port);
                            listeners.push((name, listener));
                        }
                        None => {
                            tracing::warn!(name, address, "auto needs an address host:port");
                        }
                    }
                }
                Err(error) => tracing::warn!(name, %error, "a transport cannot listen"),
            }
        }
        offer.set_ports(ports);
        Self {
            listeners,
            choosing: JoinSet::new(),
            security: security.clone(),
            timeout,
        }
    }

    /// Waits for the next link that a peer picks. Cancel-safe. Never returns if there are no listeners.
    pub(super) async fn next(&mut self, offer: &Offer) -> Accepted {
        loop {
            let is_full = self.choosing.len() >= MAX_CHOOSING;
            tokio::select! {
                Some(chosen) = self.choosing.join_next() => {
                    if let Ok(Some(accepted)) = chosen {
                        return accepted;
                    }
                }
                (name, link) = accept(&mut self.listeners), if !is_full => match link {
                    Ok(link) => self.begin(name, link, offer),
                    Err(error) => {
                        tracing::warn!(name, %error, "a transport has stopped listening");
                        self.listeners.retain(|(known, _)| *known != name);
                    }
                },
            }
        }
    }

    fn begin(&mut self, name: &'static str, link: Link, offer: &Offer) {
        if let Err(error) = check(&link, &self.security) {
            tracing::warn!(name, %error, "rejected a link");
            return;
        }
        let (offer, timeout) = (offer.clone(), self.timeout);
        self.choosing.spawn(async move {
            let mut link = link;
            let here = [name];
            let (mut reader, mut writer) = link.halves_mut();
            let hearing = message::hear(&mut reader, &mut writer, &offer, &here);
            match tokio::time::timeout(timeout, hearing).await {
                Ok(Ok(Some(_))) => Some(Accepted {
                    link,
                    pick: Pick::Other(name),
                }),
                Ok(Err(error)) => {
                    tracing::warn!(name, %error, "rejected a link");
                    None
                }
                Ok(Ok(None)) | Err(_) => None,
            }
        });
    }
}

/// Waits for the next link of any listener. Cancel-safe, as [`Listener::accept`] is.
async fn accept(
    listeners: &mut [(&'static str, Box<dyn Listener>)],
) -> (&'static str, Result<Link, TransportError>) {
    let mut accepting: Vec<_> = (listeners.iter_mut())
        .map(|(name, listener)| (*name, listener.accept()))
        .collect();
    poll_fn(|cx| {
        for (name, future) in &mut accepting {
            if let Poll::Ready(link) = Pin::new(future).poll(cx) {
                return Poll::Ready((*name, link));
            }
        }
        Poll::Pending
    })
    .await
}
