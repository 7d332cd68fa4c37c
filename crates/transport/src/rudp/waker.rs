//! A socket with which other threads wake the thread that polls for datagrams.

use std::io;

/// A socket pair. The thread polls the reading end together with the socket of its datagrams.
#[cfg(unix)]
pub(super) struct Waker {
    writer: std::os::unix::net::UnixStream,
    reader: std::os::unix::net::UnixStream,
}

#[cfg(unix)]
impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let (writer, reader) = std::os::unix::net::UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        reader.set_nonblocking(true)?;
        Ok(Self { writer, reader })
    }

    /// Returns the socket to poll. [`wake`](Self::wake) makes it readable.
    pub(super) fn socket(&self) -> &std::os::unix::net::UnixStream {
        &self.reader
    }

    /// Makes the socket readable.
    pub(super) fn wake(&self) {
        // The only expected error is a full send buffer. Then the reading end is readable already.
        let _ = io::Write::write(&mut &self.writer, &[0]);
    }

    /// Makes the socket unreadable, until the next [`wake`](Self::wake).
    pub(super) fn clear(&self) {
        let mut scratch = [0; 64];
        while matches!(io::Read::read(&mut &self.reader, &mut scratch), Ok(n) if n == scratch.len())
        {
        }
    }
}

/// A UDP socket that is connected to its own address, because Windows has no socket pairs and polls
/// only sockets. The system drops datagrams from other addresses.
#[cfg(not(unix))]
pub(super) struct Waker(std::net::UdpSocket);

#[cfg(not(unix))]
impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Returns the socket to poll. [`wake`](Self::wake) makes it readable.
    pub(super) fn socket(&self) -> &std::net::UdpSocket {
        &self.0
    }

    /// Makes the socket readable.
    pub(super) fn wake(&self) {
        // The only expected error is a full send buffer. Then the socket is readable already.
        let _ = self.0.send(&[0]);
    }

    /// Makes the socket unreadable, until the next [`wake`](Self::wake).
    pub(super) fn clear(&self) {
        while self.0.recv(&mut [0]).is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_readable_from_a_wake_until_it_is_cleared() {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let waker = Waker::new().unwrap();
        let is_readable = || {
            let mut fds = [PollFd::new(waker.socket(), PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
        };
        assert!(!is_readable());
        // More wake-ups than the buffer can hold.
        for _ in 0..100_000 {
            waker.wake();
        }
        assert!(is_readable());
        waker.clear();
        assert!(!is_readable());
        waker.wake();
        assert!(is_readable());
    }
}
