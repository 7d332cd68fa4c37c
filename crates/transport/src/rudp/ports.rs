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

use crate::{BindError, TransportError, tcp::address};

use super::{
    endpoint::{Endpoint, EndpointHandle, Listening},
    foreign_queue::ForeignQueue,
    socket::Socket,
};

/// The endpoints of this process's listeners, including dropped listeners that still have links.
static ENDPOINTS: Mutex<Vec<Weak<Endpoint>>> = Mutex::new(Vec::new());

/// Time to wait until the QUIC endpoint of a dropped listener releases the socket. If the endpoint
/// has no connections, it releases the socket as soon as its task runs.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between two attempts to take over the socket.
const RELEASE_POLL: Duration = Duration::from_millis(5);

/// A UDP port that several protocols share. While this value exists, no other listener can take
/// over the port.
#[derive(Clone)]
pub(crate) struct UdpPort {
    listening: Arc<Listening>,
    foreign: Option<Arc<ForeignQueue>>,
}

impl UdpPort {
    /// Listens on the port. `buffer` is the size of a new socket's buffers, in bytes. If
    /// `has_foreign` is true, datagrams that do not belong to reliable UDP enter the queue
    /// [`foreign`](Self::foreign).
    pub(crate) async fn bind(
        address: SocketAddr,
        buffer: usize,
        has_foreign: bool,
    ) -> io::Result<Self> {
        let foreign = has_foreign.then(Arc::<ForeignQueue>::default);
        Ok(Self {
            listening: Arc::new(listen(address, buffer, foreign.clone()).await?),
            foreign,
        })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.listening.handle().local()
    }

    pub(crate) fn handle(&self) -> Arc<EndpointHandle> {
        Arc::clone(self.listening.handle())
    }

    /// Returns the queue of the other protocol's datagrams.
    pub(crate) fn foreign(&self) -> Arc<ForeignQueue> {
        self.foreign.clone().unwrap_or_default()
    }
}

/// Listens on a UDP port, on a new socket or on the socket of an earlier listener of this process.
/// `foreign` receives the datagrams of another protocol on the port. `buffer` is the size of a new
/// socket's buffers, in bytes.
pub(super) async fn listen(
    address: SocketAddr,
    buffer: usize,
    foreign: Option<Arc<ForeignQueue>>,
) -> io::Result<Listening> {
    let give_up = Instant::now() + RELEASE_TIMEOUT;
    loop {
        match find(address) {
            None => {
                let handle = Endpoint::start(Socket::listening(address, buffer)?)?;
                let endpoint = handle.endpoint();
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

/// Maximum number of attempts to find a port number that is free for both TCP and UDP.
const TRIES: usize = 32;

/// Binds a TCP port and a UDP port of the same number, at the first of the addresses of `address`
/// that succeeds.
///
/// # Errors
/// Returns [`AddressError::InvalidAddress`](crate::AddressError::InvalidAddress),
/// [`AddressError::Resolve`](crate::AddressError::Resolve), and the last error of `bind`.
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
        TransportError::Bind(BindError::Listen { source, .. }) => listen_error(source),
        other => other,
    })
}

fn is_taken(error: &TransportError) -> bool {
    matches!(error, TransportError::Bind(BindError::Listen { source, .. }) if source.kind() == io::ErrorKind::AddrInUse)
}
