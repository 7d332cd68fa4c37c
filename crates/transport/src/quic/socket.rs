//! UDP sockets: their buffers, and what the system says about a port where nobody listens.

use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    num::NonZeroUsize,
    pin::Pin,
    sync::{Arc, Once},
    task::{Context, Poll},
};

use noq::{
    AsyncUdpSocket, Runtime, UdpSender,
    udp::RecvMeta,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::Notify;

/// Opens a socket that listens.
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
    // Linux tells a connected socket that nobody listens, and takes the address with each datagram all the same; other
    // systems do not.
    if cfg!(target_os = "linux") {
        socket.connect(&peer.into())?;
    }
    Ok(socket.into())
}

fn open(address: SocketAddr, buffer: usize) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // What the kernel refuses, it grants in part.
    let _ = socket.set_recv_buffer_size(buffer);
    let _ = socket.set_send_buffer_size(buffer);
    // Linux reports, and takes for its own records, twice what it grants (socket(7)).
    let records = if cfg!(target_os = "linux") { 2 } else { 1 };
    let receive = socket.recv_buffer_size()? / records;
    let send = socket.send_buffer_size()? / records;
    if receive.min(send) < buffer {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::warn!(
                wanted = buffer,
                receive,
                send,
                "the system grants small UDP buffers, which costs speed on fast paths; raise the settings \
                 net.core.rmem_max and net.core.wmem_max"
            );
        });
    }
    Ok(socket)
}

/// A connector's socket. It notices when the peer's system says that nobody listens there.
#[derive(Debug)]
pub(super) struct PeerSocket {
    inner: Box<dyn AsyncUdpSocket>,
    refusal: Arc<Notify>,
}

impl PeerSocket {
    /// Wraps a socket; the second value is notified of a refusal.
    pub(super) fn new(
        socket: UdpSocket,
        runtime: &dyn Runtime,
    ) -> io::Result<(Box<dyn AsyncUdpSocket>, Arc<Notify>)> {
        let refusal = Arc::new(Notify::new());
        let socket = Self {
            inner: runtime.wrap_udp_socket(socket)?,
            refusal: Arc::clone(&refusal),
        };
        Ok((Box::new(socket), refusal))
    }
}

impl AsyncUdpSocket for PeerSocket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        self.inner.create_sender()
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.inner.poll_recv(cx, bufs, meta) {
                // Anybody on the path can forge this word, so it ends only what has not begun: whoever connects may
                // listen to it, an established link ignores it. The system forgets it when it is told, so this loop
                // ends.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.refusal.notify_one();
                }
                other => return other,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}
