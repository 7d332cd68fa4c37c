//! The connections on the TCP port of `auto`, and the candidate of the transport `tcp`. The
//! candidate of `tcp-striped` uses these connections too.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;

use super::{
    Acceptor, Channel, CongestionControl, ConnectionHandler, Connector, Context, Port as TcpPort,
    Route, Socket, Tcp, TcpOptions, UNSENT_LIMIT, adopt,
};
use crate::{
    HandshakeError, PathSample, StreamError, TransportError,
    auto::{
        Accepted, NAME, Offer, Pick,
        candidate::{
            self, AcceptResult, Candidate, CandidateListener, Connection, Established, Place, Port,
            Target, Updates,
        },
        message::{self, JoinFormat, Message},
    },
    security::Security,
};

#[async_trait]
impl Candidate for Tcp {
    fn transports(&self) -> Vec<&'static str> {
        vec![Self::NAME]
    }

    fn port(&self) -> Port {
        Port::Stream
    }

    async fn open(&self, target: Target, updates: &Updates) -> Result<(), TransportError> {
        let (connection, path, offer) = TcpConnection::open(self.options, target, updates).await?;
        updates.up(connection, path, Some(offer), true);
        Ok(())
    }

    async fn listen(&self, place: Place) -> Result<CandidateListener, TransportError> {
        let handler = Handler {
            acceptor: acceptor(&place, &[Self::NAME])?,
            offer: Arc::clone(&place.offer),
        };
        let port = TcpPort::bind(&place.address, handler, self.options).await?;
        Ok(Box::new(port))
    }

    async fn ask(&self, address: &str, security: &Security, ours: &str) -> Option<TransportError> {
        let connector = Connector::new(security, &[], ours).ok()?;
        let route = Route::find(address, self.options).await.ok()?;
        let (socket, context) = route.open(UNSENT_LIMIT).await.ok()?;
        let error = connector.authenticate(socket, context).await.err()?;
        match &error {
            TransportError::Handshake(HandshakeError::NoCommonTransport { theirs, .. })
                if !names(theirs, ours) =>
            {
                Some(error)
            }
            _ => None,
        }
    }
}

/// Returns whether a listener's description, such as `auto (tcp, quic)`, contains this transport.
fn names(description: &str, transport: &str) -> bool {
    let is_separator = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
    description
        .split(is_separator)
        .any(|word| word == transport)
}

/// An established connection to the TCP port of a listener.
pub(crate) struct TcpConnection {
    pub(crate) channel: Channel,
    pub(crate) connector: Connector,
    pub(crate) options: TcpOptions,
}

impl TcpConnection {
    /// Opens and authenticates a connection. Also returns the path measurements of the handshakes
    /// and the listener's offer.
    pub(crate) async fn open(
        options: TcpOptions,
        to: Target,
        updates: &Updates,
    ) -> Result<(Self, PathSample, Offer), TransportError> {
        let route = Route::find(&to.address, options).await?;
        let began = Instant::now();
        let (socket, context) = route.open(UNSENT_LIMIT).await?;
        // Prefer the kernel's round-trip time. Unlike the time to connect, it does not include the
        // wait after a lost SYN.
        let measured = socket.probe().sample().least_rtt();
        let rtt = measured.unwrap_or_else(|| began.elapsed());
        updates.answered(rtt, socket.is_to_this_host());
        // With the round-trip time, the race can delay the UDP attempts to a near listener. So it
        // is reported before the TLS set-up below, which takes processor time.
        let connector = Connector::new(&to.security, &to.transports, NAME)?;
        let mut channel = connector.authenticate(socket, context).await?;
        let offer = match sends_offer(&channel) {
            true => read_offer(&mut channel).await?,
            false => candidate::offer(channel.transport(), channel.message()).await?,
        };
        let mut path = channel.socket().probe().sample();
        // If the kernel reports no round-trip time, use the time to open the connection as an upper
        // bound. It consists of name resolution and at least one round trip.
        let connect = channel.info(Tcp::NAME).timings.connect;
        path.min_rtt = path.least_rtt().or(Some(connect));
        let connection = Self {
            channel,
            connector,
            options,
        };
        Ok((connection, path, offer))
    }
}

/// Returns whether the listener sends its offer as the first message on this connection. This is the
/// case in plaintext if the connector uses `auto`. With TLS, the listener's certificate contains the
/// offer.
pub(crate) fn sends_offer(channel: &Channel) -> bool {
    !channel.is_encrypted() && is_choosing(channel)
}

/// Reads the offer, which a listener sends as the first message in plaintext mode.
pub(crate) async fn read_offer(channel: &mut Channel) -> Result<Offer, TransportError> {
    let context = channel.context().clone();
    let read = Offer::read(channel);
    context.limit("the listener's offer", read).await?
}

