//! QUIC: one UDP port, encrypted throughout, and a sender that does not take every loss for congestion.

mod config;
mod congestion;
mod explain;
mod handshake;
mod layout;
mod link;
mod listener;
mod options;
mod reader;
mod runtime;
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
use noq::{ClientConfig, Endpoint, Runtime};

pub use self::options::{PathHint, QuicCongestion, QuicDriver, QuicOptions, UnknownCongestion};
use self::{handshake::Context, listener::QuicListener};
use crate::{Link, Listener, Security, Transport, TransportError, tcp::address};

/// The QUIC transport, named `quic`.
#[derive(Clone, Debug, Default)]
pub struct Quic {
    options: QuicOptions,
}

impl Quic {
    /// The name by which the registry knows this transport.
    pub const NAME: &'static str = "quic";

    /// Makes the transport with other limits than the default ones, or with what is known about the path.
    #[must_use]
    pub fn new(options: QuicOptions) -> Self {
        Self { options }
    }

    fn runtime(&self, address: &str) -> Result<Arc<dyn Runtime>, TransportError> {
        runtime::find(self.options.driver).map_err(|source| TransportError::Connect {
            address: address.into(),
            source,
        })
    }

    /// Connects to one address of the host.
    async fn try_connect(
        &self,
        config: ClientConfig,
        address: &str,
        candidate: SocketAddr,
        context: (Instant, Duration),
    ) -> Result<Link, TransportError> {
        let (started, timeout) = context;
        let runtime = self.runtime(address)?;
        let connect_error = |source| TransportError::Connect {
            address: address.into(),
            source,
        };
        let socket = socket::connecting(candidate, self.options.socket_buffer)
            .map_err(connect_error)?;
        let local = socket.local_addr().map_err(connect_error)?;
        let watched = socket.try_clone().map_err(connect_error)?;
        let endpoint =
            Endpoint::new(config::endpoint(), None, socket, runtime).map_err(connect_error)?;
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
        };
        tokio::select! {
            biased;
            link = handshake::authenticate(connecting, context) => link,
            refusal = socket::refusal(watched) => Err(connect_error(refusal)),
        }
    }
}

/// The name every server goes by: it is neither sent nor checked, but the library wants one.
const SERVER_NAME: &str = "127.0.0.1";

#[async_trait]
impl Transport for Quic {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "QUIC over UDP: for long or lossy paths; needs an open UDP port"
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let runtime = self.runtime(address)?;
        let listener = QuicListener::bind(address, security, self.options, runtime).await?;
        Ok(Box::new(listener))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let config = config::client(&self.options, security)?;
        let timed_out = |waiting_for| TransportError::Timeout {
            waiting_for,
            address: address.into(),
            after: self.options.connect_timeout,
        };
        let started = Instant::now();
        let deadline = started + self.options.connect_timeout;
        let addresses = tokio::time::timeout_at(deadline.into(), address::resolve(address))
            .await
            .map_err(|_| timed_out("the name to be resolved"))??;
        let mut last_error = None;
        for (tried, &candidate) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let untried = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            let context = (started, left / untried);
            match self
                .try_connect(config.clone(), address, candidate, context)
                .await
            {
                // Somebody answers there: another address of the host is not better.
                Ok(link) => return Ok(link),
                Err(
                    error @ (TransportError::Connect { .. } | TransportError::PeerVanished | TransportError::Timeout { .. }),
                ) => {
                    tracing::debug!(%candidate, %error, "cannot connect");
                    last_error = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match last_error {
            Some(error @ TransportError::Connect { .. }) => Err(error),
            _ => Err(timed_out("an answer from the peer")),
        }
    }
}
