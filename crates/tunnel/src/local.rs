//! The local end of a stream: a socket of a program, or a pipe of this process.

use std::{
    io::{self, IoSlice},
    net::Shutdown,
    sync::Arc,
    time::Duration,
};

use socket2::SockRef;
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

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
            Self::Tcp(socket) => socket.try_read(buffer),
            #[cfg(unix)]
            Self::Unix(socket) => socket.try_read(buffer),
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

    /// Signals the end of the peer's bytes to the program.
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

impl Drop for Local {
    fn drop(&mut self) {
        if let Self::Pipe(pipe) = self {
            pipe.reset_unless_finished();
        }
    }
}
