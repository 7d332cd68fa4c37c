//! One UDP socket and the links on it. A thread serves them (`server`).

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use transpute_rudp::{Connection, Time};

use super::{foreign::Foreign, link::Shared, server::Server, socket::Socket};

/// A UDP socket and its links.
pub(super) struct Endpoint {
    pub(super) socket: Socket,
    origin: Instant,
    links: Mutex<HashMap<u32, Arc<Shared>>>,
    /// Links were added that the thread has not seen.
    grown: AtomicBool,
    waker: UnixStream,
    /// Until when the thread sleeps if nobody wakes it, nanoseconds; zero while it is awake.
    sleeps_until: AtomicU64,
    /// A listener may still add links.
    open: AtomicBool,
    /// Who takes what is not of this protocol.
    foreign: Option<Arc<Foreign>>,
}

/// The right to add links to an endpoint; the thread ends when it is dropped and the links are gone.
pub(crate) struct Door(Arc<Endpoint>);

/// Never.
pub(super) const NEVER: u64 = u64::MAX;

impl Endpoint {
    /// Starts to serve a socket.
    pub(super) fn start(socket: Socket) -> io::Result<Door> {
        Self::start_beside(socket, None)
    }

    /// Does the same, and hands over what other protocols send to the port.
    pub(super) fn start_beside(socket: Socket, foreign: Option<Arc<Foreign>>) -> io::Result<Door> {
        let (waker, wakened) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        wakened.set_nonblocking(true)?;
        let endpoint = Arc::new(Self {
            socket,
            origin: Instant::now(),
            links: Mutex::default(),
            grown: AtomicBool::new(false),
            waker,
            sleeps_until: AtomicU64::new(0),
            open: AtomicBool::new(true),
            foreign,
        });
        let served = Arc::clone(&endpoint);
        thread::Builder::new()
            .name("transpute-rudp".into())
            .spawn(move || Server::new(served, wakened).run())?;
        Ok(Door(endpoint))
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

    fn wake(&self) {
        // A full pipe wakes as well.
        let _ = io::Write::write(&mut &self.waker, &[0]);
    }

    /// Notes until when the thread sleeps, nanoseconds.
    pub(super) fn sleep_until(&self, until: u64) {
        self.sleeps_until.store(until, Ordering::SeqCst);
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// Returns who takes what is not of this protocol.
    pub(super) fn foreign(&self) -> Option<&Foreign> {
        self.foreign.as_deref()
    }

    /// Returns whether links were added since this was asked for last.
    pub(super) fn has_grown(&self) -> bool {
        self.grown.swap(false, Ordering::SeqCst)
    }

    pub(super) fn links(&self) -> Vec<Arc<Shared>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.values().map(Arc::clone).collect()
    }

    pub(super) fn link(&self, id: u32) -> Option<Arc<Shared>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&id).map(Arc::clone)
    }

    pub(super) fn forget_ended(&self) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| !link.is_over());
    }
}

impl Door {
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.0
    }

    /// Adds a connection. `from`: the address to send from, where the socket has several. `control`: the name of what
    /// decides how fast it sends.
    ///
    /// `None`: its id is taken, which is as likely as guessing 32 bits.
    pub(super) fn add(
        &self,
        connection: Connection,
        from: Option<IpAddr>,
        control: &'static str,
    ) -> Option<Arc<Shared>> {
        let id = connection.local_id();
        let link = Arc::new(Shared::new(connection, Arc::clone(&self.0), from, control));
        let mut links = self.0.links.lock().unwrap_or_else(PoisonError::into_inner);
        match links.entry(id) {
            std::collections::hash_map::Entry::Occupied(_) => return None,
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(Arc::clone(&link));
            }
        }
        drop(links);
        self.0.grown.store(true, Ordering::SeqCst);
        // What came for it before is waiting.
        self.0.wake();
        Some(link)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.0.open.store(false, Ordering::SeqCst);
        self.0.wake();
    }
}
