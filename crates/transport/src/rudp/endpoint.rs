//! A UDP socket and its links, which a thread serves (`server`).

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
    /// Links were added that the thread has not seen.
    grown: AtomicBool,
    users: Mutex<Users>,
    /// Makes links of first packets, while a listener accepts them.
    intake: Mutex<Option<Intake>>,
}

/// Users of an endpoint other than its links.
#[derive(Default)]
struct Users {
    /// A listener accepts links on the socket.
    is_listening: bool,
    /// Number of [`EndpointHandle`]s. Without any, no link can be added.
    handles: usize,
    /// The queue for datagrams of another protocol.
    foreign: Option<Arc<ForeignQueue>>,
    /// A thread serves the socket.
    is_served: bool,
}

/// The right to add links to an endpoint. The thread ends when the last one is dropped and all
/// links have ended.
pub(crate) struct EndpointHandle(Arc<Endpoint>);

/// A listener's claim on its socket. While it exists, no other listener can take the socket over.
pub(crate) struct Listening(Arc<EndpointHandle>);

impl Endpoint {
    /// Starts to serve a socket.
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

    /// Lets a listener use the socket, if none does yet. Another protocol on the port must have
    /// ended as well, because its datagrams could not be distinguished from those of a successor.
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

    /// Returns whether the thread, which has no links left, may end: none was or can be added. The
    /// next handle starts another thread.
    pub(super) fn may_retire(&self) -> bool {
        let mut users = self.users();
        // A handle adds its link before it closes.
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

    /// Returns the hold of a new link.
    pub(super) fn hold(self: &Arc<Self>) -> Hold {
        Hold {
            served: Arc::clone(&self.served),
            _endpoint: Arc::<Self>::clone(self),
        }
    }

    pub(super) fn links(&self) -> Vec<Arc<Shared>> {
        self.routes().all.clone()
    }

    /// Returns the link of a datagram from this address.
    pub(super) fn route(&self, from: SocketAddr, datagram: &[u8]) -> Option<Arc<Shared>> {
        self.routes().find(from, datagram)
    }

    /// Lets data packets find a link whose keys are known.
    ///
    /// A link whose id is taken, which is as likely as guessing 32 bits, cannot be used.
    pub(super) fn register(&self, link: &Arc<Shared>) {
        if !self.routes().register(link) {
            link.abandon();
        }
    }

    pub(super) fn forget_ended(&self) {
        self.routes().forget_ended();
    }

    /// Adds a link, so that datagrams of its set-up find it.
    fn add(&self, link: &Arc<Shared>, is_sole: bool) {
        self.routes().add(link, is_sole);
        self.grown.store(true, Ordering::SeqCst);
    }

    /// Adds the link of a connector, to which all datagrams belong.
    pub(super) fn add_sole(&self, link: &Arc<Shared>) {
        self.add(link, true);
        self.served.wake();
    }

    /// Starts to accept connectors.
    pub(super) fn accept(&self, intake: Intake) {
        *self.lock_intake() = Some(intake);
    }

    /// Stops accepting: first packets are ignored.
    pub(super) fn accept_nobody(&self) {
        *self.lock_intake() = None;
    }

    /// Handles the first packet of a connector. The thread calls this.
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

    /// A silent peer is sent the end for seconds. In between, the thread must sleep.
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
