//! An endpoint: a UDP socket and its links. A thread serves them (`server`).

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::{
    foreign_queue::ForeignQueue,
    intake::{FirstPacket, Intake},
    link::Shared,
    routes::Routes,
    served::{Hold, ServedSocket},
    server::Server,
    socket::Socket,
};

/// A UDP socket and its links.
pub(super) struct Endpoint {
    pub(super) served: Arc<ServedSocket>,
    routes: Mutex<Routes>,
    /// True if links were added that the thread does not know yet.
    grown: AtomicBool,
    users: Mutex<Users>,
    /// Starts links from the first packets of connectors. `None` while no listener accepts.
    intake: Mutex<Option<Intake>>,
}

/// The listener, the handles and the thread that use an endpoint, in addition to its links.
#[derive(Default)]
struct Users {
    /// True while a listener accepts links on the socket.
    is_listening: bool,
    /// Number of [`EndpointHandle`]s. If it is zero, no link can be added.
    handles: usize,
    /// The queue for datagrams of another protocol on the port, such as QUIC.
    foreign: Option<Arc<ForeignQueue>>,
    /// True while a thread serves the socket.
    is_served: bool,
}

/// The right to add links to an endpoint. The thread ends when the last handle is dropped and all
/// links have ended.
pub(crate) struct EndpointHandle(Arc<Endpoint>);

/// Marks the socket of an endpoint as used by a listener. While it exists, no other listener can
/// take over the socket.
pub(crate) struct Listening(Arc<EndpointHandle>);

impl Endpoint {
    /// Starts a thread that serves a socket.
    pub(super) fn start(socket: Socket) -> io::Result<EndpointHandle> {
        let endpoint = Arc::new(Self {
            served: Arc::new(ServedSocket::new(socket)?),
            routes: Mutex::default(),
            grown: AtomicBool::new(false),
            users: Mutex::default(),
            intake: Mutex::default(),
        });
        endpoint.add_handle(&mut endpoint.users())
    }

    /// Assigns the socket to a listener. Returns `None` if another listener uses it, or if the
    /// former user of the foreign queue still exists: its datagrams could not be distinguished from
    /// those for `foreign`.
    pub(super) fn listen(
        self: &Arc<Self>,
        foreign: Option<Arc<ForeignQueue>>,
    ) -> io::Result<Option<Listening>> {
        let mut users = self.users();
        let is_shared = |foreign| Arc::strong_count(foreign) > 1;
        if users.is_listening || users.foreign.as_ref().is_some_and(is_shared) {
            return Ok(None);
        }
        let handle = self.add_handle(&mut users)?;
        users.is_listening = true;
        users.foreign = foreign;
        drop(users);
        Ok(Some(Listening(Arc::new(handle))))
    }

