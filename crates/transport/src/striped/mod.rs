//! Several TCP connections under one link: what one does by hand when one connection is held back by losses.
//!
//! A connection that loses a packet slows down alone, and each starts with its own first window. The stream is cut into
//! frames, each of which goes to a connection that has room; the receiving end puts them in order in bounded memory.
//! One connection of a link is authenticated, and all are bound to it and sealed with keys of its session, so that they need no
//! handshakes.
//!
//! A link begins with its first connection and grows: the others join when they are there. One that does not come up in time
//! is done without. One that has carried something is needed until it has ended: if it dies, the link is broken.
//!
//! # The end
//!
//! Each direction ends by itself, at a byte of the stream, which the sender says on every stripe that it knows of (and on
//! those that join later when they do). The receiver knows that it has everything when it has every byte before that: so it
//! does not matter which stripes the sender knew of. It then waits for the end of the connections that brought some, and of
//! stripe 0, and of no others.

#[cfg(test)]
mod first_flight;
mod frame;
mod gather;
mod groups;
pub(crate) mod join;
mod listen;
mod open;
mod probe;
mod receive;
mod roster;
mod sealed;
mod send;
#[cfg(test)]
mod tests;
mod window;

use std::sync::Arc;

use async_trait::async_trait;

pub(crate) use self::{
    gather::{Gatherer, Host},
    groups::{Founded, Groups, Stripe},
    join::{Join, MAX_STRIPES},
    open::{Opening, open},
    roster::Growth,
};
use self::{
    listen::{StripeGreeter, StripedListener},
    probe::StripedProbe,
    receive::StripedReader,
    send::StripedWriter,
};
use crate::{
    Link, LinkReader, Listener, Profile, Security, Settings, TcpOptions, Transport, TransportError,
    mismatch,
    tcp::{Acceptor, Channel, Connector, Port, Route},
};

/// The transport of several TCP connections under one link, named `tcp-striped`.
#[derive(Clone, Debug, Default)]
pub struct TcpStriped {
    options: StripedOptions,
}

/// How a link of several connections is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct StripedOptions {
    /// Connections under a link, from 1 to 32; the connecting side decides. Default: [`CONNECTIONS`](Self::CONNECTIONS).
    pub connections: u8,
    /// What concerns each connection. A listener runs [`TcpOptions::max_handshakes`] of them at once (default here:
    /// 128), and a link goes without those that have not joined within [`TcpOptions::handshake_timeout`].
    pub tcp: TcpOptions,
    /// Bytes that the receiving side may hold because earlier ones are missing. Default: 16 MiB.
    pub max_out_of_order: usize,
}

impl Default for StripedOptions {
    fn default() -> Self {
        Self {
            connections: Self::CONNECTIONS,
            tcp: TcpOptions {
                max_handshakes: 128,
                ..TcpOptions::default()
            },
            max_out_of_order: 16 << 20,
        }
    }
}

impl StripedOptions {
    /// So many first windows of ten packets hold 256 kB: AES-128 garbled is 218 kB, and goes in one flight.
    pub const CONNECTIONS: u8 = 18;

    pub(crate) fn configured(self, settings: &mut Settings) -> Result<Self, TransportError> {
        let connections = settings.take("n", |text| {
            (text.parse().ok())
                .filter(|count| (1..=MAX_STRIPES).contains(count))
                .ok_or_else(|| format!("expected a number from 1 to {MAX_STRIPES}"))
        })?;
        Ok(Self {
            connections: connections.unwrap_or(self.connections),
            tcp: self.tcp.configured(settings)?,
            ..self
        })
    }
}

/// Connections of a link that have a handshake of their own: they take processor time of both ends.
const GREETED: u8 = 2;

/// Unsent bytes that the kernel may hold on each connection.
const UNSENT_LIMIT: u32 = 64 * 1024;

/// The same while others are on their way: they are to get a share of what is being written, each of the first flight.
const UNSENT_LIMIT_GROWING: u32 = 4 * 1024;

impl TcpStriped {
    /// The name by which the registry knows this transport.
    pub const NAME: &'static str = "tcp-striped";

    /// Makes the transport with other options than the default ones.
    #[must_use]
    pub fn new(options: StripedOptions) -> Self {
        Self { options }
    }

    /// Begins a link of so many connections with its first one, and puts something in front of that one's reader.
    pub(crate) fn begin(
        &self,
        first: Channel,
        count: u8,
        front: impl FnOnce(LinkReader) -> LinkReader,
    ) -> (Link, Growth) {
        let socket = first.socket();
        match count {
            1 => socket.set_unsent_limit(UNSENT_LIMIT, false),
            _ => socket.set_unsent_limit(UNSENT_LIMIT_GROWING, true),
        }
        let probe = Arc::<StripedProbe>::default();
        probe.add(socket.probe());
        let (growth, readers, writers) = Growth::begin(Arc::clone(&probe), socket.downgrade());
        let info = first.info(Self::NAME);
        let socket_window = socket.downgrade().into();
        let (reader, writer) = first.into_halves();
        let link = Link::new(
            StripedReader::new(front(reader), readers, self.options.max_out_of_order),
            StripedWriter::new(writer, socket_window, writers),
            info,
            Some(probe),
        );
        (link, growth)
    }
}

#[async_trait]
impl Transport for TcpStriped {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "several TCP connections as one: better than tcp on long or lossy paths, and less fair to others"
    }

    fn configure(
        &self,
        settings: &mut Settings,
    ) -> Result<Option<Arc<dyn Transport>>, TransportError> {
        let options = self.options.configured(settings)?;
        Ok(Some(Arc::new(Self { options })))
    }

    fn profile(&self) -> Option<Profile> {
        Some(Profile {
            connections: self.options.connections,
            ..self.options.tcp.profile()
        })
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let greeter = StripeGreeter(Acceptor::new(security, &[Self::NAME], Self::NAME)?);
        let port = Port::bind(address, greeter, self.options.tcp).await?;
        Ok(Box::new(StripedListener::new(port, self.clone())))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let connector = Connector::new(security, &[Self::NAME], Self::NAME)?;
        let route = Route::find(address, self.options.tcp).await?;
        let count = self.options.connections.clamp(1, MAX_STRIPES);
        // All at once. Of those with a handshake, whichever is there first begins: a lost packet costs the other nothing.
        let greeted = match connector.encrypts() {
            true => GREETED,
            false => count,
        };
        let mut opening = Opening::new();
        for number in 0..count {
            match number < greeted {
                true => opening.begin(open(route.clone(), connector.clone())),
                false => opening.begin_bare(route.clone()),
            }
        }
        let mut first = match opening.first().await {
            Ok(first) => first,
            Err(error) => {
                return Err(mismatch::explain_refused(error, address, security, Self::NAME).await);
            }
        };
        let founder = opening.found(&mut first, count).await?;
        let (link, growth) = self.begin(first, count, |reader| reader);
        founder.grow(growth, self.options.tcp.handshake_timeout);
        Ok(link)
    }
}
