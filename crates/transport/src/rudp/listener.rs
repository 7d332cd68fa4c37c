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
    halves::{Reader, Writer},
    handshake,
    intake::{Incoming, Intake},
    ports,
};
use crate::{
    BindError, HandshakeError, Link, Listener, Security, TransportError,
    handshakes::{self, Handshakes},
    listening::{AuthenticatedHandler, LinkListener, PortListener},
    mismatch,
    tcp::address,
    throttle::{self, Throttle},
    tls::NO_COMMON_TRANSPORT,
};

/// Converts every connection to a link of this transport, `rudp` or `udp`.
#[derive(Clone, Copy)]
struct Plain(&'static str);

impl AuthenticatedHandler<Reader, Writer> for Plain {
    type Handled = Link;

    fn transport(&self) -> &'static str {
        self.0
    }

    fn accepted_transports(&self) -> [&'static str; 2] {
        [self.0, NO_COMMON_TRANSPORT]
    }

    async fn handle_connection(
        self,
        authenticated: Authenticated,
        timeout: Duration,
    ) -> Result<Option<Link>, TransportError> {
        link_of(authenticated, self.0, timeout).await.map(Some)
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
    let told = mismatch::tell(&mut stream, ours);
    Err(handshakes::limit(timeout, "the peer to name its transport", &peer, told).await?)
}

/// Accepts connections on a UDP port.
pub(crate) struct RudpListener<H: AuthenticatedHandler<Reader, Writer>> {
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

/// Listens for connections of the transport `name`: `rudp` or `udp`.
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
    let handle = Arc::clone(listening.handle());
    let mut listener = RudpListener::beside(Plain(name), handle, security, &[], options)?;
    listener._listening = Some(listening);
    Ok(Box::new(LinkListener(listener)))
}

impl<H: AuthenticatedHandler<Reader, Writer>> RudpListener<H> {
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
        let credentials = handshake::server(security, &handler.accepted_transports(), message)?;
        let (sender, incoming) = mpsc::unbounded_channel();
        let is_repaired = super::is_repaired(handler.transport());
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
        throttle::log_handshake(&mut self.log, outcome.peer, outcome.result).flatten()
    }
}

async fn establish<H: AuthenticatedHandler<Reader, Writer>>(
    handler: H,
    incoming: Incoming,
    addresses: (SocketAddr, SocketAddr),
    timeout: Duration,
) -> Result<Option<H::Handled>, TransportError> {
    let began: Instant = incoming.began;
    let attempt = Attempt::new(Arc::clone(&incoming.link), incoming.outcome.clone());
    let (authenticated, _) = attempt
        .authenticated(handler.transport(), addresses, (Duration::ZERO, began))
        .await?;
    handler.handle_connection(authenticated, timeout).await
}

#[async_trait]
impl<H: AuthenticatedHandler<Reader, Writer>> PortListener<H::Handled> for RudpListener<H> {
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

impl<H: AuthenticatedHandler<Reader, Writer>> Drop for RudpListener<H> {
    fn drop(&mut self) {
        self.handle.endpoint().accept_nobody();
    }
}
