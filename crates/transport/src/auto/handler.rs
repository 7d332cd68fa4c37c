//! The listener's side of every connection: authenticates the peer and reads which connection it picks.

use std::{sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::{
    Accepted, NAME, Offer, Pick,
    message::{self, Message},
};
use crate::{
    HandshakeError, Quic, Rudp, StreamError, Tcp, TcpStriped, TransportError,
    link::Bare,
    quic, rudp,
    striped::{Groups, Join},
    tcp::{Acceptor, Channel, Context, Greeter, Socket, UNSENT_LIMIT},
};

/// Handles the connections of a listener until one of them is a link.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) acceptor: Acceptor,
    pub(super) offer: Arc<Offer>,
    /// Links of `tcp-striped` that may get further connections.
    pub(super) groups: Groups,
}

/// The outcome of a TCP connection.
pub(super) enum Incoming {
    Link(Box<Accepted>),
    /// The peer was authenticated and closed the connection without a choice: it has picked another connection, or none.
    Unpicked,
}

impl Greeter for Handler {
    /// `None`: the connection has joined a link, or it ended during the handshake, as one does that loses the race early.
    type Guest = Option<Incoming>;

    const UNSENT_LIMIT: u32 = UNSENT_LIMIT;

    async fn greet(
        self,
        socket: Socket,
        context: Context,
    ) -> Result<Option<Incoming>, TransportError> {
        let polite = socket.clone();
        let channel = match self.acceptor.authenticate(socket, context.clone()).await {
            Ok(channel) => channel,
            Err(error) => return abandoned(error),
        };
        let result = context
            .limit("the peer to pick a transport", self.handle_tcp(channel))
            .await
            .and_then(|result| result);
        if result.is_err() {
            polite.close_politely().await;
        }
        result
    }
}

/// Tells a connection that ended during the handshake from one whose handshake failed.
fn abandoned(error: TransportError) -> Result<Option<Incoming>, TransportError> {
    match error {
        TransportError::Handshake(HandshakeError::ClosedDuringHandshake)
        | TransportError::Stream(StreamError::ConnectionReset) => Ok(None),
        error => Err(error),
    }
}

impl Handler {
    async fn handle_tcp(&self, mut channel: Channel) -> Result<Option<Incoming>, TransportError> {
        let context = channel.context().clone();
        let pick = match channel.transport() {
            None | Some(NAME) => {
                if !channel.is_encrypted() {
                    let offer = self.offer.encode();
                    let sent = channel.write_all(&offer).await;
                    sent.map_err(TransportError::from_io)?;
                }
                let (mut reader, mut writer) = tokio::io::split(&mut channel);
                let here = [Tcp::NAME, TcpStriped::NAME];
                match message::hear(&mut reader, &mut writer, &self.offer, &here).await? {
                    None => return Ok(Some(Incoming::Unpicked)),
                    Some(Message::Choice(pick)) => pick,
                    Some(Message::Join(bytes)) => {
                        return match Join::decode(&bytes)? {
                            join if join.index == 0 => Err(wrong_join()),
                            join => self.add(join, channel, None).await,
                        };
                    }
                }
            }
            // The peer uses the transport by its name and sends no choice.
            Some(TcpStriped::NAME) => {
                let join = Join::read(&mut channel, &context).await?;
                let pick = (join.index == 0).then_some(Pick::TcpStriped {
                    connections: join.count,
                    congestion_control: None,
                });
                return self.add(join, channel, pick).await;
            }
            Some(_) => Pick::Tcp {
                congestion_control: None,
            },
        };
        if let Pick::TcpStriped { connections, .. } = pick {
            let join = Join::read(&mut channel, &context).await?;
            if (join.index, join.count) != (0, connections) {
                return Err(wrong_join());
            }
            return self.add(join, channel, Some(pick)).await;
        }
        set_congestion_control(&channel, &pick);
        let link = channel.into_bare().link();
        Ok(Some(Incoming::Link(Box::new(Accepted { link, pick }))))
    }

    /// Adds a connection to its link of `tcp-striped`. Only the first one has a pick.
    async fn add(
        &self,
        join: Join,
        channel: Channel,
        pick: Option<Pick>,
    ) -> Result<Option<Incoming>, TransportError> {
        let congestion_control = pick.and_then(|pick| pick.congestion_control());
        if let Some(pick) = &pick {
            set_congestion_control(&channel, pick);
        }
        let link = self.groups.add(&join, channel, congestion_control).await?;
        Ok((link.zip(pick)).map(|(link, pick)| Incoming::Link(Box::new(Accepted { link, pick }))))
    }

    /// Makes a connection over UDP the link if the peer picks it, or uses its transport by name.
    async fn handle_udp<R, W>(
        &self,
        mut bare: Bare<R, W>,
        transport: &str,
        pick: Pick,
        timeout: Duration,
    ) -> Result<Option<Box<Accepted>>, TransportError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        if transport == NAME {
            let here = [pick.transport()];
            let hearing = message::hear(&mut bare.reader, &mut bare.writer, &self.offer, &here);
            let heard = tokio::time::timeout(timeout, hearing).await.map_err(|_| {
                HandshakeError::Timeout {
                    waiting_for: "the peer to pick a transport",
                    address: bare.info.peer_address.clone(),
                    after: timeout,
                }
            })??;
            if heard.is_none() {
                return Ok(None);
            }
        }
        let link = bare.link();
        Ok(Some(Box::new(Accepted { link, pick })))
    }
}

impl quic::Host for Handler {
    type Guest = Box<Accepted>;

    const TRANSPORTS: &'static [&'static str] = &[NAME, Quic::NAME];

    async fn host(
        self,
        connection: quic::Authenticated,
        timeout: Duration,
    ) -> Result<Option<Self::Guest>, TransportError> {
        let name = connection.transport;
        (self.handle_udp(connection.bare, &name, Pick::Quic, timeout)).await
    }
}

impl rudp::Host for Handler {
    type Guest = Box<Accepted>;

    const TRANSPORTS: &'static [&'static str] = &[NAME, Rudp::NAME];
    const NAME: &'static str = Rudp::NAME;

    async fn host(
        self,
        connection: rudp::Authenticated,
        timeout: Duration,
    ) -> Result<Option<Self::Guest>, TransportError> {
        let name = connection.transport;
        (self.handle_udp(connection.bare, &name, Pick::Rudp, timeout)).await
    }
}

fn wrong_join() -> TransportError {
    TransportError::Handshake(HandshakeError::NotTranspute {
        evidence: "its connection joins a link of tcp-striped as another one than it picked".into(),
    })
}

/// Sets the congestion control that the peer picked, if this system has it.
fn set_congestion_control(channel: &Channel, pick: &Pick) {
    if let Some(name) = pick.congestion_control()
        && let Err(error) = channel.socket().set_congestion_control(name)
    {
        tracing::debug!(%error, "this system lacks the congestion control that the peer picked; keeping ours");
    }
}
