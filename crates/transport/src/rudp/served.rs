//! A UDP socket with the clock and the alarm of its thread.

use std::{
    any::Any,
    io,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use transpute_rudp::Time;

use super::socket::Socket;

/// A deadline in nanoseconds that never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// A socket that a thread serves. Links send through it, read its clock, and wake the thread.
pub(super) struct ServedSocket {
    pub(super) socket: Socket,
    origin: Instant,
    /// The pipe that wakes the thread, and its reading end.
    waker: UnixStream,
    pub(super) wakened: UnixStream,
    /// Time until which the thread sleeps unless it is woken, in nanoseconds. Zero while it is
    /// awake.
    sleeps_until: AtomicU64,
}

/// The hold of a link on its socket.
pub(super) struct Hold {
    pub(super) served: Arc<ServedSocket>,
    /// The endpoint of the socket. While it exists, a new listener finds it and takes the port
    /// over.
    pub(super) _endpoint: Arc<dyn Any + Send + Sync>,
}

impl ServedSocket {
    /// Takes a socket that no thread serves yet.
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        let (waker, wakened) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        wakened.set_nonblocking(true)?;
        Ok(Self {
            socket,
            origin: Instant::now(),
            waker,
            wakened,
            sleeps_until: AtomicU64::new(0),
        })
    }

    pub(super) fn now(&self) -> Time {
        let nanos = self.origin.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(NEVER))
    }

    /// Ensures that the thread serves the links at this time at the latest.
    pub(super) fn look_by(&self, at: u64) {
        // Sequentially consistent: either the thread sees the new deadline, or this sees the time
        // until which it sleeps.
        if at < self.sleeps_until.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        // A full pipe wakes as well.
        let _ = io::Write::write(&mut &self.waker, &[0]);
    }

    /// Records the time until which the thread sleeps, in nanoseconds.
    pub(super) fn sleep_until(&self, until: u64) {
        self.sleeps_until.store(until, Ordering::SeqCst);
    }
}
