//! Makes a connection of a race the link.

use std::{sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Established, NAME, Pick, Race};
use crate::{
    Link, PathProbe, StripedOptions, TcpStriped, TransportError,
    auto::{Offer, answered::Answered, message},
    striped::{self, MAX_STRIPES, Opening},
    tcp::{Channel, Route},
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
                let is_named = is_named(&channel);
                let bare = channel.into_bare();
                choose(Established { bare, is_named }, pick, tcp_limit).await
            }
            Pick::TcpStriped { connections, .. } => {
                let channel = self.take_tcp(pick)?;
                self.stripe(channel, pick, *connections).await
            }
            Pick::Quic => {
                let taken = self.quic.connection.take().ok_or(TransportError::Closed)?;
                choose(taken, pick, self.options.quic.handshake_timeout).await
            }
            Pick::Rudp => {
                let taken = self.rudp.connection.take().ok_or(TransportError::Closed)?;
                choose(taken, pick, tcp_limit).await
            }
        }
    }

    fn take_tcp(&mut self, pick: &Pick) -> Result<Channel, TransportError> {
        let channel = self.tcp.connection.take().ok_or(TransportError::Closed)?;
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
        // The further connections leave before anything else.
        let opening = self.open_further(&channel, pick, connections);
        let is_named = is_named(&channel);
        if !is_named {
            let context = channel.context().clone();
            let sent = send(&mut channel, pick);
            context.limit("the choice to be sent", sent).await??;
        }
        let founder = opening.found(&mut channel, connections).await?;
        let striped = TcpStriped::new(StripedOptions {
            max_out_of_order: self.options.max_out_of_order,
            ..StripedOptions::default()
        });
        let (link, growth) = striped.begin(channel, connections, |first| match is_named {
            true => first,
            false => Box::new(Answered::new(first)),
        });
        founder.grow(growth, self.options.tcp.handshake_timeout);
        Ok(link)
    }

    fn open_further(&self, first: &Channel, pick: &Pick, connections: u8) -> Opening {
        let mut options = self.options.tcp;
        options.congestion_control = pick.congestion_control().or(options.congestion_control);
        let route = Route::to(first.context().peer, options);
        let mut opening = Opening::new();
        for _ in 1..connections.min(MAX_STRIPES) {
            if self.connector.encrypts() {
                opening.begin_bare(route.clone());
                continue;
            }
            let opened = striped::open(route.clone(), self.connector.clone());
            opening.begin(async move {
                let mut channel = opened.await?;
                let context = channel.context().clone();
                let read = Offer::read(&mut channel);
                context.limit("the listener's offer", read).await??;
                Ok(channel)
            });
        }
        opening
    }
}

/// Returns whether the listener uses one transport by its name, and expects no choice.
fn is_named(channel: &Channel) -> bool {
    channel.transport().is_some_and(|named| named != NAME)
}

/// Sends the choice on a connection and makes it the link.
async fn choose<R, W>(
    connection: Established<R, W>,
    pick: &Pick,
    limit: Duration,
) -> Result<Link, TransportError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let Established { mut bare, is_named } = connection;
    if is_named {
        return Ok(bare.link());
    }
    let sent = tokio::time::timeout(limit, send(&mut bare.writer, pick)).await;
    if let Err(error) = sent.unwrap_or(Err(TransportError::PeerVanished)) {
        return Err(refusal(&mut bare.reader).await.unwrap_or(error));
    }
    let probe: Arc<dyn PathProbe> = bare.probe;
    let reader = Answered::new(bare.reader);
    Ok(Link::new(reader, bare.writer, bare.info, Some(probe)))
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), pick: &Pick) -> Result<(), TransportError> {
    let sent = async {
        writer.write_all(&message::encode(pick)).await?;
        writer.flush().await
    };
    sent.await.map_err(TransportError::from_io)
}

/// Returns why the listener has ended the connection, if it told: it may have refused this end's identity.
async fn refusal(reader: &mut (impl AsyncRead + Unpin)) -> Option<TransportError> {
    let told = tokio::time::timeout(Duration::ZERO, reader.read(&mut [0])).await;
    match told {
        Ok(Err(error)) => Some(TransportError::from_io(error)),
        _ => None,
    }
}
