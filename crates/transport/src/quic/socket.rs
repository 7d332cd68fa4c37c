//! UDP sockets of QUIC endpoints, and their handling of the ICMP error "port unreachable".

use std::{
    fmt,
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use quinn::{
    AsyncUdpSocket, UdpPoller,
    udp::{RecvMeta, Transmit, UdpSocketState},
};
use tokio::{io::Interest, runtime::Handle, sync::Notify};

use crate::datagram;

/// The system's error for a datagram that exceeds the MTU: `EMSGSIZE` or `WSAEMSGSIZE`.
const TOO_LONG: i32 = if cfg!(windows) {
    10_040
} else {
    libc::EMSGSIZE
};

/// Opens a listening socket.
pub(super) fn listening(address: SocketAddr, buffer: usize) -> io::Result<UdpSocket> {
    let socket = open(address, buffer)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Opens a socket to one peer, on any port.
pub(super) fn connecting(peer: SocketAddr, buffer: usize) -> io::Result<UdpSocket> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = open(peer, buffer)?;
    socket.bind(&any.into())?;
    // On Linux, a connected socket reports that the peer's port is closed, and still accepts a
    // destination address with each datagram. Other systems do not support this combination.
    if cfg!(target_os = "linux") {
        socket.connect(&peer.into())?;
    }
    Ok(socket.into())
}

fn open(address: SocketAddr, buffer: usize) -> io::Result<socket2::Socket> {
    let socket = datagram::open(address, buffer, buffer)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The socket of an endpoint.
///
/// It differs from the QUIC library's socket in its handling of the ICMP error "port unreachable".
/// Anyone on the path can forge this error. It also occurs when this side sends to a peer that has
/// closed the connection and exited. So this socket continues to receive after such an error, and
/// logs no warning for it. The library's socket would end the endpoint.
#[derive(Clone)]
pub(super) struct Socket(Arc<Io>);

struct Io {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
    /// Notified when sending or receiving has returned "port unreachable".
    refused: Notify,
    has_warned: AtomicBool,
}

impl Socket {
    /// Wraps a socket and registers it with `runtime`.
    pub(super) fn new(socket: UdpSocket, runtime: &Handle) -> io::Result<Self> {
        let _runtime = runtime.enter();
        Ok(Self(Arc::new(Io {
            state: UdpSocketState::new((&socket).into())?,
            socket: tokio::net::UdpSocket::from_std(socket)?,
            refused: Notify::new(),
            has_warned: AtomicBool::new(false),
        })))
    }

    /// Waits for an ICMP report that no process listens on the peer's port. Use it only during the
    /// handshake, because anyone on the path can forge the report.
    pub(super) async fn refusal(&self) -> io::Error {
        tokio::select! {
            () = self.0.refused.notified() => {}
            watched = self.0.watch() => if let Err(error) = watched {
                tracing::debug!(%error, "cannot watch a socket for ICMP errors");
                self.0.refused.notified().await;
            }
        }
        io::ErrorKind::ConnectionRefused.into()
    }
}

impl Io {
    /// Waits until the socket has a pending "port unreachable" error. Needed because sending and
    /// receiving report the error only when they are called.
    async fn watch(&self) -> io::Result<()> {
        loop {
            self.socket.ready(Interest::ERROR).await?;
            let error = self.socket.try_io(Interest::ERROR, || {
                self.socket
                    .take_error()?
                    .ok_or_else(|| io::ErrorKind::WouldBlock.into())
            });
            match error {
                Ok(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        // The controller `bbr` does not react to ECN marks, so routers must not set them.
        let transmit = &Transmit {
            ecn: None,
            ..*transmit
        };
        let mut is_first = true;
        loop {
            let sent = self.socket.try_io(Interest::WRITABLE, || {
                self.state.try_send((&self.socket).into(), transmit)
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // The error refers to an earlier packet, and returning it has cleared it. So send
                // this packet again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && is_first => {
                    self.refused.notify_one();
                    is_first = false;
                }
                Err(error) => {
                    self.note_unsent(&error);
                    return Ok(());
                }
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Logs the first send error, except errors for packets that exceed the MTU and "port
    /// unreachable". QUIC treats the unsent packet as lost.
    fn note_unsent(&self, error: &io::Error) {
        let is_expected = error.kind() == io::ErrorKind::ConnectionRefused
            || error.raw_os_error() == Some(TOO_LONG);
        if !is_expected && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "cannot send QUIC packets");
        }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Socket")
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller {
            io: Arc::clone(&self.0),
            writable: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let Io {
            socket,
            state,
            refused,
            ..
        } = &*self.0;
        loop {
            ready!(socket.poll_recv_ready(cx))?;
            let received = socket.try_io(Interest::READABLE, || {
                state.recv(socket.into(), bufs, metas)
            });
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error)
                    if error.kind() == io::ErrorKind::ConnectionRefused
                        || datagram::is_reset(&error) =>
                {
                    refused.notify_one();
                }
                received => return Poll::Ready(received),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.0.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.0.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.0.state.may_fragment()
    }
}

/// Waits for one task of the library until the socket is writable.
struct Poller {
    io: Arc<Io>,
    writable: Option<Writable>,
}

pub(super) type Writable = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Poller")
    }
}

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, writable } = &mut *self;
        let waiting = writable.get_or_insert_with(|| {
            let io = Arc::clone(io);
            Box::pin(async move { io.socket.writable().await })
        });
        let waited = ready!(waiting.as_mut().poll(cx));
        *writable = None;
        Poll::Ready(waited)
    }
}
