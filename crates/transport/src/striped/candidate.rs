//! The candidate `tcp-striped` of `auto`. Its first connection is the connection on the TCP port,
//! which can instead become a link of `tcp`.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    StripedOptions, TcpStriped,
    groups::Groups,
    growing_port::GrowingPort,
    join::{self, Join},
    open::{announce, open},
};
use crate::{
    HandshakeError, Link, LinkReader, Tcp, TransportError,
    auto::{
        Accepted, NAME, Offer, Pick,
        candidate::{
            AcceptResult, Candidate, CandidateListener, Connection, Place, Port, Target, Updates,
        },
        message::{self, Answered, JoinFormat, Message},
    },
    tcp::{
        Acceptor, Channel, ConnectionHandler, Connector, Context, Port as TcpPort, Route, Socket,
        UNSENT_LIMIT, adopt,
        candidate::{self, TcpConnection},
    },
};

#[async_trait]
impl Candidate for TcpStriped {
    fn transports(&self) -> Vec<&'static str> {
        vec![Tcp::NAME, Self::NAME]
    }

    fn port(&self) -> Port {
        Port::Stream
    }

    async fn open(&self, target: Target, updates: &Updates) -> Result<(), TransportError> {
        let (first, path, offer) = TcpConnection::open(self.options.tcp, target, updates).await?;
        updates.up(FirstConnection(first), path, Some(offer), true);
        Ok(())
    }

    async fn listen(&self, place: Place) -> Result<CandidateListener, TransportError> {
        let options = self.options.tcp;
        let groups = Groups::new(self.clone(), options.handshake_timeout);
        let handler = Handler {
            acceptor: candidate::acceptor(&place, &self.transports())?,
            offer: Arc::clone(&place.offer),
            groups: groups.clone(),
        };
        let port = TcpPort::bind(&place.address, handler, options).await?;
        Ok(Box::new(GrowingPort::new(port, groups)))
    }
}

/// The connection on the TCP port, before the choice between `tcp` and `tcp-striped`.
struct FirstConnection(TcpConnection);

#[async_trait]
impl Connection for FirstConnection {
    async fn take(self: Box<Self>, pick: &Pick) -> Result<Link, TransportError> {
        let Self(first) = *self;
        match pick.transport() {
            TcpStriped::NAME => stripe(first, pick).await,
            _ => Box::new(first).take(pick).await,
        }
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.0.close().await
    }
}

/// Makes a link of several connections from the established one, and opens the others.
async fn stripe(first: TcpConnection, pick: &Pick) -> Result<Link, TransportError> {
    let TcpConnection {
        mut channel,
        connector,
        mut options,
    } = first;
    let picked = picked(pick)?;
    let control = picked.tcp.congestion_control;
    if let Some(name) = control {
        channel.socket().set_congestion_control(name)?;
    }
    let count = picked.connections.unwrap_or(StripedOptions::CONNECTIONS);
    let is_named = channel.transport() != NAME;
    if !is_named {
        let control = control.map_or(String::new(), |name| format!(",cc={name}"));
        let choice = format!("{}:n={count}{control}", TcpStriped::NAME);
        let (mut reader, mut writer) = tokio::io::split(&mut channel);
        message::send(&mut reader, &mut writer, &choice).await?;
    }
    let announced = announce(&mut channel, count).await?;
    options.congestion_control = control.or(options.congestion_control);
    let route = Route::to(channel.context().peer, options);
    let front = |first: LinkReader| match is_named {
        true => first,
        false => Box::new(Answered::new(first)),
    };
    let (link, growth) = TcpStriped::default().begin(channel, front);
    announced.grow(&growth, options.handshake_timeout, || {
        open_further(route.clone(), connector.clone())
    });
    Ok(link)
}

/// Opens a further connection of a link. In plaintext the listener sends its offer on it.
async fn open_further(route: Route, connector: Connector) -> Result<Channel, TransportError> {
    let mut channel = open(route, connector).await?;
    if candidate::sends_offer(&channel) {
        candidate::read_offer(&mut channel).await?;
    }
    Ok(channel)
}

