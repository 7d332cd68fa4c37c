//! The TCP transport. It works on every network, and is the baseline for the other transports.
//!
//! The socket options suit a protocol that streams megabytes and then waits for a small answer: no
//! Nagle delay, few unsent bytes in the kernel, autotuned buffers, and detection of a vanished peer
//! within 10 seconds, also when idle. Links use TLS 1.3 with pinned keys, or plaintext if both
//! sides request it.

pub(crate) mod address;
#[cfg(feature = "auto")]
pub(crate) mod candidate;
mod ceilings;
mod congestion;
mod handshake;
mod info;
mod linger;
pub(crate) mod listener;
mod read_ahead;
pub(crate) mod request;
mod retries;
mod socket;
#[cfg(all(test, target_os = "linux"))]
mod vanish;
mod watchdog;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::net::TcpStream;

pub use self::congestion::{CongestionControl, InvalidCongestionControl};
pub(crate) use self::{
    handshake::{Acceptor, Carrier, Channel, Connector, Context},
    listener::{ConnectionHandler, Port},
    socket::Socket,
};
use crate::{
    ConnectError, Link, Listener, Profile, Security, Settings, Throughput, Transport,
    TransportError, diagnosis, listening::LinkListener,
};

/// The TCP transport, named `tcp`.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    options: TcpOptions,
}

/// Options of the TCP transport. The defaults suit paths with a round-trip time of up to about one
/// second.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TcpOptions {
    /// Time limit for resolving the host name and opening the connection. It covers the attempts to
    /// all addresses of the host together. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time limit of the TLS or plaintext handshake, on both sides. A TLS handshake takes one round
    /// trip after connecting, and each lost packet may add a second. Default: 5 s.
    pub handshake_timeout: Duration,
    /// Maximum number of concurrent handshakes of a listener. At this number, a new connection
    /// aborts the oldest handshake from the network with the most handshakes. Each handshake uses a
    /// socket and at most about 100 KiB of memory. Default: 64.
    pub max_handshakes: usize,
    /// The congestion control of every connection, from its first segment on. Default: cubic
    /// between loopback addresses, and otherwise the system's default
    /// (`net.ipv4.tcp_congestion_control`). On systems other than Linux, connecting and listening
    /// fail if this is `Some`.
    pub congestion_control: Option<CongestionControl>,
    /// Time without an answer after which the peer is considered vanished. Only tests change it.
    /// Default: 8 s.
    pub(crate) peer_timeout: Duration,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(5),
            max_handshakes: 64,
            congestion_control: None,
            peer_timeout: socket::PEER_TIMEOUT,
        }
    }
}

/// Maximum number of unsent bytes per connection in the kernel (`TCP_NOTSENT_LOWAT`). It is large
/// enough to keep the path busy between two polls of the sending task. It is small enough that a
/// control message does not wait behind megabytes of tables.
pub(crate) const UNSENT_LIMIT: u32 = 128 * 1024;

/// Sets the congestion control that the peer has chosen. If this fails, for example because this
/// system does not have it, the connection keeps its congestion control and the error is logged.
pub(crate) fn adopt(channel: &Channel, control: Option<CongestionControl>) {
    if let Some(name) = control
        && let Err(error) = channel.socket().set_congestion_control(name)
    {
        tracing::debug!(%error, "this system lacks the congestion control that the peer picked; keeping ours");
    }
}

impl Tcp {
    /// The name of this transport in the registry.
    pub const NAME: &'static str = "tcp";

    /// Makes the transport with these options.
    #[must_use]
    pub fn new(options: TcpOptions) -> Self {
        Self { options }
    }
}

#[async_trait]
impl Transport for Tcp {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "TCP with TLS 1.3: works everywhere; best on short or loss-free paths"
    }

    fn configure(
        &self,
        settings: &mut Settings,
    ) -> Result<Option<Arc<dyn Transport>>, TransportError> {
        let options = self.options.configured(settings)?;
        Ok(Some(Arc::new(Self { options })))
    }

    fn profile(&self) -> Option<Profile> {
        Some(self.options.profile())
    }

    #[cfg(feature = "auto")]
    fn shared_port(&self) -> Option<crate::auto::candidate::SharedPort> {
        Some(crate::auto::candidate::SharedPort::new(self.clone()))
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let acceptor = Acceptor::new(security, &[Self::NAME], Self::NAME)?;
        let port = Port::bind(address, acceptor, self.options).await?;
        Ok(Box::new(LinkListener(port)))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let connector = Connector::new(security, &[Self::NAME], Self::NAME)?;
        let route = Route::find(address, self.options).await?;
        let (socket, context) = match route.open(UNSENT_LIMIT).await {
            Ok(open) => open,
            Err(error) => {
                return Err(diagnosis::explain_refused(error, address, security, Self::NAME).await);
            }
        };
        Ok(connector.authenticate(socket, context).await?.into_link())
    }
}

