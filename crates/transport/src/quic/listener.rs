//! The listener of the QUIC transport. It limits the resources that unauthenticated peers can use.
//!
//! Each handshake runs in its own task, with a deadline. The number of handshakes is limited. While
//! at least half of this number is in progress, new peers must first prove their address (Retry),
//! so that packets with forged addresses start no handshakes. A peer whose earlier handshake failed
//! must prove its address too. The listener accepts connections only while the user waits in
//! `accept`.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::{self, Poll, Waker},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use quinn::{Connecting, Endpoint, Incoming};

#[cfg(feature = "auto")]
use super::shared::SharedSocket;
use super::{
    Quic, QuicOptions, config,
    explain::{self, During},
    handshake::{self, Authenticated, Context},
    reader::Reader,
    runtime,
    socket::{self, Socket},
    writer::Writer,
};
#[cfg(feature = "auto")]
use crate::rudp::{EndpointHandle, ForeignQueue};
use crate::{
    BindError, HandshakeError, Link, Security, TransportError,
    handshakes::{Handshakes, wait_until},
    listening::{AuthenticatedHandler, PortListener},
    tcp::address,
    throttle::{self, Throttle},
    tls::NO_COMMON_TRANSPORT,
};

/// Converts every connection to a link.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl AuthenticatedHandler<Reader, Writer> for Plain {
    type Handled = Link;

    fn transport(&self) -> &'static str {
        Quic::NAME
    }

    fn accepted_transports(&self) -> [&'static str; 2] {
        [Quic::NAME, NO_COMMON_TRANSPORT]
    }

    async fn handle_connection(
        self,
        authenticated: Authenticated,
        _: Duration,
    ) -> Result<Option<Link>, TransportError> {
        if authenticated.transport == NO_COMMON_TRANSPORT {
            return Err(TransportError::Handshake(
                HandshakeError::NoCommonTransport {
                    ours: Quic::NAME.into(),
                    theirs: "another one, over TCP".into(),
                },
            ));
        }
        Ok(Some(authenticated.bare.link()))
    }
}

pub(crate) struct QuicListener<H: AuthenticatedHandler<Reader, Writer>> {
    endpoint: Endpoint,
    local: SocketAddr,
    options: QuicOptions,
    security: Security,
    handshakes: Handshakes<Outcome<H::Handled>>,
    handler: H,
    /// Peers whose handshake failed before they had proved their address, latest last. The library
    /// does not send the reason to an unproved address. When such a peer connects again, it must
    /// prove its address, and then receives the reason.
    untold: VecDeque<SocketAddr>,
    log: Throttle,
}

struct Outcome<T> {
    peer: SocketAddr,
    reachable: bool,
    result: Result<Option<T>, TransportError>,
}

/// Maximum number of entries in [`QuicListener::untold`].
const MAX_UNTOLD: usize = 64;

impl<H: AuthenticatedHandler<Reader, Writer>> QuicListener<H> {
    pub(super) async fn bind(
        handler: H,
        address: &str,
        security: &Security,
        options: QuicOptions,
    ) -> Result<Self, TransportError> {
        let config = config::server(&options, security, &handler.accepted_transports())?;
        let listen_error = &address::listen_error(address);
        let socket = address::bind_first(address, |candidate| async move {
            socket::listening(candidate, options.socket_buffer).map_err(listen_error)
        })
        .await?;
        let (runtime, handle) = runtime::find(options.driver).map_err(listen_error)?;
        let socket = Socket::new(socket, &handle).map_err(listen_error)?;
        let endpoint = Endpoint::new_with_abstract_socket(
            config::endpoint(),
            Some(config),
            Arc::new(socket),
            runtime,
        )
        .map_err(listen_error)?;
        let local = endpoint.local_addr().map_err(listen_error)?;
        Ok(Self::new(handler, endpoint, local, security, options))
    }

    /// Listens on a port that other protocols share.
    #[cfg(feature = "auto")]
    pub(crate) fn beside(
        handler: H,
        port: Arc<EndpointHandle>,
        foreign: Arc<ForeignQueue>,
        security: &Security,
        options: QuicOptions,
    ) -> Result<Self, TransportError> {
        let config = config::server(&options, security, &handler.accepted_transports())?;
        let local = port.local();
        let listen_error = &address::listen_error(local);
        let (runtime, handle) = runtime::find(options.driver).map_err(listen_error)?;
        let socket = SharedSocket::new(port, foreign, handle);
        let endpoint = Endpoint::new_with_abstract_socket(
            config::endpoint_beside_others(),
            Some(config),
            Arc::new(socket),
            runtime,
        )
        .map_err(listen_error)?;
        Ok(Self::new(handler, endpoint, local, security, options))
    }

