//! TLS links with pinned keys over any byte stream, for transports of other crates.
//!
//! [`connect`] and [`accept`] authenticate the two ends of a stream as the TCP transport does: TLS
//! 1.3 with X25519MLKEM768 and pinned keys, or the plaintext preamble on request. [`Handshakes`]
//! runs the handshakes of a listener in separate tasks. Their number and duration are limited.
//!
//! ```
//! # use transpute_transport::{Identity, Security, secure::{self, Stream}};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use std::sync::Arc;
//! let (a, b) = (Arc::new(Identity::generate()?), Arc::new(Identity::generate()?));
//! let (a_is, b_is) = (a.fingerprint(), b.fingerprint());
//! let (left, right) = tokio::io::duplex(1 << 16);
//! let (ours, theirs) = (Security::tls(a, [b_is]), Security::tls(b, [a_is]));
//! let (connected, accepted) = tokio::join!(
//!     secure::connect(left, &ours, Stream::new("pipe", "here", "there")),
//!     secure::accept(right, &theirs, Stream::new("pipe", "there", "here")),
//! );
//! assert_eq!(connected?.info().peer_fingerprint, Some(b_is));
//! assert_eq!(accepted?.info().peer_fingerprint, Some(a_is));
//! # Ok(())
//! # }
//! ```

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::{
    Link, PathProbe, Security, TransportError, handshakes,
    preamble::{self, PREAMBLE},
    tcp::{self, Acceptor, Carrier, Channel, Connector},
    throttle::{self, Throttle},
};

/// Default time limit of a handshake, as for the TCP transport. It suffices for two round trips on
/// a slow path and one lost packet.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent handshakes of a listener. Same as for the TCP transport. Each
/// handshake uses a stream and about 100 KiB of memory.
const MAX_HANDSHAKES: usize = 64;

/// After a rejection, the listener keeps reading for this time, and for at most [`LINGER_READS`]
/// reads of 1 KiB. An immediate close could discard the alert with the reason before the peer reads
/// it.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS: usize = 64;

/// The properties of a stream before the handshake.
#[derive(Clone)]
#[non_exhaustive]
pub struct Stream {
    /// The name of the transport. Both sides must use the same name.
    pub transport: &'static str,
    /// The address of this side, for reports.
    pub local_address: String,
    /// The address of the peer, for reports and errors.
    pub peer_address: String,
    /// The peer's IP address, if it has one. When all handshake slots are taken, the listener drops
    /// a handshake of the network that has most of them.
    pub peer_ip: Option<IpAddr>,
    /// Time that opening the stream took, for [`LinkTimings`](crate::LinkTimings). Default: zero,
    /// as on the listening side.
    pub connect: Duration,
    /// Time limit of the handshake. Default: 5 s.
    pub timeout: Duration,
    /// The transport's live measurements of the path. Default: none.
    pub probe: Option<Arc<dyn PathProbe>>,
}

impl Stream {
    /// Describes a stream of the transport `transport` between two addresses.
    pub fn new(
        transport: &'static str,
        local_address: impl Into<String>,
        peer_address: impl Into<String>,
    ) -> Self {
        Self {
            transport,
            local_address: local_address.into(),
            peer_address: peer_address.into(),
            peer_ip: None,
            connect: Duration::ZERO,
            timeout: HANDSHAKE_TIMEOUT,
            probe: None,
        }
    }

    fn context(&self) -> tcp::Context<String> {
        tcp::Context {
            local: self.local_address.clone(),
            peer: self.peer_address.clone(),
            connect: self.connect,
            timeout: self.timeout,
        }
    }

    fn link(self, channel: Channel<impl Carrier>) -> Link {
        channel.into_link_of(self.transport, self.probe)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("transport", &self.transport)
            .field("local_address", &self.local_address)
            .field("peer_address", &self.peer_address)
            .finish_non_exhaustive()
    }
}

/// Authenticates the connecting end of a stream and makes it a link.
///
/// The link fulfils the contract of [`Link`] if the stream delivers bytes in order, blocks writes
/// while the peer does not read, and returns an error when the peer vanishes. If the stream is
/// dropped after a shutdown, the bytes sent before must still arrive: a TCP socket that is closed
/// with unread bytes resets the connection.
///
/// # Errors
/// Returns [`HandshakeError::NoPinnedPeer`](crate::HandshakeError::NoPinnedPeer). Returns
/// [`ConnectError::Timeout`](crate::ConnectError::Timeout). Returns
/// [`HandshakeError::WrongPeer`](crate::HandshakeError::WrongPeer),
/// [`HandshakeError::SecurityMismatch`](crate::HandshakeError::SecurityMismatch),
/// [`HandshakeError::NoCommonTransport`](crate::HandshakeError::NoCommonTransport),
/// [`HandshakeError::NotTranspute`](crate::HandshakeError::NotTranspute) and the other handshake
/// errors of the TCP transport.
pub async fn connect<S>(
    stream: S,
    security: &Security,
    about: Stream,
) -> Result<Link, TransportError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let connector = Connector::new(security, &[about.transport], about.transport)?;
    let handshake = connector.authenticate(Shared::new(stream), about.context());
    Ok(about.link(handshake.await?))
}

