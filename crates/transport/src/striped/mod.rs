//! Several TCP connections under one link: what one does by hand when one connection is held back by losses.
//!
//! A connection that loses a packet slows down alone, and each starts with its own first window. The stream is cut into
//! frames, each of which goes to a connection that has room; the receiving end puts them in order in bounded memory.
//! Every connection is authenticated by itself, and all of a link are bound to one another. If one dies,
//! the link is broken.

mod frame;
mod groups;
pub(crate) mod join;
mod probe;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use tokio::{io::AsyncWriteExt, task::JoinSet};

pub(crate) use self::{
    groups::{Groups, Stripe},
    join::{Join, MAX_STRIPES},
};
use self::{
    groups::{StripeGreeter, StripedListener},
    join::{Binding, ID},
    probe::StripedProbe,
    receive::StripedReader,
    send::StripedWriter,
};
use crate::{
    Link, LinkReader, Listener, Security, Settings, TcpOptions, Transport, TransportError,
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
    /// Connections under a link, from 1 to 32; the connecting side decides. Default: 8.
    pub connections: u8,
    /// What concerns each connection. A listener runs [`TcpOptions::max_handshakes`] of them at once (default here:
    /// 128), and a link must be complete within [`TcpOptions::handshake_timeout`].
    pub tcp: TcpOptions,
    /// Bytes that the receiving side may hold because earlier ones are missing. Default: 16 MiB.
    pub max_out_of_order: usize,
}

impl Default for StripedOptions {
    fn default() -> Self {
        Self {
            connections: 8,
            tcp: TcpOptions {
                max_handshakes: 128,
                ..TcpOptions::default()
            },
            max_out_of_order: 16 << 20,
        }
    }
}

/// Unsent bytes that the kernel may hold on each connection.
const UNSENT_LIMIT: u32 = 64 * 1024;

impl TcpStriped {
    /// The name by which the registry knows this transport.
    pub const NAME: &'static str = "tcp-striped";

    /// Makes the transport with other options than the default ones.
    #[must_use]
    pub fn new(options: StripedOptions) -> Self {
        Self { options }
    }

    /// Makes a link of its connections, in the order of their numbers.
    fn link(&self, channels: Vec<Channel>) -> Option<Link> {
        self.link_behind(channels, |first| first)
    }

    /// Does the same with something in front of the first connection's reader.
    pub(crate) fn link_behind(
        &self,
        channels: Vec<Channel>,
        front: impl FnOnce(LinkReader) -> LinkReader,
    ) -> Option<Link> {
        let probe = StripedProbe::new(channels.iter().map(|channel| channel.socket().probe()));
        let mut info = channels.first()?.info(Self::NAME);
        for channel in &channels {
            // It takes as long as its slowest part.
            let timings = channel.info(Self::NAME).timings;
            info.timings.connect = info.timings.connect.max(timings.connect);
            info.timings.handshake = info.timings.handshake.max(timings.handshake);
        }
        let (mut readers, writers): (Vec<_>, _) =
            channels.into_iter().map(Channel::into_halves).unzip();
        let first = readers.remove(0);
        readers.insert(0, front(first));
        Some(Link::new(
            StripedReader::new(readers, self.options.max_out_of_order),
            StripedWriter::new(writers),
            info,
            Some(Arc::new(probe)),
        ))
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
        let connections = settings.take("n", |text| {
            (text.parse().ok())
                .filter(|count| (1..=MAX_STRIPES).contains(count))
                .ok_or_else(|| format!("expected a number from 1 to {MAX_STRIPES}"))
        })?;
        Ok(Some(Arc::new(Self {
            options: StripedOptions {
                connections: connections.unwrap_or(self.options.connections),
                tcp: self.options.tcp.configured(settings)?,
                ..self.options
            },
        })))
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let greeter = StripeGreeter(Acceptor::new(security)?);
        let port = Port::bind(address, greeter, self.options.tcp).await?;
        Ok(Box::new(StripedListener::new(port, self.clone())))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let connector = Connector::new(security)?;
        let route = Route::find(address, self.options.tcp).await?;
        let count = self.options.connections.clamp(1, MAX_STRIPES);
        let channels = open(&route, &connector, 0..count).await?;
        let joined = join(channels).await?;
        // There is at least one.
        self.link(joined).ok_or(TransportError::Closed)
    }
}

/// Opens the connections of these numbers.
pub(crate) async fn open(
    route: &Route,
    connector: &Connector,
    numbers: Range<u8>,
) -> Result<Vec<Channel>, TransportError> {
    // All at once: a link takes no more round trips than a connection. Dropping the set stops the tasks.
    let mut opening = JoinSet::new();
    for index in numbers {
        let (route, connector) = (route.clone(), connector.clone());
        opening.spawn(async move {
            let (socket, context) = route.open(UNSENT_LIMIT).await?;
            Ok((index, connector.authenticate(socket, context).await?))
        });
    }
    let mut channels: Vec<(u8, Channel)> = Vec::with_capacity(opening.len());
    while let Some(done) = opening.join_next().await {
        let opened: Result<_, TransportError> = done.unwrap_or_else(|error| {
            Err(TransportError::Io {
                source: error.into(),
            })
        });
        channels.push(opened?);
    }
    channels.sort_unstable_by_key(|&(index, _)| index);
    Ok(channels.into_iter().map(|(_, channel)| channel).collect())
}

/// Has connections say that they belong to one link, in their order.
pub(crate) async fn join(channels: Vec<Channel>) -> Result<Vec<Channel>, TransportError> {
    let id: [u8; ID] = rand::random();
    // There are few.
    let count = u8::try_from(channels.len()).unwrap_or(u8::MAX);
    let bindings = channels
        .iter()
        .map(|channel| Binding::of(channel, &id))
        .collect::<Result<Vec<_>, _>>()?;
    let mut joined = Vec::with_capacity(channels.len());
    for ((index, mut channel), binding) in (0..count).zip(channels).zip(&bindings) {
        let join = Join {
            id,
            index,
            count,
            tag: binding.tag(&bindings[0], index, count),
        };
        let context = channel.context().clone();
        let written = async {
            channel.write_all(&join.encode()).await?;
            channel.flush().await
        };
        let written = context.limit("a stripe to join", written).await?;
        // If the listener has hung up already, reading says why: it refuses us, for example.
        if let Err(error) = written {
            tracing::debug!(%error, "a stripe ended before it joined");
        }
        joined.push(channel);
    }
    Ok(joined)
}
