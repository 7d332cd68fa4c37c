//! UDP sockets that send and receive datagrams in batches.

use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, SystemTime},
};

use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use rustix::io::Errno;
use transpute_rudp::Transmit;

use crate::datagram;

/// A UDP socket, with the batch features that the system supports.
#[derive(Debug)]
pub(super) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    /// True if this side sends to only one address.
    has_one_peer: bool,
}

/// Maximum total UDP payload of one call to send, in bytes.
const MAX_SEND: usize = 65_000;

/// Number of buffers for one receive call. Each buffer holds the largest batch that the kernel can
/// merge (generic receive offload).
const BUFFERS: usize = 16;
const BUFFER: usize = 65_536;

/// Maximum number of buffers that one receive call fills. On Windows and macOS, a call receives
/// only one datagram.
pub(super) const BATCH: usize = if quinn_udp::BATCH_SIZE < BUFFERS {
    quinn_udp::BATCH_SIZE
} else {
    BUFFERS
};

impl Socket {
    /// Opens a listening socket.
    pub(super) fn listening(address: SocketAddr, buffer: usize) -> io::Result<Self> {
        let socket = datagram::open(address, buffer, buffer / 2)?;
        socket.bind(&address.into())?;
        Self::new(socket.into(), false)
    }

    /// Opens a socket to one peer, on any port.
    pub(super) fn connecting(peer: SocketAddr, buffer: usize) -> io::Result<Self> {
        let any: SocketAddr = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = datagram::open(peer, buffer, buffer / 2)?;
        socket.bind(&any.into())?;
        // On a connected socket, the system drops datagrams from other addresses, and reports a
        // closed port. Linux still accepts a destination address with each datagram.
        if cfg!(any(target_os = "linux", target_os = "android")) {
            socket.connect(&peer.into())?;
        }
        Self::new(socket.into(), true)
    }

    fn new(socket: UdpSocket, has_one_peer: bool) -> io::Result<Self> {
        Ok(Self {
            state: UdpSocketState::new((&socket).into())?,
            local: socket.local_addr()?,
            socket,
            has_one_peer,
        })
    }

    /// Returns the socket, to wait for datagrams.
    pub(super) fn as_std(&self) -> &UdpSocket {
        &self.socket
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the number of datagrams of `datagram` bytes that one call can send.
    pub(super) fn segments(&self, datagram: usize) -> usize {
        (self.state.max_gso_segments()).min(MAX_SEND / datagram.max(1))
    }

    /// Sends datagrams. After [`io::ErrorKind::WouldBlock`], try again later. After any other
    /// error, the datagrams are treated as lost.
    pub(super) fn send(
        &self,
        transmit: &Transmit,
        contents: &[u8],
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        let send = |contents: &[u8], segment_size| {
            let datagrams = quinn_udp::Transmit {
                destination: transmit.destination,
                ecn: None,
                contents,
                segment_size,
                src_ip: from,
            };
            self.state.try_send((&self.socket).into(), &datagrams)
        };
        let several = transmit.segment_size < contents.len();
        let mut sent = send(contents, several.then_some(transmit.segment_size));
        if sent.as_ref().is_err_and(is_too_large) {
            // Try once more: the error may come from an ICMP message about an earlier datagram. The
            // system reports it once, to the next send call.
            sent = send(contents, several.then_some(transmit.segment_size));
        }
        match sent {
            Err(error) if several && error.kind() != io::ErrorKind::WouldBlock => {
                // The network card or its driver does not support segmentation offload. The library
                // will not request it again.
                tracing::debug!(%error, "cannot send datagrams together; sending them one by one");
                (contents.chunks(transmit.segment_size)).try_for_each(|one| send(one, None))
            }
            sent => sent,
        }
    }

    /// Sends datagrams of another protocol on this port.
    pub(super) fn send_foreign(&self, transmit: &quinn_udp::Transmit<'_>) -> io::Result<()> {
        self.state.try_send((&self.socket).into(), transmit)
    }

    /// Returns the maximum number of datagrams that one call can send.
    pub(super) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Receives datagrams into the inbox. Returns the number of buffers that were filled. Fails
    /// with [`io::ErrorKind::ConnectionRefused`] only if the port of the only peer is closed.
    pub(super) fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        let mut chunks = inbox.bytes.chunks_exact_mut(BUFFER);
        // The inbox contains exactly `BUFFERS` chunks.
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let received = (self.state).recv((&self.socket).into(), &mut slices, &mut inbox.metas);
        match received {
            Err(error) if datagram::is_reset(&error) => Err(match self.has_one_peer {
                true => io::ErrorKind::ConnectionRefused.into(),
                // The report does not contain the address of the closed port.
                false => io::ErrorKind::Interrupted.into(),
            }),
            received => received,
        }
    }
}

/// Returns whether the system rejected a datagram for its size.
pub(super) fn is_too_large(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
}

/// Returns the largest UDP payload in bytes that the system sends to this address without
/// fragmentation, if the system reports it. This opens a temporary connected socket, because a
/// socket with several peers cannot report the value. It is rarely called.
pub(super) fn largest_datagram(to: SocketAddr, from: Option<IpAddr>) -> Option<u16> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::net::sockopt;
        // An IPv4 peer of a dual-stack socket uses IPv4 on the wire.
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let from = from.map_or(any, |from| from.to_canonical());
        let socket = UdpSocket::bind((from, 0)).ok()?;
        socket.connect(to).ok()?;
        let (mtu, headers) = match to {
            SocketAddr::V4(_) => (sockopt::ip_mtu(&socket), 28),
            SocketAddr::V6(_) => (sockopt::ipv6_mtu(&socket), 48),
        };
        let most = mtu.ok()?.saturating_sub(headers);
        Some(u16::try_from(most).unwrap_or(u16::MAX))
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = (to, from);
        None
    }
}

/// Buffers for received datagrams.
pub(super) struct Inbox {
    bytes: Vec<u8>,
    metas: [RecvMeta; BUFFERS],
}

/// Datagrams from one sender that the kernel delivered together.
pub(super) struct Arrival<'a> {
    pub(super) from: SocketAddr,
    /// The local address to which the datagrams were sent, if the system reports it.
    pub(super) to: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) bytes: &'a mut [u8],
    /// Length of each datagram in bytes. The last one may be shorter.
    pub(super) stride: usize,
    /// Time between the arrival of the first datagram in the kernel and the receive call.
    pub(super) age: Duration,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; BUFFERS * BUFFER],
            metas: [RecvMeta::default(); BUFFERS],
        }
    }

    /// Iterates over the datagrams of the last receive call, which filled this number of buffers.
    pub(super) fn arrivals(&mut self, buffers: usize) -> impl Iterator<Item = Arrival<'_>> {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        (self.bytes.chunks_exact_mut(BUFFER))
            .zip(&self.metas)
            .take(buffers)
            .map(move |(bytes, meta)| Arrival {
                from: meta.addr,
                to: meta.dst_ip,
                ecn: meta.ecn,
                bytes: &mut bytes[..meta.len.min(BUFFER)],
                stride: meta.stride.max(1),
                age: meta.timestamp.map_or(Duration::ZERO, |then| {
                    let age = now.saturating_sub(then);
                    // A larger age means that the system's clock was changed in the meantime.
                    if age > MAX_AGE { Duration::ZERO } else { age }
                }),
            })
    }
}

/// Maximum plausible time that a datagram spends in a socket. A larger age is treated as zero.
const MAX_AGE: Duration = Duration::from_secs(1);
