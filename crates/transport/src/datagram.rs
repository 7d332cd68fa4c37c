//! Opens UDP sockets with kernel buffers that are large enough for fast paths.

use std::{io, net::SocketAddr, sync::Once};

use socket2::{Domain, Protocol, Socket, Type};

/// Opens a UDP socket of this address's family, and requests kernel buffers of `wanted` bytes in
/// each direction. Warns once per process if the system grants fewer than `enough` bytes.
pub(crate) fn open(address: SocketAddr, wanted: usize, enough: usize) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    // The kernel clamps the size to its limit. The size that it granted is read below.
    let _ = socket.set_recv_buffer_size(wanted);
    let _ = socket.set_send_buffer_size(wanted);
    // A privileged process may exceed the system's limit. A large buffer prevents losses while the
    // receiving thread is not scheduled.
    #[cfg(target_os = "linux")]
    if socket.recv_buffer_size()? / 2 < wanted {
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, wanted);
    }
    // Linux reports twice the granted size, and uses half of it for bookkeeping (socket(7)).
    let records = if cfg!(target_os = "linux") { 2 } else { 1 };
    let receive = socket.recv_buffer_size()? / records;
    let send = socket.send_buffer_size()? / records;
    if receive.min(send) < enough {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::warn!(
                wanted,
                receive,
                send,
                "the system grants small UDP buffers, which costs packets and speed on fast paths; raise the settings \
                 net.core.rmem_max and net.core.wmem_max"
            );
        });
    }
    Ok(socket)
}

/// Returns whether a receive call reports the ICMP error "port unreachable" as Windows does. The
/// error belongs to an earlier datagram, also on a socket that is not connected.
pub(crate) fn is_reset(error: &io::Error) -> bool {
    cfg!(windows) && error.kind() == io::ErrorKind::ConnectionReset
}
