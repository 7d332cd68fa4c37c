//! UDP sockets: their buffers, and what the system says about a port where nobody listens.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use socket2::Socket;
use tokio::io::Interest;

use crate::datagram;

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
    let socket = datagram::open(address, buffer, buffer)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Waits until the system hears from the peer's system that nobody listens there.
///
/// Anybody on the path can forge that word, so only a connection that is not made yet listens to it.
pub(super) async fn refusal(socket: UdpSocket) -> io::Error {
    match wait_for_refusal(socket).await {
        Ok(refusal) => refusal,
        Err(error) => {
            tracing::debug!(%error, "cannot watch a socket for refusals");
            std::future::pending().await
        }
    }
}

async fn wait_for_refusal(socket: UdpSocket) -> io::Result<io::Error> {
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    loop {
        socket.ready(Interest::ERROR).await?;
        let error = socket.try_io(Interest::ERROR, || {
            socket
                .take_error()?
                .ok_or_else(|| io::ErrorKind::WouldBlock.into())
        });
        match error {
            Ok(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(error),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
