//! The listening end: many strangers may knock at once, and none of them keeps a peer waiting.
//!
//! Handshakes run in their own tasks, a bounded number of them, each with a deadline and bounded buffers. Sockets are
//! taken from the kernel only while somebody waits in `accept`; until then they queue there.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, Id, JoinError, JoinSet},
};

use super::{
    CongestionControl, TcpOptions, address, congestion,
    handshake::{Acceptor, Context},
    socket::Socket,
};
use crate::{Link, Listener, TransportError, throttle::Throttle};

/// What a listener does with a connection until it is somebody's it knows.
pub(crate) trait Greeter: Clone + Send + 'static {
    /// What comes of a connection.
    type Guest: Send + 'static;

    /// Unsent bytes that the kernel may hold on each connection.
    const UNSENT_LIMIT: u32;

    /// Authenticates whoever connected.
    fn greet(
        self,
        socket: Socket,
        context: Context,
    ) -> impl Future<Output = Result<Self::Guest, TransportError>> + Send;
}

/// A listening port.
pub(crate) struct Port<G: Greeter> {
    listener: TcpListener,
    local: SocketAddr,
    greeter: G,
    options: TcpOptions,
    /// Dropping the set stops the tasks.
    handshakes: JoinSet<Outcome<G::Guest>>,
    /// Those of `handshakes` that are still running, oldest first.
    running: VecDeque<Handshake>,
    pause: Option<Instant>,
    log: Throttle,
}

struct Outcome<T> {
    peer: SocketAddr,
    result: Result<T, TransportError>,
}

struct Handshake {
    id: Id,
    abort: AbortHandle,
    source: IpAddr,
}

/// How long the listener rests when the system has no descriptor or memory for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(250);

impl Greeter for Acceptor {
    type Guest = Link;

    const UNSENT_LIMIT: u32 = super::UNSENT_LIMIT;

    async fn greet(self, socket: Socket, context: Context) -> Result<Link, TransportError> {
        Ok(self.authenticate(socket, context).await?.into_link())
    }
}

impl<G: Greeter> Port<G> {
    pub(crate) async fn bind(
        address: &str,
        greeter: G,
        options: TcpOptions,
    ) -> Result<Self, TransportError> {
        let addresses = address::resolve(address).await?;
        let listen_error = |source| TransportError::Listen {
            address: address.into(),
            source,
        };
        let mut bound = Err(TransportError::Listen {
            address: address.into(),
            source: io::ErrorKind::AddrNotAvailable.into(),
        });
        for &candidate in &addresses {
            bound = listen(candidate, options.congestion_control, listen_error);
            if !matches!(bound, Err(TransportError::Listen { .. })) {
                break;
            }
        }
        let listener = bound?;
        Ok(Self {
            local: listener.local_addr().map_err(listen_error)?,
            listener,
            greeter,
            options,
            handshakes: JoinSet::new(),
            running: VecDeque::new(),
            pause: None,
            log: Throttle::new(),
        })
    }

    fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        if self.running.len() >= self.options.max_handshakes.max(1) {
            self.evict();
        }
        let greeter = self.greeter.clone();
        let context = Context {
            local: stream.local_addr().unwrap_or(self.local),
            peer,
            connect: Duration::ZERO,
            timeout: self.options.handshake_timeout,
        };
        let abort = self.handshakes.spawn(async move {
            let result = match Socket::new(stream, G::UNSENT_LIMIT) {
                Ok(socket) => greeter.greet(socket, context).await,
                Err(error) => Err(TransportError::from_io(error)),
            };
            Outcome { peer, result }
        });
        self.running.push_back(Handshake {
            id: abort.id(),
            abort,
            source: network(peer.ip()),
        });
    }

    /// Drops the oldest handshake of the network that has most of them: a flood from one place crowds out itself, and
    /// not the peer.
    fn evict(&mut self) {
        let count = |source| self.running.iter().filter(|h| h.source == source).count();
        let most = self.running.iter().map(|h| count(h.source)).max();
        let victim = self
            .running
            .iter()
            .position(|h| Some(count(h.source)) == most);
        if let Some(victim) = victim.and_then(|index| self.running.remove(index)) {
            victim.abort.abort();
        }
    }

    fn finished(&mut self, done: Result<(Id, Outcome<G::Guest>), JoinError>) -> Option<G::Guest> {
        let (id, outcome) = match done {
            Ok((id, outcome)) => (id, Some(outcome)),
            Err(error) => {
                if error.is_panic() {
                    tracing::error!("a handshake task panicked; please report this as a bug");
                }
                (error.id(), None)
            }
        };
        self.running.retain(|handshake| handshake.id != id);
        let Outcome { peer, result } = outcome?;
        match result {
            Ok(guest) => {
                tracing::debug!(%peer, "accepted a connection");
                Some(guest)
            }
            Err(error) => {
                if let Some(not_shown) = self.log.admit(Instant::now()) {
                    tracing::warn!(%peer, %error, not_shown, "turned a stranger away");
                }
                None
            }
        }
    }

    fn accept_failed(&mut self, error: io::Error) -> Result<(), TransportError> {
        if is_exhaustion(&error) {
            self.pause = Some(Instant::now() + EXHAUSTED_PAUSE);
            if let Some(not_shown) = self.log.admit(Instant::now()) {
                tracing::warn!(%error, not_shown, "cannot take another connection; pausing");
            }
            Ok(())
        } else if concerns_one_connection(&error) {
            Ok(())
        } else {
            Err(TransportError::Accept {
                address: self.local.to_string(),
                source: error,
            })
        }
    }
}

