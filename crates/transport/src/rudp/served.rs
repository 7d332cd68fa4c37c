//! A UDP socket with the clock and the alarm of the thread that serves it.

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

/// Never, as a deadline in nanoseconds.
pub(super) const NEVER: u64 = u64::MAX;

/// A socket that a thread serves. Links send through it, read its clock, and wake the thread.
pub(super) struct ServedSocket {
    pub(super) socket: Socket,
    origin: Instant,
    /// The pipe that wakes the thread, and its reading end.
    waker: UnixStream,
    pub(super) wakened: UnixStream,
    /// Until when the thread sleeps if nothing wakes it, nanoseconds; zero while it is awake.
    sleeps_until: AtomicU64,
}

/// The hold of a link on its socket.
pub(super) struct Hold {
    pub(super) served: Arc<ServedSocket>,
    /// The endpoint of the socket. While it exists, a new listener finds it and takes the port over.
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

    /// Makes sure that the thread looks at the links at this moment at the latest.
    pub(super) fn look_by(&self, at: u64) {
        // Ordered so that either the thread sees the deadline that was set before, or this sees until when it sleeps.
        if at < self.sleeps_until.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        // A full pipe wakes as well.
        let _ = io::Write::write(&mut &self.waker, &[0]);
    }

    /// Notes until when the thread sleeps, nanoseconds.
    pub(super) fn sleep_until(&self, until: u64) {
        self.sleeps_until.store(until, Ordering::SeqCst);
    }
}
