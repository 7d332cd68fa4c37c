//! The listener's side of a control connection: hears what the connector wants until it has picked something.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{
    Accepted, NAME, Offer, Pick,
    words::{Answer, Choice, Ear, Word},
};
use crate::{
    Quic, Rudp, RudpOptions, TcpStriped, TransportError,
    quic::{Authenticated, Host as QuicHost},
    rudp::{self, Attempt, Door, Hello, Open, Wait},
    striped::{Join, Stripe},
    tcp::{Acceptor, Channel, Context, Greeter, Socket, UNSENT_LIMIT},
};

/// Authenticates connectors, and hears what they pick.
#[derive(Clone)]
pub(super) struct Doorman(pub(super) Arc<Rules>);

pub(super) struct Rules {
    pub(super) acceptor: Acceptor,
    pub(super) offer: Offer,
    /// Where reliable UDP comes in, if it is allowed.
    pub(super) door: Option<Arc<Door>>,
    pub(super) rudp: RudpOptions,
}

/// What comes of a control connection.
pub(super) enum Guest {
    Link(Box<Accepted>),
    /// One of several connections; the first one, and no other, has the choice.
    Stripe(Box<Stripe<Option<Choice>>>),
    /// The peer has picked another connection, or thought better of it.
    Nobody,
    /// The peer has gone before it was known who it is: it did not need the connection after all.
    Stranger,
}

/// Reliable UDP that the connector may pick.
struct Sideway {
    attempt: Option<Attempt>,
    open: Option<Open>,
    ear: Ear,
    started: Instant,
}

enum Heard {
    OnControl(Word),
    OnRudp(Result<Word, TransportError>),
}

/// How long a refused peer may take to take note of it.
const FAREWELL: Duration = Duration::from_secs(1);

impl Greeter for Doorman {
    type Guest = Guest;

    const UNSENT_LIMIT: u32 = UNSENT_LIMIT;

    async fn greet(self, mut socket: Socket, context: Context) -> Result<Guest, TransportError> {
        if self.0.acceptor.encrypts() && self.0.offer.allows(TcpStriped::NAME) {
            match Join::read_sealed(&mut socket, &context).await {
                Ok(None) => {}
                Ok(Some(join)) => {
                    let stripe = Stripe::bare(join, socket, context, None);
                    return Ok(Guest::Stripe(Box::new(stripe)));
                }
                Err(error) => return left_early(error, &context),
            }
        }
        let farewell = socket.clone();
        let greeted = (self.0.acceptor)
            .authenticate(socket, context.clone())
            .await;
        let channel = match greeted {
            Ok(channel) => channel,
            Err(error) => return left_early(error, &context),
        };
        let result = context
            .limit("the peer to pick a transport", self.0.hear(channel))
            .await
            .and_then(|heard| heard);
        if result.is_err() {
            farewell.close_politely().await;
        }
        result
    }
}

/// Tells a peer that closed its connection during the handshake from one that fails in it. Further connections that were
/// begun on suspicion end like that.
fn left_early(error: TransportError, context: &Context) -> Result<Guest, TransportError> {
    match error {
        TransportError::ClosedDuringHandshake | TransportError::ConnectionReset => {
            tracing::debug!(peer = %context.peer, "a connection ended before its handshake did");
            Ok(Guest::Stranger)
        }
        error => Err(error),
    }
}

impl Rules {
    /// Makes a link of the connection of a peer that uses one transport by its name. It says nothing about a choice.
    async fn link_named(&self, mut channel: Channel) -> Result<Guest, TransportError> {
        let context = channel.context().clone();
        let taken = |link, pick| {
            let blob = Vec::new();
            Ok(accepted(link, Choice { pick, blob }))
        };
        match channel.transport() {
            Some(TcpStriped::NAME) => {
                let join = Join::read(&mut channel, &context).await?;
                // The first of several carries the choice.
                let choice = (join.index == 0).then(|| Choice {
                    pick: Pick::TcpStriped {
                        connections: join.count,
                        congestion_control: None,
                    },
                    blob: Vec::new(),
                });
                let stripe = Stripe::new(join, channel, choice)?;
                Ok(Guest::Stripe(Box::new(stripe)))
            }
            Some(Rudp::NAME) => {
                let hello = Hello::read(&mut channel, Rudp::NAME).await?;
                let door = self.door.as_ref().ok_or(TransportError::Closed)?;
                let attempt = Attempt::listen(&hello, &channel, Rudp::NAME, door, self.rudp)?;
                let link = rudp::finish(channel, attempt, Rudp::NAME).await?;
                taken(link, Pick::Rudp)
            }
            _ => taken(
                channel.into_bare().link(),
                Pick::Tcp {
                    congestion_control: None,
                },
            ),
        }
    }

