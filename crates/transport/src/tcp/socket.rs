//! A TCP connection shared by a link's halves, its statistics and its watchdog.
//!
//! The halves own the connection. The statistics and the watchdog hold weak references, so dropping
//! both halves closes the connection even if a handle on the statistics exists.

use std::{
    io,
    net::{Shutdown, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{CongestionControl, congestion, info::TcpInfo, linger};
use crate::{
    PathProbe, PathSample, StreamError, TransportError,
    preamble::{self, PREAMBLE},
};

/// One TCP connection.
pub(super) struct Connection {
    stream: Arc<TcpStream>,
    opened: Instant,
    /// Number of lost SYNs of an earlier attempt to connect on another socket
    /// ([`request`](super::request)). The kernel's count of retransmissions does not include them.
    requests_lost: u64,
    peer_timeout: Duration,
    congestion_control: Mutex<Option<String>>,
    first: OnceLock<First>,
    /// True if the watchdog has shut down the socket because the peer has vanished.
    vanished: AtomicBool,
    /// True if this side has shut down its sending direction.
    finished: AtomicBool,
    /// True if this side has read the end of the peer's data.
    ended: AtomicBool,
    last_sample: Arc<OnceLock<PathSample>>,
}

/// The first bytes that the peer sent. If the handshake fails, the error names the protocol that
/// these bytes indicate.
struct First {
    bytes: [u8; PREAMBLE.len()],
    length: usize,
}

/// A handle that reads from and writes to a [`Connection`]. At a time, at most one task may read
/// and at most one task may write.
#[derive(Clone)]
pub(crate) struct Socket(Arc<Connection>);

/// Default time without an answer after which the peer is considered vanished.
///
/// Linux closes a connection whose data stays unacknowledged for this time. It closes an idle
/// connection when the first keep-alive probe after this time is due. With the intervals of
/// [`keepalive`], this happens 3 + 2 + 2 + 2 = 9 s after the last packet of the peer.
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(8);
const KEEPALIVE_PROBES: u32 = 3;

impl Socket {
    /// Wraps a new connection and sets its socket options. `unsent_limit` is the maximum number of
    /// unsent bytes in the kernel. `requests_lost` is the number of lost SYNs of an earlier attempt
    /// to connect. This function sets no buffer sizes, because that would disable the kernel's
    /// autotuning.
    pub(super) fn new(
        stream: TcpStream,
        unsent_limit: u32,
        requests_lost: u64,
        peer_timeout: Duration,
    ) -> io::Result<Self> {
        configure(&stream, unsent_limit, peer_timeout)?;
        Ok(Self(Arc::new(Connection {
            peer_timeout,
            congestion_control: Mutex::new(congestion::in_force(&stream)),
            stream: Arc::new(stream),
            opened: Instant::now(),
            requests_lost,
            first: OnceLock::new(),
            vanished: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            last_sample: Arc::default(),
        })))
    }

    pub(super) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.0)
    }

    pub(crate) fn probe(&self) -> Arc<dyn PathProbe> {
        Arc::new(TcpProbe {
            connection: Arc::downgrade(&self.0),
            last_sample: Arc::clone(&self.0.last_sample),
        })
    }

    /// Returns whether the peer's address is one of this host.
    pub(crate) fn is_to_this_host(&self) -> bool {
        let address = |end: io::Result<SocketAddr>| Some(end.ok()?.ip().to_canonical());
        let (ours, peer) = (self.0.stream.local_addr(), self.0.stream.peer_addr());
        address(peer).is_some_and(|peer| peer.is_loopback() || address(ours) == Some(peer))
    }

    /// Changes the congestion control of the open connection.
    pub(crate) fn set_congestion_control(
        &self,
        wanted: CongestionControl,
    ) -> Result<(), TransportError> {
        congestion::set((&*self.0.stream).into(), wanted)?;
        *(self.0.congestion_control.lock()).unwrap_or_else(PoisonError::into_inner) =
            congestion::in_force(&self.0.stream);
        Ok(())
    }

    /// Closes the connection after a failed handshake, slowly enough that the peer can read the
    /// alert. If this side closed at once, with unread bytes, the kernel would send a reset that
    /// overtakes the alert.
    pub(crate) async fn close_politely(mut self) {
        let _ = SockRef::from(&*self.0.stream).shutdown(Shutdown::Write);
        let drain = async {
            let mut scratch = [0; 1024];
            for _ in 0..LINGER_READS {
                match self.read(&mut scratch).await {
                    Ok(1..) => {}
                    _ => break,
                }
            }
        };
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
}

/// Limits of [`Socket::close_politely`]: the maximum time until it closes the connection, and the
/// maximum number of reads, each of at most 1 KiB.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS: usize = 64;

impl Connection {
    /// Converts the error of a failed TLS handshake. If the peer's first bytes are not TLS, the
    /// result names the protocol that they indicate.
    pub(super) fn explain(&self, error: io::Error) -> TransportError {
        let first = self
            .first
            .get()
            .map_or(&[][..], |first| &first.bytes[..first.length]);
        preamble::not_tls(first, error)
    }

    pub(super) fn info(&self) -> TcpInfo {
        TcpInfo::of(&self.stream)
    }

    pub(super) fn peer_timeout(&self) -> Duration {
        self.peer_timeout
    }

    fn sample(&self) -> PathSample {
        let info = self.info();
        let send_times = info.send_times(self.opened.elapsed());
        PathSample {
            send_times,
            congestion_control: (self.congestion_control.lock())
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            retransmits: (info.path.retransmits).map(|count| count + self.requests_lost),
            ..info.path
        }
    }

    /// Sets the kernel's time limit for unacknowledged data (`TCP_USER_TIMEOUT`).
    pub(super) fn set_patience(&self, patience: Duration) {
        set_user_timeout(&SockRef::from(&*self.stream), patience);
    }

    /// Shuts down the connection because the peer has vanished. Reads and writes then return
    /// [`StreamError::PeerVanished`](crate::StreamError::PeerVanished).
    pub(super) fn give_up(&self) {
        self.vanished.store(true, Ordering::Release);
        let _ = SockRef::from(&*self.stream).shutdown(Shutdown::Both);
    }

    fn check_alive(&self) -> io::Result<()> {
        if self.vanished.load(Ordering::Acquire) {
            Err(TransportError::Stream(StreamError::PeerVanished).into_io())
        } else {
            Ok(())
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.last_sample.set(self.sample());
        if self.finished.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed) {
            linger::linger(&self.stream);
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = &*self.0;
        loop {
            ready!(connection.stream.poll_read_ready(cx))?;
            let (room, before) = (buf.remaining(), buf.filled().len());
            match connection.stream.try_read_buf(buf) {
                Ok(0) => {
                    // A read of 0 bytes indicates the end only if the buffer has room.
                    connection.ended.fetch_or(room > 0, Ordering::Relaxed);
                    return Poll::Ready(connection.check_alive());
                }
                Ok(_) => {
                    connection
                        .first
                        .get_or_init(|| First::of(&buf.filled()[before..]));
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(connection.check_alive().and(Err(error))),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let connection = &*self.0;
        loop {
            ready!(connection.stream.poll_write_ready(cx))?;
            match connection.stream.try_write_vectored(bufs) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(connection.check_alive().and(Err(error))),
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // There is nothing to flush: the kernel sends all accepted bytes.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match SockRef::from(&*self.0.stream).shutdown(Shutdown::Write) {
            // The peer has closed the connection already, so nothing is left to shut down.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            result => {
                self.0.finished.store(result.is_ok(), Ordering::Relaxed);
                Poll::Ready(result)
            }
        }
    }
}

impl First {
    fn of(read: &[u8]) -> Self {
        let mut bytes = [0; PREAMBLE.len()];
        let length = read.len().min(bytes.len());
        bytes[..length].copy_from_slice(&read[..length]);
        Self { bytes, length }
    }
}

struct TcpProbe {
    connection: Weak<Connection>,
    last_sample: Arc<OnceLock<PathSample>>,
}

impl PathProbe for TcpProbe {
    fn sample(&self) -> PathSample {
        match self.connection.upgrade() {
            Some(connection) => connection.sample(),
            None => self.last_sample.get().cloned().unwrap_or_default(),
        }
    }
}

fn configure(stream: &TcpStream, unsent_limit: u32, peer_timeout: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive = keepalive(peer_timeout);
    if let Err(error) = socket.set_tcp_keepalive(&keepalive.clone().with_retries(KEEPALIVE_PROBES))
    {
        // Windows 10 before version 1703 does not support the number of probes. It sends ten.
        tracing::debug!(%error, "cannot set the number of TCP keep-alive probes");
        socket.set_tcp_keepalive(&keepalive)?;
    }
    set_user_timeout(&socket, peer_timeout);
    set_unsent_limit(stream, unsent_limit);
    Ok(())
}

/// Returns keep-alive settings that detect a vanished peer soon after `peer_timeout` on an idle
/// connection. The intervals are at least one second, because the kernel uses whole seconds.
fn keepalive(peer_timeout: Duration) -> TcpKeepalive {
    let second = Duration::from_secs(1);
    TcpKeepalive::new()
        .with_time((peer_timeout * 3 / 8).max(second))
        .with_interval((peer_timeout / 4).max(second))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_unsent_limit(stream: &TcpStream, limit: u32) {
    if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(limit) {
        tracing::debug!(%error, "cannot bound the unsent bytes of a TCP socket");
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_unsent_limit(_: &TcpStream, _: u32) {}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_user_timeout(socket: &SockRef<'_>, timeout: Duration) {
    if let Err(error) = socket.set_tcp_user_timeout(Some(timeout)) {
        tracing::debug!(%error, "cannot set how long TCP data may go unacknowledged");
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_user_timeout(_: &SockRef<'_>, _: Duration) {}
