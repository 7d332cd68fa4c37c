//! Reliable UDP: starts at the rate of the path and corrects losses without asking; for long, fast or lossy paths.
//!
//! The protocol is [`transpute_rudp`]; here are its sockets and its clock. A *control connection* over TCP authenticates
//! the peer as the transport `tcp` does and yields the keys. It stays open and carries nothing more: when it ends, the
//! peer's process has ended, which UDP alone would tell only after seconds. The UDP port has the same number as the TCP
//! port.
//!
//! # Round trips
//!
//! One for TCP, one for TLS, one for UDP: the connector's first UDP packets leave right behind its last one of TLS, and a
//! listener that has not seen that yet holds them back for as long (`stash`). In that one round trip the path is
//! probed in both directions. A link is there when packets pass both ways, and 60 ms later at most if the probe's answer
//! is late; 400 ms while it arrives, as it does for long on a slow path.
//!
//! # Who drives it
//!
//! A thread for each listener and for each connected link (`server`). Writers send from their own thread what may go
//! at once, so that a message waits for no other thread. Shutting a writer down waits until the peer has everything; a
//! link that is dropped after that was begun is finished in the background, for 10 s at most.

mod attempt;
mod ending;
mod endpoint;
mod flow;
mod foreign;
mod halves;
pub(crate) mod hello;
mod link;
mod listener;
mod options;
pub(crate) mod ports;
mod server;
mod socket;
mod stash;

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub use self::options::{RudpControl, RudpOptions};
pub(crate) use self::{
    attempt::{Attempt, Watch},
    endpoint::{Door, Listening},
    foreign::{Batch, Foreign},
    halves::Open,
    hello::Hello,
    link::Wait,
    listener::{RudpListener, bind_on_both},
    options::bits_per_second,
};
use crate::{
    Link, Listener, Security, Settings, Transport, TransportError, mismatch,
    tcp::{Channel, Connector, Route},
};

/// The reliable-UDP transport, named `rudp`.
#[derive(Clone, Debug, Default)]
pub struct Rudp {
    options: RudpOptions,
}

impl Rudp {
    /// The name by which the registry knows this transport.
    pub const NAME: &'static str = "rudp";

    /// Makes the transport with other options than the default ones.
    #[must_use]
    pub fn new(options: RudpOptions) -> Self {
        Self { options }
    }
}

/// Unsent bytes that the kernel may hold of a control connection.
const UNSENT_LIMIT: u32 = 64 * 1024;

#[async_trait]
impl Transport for Rudp {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "reliable UDP: starts at the path's rate and corrects losses; for long, fast or lossy paths; needs TCP and UDP on \
         one port number"
    }

    fn configure(
        &self,
        settings: &mut Settings,
    ) -> Result<Option<Arc<dyn Transport>>, TransportError> {
        let options = self.options.configured(settings)?;
        Ok(Some(Arc::new(Self { options })))
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let listener = RudpListener::bind(address, security, Self::NAME, self.options).await?;
        Ok(Box::new(listener))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        connect(address, security, Self::NAME, self.options).await
    }
}

/// Connects a transport of this family.
pub(crate) async fn connect(
    address: &str,
    security: &Security,
    transport: &'static str,
    options: RudpOptions,
) -> Result<Link, TransportError> {
    let connector = Connector::new(security, &[transport], transport)?;
    let route = Route::find(address, options.tcp).await?;
    let (control, context) = match route.open(UNSENT_LIMIT).await {
        Ok(open) => open,
        Err(error) => {
            return Err(mismatch::explain_refused(error, address, security, transport).await);
        }
    };
    let mut channel = connector.authenticate(control, context.clone()).await?;
    let hello = Hello::new(transport);
    let greeting = async {
        channel.write_all(hello.bytes()).await?;
        channel.flush().await
    };
    context
        .limit("the hello to be sent", greeting)
        .await?
        .map_err(TransportError::from_io)?;
    let attempt = Attempt::connect(&hello, &channel, transport, options)?;
    attempt::warm_up();
    finish(channel, attempt, transport).await
}

/// Sees a connection through its set-up and makes a link of it.
pub(crate) async fn finish(
    channel: Channel,
    attempt: Attempt,
    transport: &'static str,
) -> Result<Link, TransportError> {
    let started = Instant::now();
    let peer = channel.context().peer;
    let (result, channel) = set_up(channel, &attempt, peer, started).await;
    result?;
    let mut info = channel.info(transport);
    info.timings.handshake += started.elapsed();
    Ok(attempt.take().over(&channel, info)?.link())
}

/// Waits for UDP to work, or for the control connection to say why it will not.
async fn set_up(
    mut channel: Channel,
    attempt: &Attempt,
    peer: SocketAddr,
    started: Instant,
) -> (Result<(), TransportError>, Channel) {
    let mut byte = [0];
    let blocked = tokio::select! {
        opened = attempt.wait(Wait::Estimate) => match opened {
            Ok(()) => return (Ok(()), channel),
            Err(broken) => broken.during_setup(peer, started.elapsed()),
        },
        read = channel.read(&mut byte) => return (Err(farewell(read)), channel),
    };
    // The word of an authenticated peer explains more than that of its system. That it leaves explains nothing: it has
    // waited as long.
    let read = tokio::time::timeout(GRACE, channel.read(&mut byte)).await;
    let error = match read {
        Ok(read @ Err(_)) => match farewell(read) {
            TransportError::ClosedDuringHandshake => blocked,
            word => word,
        },
        _ => blocked,
    };
    (Err(error), channel)
}

/// How long to wait for a reason when UDP does not work.
const GRACE: Duration = Duration::from_millis(50);

/// What it means that the control connection ends, or speaks, during the set-up.
fn farewell(read: io::Result<usize>) -> TransportError {
    match read {
        Ok(0) => TransportError::ClosedDuringHandshake,
        Ok(_) => TransportError::NotTranspute {
            evidence: "it speaks where it should wait; it may use another transport".into(),
        },
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            TransportError::ClosedDuringHandshake
        }
        Err(error) => TransportError::from_io(error),
    }
}