#[async_trait]
impl Connection for TcpConnection {
    async fn take(self: Box<Self>, pick: &Pick) -> Result<crate::Link, TransportError> {
        let control = congestion_control(pick)?;
        if let Some(name) = control {
            self.channel.socket().set_congestion_control(name)?;
        }
        let agreed = self.channel.transport().to_owned();
        let connection = Established::new(self.channel.into_bare(), Tcp::NAME, &agreed);
        let name = Tcp::NAME;
        let choice = control.map_or(name.into(), |control| format!("{name}:cc={control}"));
        connection.choose(&choice).await
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        message::close(&mut self.channel).await
    }
}

/// Parses the congestion control in a choice of `tcp`.
fn congestion_control(pick: &Pick) -> Result<Option<CongestionControl>, TransportError> {
    let mut settings = pick.settings(Tcp::NAME)?;
    let options = TcpOptions::default().configured(&mut settings)?;
    settings.finish()?;
    Ok(options.congestion_control)
}

/// Makes the acceptor of the TCP port. It accepts the ALPN names `auto` and those of `names` that
/// the offer contains.
pub(crate) fn acceptor(place: &Place, names: &[&'static str]) -> Result<Acceptor, TransportError> {
    let offered = names
        .iter()
        .copied()
        .filter(|name| place.offer.allows(name));
    let names: Vec<_> = [NAME].into_iter().chain(offered).collect();
    Acceptor::new(&place.security, &names, place.offer.describe())
}

/// Authenticates a connection, and then runs `handle` on it with the time limit of a handshake.
/// Returns `None` if the peer closed the connection during the handshake, for example because
/// another connection of the peer won its race.
pub(crate) async fn authenticate_and_handle<T, F>(
    acceptor: &Acceptor,
    socket: Socket,
    context: Context,
    handle: impl FnOnce(Channel) -> F + Send,
) -> Result<Option<T>, TransportError>
where
    F: Future<Output = Result<Option<T>, TransportError>> + Send,
{
    let polite = socket.clone();
    let channel = match acceptor.authenticate(socket, context.clone()).await {
        Ok(channel) => channel,
        Err(
            TransportError::Handshake(HandshakeError::ClosedDuringHandshake)
            | TransportError::Stream(StreamError::ConnectionReset),
        ) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let limited = context.limit("the peer to pick a transport", handle(channel));
    let result = limited.await.and_then(|result| result);
    if result.is_err() {
        polite.close_politely().await;
    }
    result
}

/// Returns whether the peer uses `auto` and will send a choice.
pub(crate) fn is_choosing(channel: &Channel) -> bool {
    channel.transport() == NAME
}

/// Reads the connector's first message. In plaintext, sends the offer before.
pub(crate) async fn hear(
    channel: &mut Channel,
    offer: &Offer,
    allows: impl Fn(&Pick) -> bool,
    join: Option<JoinFormat>,
) -> Result<Option<Message>, TransportError> {
    if sends_offer(channel) {
        let sent = channel.write_all(&offer.encode()).await;
        sent.map_err(TransportError::from_io)?;
    }
    let (mut reader, mut writer) = tokio::io::split(channel);
    message::hear(&mut reader, &mut writer, allows, join).await
}

/// Returns whether a choice is a valid choice of `tcp`, and `tcp` is offered.
pub(crate) fn allows(offer: &Offer, pick: &Pick) -> bool {
    pick.transport() == Tcp::NAME && offer.allows(Tcp::NAME) && congestion_control(pick).is_ok()
}

/// Converts an authenticated connection to the link that the peer chose with `pick`.
pub(crate) fn accepted(channel: Channel, pick: Pick) -> Result<Accepted, TransportError> {
    adopt(&channel, congestion_control(&pick)?);
    let link = channel.into_bare().link();
    Ok(Accepted { link, pick })
}

/// Authenticates each connection of a listener, and reads the peer's choice from it.
#[derive(Clone)]
struct Handler {
    acceptor: Acceptor,
    offer: Arc<Offer>,
}

impl Handler {
    async fn handle(&self, mut channel: Channel) -> Result<Option<AcceptResult>, TransportError> {
        let mut pick = Pick::from(Tcp::NAME);
        if is_choosing(&channel) {
            let allows = |pick: &Pick| allows(&self.offer, pick);
            match hear(&mut channel, &self.offer, allows, None).await? {
                Some(Message::Choice(picked)) => pick = picked,
                _ => return Ok(Some(None)),
            }
        }
        accepted(channel, pick).map(|accepted| Some(Some(accepted)))
    }
}

impl ConnectionHandler for Handler {
    type Handled = AcceptResult;

    const UNSENT_LIMIT: u32 = UNSENT_LIMIT;

    async fn handle_connection(
        self,
        socket: Socket,
        context: Context,
    ) -> Result<Option<AcceptResult>, TransportError> {
        authenticate_and_handle(&self.acceptor, socket, context, |it| self.handle(it)).await
    }
}
