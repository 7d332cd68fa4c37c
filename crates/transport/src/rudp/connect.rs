//! The connecting end of reliable UDP.

use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::ClientConfig;
use transpute_rudp::RudpConnection;

use super::{
    RudpOptions,
    endpoint::{Endpoint, EndpointHandle},
    halves::{Open, Reader, Writer},
    handshake::{self, Credentials, Outcome},
    link::{Shared, Wait},
    socket::Socket,
};
use crate::{
    ConnectError, HandshakeError, LinkInfo, LinkTimings, PathSample, Security, StreamError,
    TransportError, tcp::address, tls::Established,
};

pub(super) type Authenticated = crate::listening::Authenticated<Reader, Writer>;

/// A connection during its set-up. Dropping it abandons the connection, unless
/// [`authenticated`](Self::authenticated) has succeeded.
pub(super) struct Attempt {
    shared: Arc<Shared>,
    outcome: Outcome,
    is_taken: bool,
}

impl Attempt {
    pub(super) fn new(shared: Arc<Shared>, outcome: Outcome) -> Self {
        Self {
            shared,
            outcome,
            is_taken: false,
        }
    }

    /// Waits until the peer is authenticated. `connect` is the duration of the name resolution, and
    /// `began` is the start of the set-up. Also returns a handle on the path measurements.
    pub(super) async fn authenticated(
        mut self,
        name: &'static str,
        (local, peer): (SocketAddr, SocketAddr),
        (connect, began): (Duration, Instant),
    ) -> Result<(Authenticated, Watch), TransportError> {
        let opened = poll_fn(|cx| self.shared.poll_open(cx, Wait::Established)).await;
        if let Err(broken) = opened {
            let error = match broken.is_security_mismatch() {
                true => self.outcome.security_mismatch(),
                false => broken.during_setup(peer, began.elapsed()),
            };
            return Err(self.outcome.error().unwrap_or(error));
        }
        let Established {
            peer: fingerprint,
            cipher,
            transport,
            message,
        } = self.outcome.established().ok_or(StreamError::Closed)?;
        let info = LinkInfo {
            transport: name,
            local_address: local.to_string(),
            peer_address: peer.to_string(),
            peer_fingerprint: fingerprint,
            encrypted: cipher.is_some(),
            cipher,
            timings: LinkTimings {
                connect,
                handshake: began.elapsed(),
            },
        };
        self.is_taken = true;
        let authenticated = Authenticated {
            bare: Open::new(Arc::clone(&self.shared)).bare(info),
            message,
            transport,
        };
        Ok((authenticated, Watch(Arc::clone(&self.shared))))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_taken {
            self.shared.abandon();
        }
    }
}

/// A handle on the path measurements of a connection during its set-up.
pub(crate) struct Watch(Arc<Shared>);

impl Watch {
    /// Waits until the results of both probe trains are known, or a time limit has passed.
    /// Cancel-safe. Only one task at a time may wait.
    pub(crate) async fn measured(&self) {
        // Ignore an error: reads and writes of the link will return it.
        let _ = poll_fn(|cx| self.0.poll_open(cx, Wait::Measured)).await;
    }

    /// Returns the current path measurements.
    pub(crate) fn sample(&self) -> PathSample {
        self.0.current_sample()
    }
}

/// Connects to the first address of the host that answers. `transports` are offered to the
/// listener. `name` is the transport in the description of the link.
pub(super) async fn connect(
    address: &str,
    security: &Security,
    name: &'static str,
    transports: &[&str],
    options: RudpOptions,
) -> Result<(Authenticated, Watch), TransportError> {
    let credentials = handshake::client(security, transports)?;
    let began = Instant::now();
    let addresses = address::resolve_within(options.setup_timeout, address).await?;
    let mut last_error = None;
    for candidate in addresses {
        match try_connect(&credentials, candidate, name, options, began.elapsed()).await {
            // The host has answered, so its other addresses are not tried.
            Ok(connected) => return Ok(connected),
            Err(
                error @ TransportError::Connect(
                    ConnectError::Connect { .. } | ConnectError::UdpBlocked { .. },
                ),
            ) => {
                tracing::debug!(%candidate, %error, "cannot connect");
                last_error = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last_error.unwrap_or_else(|| {
        TransportError::Connect(ConnectError::Connect {
            address: address.into(),
            source: std::io::ErrorKind::AddrNotAvailable.into(),
        })
    }))
}

async fn try_connect(
    credentials: &Credentials<ClientConfig>,
    peer: SocketAddr,
    name: &'static str,
    options: RudpOptions,
    resolving: Duration,
) -> Result<(Authenticated, Watch), TransportError> {
    let connect_error = |source| {
        TransportError::Connect(ConnectError::Connect {
            address: peer.to_string(),
            source,
        })
    };
    let began = Instant::now();
    let socket = Socket::connecting(peer, options.socket_buffer).map_err(connect_error)?;
    let local = socket.local();
    let handle: EndpointHandle = Endpoint::start(socket).map_err(connect_error)?;
    let endpoint = handle.endpoint();
    let outcome = Outcome::default();
    let config = options.config(super::is_repaired(name), peer.ip());
    let tls = |parameters: &[u8]| credentials.begin(parameters, &outcome);
    let connection =
        RudpConnection::connect(peer, config, endpoint.served.now(), &rand::random(), tls)
            .ok_or_else(|| {
                let refused = || {
                    TransportError::Handshake(HandshakeError::Tls {
                        detail: "the cryptographic library refuses to begin".into(),
                    })
                };
                outcome.error().unwrap_or_else(refused)
            })?;
    let control = options.control.name();
    let shared = Arc::new(Shared::new(connection, endpoint.hold(), None, control));
    if !options.probes() {
        shared.expect_no_estimate();
    }
    endpoint.add_sole(&shared);
    shared.serve();
    Attempt::new(shared, outcome)
        .authenticated(name, (local, peer), (resolving, began))
        .await
}
