//! The interface between `auto` and the kinds of connections that it opens and listens for.
//!
//! A transport that shares the ports of `auto` implements [`Candidate`] in its own folder and
//! returns it from [`Transport::shared_port`](crate::Transport::shared_port). All others take part
//! through `own_port`.

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
    BindError, HandshakeError, Link, PathSample, TransportError,
    link::{LinkHalves, LinkReader, LinkWriter},
    rudp::UdpPort,
    security::Security,
};

/// A kind of connection that takes part in a race, with its options.
#[async_trait]
pub(crate) trait Candidate: Send + Sync {
    /// Returns the names of the transports that can use a connection.
    fn transports(&self) -> Vec<&'static str>;

    /// Returns the port that it needs.
    fn port(&self) -> Port;

    /// Opens a connection, and reports that it is established. Returns when there is nothing more
    /// to report. Dropping the future abandons the attempt.
    async fn open(&self, target: Target, updates: &Updates) -> Result<(), TransportError>;

    /// Listens for connections.
    async fn listen(&self, place: Place) -> Result<Box<dyn PortListener>, TransportError>;

    /// Asks a listener that does not accept the transport `ours` which one it uses. Returns `None`
    /// if this kind of connection cannot find out.
    async fn ask(&self, _: &str, _: &Security, _ours: &str) -> Option<TransportError> {
        None
    }
}

/// The use of the ports of `auto` by a transport.
pub struct SharedPort(pub(super) Arc<dyn Candidate>);

impl SharedPort {
    pub(crate) fn new(candidate: impl Candidate + 'static) -> Self {
        Self(Arc::new(candidate))
    }

    /// Returns the candidate that asks a listener which transport it uses.
    pub(crate) fn into_candidate(self) -> Arc<dyn Candidate> {
        self.0
    }
}

/// The port of a candidate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Port {
    /// The TCP port. Its connection begins first. It carries the offer if the listener offers
    /// nothing else on this connection.
    Stream,
    /// The UDP port.
    Datagrams {
        /// Size of the socket's buffers, in bytes.
        buffer: usize,
        /// Another endpoint serves the port and passes the datagrams on.
        is_foreign: bool,
    },
    /// A port of its own, whose number is in the offer.
    Own,
}

/// The listener of a connection attempt.
pub(crate) struct Target {
    /// `host:port`.
    pub(crate) address: String,
    pub(crate) security: Security,
    /// The names for ALPN: `auto`, and the transports that the listener may use by name.
    pub(crate) transports: Vec<&'static str>,
}

/// Reports the progress of one connection to its race.
pub(crate) struct Updates {
    pub(super) index: usize,
    pub(super) started: Instant,
    pub(super) sender: UnboundedSender<(usize, Update)>,
}

/// A report on a connection.
pub(super) enum Update {
    /// The listener's machine has answered after this round-trip time.
    Answered(Duration),
    /// The connection is established.
    Up(Up),
    /// The set-up has measured the path.
    Measured(PathSample),
    /// The connection has failed.
    Failed(TransportError),
}

/// The report on an established connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetupReport {
    /// The path measurements of the transport, such as its round-trip time.
    pub path: PathSample,
    /// Time from the start of connecting to the established connection.
    pub after: Duration,
    /// The set-up reports nothing more: the trains have ended.
    pub is_complete: bool,
}

/// An established connection.
pub(super) struct Up {
    pub(super) connection: Box<dyn Connection>,
    pub(super) report: SetupReport,
    /// `None` on a connection that begins after the offer is known.
    pub(super) offer: Option<Offer>,
}

impl Updates {
    /// Reports that the listener's machine has answered after this round-trip time.
    pub(crate) fn answered(&self, rtt: Duration) {
        self.send(Update::Answered(rtt));
    }

    /// Reports that the connection is established. If it is not `is_complete`,
    /// [`measured`](Self::measured) follows.
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
        // A race that has ended needs no report.
        let _ = self.sender.send((self.index, update));
    }
}

/// An established connection that can become the link.
#[async_trait]
pub(crate) trait Connection: Send {
    /// Sends the choice, and makes the connection the link.
    async fn take(self: Box<Self>, pick: &Pick) -> Result<Link, TransportError>;

    /// Closes the connection, and waits until the listener has closed its side. Returns the
    /// listener's refusal if that is its answer.
    async fn close(&mut self) -> Result<(), TransportError>;
}

/// A connection that becomes the link of one transport.
pub(crate) struct Established {
    bare: LinkHalves<LinkReader, LinkWriter>,
    transport: &'static str,
    /// The listener uses the transport by its name and expects no choice.
    is_named: bool,
}

impl Established {
    /// `agreed` is the name that both sides agreed on by ALPN.
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

    /// Sends the choice on the connection and makes it the link.
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

/// Returns the offer of a listener that agreed on this transport. `message` is the one in its
/// certificate.
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
    /// Its certificate contains the offer.
    pub(crate) security: Security,
    pub(crate) offer: Arc<Offer>,
    /// The UDP port, if one of the candidates needs it.
    pub(crate) udp: Option<UdpPort>,
}

impl Place {
    /// Returns the UDP port.
    pub(crate) fn udp(&self) -> Result<&UdpPort, TransportError> {
        self.udp.as_ref().ok_or_else(|| {
            TransportError::Bind(BindError::Listen {
                address: self.address.clone(),
                source: std::io::ErrorKind::NotConnected.into(),
            })
        })
    }
}

/// The result of an authenticated connection: a link, or `None` if the peer closed it without a
/// choice.
pub(crate) type AcceptResult = Option<Accepted>;

/// The listening end of a candidate.
#[async_trait]
pub(crate) trait PortListener: Send {
    /// Returns the address for connectors.
    fn local_address(&self) -> String;

    /// Waits for the next link, or for the end of a connection that was not chosen. Cancel-safe.
    async fn next(&mut self) -> Result<AcceptResult, TransportError>;
}

/// Waits until the peer chooses a connection that can become the link of one transport. The peer
/// may have agreed on that transport by its name.
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
        let heard = tokio::time::timeout(timeout, hearing).await.map_err(|_| {
            TransportError::Handshake(HandshakeError::Timeout {
                waiting_for: "the peer to pick a transport",
                address: bare.info.peer_address.clone(),
                after: timeout,
            })
        })??;
        match heard {
            Some(Message::Choice(heard)) => pick = heard,
            _ => return Ok(None),
        }
    }
    let link = bare.link();
    Ok(Some(Accepted { link, pick }))
}
