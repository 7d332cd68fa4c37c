//! QUIC: one UDP port, always encrypted, with a sender that does not treat every loss as
//! congestion.
//!
//! Identity and pinning work as over TCP, with the same TLS configuration and the same ALPN names.
//! There is no plaintext mode.
//!
//! # One link, many streams
//!
//! quinn closes a connection if one stream has more than 1,024 gaps between its received pieces,
//! which happens on long lossy paths (<https://github.com/quinn-rs/quinn/pull/2694>). So each
//! direction of a link is striped over 64 to 256 streams, in stripes of 4 KiB (`layout`). A byte's
//! position in the link determines its stream. The receive window of each stream, 512 KiB, limits
//! the memory for reassembly.
//!
//! Shutting down a writer waits until the peer has acknowledged all data, because the kernel does
//! not retransmit QUIC packets for a process that has ended. A side that has sent and read all data
//! closes the connection with a close code for this case.
//!
//! # Congestion control
//!
//! The default is the model-based controller of reliable UDP, behind quinn's interface
//! (`congestion`). quinn's own BBR is slower: docs/decisions/0023-quic-library.md has the
//! measurements. `cubic` is quinn's, for comparison. With a known rate ([`QuicOptions::path`]) the
//! connection sends at this rate from its first packet, which saves the start-up phase. The
//! controller corrects a rate that is too high within the first round trips.
//!
//! # Threads
//!
//! By default one thread of this process drives all links ([`QuicDriver`]). Packets are
//! acknowledged while the caller computes, and the last packets are sent although the caller's
//! runtime has ended. Dropping a link blocks until this thread has passed the CONNECTION_CLOSE
//! frame to the operating system, but at most 250 ms, because the process may exit right after the
//! drop. [`QuicDriver::Caller`] saves two thread switches per message. But if the caller computes
//! for several seconds without yielding, the peer gets no answers and treats the link as lost.

#[cfg(feature = "auto")]
mod candidate;
mod config;
mod congestion;
mod connection;
mod explain;
mod handshake;
mod layout;
mod link;
mod listener;
mod options;
mod reader;
mod runtime;
mod settings;
#[cfg(feature = "auto")]
mod shared;
// The model of the path is that of the emulator, which needs Linux.
#[cfg(all(test, target_os = "linux"))]
mod simulation;
mod socket;
mod writer;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use quinn::{ClientConfig, Endpoint};

pub use self::options::{QuicCongestion, QuicDriver, QuicOptions, UnknownCongestion};
use self::{
    handshake::{Authenticated, Context},
    listener::{Plain, QuicListener},
    socket::Socket,
};
use crate::{
    ConnectError, FirstFlight, HandshakeError, Link, Listener, Profile, Security, Settings,
    StreamError, Throughput, Transport, TransportError, diagnosis, listening::LinkListener,
    tcp::address,
};

/// The QUIC transport, named `quic`.
///
/// Settings that may follow the name ([`Registry::get`](crate::Registry::get)), as in
/// `quic:rate=1g,rtt=110`:
///
/// * `cc`: `bbr` or `cubic`; sets [`QuicOptions::congestion`]
/// * `rate`: bits per second that the path carries to the peer, as `1000000`, `2.5m` or `1g`; sets
///   [`QuicOptions::path`]
/// * `rtt`: round-trip time of the path in milliseconds; sets [`QuicOptions::path`]
///
/// `rate` is for the sending side. With both `rate` and `rtt`, the windows are computed from them,
/// so set both on both sides. `cubic` uses `rate` only together with `rtt`.
#[derive(Clone, Debug, Default)]
pub struct Quic {
    options: QuicOptions,
}

impl Quic {
    /// The name of this transport in the registry.
    pub const NAME: &'static str = "quic";

    /// Makes the transport with these options.
    #[must_use]
    pub fn new(options: QuicOptions) -> Self {
        Self { options }
    }