    fn new(
        handler: H,
        endpoint: Endpoint,
        local: SocketAddr,
        security: &Security,
        options: QuicOptions,
    ) -> Self {
        Self {
            endpoint,
            local,
            security: security.clone(),
            handshakes: Handshakes::new(options.max_handshakes),
            handler,
            options,
            untold: VecDeque::new(),
            log: Throttle::new(),
        }
    }

    fn begin(&mut self, incoming: Incoming) {
        let crowded = self.handshakes.len() >= self.options.max_handshakes.div_ceil(2);
        let peer = canonical(incoming.remote_address());
        let reachable = incoming.remote_address_validated();
        if (crowded || self.untold.contains(&peer)) && !reachable && incoming.may_retry() {
            // `retry` fails only if the address is proved already.
            let _ = incoming.retry();
            return;
        }
        let local = match incoming.local_ip() {
            Some(ip) => SocketAddr::new(ip.to_canonical(), self.local.port()),
            None => self.local,
        };
        let context = Context {
            started: Instant::now(),
            local,
            peer,
            connect: None,
            timeout: self.options.handshake_timeout,
            options: self.options,
            security: self.security.clone(),
        };
        let connecting = match incoming.accept() {
            Ok(connecting) => connecting,
            Err(error) => {
                let error = explain::connection(&error, During::Handshake);
                throttle::warn_of_rejected(&mut self.log, peer, &error);
                return;
            }
        };
        let handled = establish(self.handler.clone(), connecting, context, reachable);
        self.handshakes.begin(peer.ip(), handled);
    }

    fn finished(&mut self, outcome: Outcome<H::Handled>) -> Option<H::Handled> {
        let Outcome {
            peer,
            reachable,
            result,
        } = outcome;
        self.untold.retain(|known| *known != peer);
        if result.is_err() && !reachable {
            self.untold.push_back(peer);
            if self.untold.len() > MAX_UNTOLD {
                self.untold.pop_front();
            }
        }
        throttle::log_handshake(&mut self.log, peer, result).flatten()
    }
}

async fn establish<H: AuthenticatedHandler<Reader, Writer>>(
    handler: H,
    connecting: Connecting,
    context: Context,
    mut reachable: bool,
) -> Outcome<H::Handled> {
    let (peer, timeout) = (context.peer, context.timeout);
    let result = match handshake::authenticate(connecting, context).await {
        Ok(authenticated) => {
            reachable = true;
            handler.handle_connection(authenticated, timeout).await
        }
        Err(error) => Err(error),
    };
    Outcome {
        peer,
        reachable,
        result,
    }
}

/// Returns the IPv4 address of an IPv4 peer on a dual-stack socket.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[async_trait]
impl<H: AuthenticatedHandler<Reader, Writer>> PortListener<H::Handled> for QuicListener<H> {
    fn local_address(&self) -> String {
        address::reachable(self.local).to_string()
    }

    async fn next(&mut self) -> Result<H::Handled, TransportError> {
        loop {
            // Until this time, new connections wait in the queue of the endpoint.
            let full = self.handshakes.full_until();
            // Every branch is cancel-safe, and nothing outside of the branches waits.
            tokio::select! {
                biased;
                Some(outcome) = self.handshakes.next() => {
                    if let Some(handled) = self.finished(outcome) {
                        return Ok(handled);
                    }
                }
                () = wait_until(full), if full.is_some() => {}
                incoming = self.endpoint.accept(), if full.is_none() => match incoming {
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

impl<H: AuthenticatedHandler<Reader, Writer>> Drop for QuicListener<H> {
    fn drop(&mut self) {
        // The endpoint continues to serve accepted links, and answers no new peers.
        self.endpoint.set_server_config(None);
        let mut cx = task::Context::from_waker(Waker::noop());
        loop {
            let next = pin!(self.endpoint.accept());
            match next.poll(&mut cx) {
                Poll::Ready(Some(incoming)) => incoming.refuse(),
                _ => return,
            }
        }
    }
}
