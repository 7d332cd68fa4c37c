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
    endpoint::{EndpointHandle, Listening},
    handshake,
    intake::{Incoming, Intake},
    ports,
};
use crate::{
    BindError, HandshakeError, Link, Listener, Rudp, Security, TransportError, Udp,
    handshakes::Handshakes,
    listening::{LinkListener, PortListener},
    mismatch,
    tcp::address,
    throttle::{self, Throttle},
    tls::NO_COMMON_TRANSPORT,
};

/// Converts authenticated connections of a listener to links or other results.
pub(crate) trait ConnectionHandler: Clone + Send + 'static {
    /// The type of the result, such as a link.
    type Handled: Send + 'static;

    /// The transports that a peer may name by ALPN.
    const TRANSPORTS: &'static [&'static str];

    /// The name of the transport in the description of a link.
    const NAME: &'static str;

    /// Handles a connection. Returns `None` if the listener should ignore the connection and
    /// continue.
    fn handle_connection(
        self,
        authenticated: Authenticated,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Self::Handled>, TransportError>> + Send;
}

/// Converts every connection to a link of `rudp` if `IS_REPAIRED`, and of `udp` otherwise.
#[derive(Clone, Copy)]
struct Plain<const IS_REPAIRED: bool>;

impl<const IS_REPAIRED: bool> ConnectionHandler for Plain<IS_REPAIRED> {
    type Handled = Link;

    const TRANSPORTS: &'static [&'static str] = &[Self::NAME, NO_COMMON_TRANSPORT];
    const NAME: &'static str = if IS_REPAIRED { Rudp::NAME } else { Udp::NAME };

    async fn handle_connection(
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
    Err(
        told.unwrap_or(TransportError::Handshake(HandshakeError::Timeout {
            waiting_for: "the peer to name its transport",
            address: peer,
            after: timeout,
        })),
    )
}

/// Accepts connections on a UDP port.
pub(crate) struct RudpListener<H: ConnectionHandler> {
    local: SocketAddr,
    /// Keeps the endpoint and its socket in use.
    handle: Arc<EndpointHandle>,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    handshakes: Handshakes<Outcome<H::Handled>>,
    handler: H,
    timeout: Duration,
    log: Throttle,
    /// Set if no other protocol shares the port.
    _listening: Option<Listening>,
}

struct Outcome<T> {
    peer: SocketAddr,
    result: Result<Option<T>, TransportError>,
}

/// Listens for `rudp` or `udp`.
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

impl<H: ConnectionHandler<Handled = Link>> RudpListener<H> {
    fn alone(
        handler: H,
        listening: Listening,
        security: &Security,
        options: RudpOptions,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let handle = Arc::clone(listening.handle());
        let mut listener = Self::beside(handler, handle, security, &[], options)?;
        listener._listening = Some(listening);
        Ok(Box::new(LinkListener(listener)))
    }
}

impl<H: ConnectionHandler> RudpListener<H> {
    /// Accepts connections on a UDP port that other protocols may share, until the result is
    /// dropped. In plaintext mode, the listener sends `message` to every connector. With TLS, the
    /// certificate contains the message.
    pub(crate) fn beside(
        handler: H,
        handle: Arc<EndpointHandle>,
        security: &Security,
        message: &[u8],
        options: RudpOptions,
    ) -> Result<Self, TransportError> {
        let credentials = handshake::server(security, H::TRANSPORTS, message)?;
        let (sender, incoming) = mpsc::unbounded_channel();
        let is_repaired = super::is_repaired(H::NAME);
        let intake = Intake::new(credentials, options, is_repaired, sender).ok_or_else(|| {
            HandshakeError::Tls {
                detail: "the cryptographic library refuses to make a key".into(),
            }
        })?;
        handle.endpoint().accept(intake);
        Ok(Self {
            local: handle.local(),
            handle,
            incoming,
            handshakes: Handshakes::new(options.max_handshakes),
            handler,
            timeout: options.setup_timeout,
            log: Throttle::new(),
            _listening: None,
        })
    }

    fn begin(&mut self, incoming: Incoming) {
        let local = match incoming.to {
            Some(ip) => SocketAddr::new(ip.to_canonical(), self.local.port()),
            None => self.local,
        };
        let peer = SocketAddr::new(incoming.from.ip().to_canonical(), incoming.from.port());
        let (handler, timeout) = (self.handler.clone(), self.timeout);
        self.handshakes.begin(peer.ip(), async move {
            let result = establish(handler, incoming, (local, peer), timeout).await;
            Outcome { peer, result }
        });
    }

    fn finished(&mut self, outcome: Outcome<H::Handled>) -> Option<H::Handled> {
        let Outcome { peer, result } = outcome;
        match result {
            Ok(handled) => {
                tracing::debug!(%peer, is_handled = handled.is_some(), "accepted a connection");
                handled
            }
            Err(error) => {
                throttle::warn_of_rejected(&mut self.log, peer, &error);
                None
            }
        }
    }
}

async fn establish<H: ConnectionHandler>(
    handler: H,
    incoming: Incoming,
    addresses: (SocketAddr, SocketAddr),
    timeout: Duration,
) -> Result<Option<H::Handled>, TransportError> {
    let began: Instant = incoming.began;
    let attempt = Attempt::new(Arc::clone(&incoming.link), incoming.outcome.clone());
    let authenticated = attempt
        .authenticated(H::NAME, addresses, (Duration::ZERO, began))
        .await?;
    handler.handle_connection(authenticated, timeout).await
}

#[async_trait]
impl<H: ConnectionHandler> PortListener<H::Handled> for RudpListener<H> {
    fn local_address(&self) -> String {
        address::reachable(self.local).to_string()
    }

    async fn next(&mut self) -> Result<H::Handled, TransportError> {
        loop {
            // Every branch is cancel-safe, and nothing is awaited outside of them.
            tokio::select! {
                biased;
                Some(outcome) = self.handshakes.next() => {
                    if let Some(handled) = self.finished(outcome) {
                        return Ok(handled);
                    }
                }
                incoming = self.incoming.recv() => match incoming {
                    Some(incoming) => self.begin(incoming),
                    None => return Err(TransportError::Bind(BindError::Accept {
                        address: self.local.to_string(),
                        source: io::Error::new(io::ErrorKind::NotConnected, "the UDP socket broke"),
                    })),
                },
            }
        }
    }
}

impl<H: ConnectionHandler> Drop for RudpListener<H> {
    fn drop(&mut self) {
        self.handle.endpoint().accept_nobody();
    }
}