    /// Connects to one address of the host.
    async fn try_connect(
        &self,
        (config, security): (ClientConfig, &Security),
        address: &str,
        candidate: SocketAddr,
        context: (Instant, Duration),
    ) -> Result<Authenticated, TransportError> {
        let (started, timeout) = context;
        let connect_error = |source| {
            TransportError::Connect(ConnectError::Connect {
                address: address.into(),
                source,
            })
        };
        let (runtime, handle) = runtime::find(self.options.driver).map_err(connect_error)?;
        let socket =
            socket::connecting(candidate, self.options.socket_buffer).map_err(connect_error)?;
        let local = socket.local_addr().map_err(connect_error)?;
        let socket = Socket::new(socket, &handle).map_err(connect_error)?;
        let watched = socket.clone();
        let endpoint =
            Endpoint::new_with_abstract_socket(config::endpoint(), None, Arc::new(socket), runtime)
                .map_err(connect_error)?;
        let connecting = endpoint
            .connect_with(config, candidate, SERVER_NAME)
            .map_err(|error| config::connect_error(address, error))?;
        let context = Context {
            connect: Some(started.elapsed()),
            started: Instant::now(),
            local,
            peer: candidate,
            timeout,
            options: self.options,
            security: security.clone(),
        };
        tokio::select! {
            biased;
            authenticated = handshake::authenticate(connecting, context) => authenticated,
            refusal = watched.refusal() => Err(connect_error(refusal)),
        }
    }
}

/// The server name for TLS. It is neither sent nor checked, but the library requires one.
const SERVER_NAME: &str = "127.0.0.1";

#[async_trait]
impl Transport for Quic {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "QUIC over UDP: for long or lossy paths; needs an open UDP port"
    }

    fn configure(
        &self,
        settings: &mut Settings,
    ) -> Result<Option<Arc<dyn Transport>>, TransportError> {
        let options = self.options.configured(settings)?;
        Ok(Some(Arc::new(Self { options })))
    }

    fn profile(&self) -> Option<Profile> {
        let profile = Profile {
            setup_round_trips: 1,
            needs_udp: true,
            throughput: match self.options.congestion {
                QuicCongestion::Bbr => Throughput::Model,
                QuicCongestion::Cubic => Throughput::Window,
            },
            first_flight: FirstFlight::AtRate {
                rate: QuicOptions::MODEST_RATE,
                max: self.options.first_flight,
            },
            has_plaintext: false,
            ..Profile::default()
        };
        Some(profile)
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
        let listener = QuicListener::bind(Plain, address, security, self.options).await?;
        Ok(Box::new(LinkListener(listener)))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let is_vague = |error: &TransportError| {
            matches!(error, TransportError::Connect(ConnectError::Connect { .. }))
        };
        let connecting = self.connect_over(address, security, &[Self::NAME]);
        let connected =
            diagnosis::connect_or_explain(connecting, is_vague, address, security, Self::NAME);
        Ok(connected.await?.bare.link())
    }
}

impl Quic {
    /// Connects to a listener and offers it these transports.
    pub(crate) async fn connect_over(
        &self,
        address: &str,
        security: &Security,
        transports: &[&str],
    ) -> Result<Authenticated, TransportError> {
        let config = config::client(&self.options, security, transports)?;
        let started = Instant::now();
        let limit = self.options.connect_timeout;
        let deadline = started + limit;
        let addresses = address::resolve_within(limit, address).await?;
        let mut last_error = None;
        for (tried, &candidate) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let untried = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            let context = (started, left / untried);
            match self
                .try_connect((config.clone(), security), address, candidate, context)
                .await
            {
                // The host has answered, so the connector does not try its other addresses.
                Ok(authenticated) => return Ok(authenticated),
                Err(
                    error @ (TransportError::Connect(ConnectError::Connect { .. })
                    | TransportError::Handshake(HandshakeError::Timeout { .. })
                    | TransportError::Stream(StreamError::PeerVanished)),
                ) => {
                    tracing::debug!(%candidate, %error, "cannot connect");
                    last_error = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match last_error {
            Some(error @ TransportError::Connect(ConnectError::Connect { .. })) => Err(error),
            _ => Err(TransportError::Connect(ConnectError::Timeout {
                waiting_for: "an answer from the peer",
                address: address.into(),
                after: limit,
            })),
        }
    }
}
