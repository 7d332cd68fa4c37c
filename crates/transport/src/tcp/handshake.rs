//! From an open TCP connection to an authenticated link, on either side.

use std::{
    future::Future,
    net::SocketAddr,
    time::{Duration, Instant},
};

use rustls::CommonState;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{Tcp, socket::Socket, watchdog};
use crate::{
    Fingerprint, Link, LinkInfo, LinkTimings, Security, TransportError,
    preamble::{self, CheckedReader, PREAMBLE},
    tls,
};

/// What is known about a connection before the handshake.
pub(super) struct Context {
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) connect: Duration,
    pub(super) timeout: Duration,
}

/// The connecting side.
pub(super) enum Connector {
    Tls(TlsConnector),
    Plaintext,
}

/// The listening side.
#[derive(Clone)]
pub(super) enum Acceptor {
    Tls(TlsAcceptor),
    Plaintext,
}

impl Connector {
    pub(super) fn new(security: &Security) -> Result<Self, TransportError> {
        Ok(match security {
            Security::Tls { identity, peers } => {
                Self::Tls(tls::client_config(identity, peers)?.into())
            }
            Security::Plaintext => Self::Plaintext,
        })
    }

    pub(super) async fn authenticate(
        &self,
        mut socket: Socket,
        context: Context,
    ) -> Result<Link, TransportError> {
        let started = Instant::now();
        match self {
            Self::Tls(connector) => {
                let handshake = connector.connect(tls::server_name(), socket.clone());
                let stream = context
                    .limit("the TLS handshake", handshake)
                    .await?
                    .map_err(|error| socket.connection().explain(error))?;
                let trust = Trust::from_tls(stream.get_ref().1)?;
                let (reader, writer) = tokio::io::split(stream);
                Ok(context.link(&socket, reader, writer, started, trust))
            }
            Self::Plaintext => {
                context
                    .limit("the preamble to be sent", socket.write_all(&PREAMBLE))
                    .await?
                    .map_err(TransportError::from_io)?;
                let reader =
                    CheckedReader::new(socket.clone(), context.timeout, context.peer.to_string());
                Ok(context.link(&socket, reader, socket.clone(), started, Trust::Nobody))
            }
        }
    }
}

impl Acceptor {
    pub(super) fn new(security: &Security) -> Result<Self, TransportError> {
        Ok(match security {
            Security::Tls { identity, peers } => {
                Self::Tls(tls::server_config(identity, peers)?.into())
            }
            Security::Plaintext => Self::Plaintext,
        })
    }

    /// Authenticates whoever connected. A stranger is sent off in a way that lets it know why.
    pub(super) async fn authenticate(
        &self,
        socket: Socket,
        context: Context,
    ) -> Result<Link, TransportError> {
        let result = self.try_authenticate(socket.clone(), &context).await;
        if result.is_err() {
            socket.close_politely().await;
        }
        result
    }

    async fn try_authenticate(
        &self,
        mut socket: Socket,
        context: &Context,
    ) -> Result<Link, TransportError> {
        let started = Instant::now();
        match self {
            Self::Tls(acceptor) => {
                let handshake = acceptor.accept(socket.clone());
                let stream = context
                    .limit("the TLS handshake", handshake)
                    .await?
                    .map_err(|error| socket.connection().explain(error))?;
                let trust = Trust::from_tls(stream.get_ref().1)?;
                let (reader, writer) = tokio::io::split(stream);
                Ok(context.link(&socket, reader, writer, started, trust))
            }
            Self::Plaintext => {
                let exchange = async {
                    socket
                        .write_all(&PREAMBLE)
                        .await
                        .map_err(TransportError::from_io)?;
                    preamble::read(&mut socket).await
                };
                context
                    .limit("the peer's plaintext preamble", exchange)
                    .await??;
                Ok(context.link(
                    &socket,
                    socket.clone(),
                    socket.clone(),
                    started,
                    Trust::Nobody,
                ))
            }
        }
    }
}

/// Whom the handshake has shown the peer to be.
enum Trust {
    Peer {
        fingerprint: Fingerprint,
        cipher: String,
    },
    Nobody,
}

impl Trust {
    fn from_tls(connection: &CommonState) -> Result<Self, TransportError> {
        let tls::Established { peer, cipher } = tls::established(connection)?;
        Ok(Self::Peer {
            fingerprint: peer,
            cipher,
        })
    }
}

impl Context {
    async fn limit<F: Future>(
        &self,
        waiting_for: &'static str,
        future: F,
    ) -> Result<F::Output, TransportError> {
        tokio::time::timeout(self.timeout, future)
            .await
            .map_err(|_| TransportError::Timeout {
                waiting_for,
                address: self.peer.to_string(),
                after: self.timeout,
            })
    }

    fn link(
        &self,
        socket: &Socket,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        started: Instant,
        trust: Trust,
    ) -> Link {
        watchdog::watch(&socket.connection());
        let (peer_fingerprint, cipher) = match trust {
            Trust::Peer {
                fingerprint,
                cipher,
            } => (Some(fingerprint), Some(cipher)),
            Trust::Nobody => (None, None),
        };
        let info = LinkInfo {
            transport: Tcp::NAME,
            local_address: self.local.to_string(),
            peer_address: self.peer.to_string(),
            peer_fingerprint,
            encrypted: peer_fingerprint.is_some(),
            cipher,
            timings: LinkTimings {
                connect: self.connect,
                handshake: started.elapsed(),
            },
        };
        Link::new(reader, writer, info, Some(socket.probe()))
    }
}
