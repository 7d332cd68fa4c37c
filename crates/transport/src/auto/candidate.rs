//! The interface between `auto` and its candidates. A candidate is a kind of connection that `auto`
//! opens and accepts.
//!
//! A transport that shares the ports of `auto` implements [`Candidate`] in its own folder and
//! returns it from [`Transport::shared_port`](crate::Transport::shared_port). All other transports
//! take part through `own_port`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{
    io::{AsyncRead, AsyncWrite, join},
    sync::mpsc::UnboundedSender,
    time::Instant,
};

use super::{
    NAME,
    message::{self, Answered, Message},
    offer::Offer,
    pick::{Accepted, Pick},
};
use crate::{
    BindError, HandshakeError, Link, PathSample, TransportError, handshakes,
    link::{LinkHalves, LinkReader, LinkWriter},
    listening::{Authenticated, AuthenticatedHandler, PortListener},
    rudp::UdpPort,
    security::Security,
};

/// A kind of connection that takes part in a race. The implementing type contains the options of
/// its connections.
#[async_trait]
pub(crate) trait Candidate: Send + Sync {
    /// Returns the names of the transports whose links can run over a connection of this kind.
    fn transports(&self) -> Vec<&'static str>;

    /// Returns the kind of port that the connection uses.
    fn port(&self) -> Port;

    /// Opens a connection and reports its progress to `updates`. Returns when the set-up has
    /// nothing more to report. Dropping the future abandons the attempt.
    async fn open(&self, target: Target, updates: &Updates) -> Result<(), TransportError>;

    /// Starts to listen for connections of this kind.
    async fn listen(&self, place: Place) -> Result<CandidateListener, TransportError>;

    /// Connects to a listener to find out which transport it uses. Returns an error that names this
    /// transport. Returns `None` if the listener does not answer, if it accepts the transport
    /// `ours`, or if this kind of connection does not support the question.
    async fn ask(&self, _: &str, _: &Security, _ours: &str) -> Option<TransportError> {
        None
    }
}

/// The candidate of a transport that shares the TCP or UDP port of `auto` with other transports.
pub struct SharedPort(pub(super) Arc<dyn Candidate>);

impl SharedPort {
    pub(crate) fn new(candidate: impl Candidate + 'static) -> Self {
        Self(Arc::new(candidate))
    }

    /// Returns the candidate.
    pub(crate) fn into_candidate(self) -> Arc<dyn Candidate> {
        self.0
    }
}

/// The kind of port that a candidate uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Port {
    /// The listener's TCP port. The race opens this connection first. The listener accepts it even
    /// if it offers no transport over TCP, because the connection then still carries the offer.
    Stream,
    /// The UDP port.
    Datagrams {
        /// Size of the socket's buffers, in bytes.
        buffer: usize,
        /// True if another candidate's endpoint receives from the socket and passes this
        /// candidate's datagrams on.
        is_foreign: bool,
    },
    /// A separate port of the transport. The offer contains its number.
    Own,
}

/// The listener to which a connection attempt connects.
pub(crate) struct Target {
    /// `host:port`.
    pub(crate) address: String,
    pub(crate) security: Security,
    /// The transports to offer by ALPN: `auto`, and those that a listener without `auto` may use.
    pub(crate) transports: Vec<&'static str>,
}

/// Reports the progress of one connection to its race.
pub(crate) struct Updates {
    pub(super) index: usize,
    pub(super) started: Instant,
    pub(super) sender: UnboundedSender<(usize, Update)>,
}

/// A report on the progress of one connection.
pub(super) enum Update {
    /// The listener's machine has answered after this round-trip time. `is_one_host`: its address is
    /// one of this host.
    Answered { rtt: Duration, is_one_host: bool },
    /// The connection is established.
    Up(Up),
    /// The set-up has measured the path, and will report nothing more.
    Measured(PathSample),
    /// The connection has failed.
    Failed(TransportError),
}

/// The measurements of an established connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetupReport {
    /// The path measurements of the transport, such as its round-trip time.
    pub path: PathSample,
    /// Time from the start of the race until this connection was established.
    pub after: Duration,
    /// True if the set-up has finished the measurement of the path. Before, `path` may change.
    pub is_complete: bool,
}

/// An established connection.
pub(super) struct Up {
    pub(super) connection: Box<dyn Connection>,
    pub(super) report: SetupReport,
    /// The listener's offer. `None` on a connection to a separate port, which is opened only after
    /// the offer is known.
    pub(super) offer: Option<Offer>,
}

impl Updates {
    /// Reports that the listener's machine has answered after this round-trip time, and whether its
    /// address is one of this host.
    pub(crate) fn answered(&self, rtt: Duration, is_one_host: bool) {
        self.send(Update::Answered { rtt, is_one_host });
    }

    /// Reports that the connection is established. Without `is_complete`, the caller must call
    /// [`measured`](Self::measured) later.
    pub(crate) fn up(
        &self,
        connection: impl Connection + 'static,
        path: PathSample,
        offer: Option<Offer>,
        is_complete: bool,
    ) {
        let report = SetupReport {
            path,
            after: self.started.elapsed(),
            is_complete,
        };
        self.send(Update::Up(Up {
            connection: Box::new(connection),
            report,
            offer,
        }));
    }

    /// Reports that the set-up has measured the path.
    pub(crate) fn measured(&self, path: PathSample) {
        self.send(Update::Measured(path));
    }

    pub(super) fn send(&self, update: Update) {
        // Sending fails only after the race has ended, which then does not need the report.
        let _ = self.sender.send((self.index, update));
    }
}

