//! TCP: works everywhere, and is the baseline the other transports are measured against.
//!
//! Sockets are set up for a protocol that streams megabytes and then waits for one small answer: no Nagle delay, few
//! unsent bytes in the kernel, autotuned buffers, and a vanished peer noticed within 10 seconds, also when idle.
//! Protection is TLS 1.3 with pinned keys, or plaintext when both sides ask for it by name.

pub(crate) mod address;
mod handshake;
mod info;
pub(crate) mod listener;
mod socket;
mod watchdog;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::net::TcpStream;

use self::{
    handshake::{Acceptor, Connector, Context},
    listener::TcpAcceptor,
    socket::Socket,
};
use crate::{Link, Listener, Security, Transport, TransportError};

/// The TCP transport, named `tcp`.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    options: TcpOptions,
}

/// Limits of the TCP transport. The defaults suit paths of up to about a second of round-trip time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TcpOptions {
    /// Time to resolve the name and to open the connection, over all addresses of the host together. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time to authenticate, on either side. Default: 5 s. A TLS handshake takes one round trip after connecting, and a
    /// lost packet of it costs another second.
    pub handshake_timeout: Duration,
    /// Handshakes a listener runs at once; one more drops the oldest of the address that has most of them. Each takes
    /// a socket and at most about 100 KiB. Default: 64.
    pub max_handshakes: usize,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(5),
            max_handshakes: 64,
        }
    }
}

impl Tcp {
    /// The name by which the registry knows this transport.
    pub const NAME: &'static str = "tcp";

    /// Makes the transport with other limits than the default ones.
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

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let acceptor = Acceptor::new(security)?;
        let listener = TcpAcceptor::bind(address, acceptor, self.options).await?;
        Ok(Box::new(listener))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let connector = Connector::new(security)?;
        let started = Instant::now();
        let (stream, peer) = self.open(address).await?;
        let connect_error = |source| TransportError::Connect {
            address: address.into(),
            source,
        };
        let local = stream.local_addr().map_err(connect_error)?;
        let context = Context {
            local,
            peer,
            connect: started.elapsed(),
            timeout: self.options.handshake_timeout,
        };
        let socket = Socket::new(stream).map_err(connect_error)?;
        connector.authenticate(socket, context).await
    }
}

impl Tcp {
    /// Tries the addresses of the host in turn; each gets its share of the time that is left.
    async fn open(&self, address: &str) -> Result<(TcpStream, SocketAddr), TransportError> {
        let timed_out = |waiting_for| TransportError::Timeout {
            waiting_for,
            address: address.into(),
            after: self.options.connect_timeout,
        };
        let deadline = Instant::now() + self.options.connect_timeout;
        let addresses = tokio::time::timeout_at(deadline.into(), address::resolve(address))
            .await
            .map_err(|_| timed_out("the name to be resolved"))??;
        let mut last_error = None;
        for (tried, &candidate) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let untried = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            match tokio::time::timeout(left / untried, TcpStream::connect(candidate)).await {
                Ok(Ok(stream)) => return Ok((stream, candidate)),
                Ok(Err(source)) => {
                    tracing::debug!(%candidate, error = %source, "cannot connect");
                    last_error = Some(source);
                }
                Err(_) => tracing::debug!(%candidate, "no answer to the connection request"),
            }
        }
        Err(match last_error {
            Some(source) => TransportError::Connect {
                address: address.into(),
                source,
            },
            None => timed_out("the connection to open"),
        })
    }
}
