//! The TLS or plaintext handshake on an open connection, for both sides, over TCP or any other
//! stream.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::{Duration, Instant},
};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Join, ReadBuf};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use zeroize::Zeroizing;

use super::{read_ahead::ReadAhead, socket::Socket, watchdog};
use crate::{
    Link, LinkInfo, LinkTimings, PathProbe, Security, TransportError, handshakes,
    link::{LinkHalves, LinkReader, LinkWriter},
    mismatch,
    preamble::{self, CheckedReader, CheckedWriter, End, Supported},
    tls::{self, Established, NO_COMMON_TRANSPORT, Pinning},
};

/// The properties of a connection before the handshake.
#[derive(Clone)]
pub(crate) struct Context<A = SocketAddr> {
    pub(crate) local: A,
    pub(crate) peer: A,
    pub(crate) connect: Duration,
    pub(crate) timeout: Duration,
}

/// A stream that a handshake authenticates. Clones are handles to the same stream.
pub(crate) trait Carrier: AsyncRead + AsyncWrite + Clone + Send + Unpin + 'static {
    /// The type of the addresses of the two ends.
    type Address: Clone + ToString + Send + Sync + Unpin;

    /// Converts the error of a failed TLS handshake. If the peer's first bytes are not TLS, the
    /// result names the protocol that they indicate.
    fn explain(&self, error: io::Error) -> TransportError;

    /// Starts the detection of a vanished peer.
    fn watch(&self);

    /// Closes the stream after a failed handshake, slowly enough that the peer can read the alert.
    fn close_politely(self) -> impl Future<Output = ()> + Send;
}

impl Carrier for Socket {
    type Address = SocketAddr;

    fn explain(&self, error: io::Error) -> TransportError {
        self.connection().explain(error)
    }

    fn watch(&self) {
        watchdog::watch(&self.connection());
    }

    async fn close_politely(self) {
        Self::close_politely(self).await;
    }
}

/// The connecting side of handshakes.
pub(crate) type Connector = Side<TlsConnector>;

/// The listening side of handshakes.
pub(crate) type Acceptor = Side<TlsAcceptor>;

/// One side of handshakes. It holds the configuration that all its connections share.
#[derive(Clone)]
pub(crate) enum Side<T> {
    Tls(T, Names),
    Plaintext(End),
}

/// The properties of a side that are needed to check the result of a TLS handshake.
#[derive(Clone)]
pub(crate) struct Names {
    pinning: Pinning,
    /// The description of this side's transports in error messages: `tcp`, or `auto (tcp, quic)`.
    ours: String,
}

/// One authenticated connection.
pub(crate) struct Channel<S: Carrier = Socket> {
    stream: Stream<S>,
    socket: S,
    established: Established,
    context: Context<S::Address>,
    handshake: Duration,
}

/// The byte stream of a connection after the handshake.
enum Stream<S> {
    Tls(Box<TlsStream<Buffered<S>>>),
    /// Plaintext halves. On the connecting side, they check the peer's preamble at the first read.
    Plaintext(CheckedReader<S>, CheckedWriter<S, S>),
}

/// A socket whose reads are buffered. Writes pass through unchanged.
type Buffered<S> = Join<ReadAhead<S>, S>;

fn buffered<S: Carrier>(socket: &S) -> Buffered<S> {
    tokio::io::join(ReadAhead::new(socket.clone()), socket.clone())
}

impl<T> Side<T> {
    /// Makes a side. `tls` is its TLS implementation, or `None` in plaintext. `names` are its
    /// transports, and `ours` is their description in error messages.
    fn with(
        tls: Option<T>,
        security: &Security,
        names: &[&str],
        ours: impl Into<String>,
        listens: bool,
    ) -> Self {
        match tls {
            Some(tls) => Self::Tls(
                tls,
                Names {
                    pinning: Pinning::of(security),
                    ours: ours.into(),
                },
            ),
            None => Self::Plaintext(End {
                supported: Supported::new(names, ours),
                listens,
            }),
        }
    }
}

impl Connector {
    /// Makes this side. `transports` are the names that it supports on its connections, best first.
    /// `ours` is their description in error messages, such as `tcp` or `auto (tcp, quic)`.
    pub(crate) fn new(
        security: &Security,
        transports: &[&str],
        ours: impl Into<String>,
    ) -> Result<Self, TransportError> {
        let names = [transports, &[NO_COMMON_TRANSPORT]].concat();
        let config = tls::client_config(security, &names, super::Tcp::NAME)?;
        let tls = config.map(TlsConnector::from);
        Ok(Self::with(tls, security, transports, ours, false))
    }