/// Authenticates the listening end of a stream and makes it a link. A rejected peer receives the
/// reason for the rejection.
///
/// # Errors
/// See [`connect`].
pub async fn accept<S>(
    stream: S,
    security: &Security,
    about: Stream,
) -> Result<Link, TransportError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let acceptor = Acceptor::new(security, &[about.transport], about.transport)?;
    let handshake = acceptor.authenticate(Shared::new(stream), about.context());
    Ok(about.link(handshake.await?))
}

/// The handshakes of a listener, each in its own task, so that a slow peer does not delay others.
/// Dropping this value aborts the handshakes.
pub struct Handshakes {
    security: Security,
    running: handshakes::Handshakes<(String, Result<Link, TransportError>)>,
    log: Throttle,
}

impl Handshakes {
    /// Makes an empty set of handshakes with these credentials.
    ///
    /// # Errors
    /// Returns [`HandshakeError::NoPinnedPeer`](crate::HandshakeError::NoPinnedPeer).
    pub fn new(security: &Security) -> Result<Self, TransportError> {
        // Detects invalid keys and pins before a peer connects.
        Acceptor::new(security, &[], "")?;
        Ok(Self {
            security: security.clone(),
            running: handshakes::Handshakes::new(MAX_HANDSHAKES),
            log: Throttle::new(),
        })
    }

    /// Waits for the next link. Implementations of [`Listener::accept`](crate::Listener::accept)
    /// call this. `next_stream` waits for the next stream from a peer. Failed handshakes are
    /// logged, and their streams are dropped. Cancel-safe if the futures of `next_stream` are
    /// cancel-safe.
    ///
    /// # Errors
    /// The errors of `next_stream`.
    pub async fn next<S, F>(
        &mut self,
        mut next_stream: impl FnMut() -> F,
    ) -> Result<Link, TransportError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = Result<(S, Stream), TransportError>>,
    {
        loop {
            let full = self.running.full_until();
            tokio::select! {
                biased;
                Some((peer, result)) = self.running.next() => match result {
                    Ok(link) => return Ok(link),
                    Err(error) => throttle::warn_of_rejected(&mut self.log, peer, &error),
                },
                () = handshakes::wait_until(full), if full.is_some() => {}
                next = next_stream(), if full.is_none() => {
                    let (stream, about) = next?;
                    self.begin(stream, about);
                }
            }
        }
    }

    fn begin<S>(&mut self, stream: S, about: Stream)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let security = self.security.clone();
        let source = about.peer_ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        self.running.begin(source, async move {
            let peer = about.peer_address.clone();
            (peer, accept(stream, &security, about).await)
        });
    }
}

impl fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshakes")
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}

/// A stream with its first bytes, which show the peer's protocol if the handshake fails. At most
/// one task may read and one may write at a time.
struct Shared<S>(Arc<Mutex<State<S>>>);

struct State<S> {
    stream: S,
    first: [u8; PREAMBLE.len()],
    /// Number of bytes in `first`, which the first read returned. `None` before the first read.
    length: Option<usize>,
}

impl<S> Shared<S> {
    fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(State {
            stream,
            first: [0; PREAMBLE.len()],
            length: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Carrier for Shared<S> {
    type Address = String;

    fn explain(&self, error: io::Error) -> TransportError {
        let state = self.state();
        preamble::not_tls(&state.first[..state.length.unwrap_or(0)], error)
    }

    /// No watchdog is needed: by contract, the stream itself reports a vanished peer.
    fn watch(&self) {}

    async fn close_politely(mut self) {
        let end = async {
            let _ = self.shutdown().await;
            let mut scratch = [0; 1024];
            for _ in 0..LINGER_READS {
                match self.read(&mut scratch).await {
                    Ok(1..) => {}
                    _ => break,
                }
            }
        };
        let _ = tokio::time::timeout(LINGER, end).await;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Shared<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let before = buf.filled().len();
        ready!(Pin::new(&mut state.stream).poll_read(cx, buf))?;
        if state.length.is_none() {
            let got = &buf.filled()[before..];
            let length = got.len().min(PREAMBLE.len());
            state.first[..length].copy_from_slice(&got[..length]);
            state.length = Some(length);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Shared<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.state().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.state().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.state().stream).poll_shutdown(cx)
    }
}
