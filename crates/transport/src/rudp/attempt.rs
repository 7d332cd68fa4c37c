//! A connection that is being set up.

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Once},
    time::Instant,
};

use transpute_rudp::{Connection, Side, TrainResult};

use super::{
    RudpOptions,
    ending::Broken,
    endpoint::{Door, Endpoint},
    halves::Open,
    hello::Hello,
    link::{Shared, Wait},
    socket::Socket,
};
use crate::{PathSample, TransportError, tcp::Channel};

/// A connection that is given up unless it is taken.
pub(crate) struct Attempt {
    shared: Arc<Shared>,
    is_taken: bool,
}

impl Attempt {
    pub(super) fn begin(
        door: &Door,
        connection: Connection,
        from: Option<IpAddr>,
        options: RudpOptions,
    ) -> Result<Self, TransportError> {
        let shared = door
            .add(connection, from, options.control.name())
            .ok_or_else(|| TransportError::Io {
                source: io::Error::new(io::ErrorKind::AddrInUse, "a connection id came up twice"),
            })?;
        if !options.probes() {
            shared.expect_no_estimate();
        }
        Ok(Self {
            shared,
            is_taken: false,
        })
    }

    /// Begins to set up reliable UDP to the peer of a control connection, which the hello was sent on.
    pub(crate) fn connect(
        hello: &Hello,
        channel: &Channel,
        transport: &str,
        options: RudpOptions,
    ) -> Result<Self, TransportError> {
        let peer = channel.context().peer;
        let connect_error = |source| TransportError::Connect {
            address: peer.to_string(),
            source,
        };
        let keys = hello.keys(channel, Side::Connector)?;
        let socket = Socket::connecting(peer, options.socket_buffer).map_err(connect_error)?;
        let door = Endpoint::start(socket).map_err(connect_error)?;
        let config = options.config(transport, channel);
        let now = door.endpoint().now();
        let connection = Connection::connect(keys, peer, config, now, rand::random());
        Self::begin(&door, connection, None, options)
    }

    /// Begins to wait for the packets of the connector that said this hello.
    pub(crate) fn listen(
        hello: &Hello,
        channel: &Channel,
        transport: &str,
        door: &Door,
        options: RudpOptions,
    ) -> Result<Self, TransportError> {
        let context = channel.context();
        let keys = hello.keys(channel, Side::Listener)?;
        let endpoint = door.endpoint();
        // A socket that listens on all addresses must answer from the one it was spoken to.
        let wildcard = endpoint.socket.local().ip().is_unspecified();
        let from = wildcard.then(|| context.local.ip());
        let config = options.config(transport, channel);
        let connection = Connection::listen(keys, config, endpoint.now(), rand::random());
        Self::begin(door, connection, from, options)
    }

    /// Waits until the connection is up, and for what it tells about the path. Cancel-safe.
    pub(super) async fn wait(&self, wait: Wait) -> Result<(), Broken> {
        poll_fn(|cx| self.shared.poll_open(cx, wait)).await
    }

    /// Returns something that waits and tells, whoever has the connection.
    pub(crate) fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.shared))
    }

    /// Takes it to read and write.
    pub(crate) fn take(mut self) -> Open {
        self.is_taken = true;
        warm_up();
        Open::new(Arc::clone(&self.shared))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_taken {
            self.shared.abandon();
        }
    }
}

/// Makes the tables of error correction beside everything else, once: a connection that is only measured needs none.
pub(super) fn warm_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without a thread of its own, the first block makes them.
        let _ = (std::thread::Builder::new().name("transpute-fec".into()))
            .spawn(transpute_rudp::fec::warm_up);
    });
}

/// Sees how the set-up of a connection goes.
pub(crate) struct Watch(Arc<Shared>);

impl Watch {
    /// Waits until the connection is up, and for what it tells about the path. Cancel-safe. One at a time.
    pub(crate) async fn up(
        &self,
        wait: Wait,
        peer: SocketAddr,
        started: Instant,
    ) -> Result<(), TransportError> {
        poll_fn(|cx| self.0.poll_open(cx, wait))
            .await
            .map_err(|broken| broken.during_setup(peer, started.elapsed()))
    }

    /// Returns what the trains of the set-up told, the outgoing one and the incoming one.
    pub(crate) fn trains(&self) -> [Option<TrainResult>; 2] {
        let state = self.0.lock();
        [
            state.connection.outgoing_train(),
            state.connection.incoming_train(),
        ]
    }

    /// Returns the size of full packets, in bytes of UDP payload.
    pub(crate) fn datagram_size(&self) -> u16 {
        self.0.lock().connection.datagram_size()
    }

    /// Returns the current figures.
    pub(crate) fn sample(&self) -> PathSample {
        self.0.current_sample()
    }
}