    async fn hear(&self, mut channel: Channel) -> Result<Guest, TransportError> {
        if channel.transport().is_some_and(|named| named != NAME) {
            return self.link_named(channel).await;
        }
        if !channel.is_encrypted() {
            let offer = self.offer.encode();
            channel
                .write_all(&offer)
                .await
                .map_err(TransportError::from_io)?;
        }
        let peer = channel.context().peer;
        let mut ear = Ear::default();
        let mut sideway: Option<Sideway> = None;
        let mut had_hello = false;
        loop {
            // Both branches are cancel-safe.
            let heard = tokio::select! {
                biased;
                word = ear.next(&mut channel) => Heard::OnControl(word?),
                word = Sideway::next(&mut sideway, peer) => Heard::OnRudp(word),
            };
            match heard {
                Heard::OnControl(Word::Hello(bytes)) => {
                    let (Some(door), false) = (&self.door, had_hello) else {
                        return refuse(&mut channel, Answer::NotOffered).await;
                    };
                    had_hello = true;
                    let hello = Hello::parse(bytes, Rudp::NAME)?;
                    sideway = Some(Sideway {
                        attempt: Some(Attempt::listen(
                            &hello,
                            &channel,
                            Rudp::NAME,
                            door,
                            self.rudp,
                        )?),
                        open: None,
                        ear: Ear::default(),
                        started: Instant::now(),
                    });
                }
                Heard::OnControl(Word::Choice(choice)) => {
                    return self.chosen(channel, choice, ear).await;
                }
                Heard::OnControl(Word::Join(bytes)) => return self.join(channel, &bytes).await,
                Heard::OnControl(Word::Strange) => {
                    return refuse(&mut channel, Answer::NotUnderstood).await;
                }
                Heard::OnControl(Word::End) => return Ok(Guest::Nobody),
                Heard::OnRudp(Ok(Word::Choice(choice))) => {
                    let taken = sideway
                        .take()
                        .and_then(|way| Some((way.open?, way.started)));
                    // There was something to hear it on.
                    let Some((open, started)) = taken else {
                        return Err(TransportError::Closed);
                    };
                    return rudp_chosen(channel, open, started, choice).await;
                }
                Heard::OnRudp(word) => {
                    if let Some(Open { mut writer, .. }) = sideway.take().and_then(|way| way.open)
                        && matches!(word, Ok(Word::Strange))
                    {
                        return refuse(&mut writer, Answer::NotUnderstood).await;
                    }
                    // The control connection may be picked still.
                    if let Err(error) = word {
                        tracing::debug!(%error, "reliable UDP did not come up");
                    }
                }
            }
        }
    }

    /// Something was picked on the control connection.
    async fn chosen(
        &self,
        mut channel: Channel,
        choice: Choice,
        mut ear: Ear,
    ) -> Result<Guest, TransportError> {
        if self.offer.check(&choice.pick).is_err() {
            return refuse(&mut channel, Answer::NotOffered).await;
        }
        match choice.pick {
            Pick::Tcp { .. } => {
                apply(&channel, &choice.pick);
                answer(&mut channel, Answer::Taken).await?;
                Ok(accepted(channel.into_bare().link(), choice))
            }
            Pick::TcpStriped { connections, .. } => {
                answer(&mut channel, Answer::Taken).await?;
                let Word::Join(bytes) = ear.next(&mut channel).await? else {
                    return Err(unfit("a link of several connections without joining one"));
                };
                let join = Join::decode(&bytes)?;
                if (join.index, join.count) != (0, connections) {
                    return Err(unfit(
                        "the first of several connections and numbered it else",
                    ));
                }
                let stripe = Stripe::new(join, channel, Some(choice))?;
                Ok(Guest::Stripe(Box::new(stripe)))
            }
            Pick::Quic | Pick::Rudp => refuse(&mut channel, Answer::NotHere).await,
        }
    }

