//! The local end of a stream: a socket of a program, or a pipe of this process.

use std::{
    io::{self, IoSlice, Read},
    net::Shutdown,
    sync::Arc,
    time::Duration,
};

use socket2::SockRef;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::{io::Interest, net::TcpStream};

use crate::{address::TunnelAddress, pipe::Pipe};

/// The local end of a stream.
///
/// Dropping it before [`finish`](Self::finish) resets the connection. A TCP socket has SO_LINGER
/// with a time of zero, so the kernel resets the connection even if this process is killed. A Unix
/// socket cannot be reset, so its program sees the end of the stream.
#[derive(Debug)]
pub(crate) enum Local {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    Pipe(Arc<Pipe>),
}

impl Local {
    /// Wraps a TCP socket that was accepted or connected.
    ///
    /// # Errors
    /// Returns an error if an option cannot be set: the connection is already broken.
    pub(crate) fn tcp(socket: TcpStream) -> io::Result<Self> {
        SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
        socket.set_nodelay(true)?;
        Ok(Self::Tcp(socket))
    }

    /// Connects to a target.
    pub(crate) async fn connect(target: &TunnelAddress) -> io::Result<Self> {
        match target {
            TunnelAddress::Tcp { host, port } => {
                Self::tcp(TcpStream::connect((host.as_str(), *port)).await?)
            }
            #[cfg(unix)]
            TunnelAddress::Unix { path } => Ok(Self::Unix(UnixStream::connect(path).await?)),
            #[cfg(not(unix))]
            TunnelAddress::Unix { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Waits until [`try_read`](Self::try_read) may succeed. Cancel-safe.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.readable().await,
            #[cfg(unix)]
            Self::Unix(socket) => socket.readable().await,
            Self::Pipe(pipe) => {
                pipe.readable().await;
                Ok(())
            }
        }
    }

    /// Reads without waiting. Returns 0 at the end of the program's bytes.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => read(
                buffer,
                |read| socket.try_io(Interest::READABLE, read),
                socket,
            ),
            #[cfg(unix)]
            Self::Unix(socket) => read(
                buffer,
                |read| socket.try_io(Interest::READABLE, read),
                socket,
            ),
            Self::Pipe(pipe) => pipe.try_read(buffer),
        }
    }

    /// Waits until [`try_write`](Self::try_write) may succeed. Cancel-safe.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.writable().await,
            #[cfg(unix)]
            Self::Unix(socket) => socket.writable().await,
            Self::Pipe(pipe) => {
                pipe.writable().await;
                Ok(())
            }
        }
    }

    /// Writes without waiting.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_write(bytes),
            #[cfg(unix)]
            Self::Unix(socket) => socket.try_write(bytes),
            Self::Pipe(pipe) => pipe.try_write(bytes),
        }
    }

    /// Writes several slices without waiting.
    pub(crate) fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_write_vectored(slices),
            #[cfg(unix)]
            Self::Unix(socket) => socket.try_write_vectored(slices),
            Self::Pipe(pipe) => pipe.try_write(slices.first().map_or(&[], |slice| slice)),
        }
    }

    /// Waits until the program's connection breaks. Cancel-safe.
    pub(crate) async fn broken(&self) {
        // If waiting fails, the connection is broken too.
        match self {
            Self::Tcp(socket) => drop(socket.ready(Interest::ERROR).await),
            #[cfg(unix)]
            Self::Unix(socket) => drop(socket.ready(Interest::ERROR).await),
            // The end of a pipe is a clean end.
            Self::Pipe(_) => std::future::pending().await,
        }
    }

    /// Shuts down the direction to the program, which then reads the end of the stream.
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => SockRef::from(socket).shutdown(Shutdown::Write),
            #[cfg(unix)]
            Self::Unix(socket) => SockRef::from(socket).shutdown(Shutdown::Write),
            Self::Pipe(pipe) => {
                pipe.end();
                Ok(())
            }
        }
    }

    /// Prepares a clean close, after both directions have ended. The kernel then delivers the bytes
    /// that are still in the socket's buffer.
    pub(crate) fn finish(&self) {
        match self {
            // An error means that the connection is already broken.
            Self::Tcp(socket) => drop(SockRef::from(socket).set_linger(None)),
            #[cfg(unix)]
            Self::Unix(_) => {}
            Self::Pipe(pipe) => pipe.finish(),
        }
    }
}

/// Reads from a socket, with a `try_io` function of the socket.
///
/// If the bytes do not fill the buffer, the socket has no more of them. The socket is then marked
/// as not readable, which saves the system call that would find this out. This is correct, because
/// the events of the system are edge-triggered.
fn read<'a, S>(
    buffer: &mut [u8],
    try_io: impl FnOnce(&mut dyn FnMut() -> io::Result<()>) -> io::Result<()>,
    socket: &'a S,
) -> io::Result<usize>
where
    SockRef<'a>: From<&'a S>,
{
    let mut len = None;
    let result = try_io(&mut || {
        let count = (&*SockRef::from(socket)).read(buffer)?;
        len = Some(count);
        match 0 < count && count < buffer.len() && IS_EDGE_TRIGGERED {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        }
    });
    match len {
        Some(len) => Ok(len),
        None => result.map(|()| 0),
    }
}

/// True if the system reports a socket as readable only when bytes arrive, as epoll does.
const IS_EDGE_TRIGGERED: bool = cfg!(any(target_os = "linux", target_os = "android"));

impl Drop for Local {
    fn drop(&mut self) {
        if let Self::Pipe(pipe) = self {
            pipe.reset_unless_finished();
        }
    }
}
