//! The UDP ports that this process listens on.
//!
//! The links of a listener share its socket. So the port stays bound after the listener is dropped,
//! until its last link has ended. The system would refuse the port to the next listener, or
//! distribute datagrams between two sockets at random. So the next listener of this process takes
//! the socket over, with its links.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use crate::{TransportError, tcp::address};

use super::{
    endpoint::{Door, Endpoint, Listening},
    foreign::Foreign,
    socket::Socket,
};

/// Every endpoint that a listener has used and that still exists.
static ENDPOINTS: Mutex<Vec<Weak<Endpoint>>> = Mutex::new(Vec::new());

/// Time to wait until the QUIC endpoint of a dropped listener releases the socket. Without
/// connections, it takes as long as a task needs to be scheduled.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between two attempts.
const RELEASE_POLL: Duration = Duration::from_millis(5);

/// A UDP port that several protocols share. While one of these exists, no other listener can take the port over.
#[derive(Clone)]
pub(crate) struct UdpPort {
    listening: Arc<Listening>,
    foreign: Option<Arc<Foreign>>,
}

impl UdpPort {
    /// Listens on the port. `buffer` is the size of a new socket's buffers, in bytes. `has_foreign`: another protocol takes the datagrams
    /// that are not of reliable UDP.
    pub(crate) async fn bind(
        address: SocketAddr,
        buffer: usize,
        has_foreign: bool,
    ) -> io::Result<Self> {
        let foreign = has_foreign.then(Arc::<Foreign>::default);
        Ok(Self {
            listening: Arc::new(listen(address, buffer, foreign.clone()).await?),
            foreign,
        })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.listening.door().local()
    }

    pub(crate) fn door(&self) -> Arc<Door> {
        Arc::clone(self.listening.door())
    }

    /// Returns the datagrams of the other protocol.
    pub(crate) fn foreign(&self) -> Arc<Foreign> {
        self.foreign.clone().unwrap_or_default()
    }
}

/// Listens on a UDP port, on a new socket or on that of an earlier listener of this process.
/// `foreign` receives the datagrams of another protocol on the port. `buffer` is the size of a new
/// socket's buffers, in bytes.
pub(super) async fn listen(
    address: SocketAddr,
    buffer: usize,
    foreign: Option<Arc<Foreign>>,
) -> io::Result<Listening> {
    let give_up = Instant::now() + RELEASE_TIMEOUT;
    loop {
        match find(address) {
            None => {
                let door = Endpoint::start(Socket::listening(address, buffer)?)?;
                let endpoint = door.endpoint();
                register(endpoint);
                return (endpoint.listen(foreign)?).ok_or_else(|| io::ErrorKind::AddrInUse.into());
            }
            Some(endpoint) => {
                if let Some(listening) = endpoint.listen(foreign.clone())? {
                    return Ok(listening);
                }
                if endpoint.is_listening() || Instant::now() >= give_up {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
            }
        }
        tokio::time::sleep(RELEASE_POLL).await;
    }
}

fn register(endpoint: &Arc<Endpoint>) {
    let mut endpoints = ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
    endpoints.retain(|endpoint| endpoint.strong_count() > 0);
    endpoints.push(Arc::downgrade(endpoint));
}

fn find(address: SocketAddr) -> Option<Arc<Endpoint>> {
    let endpoints = ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
    (endpoints.iter().filter_map(Weak::upgrade))
        .find(|endpoint| endpoint.served.socket.local() == address)
}

/// Maximum number of attempts to find a port number that is free for both protocols.
const TRIES: usize = 32;

/// Binds a TCP port and a UDP port of the same number, at the first of the addresses of `address`
/// that succeeds.
///
/// # Errors
/// [`TransportError::InvalidAddress`], [`TransportError::Resolve`], and the last error of `bind`.
pub(crate) async fn bind_on_both<T, B>(
    address: &str,
    bind: impl Fn(SocketAddr) -> B,
) -> Result<T, TransportError>
where
    B: Future<Output = Result<T, TransportError>>,
{
    let listen_error = address::listen_error(address);
    let mut error = listen_error(io::ErrorKind::AddrNotAvailable.into());
    for candidate in address::resolve(address).await? {
        for _ in 0..TRIES {
            error = match bind(candidate).await {
                Ok(listener) => return Ok(listener),
                Err(error) => error,
            };
            // With port 0, the system chose a number for UDP that may be taken for TCP.
            if candidate.port() != 0 || !is_taken(&error) {
                break;
            }
        }
    }
    Err(match error {
        TransportError::Listen { source, .. } => listen_error(source),
        other => other,
    })
}

fn is_taken(error: &TransportError) -> bool {
    matches!(error, TransportError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse)
}
