//! The listening end: a TCP port and a UDP port of the same number.

use std::{io, net::SocketAddr, sync::Arc};

use super::{
    Attempt, RudpOptions, UNSENT_LIMIT,
    endpoint::{Door, Listening},
    hello::Hello,
    ports,
};
use crate::{
    Link, Listener, Security, TransportError,
    tcp::{Acceptor, Context, Greeter, Port, Socket as ControlSocket, address},
};
use async_trait::async_trait;

pub(crate) struct RudpListener {
    port: Port<RudpGreeter>,
    _listening: Listening,
}

/// Authenticates a connector and sees its UDP connection through the set-up.
#[derive(Clone)]
struct RudpGreeter {
    acceptor: Acceptor,
    door: Arc<Door>,
    transport: &'static str,
    options: RudpOptions,
}

/// How often to try for a number that is free on both ports.
const TRIES: usize = 32;

impl RudpListener {
    pub(crate) async fn bind(
        address: &str,
        security: &Security,
        transport: &'static str,
        options: RudpOptions,
    ) -> Result<Self, TransportError> {
        let acceptor = Acceptor::new(security, &[transport], transport)?;
        bind_on_both(address, |candidate| {
            Self::bind_both(candidate, &acceptor, transport, options)
        })
        .await
    }

    async fn bind_both(
        candidate: SocketAddr,
        acceptor: &Acceptor,
        transport: &'static str,
        options: RudpOptions,
    ) -> Result<Self, TransportError> {
        let listen_error = |source| TransportError::Listen {
            address: candidate.to_string(),
            source,
        };
        let listening = ports::listen(candidate, options.socket_buffer, None)
            .await
            .map_err(listen_error)?;
        let local = listening.door().local();
        let greeter = RudpGreeter {
            acceptor: acceptor.clone(),
            door: Arc::clone(listening.door()),
            transport,
            options,
        };
        let port = Port::bind(&local.to_string(), greeter, options.tcp).await?;
        Ok(Self {
            port,
            _listening: listening,
        })
    }
}

/// Binds what listens on a TCP port and a UDP port of the same number, at the first of the addresses of `address` that
/// takes it.
///
/// # Errors
/// [`TransportError::InvalidAddress`], [`TransportError::Resolve`], and the last of `bind`.
pub(crate) async fn bind_on_both<T, B>(
    address: &str,
    bind: impl Fn(SocketAddr) -> B,
) -> Result<T, TransportError>
where
    B: Future<Output = Result<T, TransportError>>,
{
    let listen_error = |source| TransportError::Listen {
        address: address.into(),
        source,
    };
    let mut error = listen_error(io::ErrorKind::AddrNotAvailable.into());
    for candidate in address::resolve(address).await? {
        for _ in 0..TRIES {
            error = match bind(candidate).await {
                Ok(listener) => return Ok(listener),
                Err(error) => error,
            };
            // With port 0 the system has chosen a number for UDP that may be taken for TCP.
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

impl Greeter for RudpGreeter {
    type Guest = Link;

    const UNSENT_LIMIT: u32 = UNSENT_LIMIT;

    async fn greet(self, socket: ControlSocket, context: Context) -> Result<Link, TransportError> {
        let farewell = socket.clone();
        let result = self.try_greet(socket, context).await;
        if result.is_err() {
            farewell.close_politely().await;
        }
        result
    }
}

impl RudpGreeter {
    async fn try_greet(
        self,
        socket: ControlSocket,
        context: Context,
    ) -> Result<Link, TransportError> {
        let mut channel = self.acceptor.authenticate(socket, context).await?;
        let hello = Hello::read(&mut channel, self.transport).await?;
        let door = Arc::clone(&self.door);
        let attempt = Attempt::listen(&hello, &channel, self.transport, &door, self.options)?;
        super::finish(channel, attempt, self.transport).await
    }
}

#[async_trait]
impl Listener for RudpListener {
    fn local_address(&self) -> String {
        self.port.local_address()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        self.port.next().await
    }
}
