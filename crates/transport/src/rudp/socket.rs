//! UDP sockets: their buffers, and datagrams to and from them in batches.

use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, SystemTime},
};

use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use rustix::io::Errno;
use transpute_rudp::Transmit;

use crate::datagram;

/// A UDP socket with what the system can do for it.
#[derive(Debug)]
pub(super) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

/// The largest UDP payload of all segments together.
const MAX_SEND: usize = 65_000;

/// Buffers that one call fills, and their size: the largest batch that the kernel makes of received packets.
pub(super) const BUFFERS: usize = 16;
const BUFFER: usize = 65_536;

impl Socket {
    /// Opens a socket that listens.
    pub(super) fn listening(address: SocketAddr, buffer: usize) -> io::Result<Self> {
        let socket = datagram::open(address, buffer, buffer / 2)?;
        socket.bind(&address.into())?;
        Self::new(socket.into())
    }

    /// Opens a socket to one peer, on any port.
    pub(super) fn connecting(peer: SocketAddr, buffer: usize) -> io::Result<Self> {
        let any: SocketAddr = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = datagram::open(peer, buffer, buffer / 2)?;
        socket.bind(&any.into())?;
        // So that the system drops what comes from elsewhere, and tells that nobody listens. Linux takes an address
        // with each datagram all the same.
        if cfg!(any(target_os = "linux", target_os = "android")) {
            socket.connect(&peer.into())?;
        }
        Self::new(socket.into())
    }

    fn new(socket: UdpSocket) -> io::Result<Self> {
        Ok(Self {
            state: UdpSocketState::new((&socket).into())?,
            local: socket.local_addr()?,
            socket,
        })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns how many datagrams of this size one call can send.
    pub(super) fn segments(&self, datagram: usize) -> usize {
        (self.state.max_gso_segments()).min(MAX_SEND / datagram.max(1))
    }

    /// Sends datagrams. [`io::ErrorKind::WouldBlock`]: try again later; with every other error they are lost, which is
    /// what UDP is like.
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
            // ICMP about an earlier datagram is told to whoever sends next, whatever the size. Once told, it is forgotten.
            sent = send(contents, several.then_some(transmit.segment_size));
        }
        match sent {
            Err(error) if several && error.kind() != io::ErrorKind::WouldBlock => {
                // The network card or its driver cannot cut them, and the library will not ask it to again.
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

    /// Returns how many datagrams one call can send at most.
    pub(super) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Takes what has arrived, as far as the inbox goes.
    pub(super) fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        let mut chunks = inbox.bytes.chunks_exact_mut(BUFFER);
        // There are as many chunks as slices.
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        (self.state).recv((&self.socket).into(), &mut slices, &mut inbox.metas)
    }
}

/// Says whether the system refuses a datagram for its size.
pub(super) fn is_too_large(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
}

/// Returns the largest UDP payload that the system sends to this address in one piece, if it says.
///
/// A socket that serves several peers cannot be asked, so one is made for the purpose; that is rare.
pub(super) fn largest_datagram(to: SocketAddr, from: Option<IpAddr>) -> Option<u16> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::net::sockopt;
        // What comes from an IPv4 peer to a socket of both families is IPv4 on the wire.
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

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Buffers to receive into.
pub(super) struct Inbox {
    bytes: Vec<u8>,
    metas: [RecvMeta; BUFFERS],
}

/// Datagrams of one sender and one moment.
pub(super) struct Arrival<'a> {
    pub(super) from: SocketAddr,
    /// The address of this machine that they were sent to, and what routers noted on them.
    pub(super) to: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) bytes: &'a mut [u8],
    /// How long each of them is; the last may be shorter.
    pub(super) stride: usize,
    /// How long ago the kernel took the first of them from the network.
    pub(super) age: Duration,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; BUFFERS * BUFFER],
            metas: [RecvMeta::default(); BUFFERS],
        }
    }

    /// Iterates over what the last call has received into so many buffers.
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
                    // The system's clock was set in between.
                    if age > MAX_AGE { Duration::ZERO } else { age }
                }),
            })
    }
}

/// Nothing lies longer in a socket that somebody attends to.
const MAX_AGE: Duration = Duration::from_secs(1);
