//! QUIC: one UDP port, always encrypted, with a sender that does not treat every loss as
//! congestion.
//!
//! Identity and pinning work as over TCP, with the same TLS configuration and the same ALPN names.
//! There is no plaintext mode.
//!
//! # One link, many streams
//!
//! The QUIC library closes a connection if more than 1,024 received pieces of one stream wait for
//! an earlier lost piece, which happens on long lossy paths. So each direction of a link is striped
//! over 64 to 256 streams, in stripes of 4 KiB (`layout`). A byte's position in the link determines
//! its stream. The receive window of each stream, 512 KiB, limits the memory for reassembly. One
//! limit remains: the connection ends with an error if more than about 2,000 flushed messages of 40
//! to 250 bytes are unread on *each* stream. With 64 streams, these are 130,000 messages.
//!
//! Shutting down a writer waits until the peer has acknowledged all data, because the kernel does
//! not retransmit QUIC packets for a process that has ended. A side that has sent and read all data
//! closes the connection with a close code for this case.
//!
//! # Library and congestion control
//!
//! The library is noq, n0's fork of quinn, because its pacer follows the congestion controller and
//! quinn's does not. quinn's BBR does not pace at its estimated rate, and sends far above the rate
//! of the path. noq has BBR version 3.
//!
//! The table gives the seconds from the established link to the last received byte. The path is
//! emulated in virtual time, with a round-trip time of 110 ms, 1 Gbit/s, and a queue of one
//! bandwidth-delay product. The values are medians of 5 seeds (`simulation::grid`). The column
//! "limit" is the one-way delay plus the transmission time of the bytes at the path's rate. The
//! times of kernel TCP and quinn on such a path are from other measurements, in real time.
//!
//! | loss | MB | limit | `bbr3` | `cubic` | known rate | TCP cubic | TCP bbr | quinn cubic | bbr |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | 0 | 2.77 | 0.077 | 0.73 | 0.80 | 0.079 | 0.84 | 0.93 | 1.02 | 0.95 |
//! | 0 | 30.5 | 0.299 | 1.17 | 1.28 | 0.33 | 1.31 | 1.34 | 1.47 | 1.44 |
//! | 0.05 % | 2.77 | 0.077 | 0.73 | 0.86 | 0.18 | 0.94 | 0.99 | 1.05 | 0.95 |
//! | 0.05 % | 30.5 | 0.299 | 1.24 | 9.63 | 0.41 | 20.4 | 1.58 | 26.6 | 1.64 |
//! | 1 % | 2.77 | 0.077 | 0.84 | 12.6 | 0.19 | 15.8 | 1.33 | 14.9 | 1.14 |
//! | 1 % | 30.5 | 0.299 | 1.35 | 190 | 0.54 | > 60 | 2.09 | > 60 | 1.70 |
//!
//! Virtual time excludes processor time. The following times are over real sockets, on the
//! testbed's path of 110 ms and 100 Mbit/s: medians of 5 runs, on two cores that were busy with
//! other work.
//!
//! 2.77 MB (limit 0.28 s): without loss, QUIC with `bbr3` took 0.87 s, QUIC with a known rate 0.32
//! s, TCP with cubic 0.96 s, and TCP with bbr 0.98 s. With 0.05 % loss, the same four took 0.85 s,
//! 0.41 s, 1.83 s and 1.05 s. With 1 % loss, `bbr3` took 0.91 s, TCP with cubic 13.8 s, and TCP
//! with bbr 1.57 s.
//!
//! 30.5 MB (limit 2.5 s): `bbr3` took 3.29 s without loss and 3.45 s with 0.05 % loss, and TCP with
//! bbr took 3.41 s and 3.37 s. A process that gets too little processor time is several times
//! slower, because pacing runs in user space.
//!
//! `bbr3` is the default, `cubic` is for comparison. With a known rate ([`QuicOptions::path`]) the
//! connection paces at this rate from its first packet (`congestion`), which saves the whole
//! start-up phase. A rate that is too high is corrected after one and a half round trips. After six
//! round trips of sending, only BBR determines the rate. Under random loss, its rate then
//! decreases: on 100 Mbit/s with 1 % loss, 30 MB take as long with a known rate as without.
//!
//! # Threads
//!
//! By default one thread of this process drives all links ([`QuicDriver`]). Packets are
//! acknowledged while the caller computes, and the last packets are sent although the caller's
//! runtime has ended. Dropping a link blocks until this thread has passed the CONNECTION_CLOSE
//! frame to the operating system, but at most 250 ms, because the process may exit right after the
//! drop. [`QuicDriver::Caller`] saves two thread switches per message. But if the caller computes
//! for several seconds without yielding, the peer gets no answers and treats the link as lost.

#[cfg(unix)]
mod candidate;
mod config;
mod congestion;
mod connection;
mod explain;
mod handshake;
mod layout;
mod link;
mod listener;
mod meter;
mod options;
mod rate_cache;
mod reader;
mod runtime;
mod settings;
#[cfg(unix)]
mod shared;
#[cfg(test)]
mod simulation;
mod socket;
mod writer;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use noq::{ClientConfig, Endpoint};

pub use self::options::{QuicCongestion, QuicDriver, QuicOptions, UnknownCongestion};
use self::{
    handshake::{Authenticated, Context},
    listener::{Plain, QuicListener},
    socket::Socket,
};
use crate::{
    ConnectError, FirstFlight, HandshakeError, Link, Listener, Profile, Security, Settings,
    StreamError, Throughput, Transport, TransportError, diagnosis, listening::LinkListener,
    tcp::address, tls::Pinning,
};

/// The QUIC transport, named `quic`.
///
/// Settings that may follow the name ([`Registry::get`](crate::Registry::get)), as in
/// `quic:rate=1g,rtt=110`:
///
/// * `cc`: `bbr3` or `cubic`; sets [`QuicOptions::congestion`]
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
        (config, pinning): (ClientConfig, Pinning),
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
            Endpoint::new_with_abstract_socket(config::endpoint(), None, Box::new(socket), runtime)
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
            streams: self.options.streams(),
            driver: self.options.driver,
            pinning,
            cache: None,
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
                QuicCongestion::Bbr3 => Throughput::Model,
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

    #[cfg(unix)]
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
        let pinning = Pinning::of(security);
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
                .try_connect((config.clone(), pinning), address, candidate, context)
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
