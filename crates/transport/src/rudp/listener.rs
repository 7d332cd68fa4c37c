//! The listening end: a UDP port, which QUIC may share.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{
    RudpOptions,
    connect::{Attempt, Authenticated},
    endpoint::{Door, Listening},
    handshake,
    intake::{Incoming, Intake},
    ports,
};
use crate::{
    Link, Listener, Rudp, Security, TransportError, Udp,
    handshakes::Handshakes,
    mismatch,
    tcp::address,
    throttle::{self, Throttle},
    tls::NO_COMMON_TRANSPORT,
};

/// Converts authenticated connections of a listener to links or other results.
pub(crate) trait Host: Clone + Send + 'static {
    /// The result of a connection.
    type Guest: Send + 'static;

    /// The transports that a peer may name by ALPN.
    const TRANSPORTS: &'static [&'static str];

    /// The transport in the description of links.
    const NAME: &'static str;

    /// Handles a connection. `None` means that it gives no result.
    fn host(
        self,
        authenticated: Authenticated,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Self::Guest>, TransportError>> + Send;
}

/// Makes a link of every connection, for `rudp`, which repairs losses, or for `udp`.
#[derive(Clone, Copy)]
struct Plain<const IS_REPAIRED: bool>;

impl<const IS_REPAIRED: bool> Host for Plain<IS_REPAIRED> {
    type Guest = Link;

    const TRANSPORTS: &'static [&'static str] = &[Self::NAME, NO_COMMON_TRANSPORT];
    const NAME: &'static str = if IS_REPAIRED { Rudp::NAME } else { Udp::NAME };

    async fn host(
        self,
        authenticated: Authenticated,
        timeout: Duration,
    ) -> Result<Option<Link>, TransportError> {
        link_of(authenticated, Self::NAME, timeout).await.map(Some)
    }
}

async fn link_of(
    authenticated: Authenticated,
    ours: &str,
    timeout: Duration,
) -> Result<Link, TransportError> {
    let bare = authenticated.bare;
    if authenticated.transport != NO_COMMON_TRANSPORT {
        return Ok(bare.link());
    }
    let peer = bare.info.peer_address.clone();
    let mut stream = tokio::io::join(bare.reader, bare.writer);
    let told = tokio::time::timeout(timeout, mismatch::tell(&mut stream, ours)).await;
    Err(told.unwrap_or(TransportError::Timeout {
        waiting_for: "the peer to name its transport",
        address: peer,
        after: timeout,
    }))
}

/// Accepts connections on a UDP port.
pub(crate) struct RudpListener<H: Host> {
    local: SocketAddr,
    /// Keeps the socket open.
    door: Arc<Door>,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    handshakes: Handshakes<Outcome<H::Guest>>,
    host: H,
    timeout: Duration,
    log: Throttle,
    /// Set if no other protocol shares the port.
    _listening: Option<Listening>,
}

struct Outcome<T> {
    peer: SocketAddr,
    result: Result<Option<T>, TransportError>,
}

/// Listens for a transport of this family.
pub(crate) async fn listen(
    address: &str,
    security: &Security,
    name: &'static str,
    options: RudpOptions,
) -> Result<Box<dyn Listener>, TransportError> {
    let listen_error = &address::listen_error(address);
    let listening = address::bind_first(address, |candidate| async move {
        let bound = ports::listen(candidate, options.socket_buffer, None).await;
        bound.map_err(listen_error)
    })
    .await?;
    Ok(match super::is_repaired(name) {
        true => RudpListener::alone(Plain::<true>, listening, security, options)?,
        false => RudpListener::alone(Plain::<false>, listening, security, options)?,
    })
}

impl<H: Host<Guest = Link>> RudpListener<H> {
    fn alone(
        host: H,
        listening: Listening,
        security: &Security,
        options: RudpOptions,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let door = Arc::clone(listening.door());
        let mut listener = Self::beside(host, door, security, &[], options)?;
        listener._listening = Some(listening);
        Ok(Box::new(listener))
    }
}

impl<H: Host> RudpListener<H> {
    /// Accepts connections on a UDP port that other protocols may share, while the result is held.
    /// `message` is sent to every connector in plaintext mode. With TLS, the certificate contains
    /// it.
    pub(crate) fn beside(
        host: H,
        door: Arc<Door>,
        security: &Security,
        message: &[u8],
        options: RudpOptions,
    ) -> Result<Self, TransportError> {
        let credentials = handshake::server(security, H::TRANSPORTS, message)?;
        let (sender, incoming) = mpsc::unbounded_channel();
        let is_repaired = super::is_repaired(H::NAME);
        let intake = Intake::new(credentials, options, is_repaired, sender).ok_or_else(|| {
            TransportError::Tls {
                detail: "the cryptographic library refuses to make a key".into(),
            }
        })?;
        door.endpoint().accept(intake);
        Ok(Self {
            local: door.local(),
            door,
            incoming,
            handshakes: Handshakes::new(options.max_handshakes),
            host,
            timeout: options.setup_timeout,
            log: Throttle::new(),
            _listening: None,
        })
    }

    /// Waits for the next connection with a result. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<H::Guest, TransportError> {
        loop {
            // Every branch is cancel-safe, and nothing is awaited outside of them.
            tokio::select! {
                biased;
                Some(outcome) = self.handshakes.next() => {
                    if let Some(guest) = self.finished(outcome) {
                        return Ok(guest);
                    }
                }
                incoming = self.incoming.recv() => match incoming {
                    Some(incoming) => self.begin(incoming),
                    None => return Err(TransportError::Accept {
                        address: self.local.to_string(),
                        source: io::Error::new(io::ErrorKind::NotConnected, "the UDP socket broke"),
                    }),
                },
            }
        }
    }

    /// Returns the address at which another party on this machine can reach it.
    pub(super) fn reachable(&self) -> String {
        address::reachable(self.local).to_string()
    }

    fn begin(&mut self, incoming: Incoming) {
        let local = match incoming.to {
            Some(ip) => SocketAddr::new(ip.to_canonical(), self.local.port()),
            None => self.local,
        };
        let peer = SocketAddr::new(incoming.from.ip().to_canonical(), incoming.from.port());
        let (host, timeout) = (self.host.clone(), self.timeout);
        self.handshakes.begin(peer.ip(), async move {
            let result = welcome(host, incoming, (local, peer), timeout).await;
            Outcome { peer, result }
        });
    }

    fn finished(&mut self, outcome: Outcome<H::Guest>) -> Option<H::Guest> {
        let Outcome { peer, result } = outcome;
        match result {
            Ok(guest) => {
                tracing::debug!(%peer, is_guest = guest.is_some(), "accepted a connection");
                guest
            }
            Err(error) => {
                throttle::warn_of_rejected(&mut self.log, peer, &error);
                None
            }
        }
    }
}

async fn welcome<H: Host>(
    host: H,
    incoming: Incoming,
    addresses: (SocketAddr, SocketAddr),
    timeout: Duration,
) -> Result<Option<H::Guest>, TransportError> {
    let began: Instant = incoming.began;
    let attempt = Attempt::new(Arc::clone(&incoming.link), incoming.outcome.clone());
    let authenticated = attempt
        .authenticated(H::NAME, addresses, (Duration::ZERO, began))
        .await?;
    host.host(authenticated, timeout).await
}

#[async_trait]
impl<H: Host<Guest = Link>> Listener for RudpListener<H> {
    fn local_address(&self) -> String {
        self.reachable()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        self.next().await
    }
}

impl<H: Host> Drop for RudpListener<H> {
    fn drop(&mut self) {
        self.door.endpoint().accept_nobody();
    }
}