/// An established connection that can become the link.
#[async_trait]
pub(crate) trait Connection: Send {
    /// Sends the choice to the listener, and converts the connection to the link.
    async fn take(self: Box<Self>, pick: &Pick) -> Result<Link, TransportError>;

    /// Closes the connection, and waits until the listener has closed its side. Fails if the
    /// listener has rejected this end's identity.
    async fn close(&mut self) -> Result<(), TransportError>;
}

/// An established connection that can become the link of only one transport.
pub(crate) struct Established {
    bare: LinkHalves<LinkReader, LinkWriter>,
    transport: &'static str,
    /// True if the listener uses this transport without `auto`. It then expects no choice.
    is_named: bool,
}

impl Established {
    /// Makes the connection. `agreed` is the ALPN result: `auto`, or the transport that the
    /// listener uses without `auto`.
    pub(crate) fn new<R, W>(bare: LinkHalves<R, W>, transport: &'static str, agreed: &str) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self {
            bare: LinkHalves {
                reader: Box::new(bare.reader),
                writer: Box::new(bare.writer),
                info: bare.info,
                probe: bare.probe,
            },
            transport,
            is_named: agreed != NAME,
        }
    }

    /// Sends the choice if the listener expects one, and converts the connection to the link.
    pub(crate) async fn choose(mut self, choice: &str) -> Result<Link, TransportError> {
        if self.is_named {
            return Ok(self.bare.link());
        }
        message::send(&mut self.bare.reader, &mut self.bare.writer, choice).await?;
        let LinkHalves {
            reader,
            writer,
            info,
            probe,
        } = self.bare;
        Ok(Link::new(Answered::new(reader), writer, info, Some(probe)))
    }
}

#[async_trait]
impl Connection for Established {
    async fn take(self: Box<Self>, pick: &Pick) -> Result<Link, TransportError> {
        pick.settings(self.transport)?.finish()?;
        let name = self.transport;
        self.choose(name).await
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        message::close(&mut join(&mut self.bare.reader, &mut self.bare.writer)).await
    }
}

/// Returns the listener's offer. `agreed` is the ALPN result, and `message` the message in the
/// listener's certificate. A listener without `auto` offers only `agreed`.
pub(crate) async fn offer(agreed: &str, message: Option<&[u8]>) -> Result<Offer, TransportError> {
    match message {
        _ if agreed != NAME => Ok(Offer::only(agreed)),
        Some(message) => Offer::decode(message).await,
        None => Err(TransportError::Handshake(HandshakeError::NotTranspute {
            evidence: "its certificate offers no transports".into(),
        })),
    }
}

/// The address and the port that a candidate listens on.
#[derive(Clone)]
pub(crate) struct Place {
    /// `host:port`.
    pub(crate) address: String,
    /// The credentials of the listener. Their certificate contains the offer.
    pub(crate) security: Security,
    pub(crate) offer: Arc<Offer>,
    /// The UDP port, if one of the candidates needs it.
    pub(crate) udp: Option<UdpPort>,
}

impl Place {
    /// Returns the UDP port, or an error if none was opened.
    pub(crate) fn udp(&self) -> Result<&UdpPort, TransportError> {
        self.udp.as_ref().ok_or_else(|| {
            TransportError::Bind(BindError::Listen {
                address: self.address.clone(),
                source: std::io::ErrorKind::NotConnected.into(),
            })
        })
    }
}

/// The outcome of an authenticated connection: a link, or `None` if the peer closed the connection
/// without choosing it.
pub(crate) type AcceptResult = Option<Accepted>;

/// The listening end of a candidate.
pub(crate) type CandidateListener = Box<dyn PortListener<AcceptResult>>;

/// Handles accepted connections that can become links of only one transport, the one of this name.
/// Waits until the peer chooses the connection.
#[derive(Clone, Copy)]
pub(crate) struct ChoiceHandler(pub(crate) &'static str);

impl<R, W> AuthenticatedHandler<R, W> for ChoiceHandler
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Handled = AcceptResult;

    fn transport(&self) -> &'static str {
        self.0
    }

    fn accepted_transports(&self) -> [&'static str; 2] {
        [NAME, self.0]
    }

    async fn handle_connection(
        self,
        authenticated: Authenticated<R, W>,
        timeout: Duration,
    ) -> Result<Option<AcceptResult>, TransportError> {
        let Authenticated {
            bare, transport, ..
        } = authenticated;
        let picked = picked(bare, self.0, &transport, timeout).await?;
        Ok(picked.map(Some))
    }
}

/// Waits for the peer's choice on a connection that supports only `transport`. Returns the link, or
/// `None` if the peer closes the connection first. Does not wait if the ALPN result `agreed`
/// already names the transport.
pub(crate) async fn picked<R, W>(
    mut bare: LinkHalves<R, W>,
    transport: &'static str,
    agreed: &str,
    timeout: Duration,
) -> Result<Option<Accepted>, TransportError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let mut pick = Pick::from(transport);
    if agreed == NAME {
        let allows = |pick: &Pick| pick.as_str() == transport;
        let hearing = message::hear(&mut bare.reader, &mut bare.writer, allows, None);
        let peer = &bare.info.peer_address;
        let heard = handshakes::limit(timeout, "the peer to pick a transport", peer, hearing);
        match heard.await?? {
            Some(Message::Choice(heard)) => pick = heard,
            _ => return Ok(None),
        }
    }
    let link = bare.link();
    Ok(Some(Accepted { link, pick }))
}
