//! Makes a connection of a race the link.

use std::{io, sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Established, NAME, Pick, Race};
use crate::{
    Link, LinkReader, LinkStats, PathProbe, PathSample, StreamError, TcpStriped, TransportError,
    auto::{
        Offer,
        message::{self, Answered},
    },
    link::Bare,
    striped,
    tcp::{Channel, Connector, Route},
};

impl Race {
    /// Makes the connection of this transport the link. It must be up.
    pub(super) async fn take(&mut self, pick: &Pick) -> Result<Link, TransportError> {
        if let Some(offer) = &self.progress.offer {
            offer.check(pick)?;
        }
        let tcp_limit = self.options.tcp.handshake_timeout;
        match pick {
            Pick::Tcp { .. } => {
                let channel = self.take_tcp(pick)?;
                let transport = channel.transport().unwrap_or(NAME).to_owned();
                let connection = Established::new(channel.into_bare(), &transport);
                connection.choose(pick, tcp_limit).await
            }
            Pick::TcpStriped { connections, .. } => {
                let channel = self.take_tcp(pick)?;
                self.stripe(channel, pick, *connections).await
            }
            Pick::Quic => {
                let quic = self.quic.take().ok_or(StreamError::Closed)?;
                let limit = self.options.quic.handshake_timeout;
                quic.choose(pick, limit).await
            }
            Pick::Rudp => {
                let rudp = self.rudp.take().ok_or(StreamError::Closed)?;
                rudp.choose(pick, tcp_limit).await
            }
            Pick::Other(name) => {
                let link = self.links.remove(name).ok_or(StreamError::Closed)?;
                choose_link(link, pick, tcp_limit).await
            }
        }
    }

    fn take_tcp(&mut self, pick: &Pick) -> Result<Channel, TransportError> {
        let channel = self.tcp.take().ok_or(StreamError::Closed)?;
        if let Some(name) = pick.congestion_control() {
            channel.socket().set_congestion_control(name)?;
        }
        Ok(channel)
    }

    /// Makes a link of several connections, which begins with the one that is up.
    async fn stripe(
        &mut self,
        mut channel: Channel,
        pick: &Pick,
        connections: u8,
    ) -> Result<Link, TransportError> {
        let is_named = channel.transport().is_some_and(|named| named != NAME);
        let limit = self.options.tcp.handshake_timeout;
        if !is_named {
            let (mut reader, mut writer) = tokio::io::split(&mut channel);
            send(&mut reader, &mut writer, pick, limit).await?;
        }
        let announced = striped::announce(&mut channel, connections).await?;
        let mut options = self.options.tcp;
        options.congestion_control = pick.congestion_control().or(options.congestion_control);
        let route = Route::to(channel.context().peer, options);
        let front = |first: LinkReader| match is_named {
            true => first,
            false => Box::new(Answered::new(first)),
        };
        let (link, growth) = TcpStriped::default().begin(channel, front);
        announced.grow(&growth, limit, || {
            open_further(route.clone(), self.connector.clone())
        });
        Ok(link)
    }
}

/// Opens a further connection of a link. In plaintext the listener sends its offer on it.
async fn open_further(route: Route, connector: Connector) -> Result<Channel, TransportError> {
    let is_plaintext = !connector.encrypts();
    let mut channel = striped::open(route, connector).await?;
    if is_plaintext {
        let context = channel.context().clone();
        let read = Offer::read(&mut channel);
        context.limit("the listener's offer", read).await??;
    }
    Ok(channel)
}

impl Established {
    /// Sends the choice on the connection and makes it the link.
    async fn choose(mut self, pick: &Pick, limit: Duration) -> Result<Link, TransportError> {
        if self.is_named {
            return Ok(self.bare.link());
        }
        send(&mut self.bare.reader, &mut self.bare.writer, pick, limit).await?;
        let Bare {
            reader,
            writer,
            info,
            probe,
        } = self.bare;
        Ok(Link::new(Answered::new(reader), writer, info, Some(probe)))
    }
}

/// Sends the choice on a link of another crate's transport.
async fn choose_link(link: Link, pick: &Pick, limit: Duration) -> Result<Link, TransportError> {
    let (info, stats) = (link.info().clone(), link.stats());
    let (mut reader, mut writer) = link.into_parts();
    send(&mut reader, &mut writer, pick, limit).await?;
    let probe = Arc::new(Counted(stats));
    Ok(Link::new(Answered::new(reader), writer, info, Some(probe)))
}

/// The path of a link, as its own statistics report it.
struct Counted(LinkStats);

impl PathProbe for Counted {
    fn sample(&self) -> PathSample {
        self.0.snapshot().path
    }
}

/// Sends the choice. If the listener has ended the connection, it may have told why: it refuses this end's identity, for
/// example.
async fn send(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    pick: &Pick,
    limit: Duration,
) -> Result<(), TransportError> {
    let choice = message::encode(pick);
    let sent = async {
        writer.write_all(&choice).await?;
        writer.flush().await
    };
    let Err(error) = tokio::time::timeout(limit, sent)
        .await
        .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    else {
        return Ok(());
    };
    let told = tokio::time::timeout(Duration::ZERO, reader.read(&mut [0])).await;
    let told = told.ok().and_then(Result::err);
    Err(TransportError::from_io(told.unwrap_or(error)))
}
