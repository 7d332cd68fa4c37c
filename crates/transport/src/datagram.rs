//! UDP sockets with buffers for fast paths.

use std::{io, net::SocketAddr, sync::Once};

use socket2::{Domain, Protocol, Socket, Type};

/// Opens a UDP socket of this address's family, and asks for `wanted` bytes of buffers each way.
///
/// Warns, once in a process, when the system grants less than `enough`.
pub(crate) fn open(address: SocketAddr, wanted: usize, enough: usize) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    // What the kernel refuses, it grants in part.
    let _ = socket.set_recv_buffer_size(wanted);
    let _ = socket.set_send_buffer_size(wanted);
    // A process that may set the system's limits may pass them; a receiver that gets no processor for a while loses what
    // the buffer does not hold.
    #[cfg(target_os = "linux")]
    if socket.recv_buffer_size()? / 2 < wanted {
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, wanted);
    }
    // Linux reports, and takes for its own records, twice what it grants (socket(7)).
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
