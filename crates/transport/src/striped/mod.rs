//! One link over several TCP connections, for paths on which losses limit the throughput of one
//! connection.
//!
//! When a connection loses a packet, only this connection slows down. Each connection also starts
//! with its own initial window. The sender divides the stream into frames, and passes each frame to
//! a connection that has room. The receiver puts the frames in order in bounded memory. Each
//! connection has its own TLS handshake. All connections are bound to the TLS session of the first
//! one (`join`).
//!
//! A link begins with its first connection and grows. The others join when their handshakes are
//! complete. The link continues without a connection that is not established in time. A connection
//! that has carried a frame is needed until it has ended: if it fails, the link fails.
//!
//! # The end
//!
//! Each direction ends independently, at an offset of the stream. The sender sends this offset on
//! every stripe, and on a stripe that joins later as soon as it joins. The receiver has all data
//! when it has every byte before the offset. So it does not matter which stripes had joined when
//! the sender sent the offset. The receiver then waits until stripe 0 and the connections that
//! carried frames have closed.

#[cfg(feature = "auto")]
mod candidate;
mod frame;
mod groups;
mod growing_port;
mod growth;
mod join;
mod listen;
mod open;
mod probe;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use self::{
    growth::Growth,
    join::MAX_STRIPES,
    open::{announce, open},
    probe::StripedProbe,
    receive::StripedReader,
    send::StripedWriter,
};
use crate::{
    Link, LinkReader, Listener, PathClass, Profile, Security, Settings, TcpOptions, Transport,
    TransportError, diagnosis,
    tcp::{Acceptor, Channel, Connector, Route},
};

/// The transport of several TCP connections under one link, named `tcp-striped`.
#[derive(Clone, Debug, Default)]
pub struct TcpStriped {
    options: StripedOptions,
}

/// Options of a link of several connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct StripedOptions {
    /// Number of connections of a link, from 1 to 32. Only the connecting side uses it. Default: 1
    /// if the round-trip time is below [`PathClass::SAME_LAN_LIMIT`], and
    /// [`CONNECTIONS`](Self::CONNECTIONS) otherwise.
    pub connections: Option<u8>,
    /// Options of each connection. A listener runs at most [`TcpOptions::max_handshakes`]
    /// handshakes at once (default here: 128). A link continues without connections that have not
    /// joined within [`TcpOptions::handshake_timeout`].
    pub tcp: TcpOptions,
    /// Maximum number of bytes that the receiving side buffers while earlier bytes of the stream
    /// are missing.
    /// Default: 16 MiB.
    pub max_out_of_order: usize,
}

impl Default for StripedOptions {
    fn default() -> Self {
        Self {
            connections: None,
            tcp: TcpOptions {
                max_handshakes: 128,
                ..TcpOptions::default()
            },
            max_out_of_order: 16 << 20,
        }
    }
}

impl StripedOptions {
    /// Default number of connections of a link on a path beyond the LAN.
    pub const CONNECTIONS: u8 = 8;

    /// Returns the number of connections for a path of this round-trip time.
    fn count(&self, rtt: Option<Duration>) -> u8 {
        let by_path = match rtt.map(PathClass::of) {
            Some(PathClass::SameHost | PathClass::SameLan) => 1,
            _ => Self::CONNECTIONS,
        };
        self.connections.unwrap_or(by_path)
    }

    pub(crate) fn configured(self, settings: &mut Settings) -> Result<Self, TransportError> {
        let connections = settings.take("n", |text| {
            (text.parse().ok())
                .filter(|count| (1..=MAX_STRIPES).contains(count))
                .ok_or_else(|| format!("expected a number from 1 to {MAX_STRIPES}"))
        })?;
        Ok(Self {
            connections: connections.or(self.connections),
            tcp: self.tcp.configured(settings)?,
            ..self
        })
    }
}

/// Maximum number of bytes that the kernel's send buffer of one connection holds unsent.
const UNSENT_LIMIT: u32 = 64 * 1024;

impl TcpStriped {
    /// The name of this transport in the registry.
    pub const NAME: &'static str = "tcp-striped";

    /// Makes the transport with these options.
    #[must_use]
    pub fn new(options: StripedOptions) -> Self {
        Self { options }
    }

    /// Makes a link from its first connection. `front` wraps the reader of this connection, for
    /// example to check the listener's answer first.
    pub(crate) fn begin(
        &self,
        first: Channel,
        front: impl FnOnce(LinkReader) -> LinkReader,
    ) -> (Link, Growth) {
        let probe = Arc::<StripedProbe>::default();
        probe.add(first.socket().probe());
        let (growth, readers, writers) = Growth::begin(Arc::clone(&probe));
        let info = first.info(Self::NAME);
        let (reader, writer) = first.into_halves();
        let link = Link::new(
            StripedReader::new(front(reader), readers, self.options.max_out_of_order),
            StripedWriter::new(writer, writers),
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
            connections: self
                .options
                .connections
                .unwrap_or(StripedOptions::CONNECTIONS),
            ..self.options.tcp.profile()
        })
    }

    #[cfg(feature = "auto")]
    fn shared_port(&self) -> Option<crate::auto::candidate::SharedPort> {
        Some(crate::auto::candidate::SharedPort::new(self.clone()))
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let acceptor = Acceptor::new(security, &[Self::NAME], Self::NAME)?;
        listen::listen(address, acceptor, self.clone()).await
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let connector = Connector::new(security, &[Self::NAME], Self::NAME)?;
        let route = Route::find(address, self.options.tcp).await?;
        let mut first = match open(route, connector.clone()).await {
            Ok(first) => first,
            Err(error) => {
                return Err(diagnosis::explain_refused(error, address, security, Self::NAME).await);
            }
        };
        let count = self
            .options
            .count(first.socket().probe().sample().least_rtt());
        let announced = announce(&mut first, count).await?;
        let further = Route::to(first.context().peer, self.options.tcp);
        let (link, growth) = self.begin(first, |reader| reader);
        announced.grow(&growth, self.options.tcp.handshake_timeout, || {
            open(further.clone(), connector.clone())
        });
        Ok(link)
    }
}
