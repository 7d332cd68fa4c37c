//! Local listeners whose connections are forwarded.

use std::{convert::Infallible, io, time::Duration};

#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::{net::TcpListener, time::sleep};
use tracing::warn;

use crate::{
    address::{ForwardRule, TunnelAddress},
    error::TunnelError,
    local::Local,
    tunnel::TunnelSet,
};

/// Pause after a failed accept, for example because of too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A local listener. Its connections are forwarded to a target of the peer.
#[derive(Debug)]
pub struct Forward {
    socket: Socket,
    rule: ForwardRule,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixSocket),
}

impl Forward {
    /// Listens on the local address of a rule.
    ///
    /// If the address is a Unix socket whose listener no longer exists, this replaces the file.
    ///
    /// # Errors
    /// Returns [`TunnelError::Bind`], for example if the port is in use.
    pub async fn bind(rule: ForwardRule) -> Result<Self, TunnelError> {
        let ForwardRule { local, remote } = rule;
        let (socket, local) = match (listen(&local).await, local) {
            (Ok(Socket::Tcp(listener)), TunnelAddress::Tcp { host, port }) => {
                let port = listener.local_addr().map_or(port, |address| address.port());
                (Socket::Tcp(listener), TunnelAddress::Tcp { host, port })
            }
            (Ok(socket), local) => (socket, local),
            (Err(source), address) => return Err(TunnelError::Bind { address, source }),
        };
        Ok(Self {
            socket,
            rule: ForwardRule { local, remote },
        })
    }

    /// Returns the rule. If its port was 0, the returned rule has the port that the system chose.
    #[must_use]
    pub fn rule(&self) -> &ForwardRule {
        &self.rule
    }

    /// Accepts connections forever. Each goes through the newest tunnel of the set. Without a
    /// tunnel it is reset.
    pub async fn serve(self, tunnels: TunnelSet) -> Infallible {
        loop {
            let local = match self.accept().await {
                Ok(local) => local,
                Err(error) => {
                    warn!("cannot accept a connection on {}: {error}", self.rule.local);
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match tunnels.newest() {
                Some(tunnel) => tunnel.connect(local, self.rule.remote.clone()),
                None => warn!(
                    "reset a connection to {}: there is no link",
                    self.rule.remote
                ),
            }
        }
    }

    async fn accept(&self) -> io::Result<Local> {
        match &self.socket {
            Socket::Tcp(listener) => Local::tcp(listener.accept().await?.0),
            #[cfg(unix)]
            Socket::Unix(socket) => Ok(Local::Unix(socket.listener.accept().await?.0)),
        }
    }
}

async fn listen(address: &TunnelAddress) -> io::Result<Socket> {
    match address {
        TunnelAddress::Tcp { host, port } => {
            let listener = TcpListener::bind((host.as_str(), *port)).await?;
            Ok(Socket::Tcp(listener))
        }
        #[cfg(unix)]
        TunnelAddress::Unix { path } => Ok(Socket::Unix(UnixSocket::bind(path)?)),
        #[cfg(not(unix))]
        TunnelAddress::Unix { .. } => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// A listening Unix socket, whose file is removed on drop.
#[cfg(unix)]
#[derive(Debug)]
struct UnixSocket {
    listener: UnixListener,
    path: String,
}

#[cfg(unix)]
impl UnixSocket {
    fn bind(path: &str) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        Ok(Self {
            listener,
            path: path.into(),
        })
    }
}

/// Returns whether a file is a Unix socket that no process listens on.
#[cfg(unix)]
fn is_stale(path: &str) -> bool {
    let connected = std::os::unix::net::UnixStream::connect(path);
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(unix)]
impl Drop for UnixSocket {
    fn drop(&mut self) {
        // The file may already be gone.
        let _ = std::fs::remove_file(&self.path);
    }
}