/// Parses the options in a choice of `tcp-striped`.
fn picked(pick: &Pick) -> Result<StripedOptions, TransportError> {
    let mut settings = pick.settings(TcpStriped::NAME)?;
    let options = StripedOptions::default().configured(&mut settings)?;
    settings.finish()?;
    Ok(options)
}

/// Handles the connections of a listener: authenticates each, and reads its choice or join message.
#[derive(Clone)]
struct Handler {
    acceptor: Acceptor,
    offer: Arc<Offer>,
    /// The links that further connections may join.
    groups: Groups,
}

impl Handler {
    async fn handle(&self, mut channel: Channel) -> Result<Option<AcceptResult>, TransportError> {
        if !candidate::is_choosing(&channel) {
            if channel.transport() == Tcp::NAME {
                return candidate::accepted(channel, Pick::from(Tcp::NAME))
                    .map(|it| Some(Some(it)));
            }
            // The peer uses `tcp-striped` without `auto`, so it sends no choice.
            let context = channel.context().clone();
            let join = Join::read(&mut channel, &context).await?;
            let pick = format!("{}:n={}", TcpStriped::NAME, join.count);
            return self.add(join, channel, &Pick::from(&*pick)).await;
        }
        let is_allowed = self.offer.allows(TcpStriped::NAME);
        let allows = |pick: &Pick| match pick.transport() {
            TcpStriped::NAME => is_allowed && picked(pick).is_ok(),
            _ => candidate::allows(&self.offer, pick),
        };
        let join = JoinFormat {
            magic: join::MAGIC,
            length: join::LENGTH,
            is_allowed,
        };
        match candidate::hear(&mut channel, &self.offer, allows, Some(join)).await? {
            None => Ok(Some(None)),
            Some(Message::Choice(pick)) if pick.transport() == TcpStriped::NAME => {
                let context = channel.context().clone();
                let join = Join::read(&mut channel, &context).await?;
                let count = picked(&pick)?.connections;
                if join.index != 0 || Some(join.count) != count {
                    return Err(wrong_join());
                }
                self.add(join, channel, &pick).await
            }
            Some(Message::Choice(pick)) => {
                candidate::accepted(channel, pick).map(|accepted| Some(Some(accepted)))
            }
            Some(Message::Join(bytes)) => {
                let bytes = bytes.try_into().map_err(|_| wrong_join())?;
                match Join::decode(&bytes)? {
                    join if join.index == 0 => Err(wrong_join()),
                    join => self.add(join, channel, &Pick::from(TcpStriped::NAME)).await,
                }
            }
        }
    }

    /// Adds a connection to its link. Returns the link for its first connection, and `None` for
    /// others.
    async fn add(
        &self,
        join: Join,
        channel: Channel,
        pick: &Pick,
    ) -> Result<Option<AcceptResult>, TransportError> {
        let control = picked(pick)?.tcp.congestion_control;
        adopt(&channel, control);
        let pick = pick.clone();
        let link = self.groups.add(&join, channel, control).await?;
        Ok(link.map(|link| Some(Accepted { link, pick })))
    }
}

impl ConnectionHandler for Handler {
    type Handled = AcceptResult;

    const UNSENT_LIMIT: u32 = UNSENT_LIMIT;

    /// Returns `None` if the connection has joined an existing link, or has ended during the
    /// handshake.
    async fn handle_connection(
        self,
        socket: Socket,
        context: Context,
    ) -> Result<Option<AcceptResult>, TransportError> {
        candidate::authenticate_and_handle(&self.acceptor, socket, context, |it| self.handle(it))
            .await
    }
}

fn wrong_join() -> TransportError {
    TransportError::Handshake(HandshakeError::NotTranspute {
        evidence: "its connection joins a link of tcp-striped as another one than it picked".into(),
    })
}
