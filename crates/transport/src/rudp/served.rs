//! A UDP socket with its clock, and the waker of the thread that serves it.

use std::{
    any::Any,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use transpute_rudp::Time;

use super::{socket::Socket, waker::Waker};

/// The value of a deadline in nanoseconds that means "never".
pub(super) const NEVER: u64 = u64::MAX;

/// A socket that a thread serves. Links send through it, read its clock, and wake the thread.
pub(super) struct ServedSocket {
    pub(super) socket: Socket,
    origin: Instant,
    pub(super) waker: Waker,
    /// Time until which the thread sleeps unless it is woken, in nanoseconds. Zero while it is
    /// awake.
    sleeps_until: AtomicU64,
}

/// The references of a link to its socket and endpoint.
pub(super) struct Hold {
    pub(super) served: Arc<ServedSocket>,
    /// The endpoint of the socket. As long as the endpoint exists, a new listener on the same port
    /// finds it and takes over the port.
    pub(super) _endpoint: Arc<dyn Any + Send + Sync>,
}

impl ServedSocket {
    /// Wraps a socket that no thread serves yet.
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        Ok(Self {
            socket,
            origin: Instant::now(),
            waker: Waker::new()?,
            sleeps_until: AtomicU64::new(0),
        })
    }

    pub(super) fn now(&self) -> Time {
        let nanos = self.origin.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(NEVER))
    }

    /// Wakes the thread if it would sleep longer than until `at` (in nanoseconds).
    pub(super) fn look_by(&self, at: u64) {
        // Sequential consistency guarantees that the thread reads the caller's new deadline, or
        // that this call reads the thread's new `sleeps_until`.
        if at < self.sleeps_until.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Records the time until which the thread sleeps, in nanoseconds.
    pub(super) fn sleep_until(&self, until: u64) {
        self.sleeps_until.store(until, Ordering::SeqCst);
    }
}
