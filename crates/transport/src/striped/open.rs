//! The connecting end: opens the connections of a link, and has them join it one after another.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    task::{JoinError, JoinSet},
    time::Instant,
};

use super::{
    UNSENT_LIMIT,
    join::{self, Binding, Challenge, ID, JOINED, Join, MAGIC_SEALED, TAG},
    roster::{Ending, Growth},
    sealed::{self, Secret, Towards},
};
use crate::{
    TransportError,
    tcp::{Channel, Connector, Context, Route, Socket},
};

/// Connections on their way. Dropping it stops them.
pub(crate) struct Opening {
    greeted: JoinSet<Result<Channel, TransportError>>,
    bare: JoinSet<Result<Bare, TransportError>>,
}

/// A connection without a handshake, which the listener has sent a challenge on.
type Bare = (Socket, Context, Challenge);

/// A connection that can become a stripe.
enum Opened {
    /// It is authenticated, or in plaintext.
    Greeted(Box<Channel>),
    /// It is to be sealed with keys of stripe 0.
    Bare(Box<Bare>),
}

/// A link that has begun, with what its further stripes need to join it.
pub(crate) struct Founder {
    opening: Opening,
    id: [u8; ID],
    first: Binding,
    /// `None` in plaintext.
    secret: Option<Secret>,
    count: u8,
}

/// Opens a connection and authenticates it.
pub(crate) async fn open(route: Route, connector: Connector) -> Result<Channel, TransportError> {
    let (socket, context) = route.open(UNSENT_LIMIT).await?;
    connector.authenticate(socket, context).await
}

/// Opens a connection that is to be sealed, and gets the challenge of the listener.
async fn open_bare(route: Route) -> Result<Bare, TransportError> {
    let (mut socket, context) = route.open(UNSENT_LIMIT).await?;
    say(&mut socket, &context, &MAGIC_SEALED)
        .await?
        .map_err(TransportError::from_io)?;
    let challenge = join::read(&mut socket, &context).await?;
    Ok((socket, context, challenge))
}

fn bug<T>(error: JoinError) -> Result<T, TransportError> {
    Err(TransportError::Io {
        source: error.into(),
    })
}

impl Opening {
    pub(crate) fn new() -> Self {
        Self {
            greeted: JoinSet::new(),
            bare: JoinSet::new(),
        }
    }

    /// Begins with another one that will be authenticated, or in plaintext.
    pub(crate) fn begin(
        &mut self,
        connection: impl Future<Output = Result<Channel, TransportError>> + Send + 'static,
    ) {
        self.greeted.spawn(connection);
    }

    /// Begins with another one that is to be sealed.
    pub(crate) fn begin_bare(&mut self, route: Route) {
        self.bare.spawn(open_bare(route));
    }

    /// Waits for the first one that is authenticated. If none will be, returns what the first one met.
    pub(super) async fn first(&mut self) -> Result<Channel, TransportError> {
        let mut failure = TransportError::Closed;
        let mut has_failed = false;
        while let Some(opened) = self.greeted.join_next().await {
            match opened.unwrap_or_else(bug) {
                Ok(channel) => return Ok(channel),
                Err(error) if !has_failed => (failure, has_failed) = (error, true),
                Err(_) => {}
            }
        }
        Err(failure)
    }

    /// Waits for the next one that is there or has failed; `None` if there are no more. Cancel-safe.
    async fn next(&mut self) -> Option<Result<Opened, TransportError>> {
        Some(tokio::select! {
            Some(opened) = self.greeted.join_next() => {
                (opened.unwrap_or_else(bug)).map(|channel| Opened::Greeted(Box::new(channel)))
            }
            Some(opened) = self.bare.join_next() => {
                (opened.unwrap_or_else(bug)).map(|bare| Opened::Bare(Box::new(bare)))
            }
            else => return None,
        })
    }

