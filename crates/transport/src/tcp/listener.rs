//! The listener of the TCP transport. It limits the resources that unauthenticated peers can use.
//!
//! Each handshake runs in its own task, with a deadline and bounded buffers. The number of
//! handshakes is limited. The listener accepts connections from the kernel only while the user
//! waits in `accept`. At other times, new connections wait in the kernel's queue.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::net::{TcpListener, TcpStream};

use super::{
    CongestionControl, TcpOptions, address, congestion,
    handshake::{Acceptor, Context},
    retries,
    socket::Socket,
};
use crate::{
    BindError, Link, TransportError,
    handshakes::{Handshakes, wait_until},
    listening::PortListener,
    throttle::{self, Throttle},
};

/// Authenticates the connections of a listener.
pub(crate) trait ConnectionHandler: Clone + Send + 'static {
    /// The type of the result, such as a link.
    type Handled: Send + 'static;

    /// Maximum number of unsent bytes that the kernel holds for each connection.
    const UNSENT_LIMIT: u32;

    /// Authenticates a connecting peer and returns the result. Returns `None` if the listener
    /// should ignore the connection and continue.
    fn handle_connection(
        self,
        socket: Socket,
        context: Context,
    ) -> impl Future<Output = Result<Option<Self::Handled>, TransportError>> + Send;
}

/// A listening TCP port, with the handshakes of the connections that it has accepted.
pub(crate) struct Port<G: ConnectionHandler> {
    listener: TcpListener,
    local: SocketAddr,
    handler: G,
    options: TcpOptions,
    handshakes: Handshakes<Outcome<G::Handled>>,
    pause: Option<Instant>,
    log: Throttle,
}

struct Outcome<T> {
    peer: SocketAddr,
    result: Result<Option<T>, TransportError>,
}

/// Time for which the listener accepts no connections after the system had no file descriptor or no
/// memory for one.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(250);

impl ConnectionHandler for Acceptor {
    type Handled = Link;

    const UNSENT_LIMIT: u32 = super::UNSENT_LIMIT;

    async fn handle_connection(
        self,
        socket: Socket,
        context: Context,
    ) -> Result<Option<Link>, TransportError> {
        let channel = self.authenticate(socket, context).await?;
        Ok(Some(channel.into_link()))
    }
}

impl<G: ConnectionHandler> Port<G> {
    pub(crate) async fn bind(
        address: &str,
        handler: G,
        options: TcpOptions,
    ) -> Result<Self, TransportError> {
        let listen_error = &address::listen_error(address);
        let listener = address::bind_first(address, |candidate| async move {
            listen(candidate, options.congestion_control, listen_error)
        })
        .await?;
        Ok(Self {
            local: listener.local_addr().map_err(listen_error)?,
            listener,
            handler,
            options,
            handshakes: Handshakes::new(options.max_handshakes),
            pause: None,
            log: Throttle::new(),
        })
    }

    fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let handler = self.handler.clone();
        let context = Context {
            local: stream.local_addr().unwrap_or(self.local),
            peer,
            connect: Duration::ZERO,
            timeout: self.options.handshake_timeout,
        };
        let peer_timeout = self.options.peer_timeout;
        self.handshakes.begin(peer.ip(), async move {
            let result = match Socket::new(stream, G::UNSENT_LIMIT, 0, peer_timeout) {
                Ok(socket) => handler.handle_connection(socket, context).await,
                Err(error) => Err(TransportError::from_io(error)),
            };
            Outcome { peer, result }
        });
    }

    fn finished(&mut self, outcome: Outcome<G::Handled>) -> Option<Option<G::Handled>> {
        throttle::log_handshake(&mut self.log, outcome.peer, outcome.result)
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
            Err(TransportError::Bind(BindError::Accept {
                address: self.local.to_string(),
                source: error,
            }))
        }
    }
}

impl<G: ConnectionHandler> Port<G> {
    /// Waits until the handler has handled the next connection, and returns the handler's result.
    /// Returns `None` if the listener should ignore this connection. Cancel-safe.
    pub(crate) async fn next_handled(&mut self) -> Result<Option<G::Handled>, TransportError> {
        loop {
            // Until this time, new connections wait in the kernel's queue.
            let full = self.handshakes.full_until();
            // Every branch is cancel-safe, and nothing outside of the branches waits.
            tokio::select! {
                biased;
                Some(outcome) = self.handshakes.next() => {
                    if let Some(guest) = self.finished(outcome) {
                        return Ok(guest);
                    }
                }
                () = wait_until(self.pause), if self.pause.is_some() => self.pause = None,
                () = wait_until(full), if full.is_some() => {}
                accepted = self.listener.accept(), if self.pause.is_none() && full.is_none() => match accepted {
                    Ok((stream, peer)) => self.begin(stream, peer),
                    Err(error) => self.accept_failed(error)?,
                },
            }
        }
    }
}

#[async_trait]
impl<G: ConnectionHandler> PortListener<G::Handled> for Port<G> {
    fn local_address(&self) -> String {
        address::reachable(self.local).to_string()
    }

    async fn next(&mut self) -> Result<G::Handled, TransportError> {
        loop {
            if let Some(handled) = self.next_handled().await? {
                return Ok(handled);
            }
        }
    }
}

/// Opens a listening socket. Accepted connections inherit its congestion control and retransmission
/// timers, which apply from their first segment on.
fn listen(
    address: SocketAddr,
    congestion_control: Option<CongestionControl>,
    error: impl Fn(io::Error) -> TransportError,
) -> Result<TcpListener, TransportError> {
    const BACKLOG: u32 = 1024;
    let socket = congestion::new_socket(address).map_err(&error)?;
    // This option lets a restarted listener bind its port at once. On Windows, it would let other
    // processes listen on the same port.
    #[cfg(unix)]
    socket.set_reuseaddr(true).map_err(&error)?;
    congestion::prepare((&socket).into(), congestion_control, address)?;
    retries::prepare(&(&socket).into());
    socket.bind(address).map_err(&error)?;
    socket.listen(BACKLOG).map_err(&error)
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

/// Returns whether an error of `accept` concerns only one connection, and not the listener. On
/// Linux, `accept` reports network errors of the connection that it would return (accept(2)).
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

    #[tokio::test]
    async fn running_out_of_descriptors_pauses_and_a_broken_socket_ends() {
        let security = crate::Security::Plaintext;
        let acceptor = Acceptor::new(&security, &["tcp"], "tcp").unwrap();
        let mut listener = Port::bind("127.0.0.1:0", acceptor, TcpOptions::default())
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
        // After the pause, the listener accepts connections again.
        let address = listener.local_address();
        let tcp = super::super::Tcp::default();
        let (accepted, connected) = tokio::join!(
            listener.next(),
            crate::Transport::connect(&tcp, &address, &security)
        );
        accepted.unwrap();
        connected.unwrap();
        assert!(matches!(
            listener.accept_failed(io::Error::from_raw_os_error(libc::EBADF)),
            Err(TransportError::Bind(BindError::Accept { .. }))
        ));
    }
}