    /// The connection is a further one of `tcp-striped`.
    async fn join(
        &self,
        mut channel: Channel,
        bytes: &[u8; crate::striped::join::LENGTH],
    ) -> Result<Guest, TransportError> {
        if !self.offer.allows(TcpStriped::NAME) {
            return refuse(&mut channel, Answer::NotOffered).await;
        }
        let join = Join::decode(bytes)?;
        if join.index == 0 {
            return Err(unfit("the first of several connections without picking it"));
        }
        Ok(Guest::Stripe(Box::new(Stripe::new(join, channel, None)?)))
    }
}

impl Sideway {
    /// Waits until the connection is up and something is said on it; forever if there is none. Cancel-safe.
    async fn next(this: &mut Option<Self>, peer: SocketAddr) -> Result<Word, TransportError> {
        let Some(this) = this else {
            return std::future::pending().await;
        };
        if let Some(attempt) = &this.attempt {
            let watch = attempt.watch();
            watch.up(Wait::Passing, peer, this.started).await?;
            this.open = this.attempt.take().map(Attempt::take);
        }
        match &mut this.open {
            Some(open) => this.ear.next(&mut open.reader).await,
            None => std::future::pending().await,
        }
    }
}

async fn rudp_chosen(
    channel: Channel,
    mut open: Open,
    started: Instant,
    choice: Choice,
) -> Result<Guest, TransportError> {
    if choice.pick != Pick::Rudp {
        return refuse(&mut open.writer, Answer::NotHere).await;
    }
    answer(&mut open.writer, Answer::Taken).await?;
    let mut info = channel.info(Rudp::NAME);
    info.timings.handshake += started.elapsed();
    Ok(accepted(open.over(&channel, info)?.link(), choice))
}

impl QuicHost for Doorman {
    type Guest = Box<Accepted>;

    /// A peer may also use `quic` by its name.
    const TRANSPORTS: &'static [&'static str] = &[NAME, Quic::NAME];

    async fn host(
        self,
        authenticated: Authenticated,
        timeout: Duration,
    ) -> Result<Option<Self::Guest>, TransportError> {
        let mut bare = authenticated.bare;
        if authenticated.transport == Quic::NAME {
            let choice = Choice {
                pick: Pick::Quic,
                blob: Vec::new(),
            };
            return Ok(Some(Box::new(Accepted::new(bare.link(), choice))));
        }
        let mut ear = Ear::default();
        let word = tokio::time::timeout(timeout, ear.next(&mut bare.reader))
            .await
            .map_err(|_| TransportError::Timeout {
                waiting_for: "the peer to pick a transport",
                address: bare.info.peer_address.clone(),
                after: timeout,
            })??;
        let refused = match word {
            Word::End => return Ok(None),
            Word::Choice(choice) if choice.pick != Pick::Quic => Answer::NotHere,
            Word::Choice(_) if !self.0.offer.allows(Quic::NAME) => Answer::NotOffered,
            Word::Choice(choice) => {
                answer(&mut bare.writer, Answer::Taken).await?;
                return Ok(Some(Box::new(Accepted::new(bare.link(), choice))));
            }
            Word::Hello(_) | Word::Join(_) | Word::Strange => Answer::NotUnderstood,
        };
        refuse(&mut bare.writer, refused).await
    }
}

/// Sets the congestion control that was picked, if this system has it.
pub(super) fn apply(channel: &Channel, pick: &Pick) {
    if let Some(name) = pick.congestion_control()
        && let Err(error) = channel.socket().set_congestion_control(name)
    {
        tracing::debug!(%error, "the peer's congestion control is not there; keeping ours");
    }
}

fn accepted(link: crate::Link, choice: Choice) -> Guest {
    Guest::Link(Box::new(Accepted::new(link, choice)))
}

async fn answer(
    writer: &mut (impl AsyncWrite + Unpin),
    answer: Answer,
) -> Result<(), TransportError> {
    let said = async {
        writer.write_all(&[answer as u8]).await?;
        writer.flush().await
    };
    said.await.map_err(TransportError::from_io)
}

/// Says no, and waits a little for the peer to hear it.
async fn refuse<T>(
    writer: &mut (impl AsyncWrite + Unpin),
    reason: Answer,
) -> Result<T, TransportError> {
    let farewell = async {
        answer(writer, reason).await?;
        writer.shutdown().await.map_err(TransportError::from_io)
    };
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
    Err(unfit(match reason {
        Answer::NotOffered => "a transport that is not allowed",
        Answer::NotHere => "a transport on the connection of another",
        _ => "something that is no transport",
    }))
}

fn unfit(what: &str) -> TransportError {
    TransportError::NotTranspute {
        evidence: format!("it picked {what}"),
    }
}
