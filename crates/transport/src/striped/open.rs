//! The connecting end of `tcp-striped`: announces a link on its first connection, and opens the
//! others.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::{
    UNSENT_LIMIT,
    growth::Growth,
    join::{Binding, ID, JOINED, Join, MAX_STRIPES, TAG},
};
use crate::{
    HandshakeError, TransportError,
    tcp::{Channel, Connector, Route},
};

/// A link that was announced on its first connection.
pub(crate) struct Announced {
    id: [u8; ID],
    first: Binding,
    count: u8,
}

/// Opens a connection and authenticates it.
pub(crate) async fn open(route: Route, connector: Connector) -> Result<Channel, TransportError> {
    let (socket, context) = route.open(UNSENT_LIMIT).await?;
    connector.authenticate(socket, context).await
}

/// Announces a link of `count` connections by sending the join message of stripe 0.
pub(crate) async fn announce(first: &mut Channel, count: u8) -> Result<Announced, TransportError> {
    let count = count.clamp(1, MAX_STRIPES);
    let id: [u8; ID] = rand::random();
    let announced = Announced {
        id,
        first: Binding::of(first, &id)?,
        count,
    };
    let join = announced.join(0, announced.first.tag(&announced.first, 0, count));
    // Do not fail here: if the listener has ended the connection, the first read of the link
    // returns the reason, such as a rejection of this end's identity.
    if let Err(error) = send(first, &join).await? {
        tracing::debug!(%error, "the first stripe ended before its link was announced");
    }
    Ok(announced)
}

impl Announced {
    fn join(&self, index: u8, tag: [u8; TAG]) -> Join {
        Join {
            id: self.id,
            index,
            count: self.count,
            tag,
        }
    }

    /// Opens the other connections in the background, and adds each to the link when the listener
    /// has accepted it. The link continues without connections that are not open within `limit`.
    /// The background task stops when the link is dropped.
    pub(crate) fn grow<F>(self, growth: &Growth, limit: Duration, open: impl Fn() -> F)
    where
        F: Future<Output = Result<Channel, TransportError>> + Send + 'static,
    {
        let deadline = Instant::now() + limit;
        let announced = Arc::new(self);
        let mut joining = JoinSet::new();
        for index in 1..announced.count {
            let (announced, growth, opened) = (Arc::clone(&announced), growth.clone(), open());
            joining.spawn(async move {
                let joined = async {
                    let channel = timeout_at(deadline, opened).await.map_err(io::Error::from);
                    let channel = channel.map_err(TransportError::from_io)??;
                    announced.extend(index, channel).await
                };
                match joined.await {
                    Ok(channel) => growth.add(index, channel),
                    Err(error) => tracing::debug!(%error, index, "a link goes without a stripe"),
                }
            });
        }
        let ended = growth.link_ended();
        tokio::spawn(async move {
            tokio::select! {
                () = ended => {}
                () = async { while joining.join_next().await.is_some() {} } => {}
            }
        });
    }

    /// Sends the join message on a connection, and waits until the listener has accepted it. The
    /// wait has no time limit, because the listener may already send data on a stripe that it has
    /// accepted.
    async fn extend(&self, index: u8, mut channel: Channel) -> Result<Channel, TransportError> {
        let own = Binding::of(&channel, &self.id)?;
        let join = self.join(index, own.tag(&self.first, index, self.count));
        (send(&mut channel, &join).await?).map_err(TransportError::from_io)?;
        match channel.read_u8().await {
            Ok(JOINED) => Ok(channel),
            Ok(other) => Err(TransportError::Handshake(HandshakeError::NotTranspute {
                evidence: format!("it answered {other:#04x} to a stripe"),
            })),
            Err(error) => Err(TransportError::from_io(error)),
        }
    }
}

async fn send(channel: &mut Channel, join: &Join) -> Result<io::Result<()>, TransportError> {
    let context = channel.context().clone();
    let sent = async {
        channel.write_all(&join.encode()).await?;
        channel.flush().await
    };
    context.limit("a stripe to join", sent).await
}