    /// Has a connection say that a link of so many begins with it; the others are to follow.
    pub(crate) async fn found(
        self,
        first: &mut Channel,
        count: u8,
    ) -> Result<Founder, TransportError> {
        let id: [u8; ID] = rand::random();
        let founder = Founder {
            opening: self,
            id,
            first: Binding::of(first, &id)?,
            secret: Secret::of(first, &id)?,
            count,
        };
        let join = founder.join(0, founder.first.tag(&founder.first, 0, count));
        // If the listener has hung up already, reading says why: it refuses us, for example.
        let context = first.context().clone();
        if let Err(error) = say(first, &context, &join.encode()).await? {
            tracing::debug!(%error, "the first stripe ended before it joined");
        }
        Ok(founder)
    }
}

impl Founder {
    fn join(&self, index: u8, tag: [u8; TAG]) -> Join {
        Join {
            id: self.id,
            index,
            count: self.count,
            tag,
        }
    }

    /// Readies a connection to join as the stripe of this number.
    fn prepare(&self, index: u8, opened: Opened) -> Result<Entrance, TransportError> {
        Ok(match opened {
            Opened::Greeted(channel) => {
                let own = Binding::of(&channel, &self.id)?;
                let tag = own.tag(&self.first, index, self.count);
                Entrance::Greeted(self.join(index, tag), channel)
            }
            Opened::Bare(bare) => {
                // Nothing is begun bare in plaintext.
                let secret = self.secret.as_ref().ok_or(TransportError::Closed)?;
                let (socket, context, challenge) = *bare;
                let join = self.join(index, secret.tag(index, self.count, &challenge)?);
                let keys = sealed::Pair::of(secret, index, Towards::Listener)?;
                Entrance::Bare(join, Box::new((socket, context)), Box::new(keys))
            }
        })
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
            match opened.and_then(|opened| self.prepare(index, opened)) {
                Ok(entrance) => {
                    joining.spawn(enter(index, entrance, growth.clone()));
                    index += 1;
                }
                Err(error) => tracing::debug!(%error, "a link goes without a stripe"),
            }
        }
        drop((self, growth));
        while joining.join_next().await.is_some() {}
    }
}

/// A connection that is about to join, and what it says.
enum Entrance {
    Greeted(Join, Box<Channel>),
    Bare(Join, Box<(Socket, Context)>, Box<sealed::Pair>),
}

impl Entrance {
    /// Says the first words of the stripe; returns what the listener answers on.
    async fn knock(self) -> Result<Channel, TransportError> {
        match self {
            Self::Greeted(join, mut channel) => {
                let context = channel.context().clone();
                say(&mut *channel, &context, &join.encode())
                    .await?
                    .map_err(TransportError::from_io)?;
                Ok(*channel)
            }
            Self::Bare(join, bare, keys) => {
                let (mut socket, context) = *bare;
                say(&mut socket, &context, &join.encode_sealed())
                    .await?
                    .map_err(TransportError::from_io)?;
                Ok(keys.seal(socket, context))
            }
        }
    }
}

/// Has a connection join, and adds it to the link when the listener has let it in.
///
/// That has no limit of its own: the listener uses it as soon as it has said so.
async fn enter(index: u8, entrance: Entrance, growth: Growth) {
    let entered = async {
        let mut channel = entrance.knock().await?;
        match channel.read_u8().await {
            Ok(JOINED) => Ok(channel),
            Ok(other) => Err(TransportError::NotTranspute {
                evidence: format!("it answered {other:#04x} to a stripe"),
            }),
            Err(error) => Err(TransportError::from_io(error)),
        }
    };
    match entered.await {
        Ok(channel) => growth.add(index, channel),
        Err(error) => tracing::debug!(%error, "a link goes without a stripe"),
    }
}

/// Says the first words of a stripe.
async fn say(
    stream: &mut (impl AsyncWrite + Unpin),
    context: &Context,
    join: &[u8],
) -> Result<std::io::Result<()>, TransportError> {
    let said = async {
        stream.write_all(join).await?;
        stream.flush().await
    };
    context.limit("a stripe to join", said).await
}