    pub(crate) async fn authenticate<S: Carrier>(
        &self,
        mut socket: S,
        context: Context<S::Address>,
    ) -> Result<Channel<S>, TransportError> {
        let started = Instant::now();
        let (stream, established) = match self {
            Self::Tls(connector, names) => {
                let handshake = connector.connect(tls::server_name(), buffered(&socket));
                names.establish(handshake, &socket, &context).await?
            }
            Self::Plaintext(ours) => match ours.supported.only() {
                // The transport is known, so the session can start before the peer's preamble
                // arrives.
                Some(name) => {
                    let preamble = ours.supported.encode();
                    let sending = socket.write_all(&preamble);
                    (context.limit("the preamble to be sent", sending).await?)
                        .map_err(TransportError::from_io)?;
                    let (reader, writer) = preamble::checked(
                        socket.clone(),
                        socket.clone(),
                        ours.clone(),
                        context.timeout,
                        context.peer.to_string(),
                    );
                    (
                        Stream::Plaintext(reader, writer),
                        Established::plaintext(name.to_owned(), None),
                    )
                }
                None => exchange_preambles(ours, socket.clone(), &context).await?,
            },
        };
        Ok(Channel::new(stream, socket, established, context, started))
    }
}

impl Acceptor {
    /// Makes this side. `transports` are the names that it supports on its connections, best first.
    /// `ours` is their description in error messages, such as `tcp` or `auto (tcp, quic)`.
    pub(crate) fn new(
        security: &Security,
        transports: &[&str],
        ours: impl Into<String>,
    ) -> Result<Self, TransportError> {
        let names = [transports, &[NO_COMMON_TRANSPORT]].concat();
        let config = tls::server_config(security, &names, super::Tcp::NAME)?;
        let tls = config.map(TlsAcceptor::from);
        Ok(Self::with(tls, security, transports, ours, true))
    }

    /// Authenticates a connecting peer. If the handshake fails, closes the socket slowly enough
    /// that the peer can read the reason.
    pub(crate) async fn authenticate<S: Carrier>(
        &self,
        socket: S,
        context: Context<S::Address>,
    ) -> Result<Channel<S>, TransportError> {
        let result = self.try_authenticate(socket.clone(), context).await;
        if result.is_err() {
            socket.close_politely().await;
        }
        result
    }

    async fn try_authenticate<S: Carrier>(
        &self,
        socket: S,
        context: Context<S::Address>,
    ) -> Result<Channel<S>, TransportError> {
        let started = Instant::now();
        let (stream, established) = match self {
            Self::Tls(acceptor, names) => {
                let handshake = acceptor.accept(buffered(&socket));
                names.establish(handshake, &socket, &context).await?
            }
            Self::Plaintext(ours) => exchange_preambles(ours, socket.clone(), &context).await?,
        };
        Ok(Channel::new(stream, socket, established, context, started))
    }
}

/// Sends the preamble and waits for that of the peer.
async fn exchange_preambles<S: Carrier>(
    ours: &End,
    mut socket: S,
    context: &Context<S::Address>,
) -> Result<(Stream<S>, Established), TransportError> {
    let exchange = async {
        (socket.write_all(&ours.supported.encode()).await).map_err(TransportError::from_io)?;
        preamble::read(&mut socket, ours).await
    };
    let agreed = context.limit(preamble::WAITING_FOR, exchange).await??;
    let (reader, writer) = preamble::unchecked(socket.clone(), socket);
    Ok((
        Stream::Plaintext(reader, writer),
        Established::plaintext(agreed, None),
    ))
}

impl Names {
    /// Waits for a handshake and checks its result. If the two sides have no common transport, they
    /// exchange the names of their transports.
    async fn establish<S: Carrier>(
        &self,
        handshake: impl Future<Output = io::Result<impl Into<TlsStream<Buffered<S>>>>>,
        socket: &S,
        context: &Context<S::Address>,
    ) -> Result<(Stream<S>, Established), TransportError> {
        let handshaken = context.limit("the TLS handshake", handshake).await?;
        let mut stream = handshaken.map_err(|error| socket.explain(error))?.into();
        let established = tls::established(stream.get_ref().1, self.pinning, super::Tcp::NAME)?;
        if established.transport == NO_COMMON_TRANSPORT {
            let told = mismatch::tell(&mut stream, &self.ours);
            return Err(context
                .limit("the peer to name its transport", told)
                .await?);
        }
        stream.get_mut().0.reader_mut().start();
        Ok((Stream::Tls(Box::new(stream)), established))
    }
}