    /// Adds a handle, and starts a thread if none serves the socket.
    fn add_handle(self: &Arc<Self>, users: &mut Users) -> io::Result<EndpointHandle> {
        if !users.is_served {
            let served = Arc::clone(self);
            thread::Builder::new()
                .name("transpute-rudp".into())
                .spawn(move || Server::new(served).run())?;
            users.is_served = true;
        }
        users.handles += 1;
        Ok(EndpointHandle(Arc::clone(self)))
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a listener accepts links on the socket.
    pub(super) fn is_listening(&self) -> bool {
        self.users().is_listening
    }

    /// Returns whether links can still be added.
    pub(super) fn has_handle(&self) -> bool {
        self.users().handles > 0
    }

    /// Returns whether the thread may end, after its last link has ended. It may if no link was
    /// added since and no handle exists. If so, the next handle starts another thread.
    pub(super) fn may_retire(&self) -> bool {
        let mut users = self.users();
        // The holder of a handle adds its link before it drops the handle, so no link is missed.
        users.is_served = users.handles > 0 || self.grown.load(Ordering::SeqCst);
        !users.is_served
    }

    /// Returns the queue for datagrams of another protocol.
    pub(super) fn foreign(&self) -> Option<Arc<ForeignQueue>> {
        self.users().foreign.clone()
    }

    /// Returns whether links were added since the last call.
    pub(super) fn has_grown(&self) -> bool {
        self.grown.swap(false, Ordering::SeqCst)
    }

    /// Returns the reference that a new link keeps to this endpoint.
    pub(super) fn hold(self: &Arc<Self>) -> Hold {
        Hold {
            served: Arc::clone(&self.served),
            _endpoint: Arc::<Self>::clone(self),
        }
    }

    pub(super) fn links(&self) -> Vec<Arc<Shared>> {
        self.routes().all.clone()
    }

    /// Returns the link to which a datagram from this address belongs.
    pub(super) fn route(&self, from: SocketAddr, datagram: &[u8]) -> Option<Arc<Shared>> {
        self.routes().find(from, datagram)
    }

    /// Registers the id of a link for data packets, once the link has its keys.
    ///
    /// If another link already has the same random 32-bit id, the new link is abandoned.
    pub(super) fn register(&self, link: &Arc<Shared>) {
        if !self.routes().register(link) {
            link.abandon();
        }
    }

    pub(super) fn forget_ended(&self) {
        self.routes().forget_ended();
    }

    /// Adds a link, so that it receives the datagrams of its set-up.
    fn add(&self, link: &Arc<Shared>, is_sole: bool) {
        self.routes().add(link, is_sole);
        self.grown.store(true, Ordering::SeqCst);
    }

    /// Adds the link of a connector. It receives all datagrams of the socket.
    pub(super) fn add_sole(&self, link: &Arc<Shared>) {
        self.add(link, true);
        self.served.wake();
    }

    /// Starts to accept connectors, by `intake`.
    pub(super) fn accept(&self, intake: Intake) {
        *self.lock_intake() = Some(intake);
    }

    /// Stops accepting connectors: ignores their first packets from now on.
    pub(super) fn accept_nobody(&self) {
        *self.lock_intake() = None;
    }

    /// Handles the first packet of a connector. Called by the endpoint's thread.
    pub(super) fn take_first(self: &Arc<Self>, arrival: &FirstPacket, datagram: &mut [u8]) {
        let mut intake = self.lock_intake();
        let taken = intake
            .as_mut()
            .and_then(|intake| intake.take(self.hold(), arrival, datagram));
        drop(intake);
        if let Some(link) = taken {
            self.add(&link, false);
            link.serve();
        }
    }

    fn lock_intake(&self) -> MutexGuard<'_, Option<Intake>> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndpointHandle {
    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for EndpointHandle {
    fn drop(&mut self) {
        self.0.users().handles -= 1;
        self.0.served.wake();
    }
}

impl Listening {
    pub(crate) fn handle(&self) -> &Arc<EndpointHandle> {
        &self.0
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.0.users().is_listening = false;
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use transpute_rudp::{PlaintextTls, RudpConfig, RudpConnection, Tls};

    use super::*;

    /// An abandoned link repeats its close packet to a silent peer for seconds. Between the
    /// packets, the thread must sleep.
    #[test]
    fn what_was_given_up_is_not_looked_at_all_the_time() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = silent.local_addr().unwrap();
        let handle = Endpoint::start(Socket::connecting(peer, 1 << 16).unwrap()).unwrap();
        let endpoint = handle.endpoint();
        let tls = |parameters: &[u8]| {
            let agreed = Arc::default();
            let tls = PlaintextTls::connector([1; 16], parameters, &["test"], agreed);
            Some(Box::new(tls) as Box<dyn Tls>)
        };
        let now = endpoint.served.now();
        let connection =
            RudpConnection::connect(peer, RudpConfig::default(), now, &[1; 32], tls).unwrap();
        let link = Arc::new(Shared::new(connection, endpoint.hold(), None, "bbr"));
        endpoint.add_sole(&link);
        link.abandon();
        let given_up = link.lock().abandoned.unwrap();
        assert!(link.deadline() > given_up.as_nanos());
    }
}
