//! The connecting end: opens the connections of a link, and has them join it one after another.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::{JoinError, JoinSet},
    time::Instant,
};

use super::{
    UNSENT_LIMIT,
    join::{Binding, ID, JOINED, Join},
    roster::{Ending, Growth},
};
use crate::{
    CongestionControl, TransportError,
    tcp::{Channel, Connector, Route},
};

/// Connections on their way. Dropping it stops them.
pub(crate) struct Opening {
    connections: JoinSet<Result<Channel, TransportError>>,
    /// What those are to have that come up, if it was not known when they were begun.
    congestion_control: Option<CongestionControl>,
}

/// A link that has begun, with what its further stripes need to join it.
pub(crate) struct Founder {
    opening: Opening,
    id: [u8; ID],
    first: Binding,
    count: u8,
}

/// Opens one connection.
pub(crate) async fn open(route: Route, connector: Connector) -> Result<Channel, TransportError> {
    let (socket, context) = route.open(UNSENT_LIMIT).await?;
    connector.authenticate(socket, context).await
}

impl Opening {
    pub(crate) fn new() -> Self {
        Self {
            connections: JoinSet::new(),
            congestion_control: None,
        }
    }

    /// Returns how many have not been taken out yet.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Gives those that come up from now on another congestion control, where the system has it.
    pub(crate) fn set_congestion_control(&mut self, name: Option<CongestionControl>) {
        self.congestion_control = name;
    }

    /// Begins with another one.
    pub(crate) fn begin(
        &mut self,
        connection: impl Future<Output = Result<Channel, TransportError>> + Send + 'static,
    ) {
        self.connections.spawn(connection);
    }

    /// Waits for the first one that is there. If none will be, returns what the first one met.
    pub(super) async fn first(&mut self) -> Result<Channel, TransportError> {
        let mut failure = TransportError::Closed;
        let mut has_failed = false;
        while let Some(opened) = self.next().await {
            match opened {
                Ok(channel) => return Ok(channel),
                Err(error) if !has_failed => (failure, has_failed) = (error, true),
                Err(_) => {}
            }
        }
        Err(failure)
    }

    /// Waits for the next one that is there or has failed; `None` if there are no more. Cancel-safe.
    async fn next(&mut self) -> Option<Result<Channel, TransportError>> {
        let bug = |error: JoinError| {
            Err(TransportError::Io {
                source: error.into(),
            })
        };
        let opened = self.connections.join_next().await?.unwrap_or_else(bug);
        if let (Ok(channel), Some(name)) = (&opened, self.congestion_control)
            && let Err(error) = channel.socket().set_congestion_control(name)
        {
            tracing::debug!(%error, "a stripe goes without the congestion control asked for");
        }
        Some(opened)
    }

    /// Has a connection say that a link of so many begins with it; the others are to follow.
    pub(crate) async fn found(
        self,
        first: &mut Channel,
        count: u8,
    ) -> Result<Founder, TransportError> {
        let id: [u8; ID] = rand::random();
        let binding = Binding::of(first, &id)?;
        let founder = Founder {
            opening: self,
            id,
            first: binding,
            count,
        };
        let join = founder.join(0, &founder.first);
        // If the listener has hung up already, reading says why: it refuses us, for example.
        if let Err(error) = say(first, &join).await? {
            tracing::debug!(%error, "the first stripe ended before it joined");
        }
        Ok(founder)
    }
}

impl Founder {
    fn join(&self, index: u8, own: &Binding) -> Join {
        Join {
            id: self.id,
            index,
            count: self.count,
            tag: own.tag(&self.first, index, self.count),
        }
    }

    /// Has the others join as they come, in the background, until the link is gone. Those that are not there within the
    /// limit are done without.
    pub(crate) fn grow(self, growth: Growth, limit: Duration) {
        if self.count == 1 {
            return;
        }
        let task = tokio::spawn(self.bring_up(growth.clone(), Instant::now() + limit));
        growth.at_end(Ending::Stop(task.abort_handle()));
    }

    async fn bring_up(mut self, growth: Growth, deadline: Instant) {
        let mut joining = JoinSet::new();
        let mut index = 1;
        while index < self.count
            && let Ok(Some(opened)) = tokio::time::timeout_at(deadline, self.opening.next()).await
        {
            let opened = opened.and_then(|channel| {
                let own = Binding::of(&channel, &self.id)?;
                Ok((self.join(index, &own), channel))
            });
            match opened {
                Ok((join, channel)) => {
                    index += 1;
                    joining.spawn(enter(channel, join, growth.clone()));
                }
                Err(error) => tracing::debug!(%error, "a link goes without a stripe"),
            }
        }
        drop((self, growth));
        while joining.join_next().await.is_some() {}
    }
}

/// Has a connection join, and adds it to the link when the listener has let it in.
///
/// That has no limit of its own: the listener uses it as soon as it has said so.
async fn enter(mut channel: Channel, join: Join, growth: Growth) {
    let entered = async {
        say(&mut channel, &join)
            .await?
            .map_err(TransportError::from_io)?;
        match channel.read_u8().await {
            Ok(JOINED) => Ok(()),
            Ok(other) => Err(TransportError::NotTranspute {
                evidence: format!("it answered {other:#04x} to a stripe"),
            }),
            Err(error) => Err(TransportError::from_io(error)),
        }
    };
    match entered.await {
        Ok(()) => growth.add(join.index, channel),
        Err(error) => tracing::debug!(%error, "a link goes without a stripe"),
    }
}

/// Says the first words of a stripe.
async fn say(channel: &mut Channel, join: &Join) -> Result<std::io::Result<()>, TransportError> {
    let context = channel.context().clone();
    let said = async {
        channel.write_all(&join.encode()).await?;
        channel.flush().await
    };
    context.limit("a stripe to join", said).await
}