impl<S: Carrier> Channel<S> {
    fn new(
        stream: Stream<S>,
        socket: S,
        established: Established,
        context: Context<S::Address>,
        started: Instant,
    ) -> Self {
        socket.watch();
        Self {
            stream,
            socket,
            established,
            context,
            handshake: started.elapsed(),
        }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Returns the transport that both sides agreed on.
    pub(crate) fn transport(&self) -> &str {
        &self.established.transport
    }

    pub(crate) fn context(&self) -> &Context<S::Address> {
        &self.context
    }

    /// Returns the description of a link over this connection. `transport` is the transport's name
    /// in it.
    pub(crate) fn info(&self, transport: &'static str) -> LinkInfo {
        LinkInfo {
            transport,
            local_address: self.context.local.to_string(),
            peer_address: self.context.peer.to_string(),
            peer_fingerprint: self.established.peer,
            encrypted: self.is_encrypted(),
            cipher: self.established.cipher.clone(),
            timings: LinkTimings {
                connect: self.context.connect,
                handshake: self.handshake,
            },
        }
    }

    /// Derives a secret that only the two ends of this connection know (RFC 8446, section 7.5).
    /// Returns `None` in plaintext.
    pub(crate) fn export(
        &self,
        label: &[u8],
        context: &[u8],
    ) -> Result<Option<Zeroizing<[u8; 32]>>, TransportError> {
        let Stream::Tls(stream) = &self.stream else {
            return Ok(None);
        };
        let secret = Zeroizing::new([0; 32]);
        let exported = match &**stream {
            TlsStream::Client(stream) => {
                (stream.get_ref().1).export_keying_material(secret, label, Some(context))
            }
            TlsStream::Server(stream) => {
                (stream.get_ref().1).export_keying_material(secret, label, Some(context))
            }
        };
        Ok(Some(exported.map_err(|error| tls::explain(&error))?))
    }

    /// Returns the message in the peer's certificate, such as the offer of `auto`. Returns `None`
    /// if there is no message.
    pub(crate) fn message(&self) -> Option<&[u8]> {
        self.established.message.as_deref()
    }

    /// Returns whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Converts the connection to a link. `transport` is the transport's name in its description.
    pub(crate) fn into_link_of(
        self,
        transport: &'static str,
        probe: Option<Arc<dyn PathProbe>>,
    ) -> Link {
        let info = self.info(transport);
        match self.stream {
            Stream::Tls(stream) => {
                let (reader, writer) = tokio::io::split(*stream);
                Link::new(reader, writer, info, probe)
            }
            Stream::Plaintext(reader, writer) => Link::new(reader, writer, info, probe),
        }
    }
}

impl Channel {
    /// Converts this connection to the parts from which a [`Link`] can be made later.
    pub(crate) fn into_bare(self) -> LinkHalves<LinkReader, LinkWriter> {
        let (info, probe) = (self.info(super::Tcp::NAME), self.socket.probe());
        let (reader, writer) = self.into_halves();
        LinkHalves {
            reader,
            writer,
            info,
            probe,
        }
    }

    pub(crate) fn into_halves(self) -> (LinkReader, LinkWriter) {
        match self.stream {
            Stream::Tls(stream) => {
                let (reader, writer) = tokio::io::split(*stream);
                (Box::new(reader), Box::new(writer))
            }
            Stream::Plaintext(reader, writer) => (Box::new(reader), Box::new(writer)),
        }
    }

    /// Converts this connection to a link of `tcp`.
    pub(super) fn into_link(self) -> Link {
        let probe = self.socket.probe();
        self.into_link_of(super::Tcp::NAME, Some(probe))
    }
}

impl<S: Carrier> AsyncRead for Channel<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Plaintext(reader, _) => Pin::new(reader).poll_read(cx, buf),
        }
    }
}

impl<S: Carrier> AsyncWrite for Channel<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Plaintext(_, writer) => Pin::new(writer).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Plaintext(_, writer) => Pin::new(writer).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Plaintext(_, writer) => Pin::new(writer).poll_shutdown(cx),
        }
    }
}

impl<A: ToString> Context<A> {
    /// Runs `future`, but returns a timeout error if it takes longer than the time limit of a
    /// handshake.
    pub(crate) async fn limit<F: Future>(
        &self,
        waiting_for: &'static str,
        future: F,
    ) -> Result<F::Output, TransportError> {
        handshakes::limit(self.timeout, waiting_for, &self.peer, future).await
    }
}