impl<G: Greeter> Port<G> {
    /// Returns the address as another party on this machine can connect to it.
    pub(crate) fn local_address(&self) -> String {
        let mut address = self.local;
        // Nobody can connect to the wildcard; on this machine the loopback address leads here.
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        address.to_string()
    }

    /// Waits for the next connection that was greeted. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<G::Guest, TransportError> {
        loop {
            // Every branch is cancel-safe, and nothing is awaited outside of them.
            tokio::select! {
                biased;
                Some(done) = self.handshakes.join_next_with_id() => {
                    if let Some(guest) = self.finished(done) {
                        return Ok(guest);
                    }
                }
                () = rest(self.pause), if self.pause.is_some() => self.pause = None,
                accepted = self.listener.accept(), if self.pause.is_none() => match accepted {
                    Ok((stream, peer)) => self.begin(stream, peer),
                    Err(error) => self.accept_failed(error)?,
                },
            }
        }
    }
}

#[async_trait]
impl Listener for Port<Acceptor> {
    fn local_address(&self) -> String {
        Self::local_address(self)
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        self.next().await
    }
}

/// Connections inherit the congestion control of the socket they arrive at, from their first segment on.
fn listen(
    address: SocketAddr,
    congestion_control: Option<CongestionControl>,
    error: impl Fn(io::Error) -> TransportError,
) -> Result<TcpListener, TransportError> {
    const BACKLOG: u32 = 1024;
    let socket = congestion::new_socket(address).map_err(&error)?;
    // On Windows this would let others listen on the same port.
    #[cfg(unix)]
    socket.set_reuseaddr(true).map_err(&error)?;
    if let Some(name) = congestion_control {
        congestion::set(&socket, name)?;
    }
    socket.bind(address).map_err(&error)?;
    socket.listen(BACKLOG).map_err(&error)
}

async fn rest(until: Option<Instant>) {
    if let Some(until) = until {
        tokio::time::sleep_until(until.into()).await;
    }
}

/// The part of an address that one party can hardly change: all of IPv4, the first half of IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        v4 => v4,
    }
}

#[cfg(unix)]
fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

#[cfg(not(unix))]
fn is_exhaustion(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
}

/// Linux reports network errors of a connection that has not been accepted yet as errors of `accept` (accept(2)).
#[cfg(unix)]
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::ECONNRESET
                | libc::EINTR
                | libc::EPERM
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EOPNOTSUPP
                | libc::ETIMEDOUT
        )
    )
}

#[cfg(not(unix))]
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_grouped_by_what_they_cannot_change() {
        let same = |a: &str, b: &str| network(a.parse().unwrap()) == network(b.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
    }

    #[tokio::test]
    async fn running_out_of_descriptors_pauses_and_a_broken_socket_ends() {
        let mut listener = Port::bind("127.0.0.1:0", Acceptor::Plaintext, TcpOptions::default())
            .await
            .unwrap();
        listener
            .accept_failed(io::Error::from_raw_os_error(libc::ECONNABORTED))
            .unwrap();
        assert!(listener.pause.is_none());
        listener
            .accept_failed(io::Error::from_raw_os_error(libc::EMFILE))
            .unwrap();
        assert!(listener.pause.is_some());
        // After the pause it accepts again.
        let address = listener.local_address();
        let tcp = super::super::Tcp::default();
        let security = crate::Security::Plaintext;
        let (accepted, connected) = tokio::join!(
            listener.accept(),
            crate::Transport::connect(&tcp, &address, &security)
        );
        accepted.unwrap();
        connected.unwrap();
        assert!(matches!(
            listener.accept_failed(io::Error::from_raw_os_error(libc::EBADF)),
            Err(TransportError::Accept { .. })
        ));
    }

    #[tokio::test]
    async fn a_crowd_drops_its_own_oldest() {
        let mut listener = Port::bind("127.0.0.1:0", Acceptor::Plaintext, TcpOptions::default())
            .await
            .unwrap();
        for (index, source) in ["192.0.2.9", "192.0.2.1", "192.0.2.1", "192.0.2.2"]
            .into_iter()
            .enumerate()
        {
            let abort = listener.handshakes.spawn(std::future::pending());
            listener.running.push_back(Handshake {
                id: abort.id(),
                abort,
                source: source.parse().unwrap(),
            });
            assert_eq!(listener.running.len(), index + 1);
        }
        listener.evict();
        let left: Vec<_> = listener
            .running
            .iter()
            .map(|h| h.source.to_string())
            .collect();
        assert_eq!(left, ["192.0.2.9", "192.0.2.1", "192.0.2.2"]);
        let cancelled = listener.handshakes.join_next().await.unwrap();
        assert!(cancelled.is_err_and(|error| error.is_cancelled()));
    }
}