impl TcpOptions {
    /// Returns the profile of a transport with one connection. The set-up takes two round trips:
    /// one for the TCP handshake, and one for TLS.
    pub(crate) fn profile(&self) -> Profile {
        Profile {
            throughput: Throughput::Kernel(self.congestion_control),
            ..Profile::default()
        }
    }

    /// Takes the setting `cc` and returns the options with this congestion control. `tcp-striped`
    /// uses this method too.
    pub(crate) fn configured(self, settings: &mut Settings) -> Result<Self, TransportError> {
        let congestion_control = settings.take("cc", |name| {
            name.parse().map_err(|error| format!("{error}"))
        })?;
        Ok(Self {
            congestion_control: congestion_control.or(self.congestion_control),
            ..self
        })
    }
}

/// The addresses of a host, with the time limit for connecting.
#[derive(Clone)]
pub(crate) struct Route {
    address: String,
    addresses: Vec<SocketAddr>,
    options: TcpOptions,
    started: Instant,
}

impl Route {
    pub(crate) async fn find(address: &str, options: TcpOptions) -> Result<Self, TransportError> {
        let started = Instant::now();
        let addresses = address::resolve_within(options.connect_timeout, address).await?;
        Ok(Self {
            address: address.into(),
            addresses,
            options,
            started,
        })
    }

    /// Returns the route to the address of an existing peer, to open further connections.
    pub(crate) fn to(peer: SocketAddr, options: TcpOptions) -> Self {
        Self {
            address: peer.to_string(),
            addresses: vec![peer],
            options,
            started: Instant::now(),
        }
    }

    /// Opens a connection whose kernel holds at most `unsent_limit` unsent bytes.
    pub(crate) async fn open(
        &self,
        unsent_limit: u32,
    ) -> Result<(Socket, Context), TransportError> {
        let connect_error = |source| {
            TransportError::Connect(ConnectError::Connect {
                address: self.address.clone(),
                source,
            })
        };
        let (stream, peer, lost) = self.connect().await?;
        let context = Context {
            local: stream.local_addr().map_err(connect_error)?,
            peer,
            connect: self.started.elapsed(),
            timeout: self.options.handshake_timeout,
        };
        let socket = Socket::new(stream, unsent_limit, lost, self.options.peer_timeout)
            .map_err(connect_error)?;
        Ok((socket, context))
    }

    /// Tries the addresses of the host in order and returns the first connection. Divides the
    /// remaining time equally among the remaining addresses. Also returns the number of SYNs that
    /// were lost.
    async fn connect(&self) -> Result<(TcpStream, SocketAddr, u64), TransportError> {
        let deadline = self.started + self.options.connect_timeout;
        let mut last_error = None;
        for (tried, &candidate) in self.addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let untried = u32::try_from(self.addresses.len() - tried).unwrap_or(u32::MAX);
            let begin = || async {
                let socket = congestion::new_socket(candidate)?;
                let wanted = self.options.congestion_control;
                congestion::prepare((&socket).into(), wanted, candidate)
                    .map_err(TransportError::into_io)?;
                retries::prepare(&(&socket).into());
                socket.connect(candidate).await
            };
            let attempt = request::open(begin, tokio::time::sleep(request::SYN_TIMEOUT));
            match tokio::time::timeout(left / untried, attempt).await {
                Ok(Ok((stream, lost))) => return Ok((stream, candidate, lost)),
                Ok(Err(source)) => {
                    // A `TransportError`, such as an unsupported congestion control, would occur
                    // for every address.
                    let source = match source.downcast::<TransportError>() {
                        Ok(error) => return Err(error),
                        Err(source) => source,
                    };
                    tracing::debug!(%candidate, error = %source, "cannot connect");
                    last_error = Some(source);
                }
                Err(_) => tracing::debug!(%candidate, "no answer to the connection request"),
            }
        }
        Err(match last_error {
            Some(source) => TransportError::Connect(ConnectError::Connect {
                address: self.address.clone(),
                source,
            }),
            None => TransportError::Connect(ConnectError::Timeout {
                waiting_for: "the connection to open",
                address: self.address.clone(),
                after: self.options.connect_timeout,
            }),
        })
    }
}
