//! One UDP socket, the links on it, and the thread that serves them.
//!
//! The thread receives, keeps time, and sends what time allows; whoever writes sends from his own thread what may go at
//! once. It lives as long as the socket has a link or a listener, whatever becomes of the program's runtime, so that
//! packets are acknowledged while the program computes and the last ones leave when it is done.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::IpAddr,
    num::NonZeroU64,
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};
use transpute_rudp::{Connection, Time};

use super::{
    foreign::Foreign,
    link::Shared,
    socket::{Arrival, Inbox, Socket},
};

/// A UDP socket and its links.
pub(super) struct Endpoint {
    pub(super) socket: Socket,
    origin: Instant,
    links: Mutex<HashMap<u32, Arc<Shared>>>,
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

    fn links(&self) -> Vec<Arc<Shared>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.values().map(Arc::clone).collect()
    }

    fn link(&self, id: u32) -> Option<Arc<Shared>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&id).map(Arc::clone)
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

/// Datagrams for connections that are not there yet: UDP is faster than the handshake of the control connection. Bounded
/// in number, bytes and time; a stranger who floods the port costs a connector a second attempt.
#[derive(Default)]
struct Stash {
    held: VecDeque<Held>,
    bytes: usize,
}

struct Held {
    id: u32,
    at: Time,
    from: std::net::SocketAddr,
    datagram: Vec<u8>,
}

const MAX_STASH: usize = 1 << 20;
const MAX_STASH_AGE: Duration = Duration::from_secs(2);

impl Stash {
    fn put(&mut self, held: Held) {
        self.bytes += held.datagram.len();
        let now = held.at;
        self.held.push_back(held);
        while self.bytes > MAX_STASH
            || (self.held.front()).is_some_and(|oldest| now.since(oldest.at) > MAX_STASH_AGE)
        {
            self.bytes -= self.held.pop_front().map_or(0, |held| held.datagram.len());
        }
    }

    /// Takes what has come for this connection, in order.
    fn take(&mut self, id: u32) -> Vec<Held> {
        let (taken, kept): (Vec<_>, VecDeque<_>) =
            (self.held.drain(..)).fold(Default::default(), |(mut taken, mut kept), held| {
                if held.id == id {
                    taken.push(held);
                } else {
                    kept.push_back(held);
                }
                (taken, kept)
            });
        self.held = kept;
        self.bytes = self.held.iter().map(|held| held.datagram.len()).sum();
        taken
    }
}

/// What the thread needs.
struct Server {
    endpoint: Arc<Endpoint>,
    wakened: UnixStream,
    inbox: Inbox,
    stash: Stash,
}

/// How many batches are received before the clock is looked at again.
const BATCHES: usize = 4;

/// How long to pause when the socket itself reports errors.
const ERROR_PAUSE: Duration = Duration::from_millis(5);

impl Server {
    fn new(endpoint: Arc<Endpoint>, wakened: UnixStream) -> Self {
        Self {
            endpoint,
            wakened,
            inbox: Inbox::new(),
            stash: Stash::default(),
        }
    }

    fn run(mut self) {
        // Linux lets timers be 50 us late by default, which is a burst of packets.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
        loop {
            self.endpoint.sleeps_until.store(0, Ordering::SeqCst);
            let mut links = self.endpoint.links();
            let now = self.endpoint.now();
            links.retain(|link| {
                self.hand_over(link);
                if link.deadline() <= now.as_nanos() {
                    link.serve();
                }
                !link.is_over()
            });
            self.forget_ended();
            if links.is_empty() && !self.endpoint.open.load(Ordering::SeqCst) {
                return;
            }
            self.sleep(&links);
            self.receive();
        }
    }

    /// Gives a new connection what has come for it before. The gaps between arrivals are kept, the wait is taken out.
    fn hand_over(&mut self, link: &Shared) {
        if self.stash.held.is_empty() || !link.is_new() {
            return;
        }
        let mut held = self.stash.take(link.id());
        let Some(last) = held.last().map(|last| last.at) else {
            return;
        };
        let now = self.endpoint.now();
        link.take(held.iter_mut().map(|held| {
            let at = now - last.since(held.at);
            (at, held.from, &mut held.datagram[..])
        }));
    }

    fn forget_ended(&self) {
        let mut links = self
            .endpoint
            .links
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| !link.is_over());
    }

    /// Waits for packets, for the next deadline, to be woken, or for a control connection to end.
    fn sleep(&mut self, links: &[Arc<Shared>]) {
        let earliest = || links.iter().map(|link| link.deadline()).min();
        let until = earliest().unwrap_or(NEVER);
        self.endpoint.sleeps_until.store(until, Ordering::SeqCst);
        if earliest().unwrap_or(NEVER) < until {
            return;
        }
        let now = self.endpoint.now();
        let timeout = (until != NEVER).then(|| {
            let wait = Time::from_nanos(until).since(now);
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let controls: Vec<_> = (links.iter())
            .filter_map(|link| Some((link, link.control()?)))
            .collect();
        let mut fds = Vec::with_capacity(2 + controls.len());
        fds.push(PollFd::new(&self.endpoint.socket, PollFlags::IN));
        fds.push(PollFd::new(&self.wakened, PollFlags::IN));
        for (_, control) in &controls {
            fds.push(PollFd::new(&**control, control_flags()));
        }
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "cannot wait for packets");
                thread::sleep(ERROR_PAUSE);
            }
        }
        let woken = !fds[1].revents().is_empty();
        let ended: Vec<_> = (controls.iter().zip(&fds[2..]))
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|((link, _), _)| *link)
            .collect();
        for link in ended {
            link.control_ended();
        }
        if woken {
            let mut scratch = [0; 64];
            while matches!(io::Read::read(&mut &self.wakened, &mut scratch), Ok(1..)) {}
        }
    }

    fn receive(&mut self) {
        for _ in 0..BATCHES {
            match self.endpoint.socket.receive(&mut self.inbox) {
                Ok(buffers) => self.distribute(buffers),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    for link in self.endpoint.links() {
                        link.refused();
                    }
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "a UDP socket reports an error");
                    thread::sleep(ERROR_PAUSE);
                    return;
                }
            }
        }
    }

    fn distribute(&mut self, buffers: usize) {
        let now = self.endpoint.now();
        for arrival in self.inbox.arrivals(buffers) {
            if let Some(foreign) = &self.endpoint.foreign
                && !transpute_rudp::is_packet(arrival.bytes)
            {
                foreign.put(&arrival);
                continue;
            }
            let Arrival {
                from,
                bytes,
                stride,
                age,
                ..
            } = arrival;
            let at = now - age;
            // Packets that came together are for one connection: a connector has a socket of its own.
            let Some(id) = id(bytes) else {
                continue;
            };
            let Some(link) = self.endpoint.link(id) else {
                if self.endpoint.open.load(Ordering::Relaxed) {
                    for datagram in bytes.chunks(stride) {
                        self.stash.put(Held {
                            id,
                            at,
                            from,
                            datagram: datagram.to_vec(),
                        });
                    }
                }
                continue;
            };
            link.take(
                bytes
                    .chunks_mut(stride)
                    .map(|datagram| (at, from, datagram)),
            );
        }
    }
}

/// Returns the connection id that a datagram carries behind its first byte.
fn id(datagram: &[u8]) -> Option<u32> {
    let bytes = datagram.get(1..5)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// What shows that a control connection has ended. Nothing is read from it any more.
fn control_flags() -> PollFlags {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return PollFlags::RDHUP;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return PollFlags::HUP;
}
