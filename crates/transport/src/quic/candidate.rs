//! QUIC as a candidate of `auto`: on the UDP port, whose endpoint passes its datagrams on.

use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncReadExt;

use super::{
    Quic,
    handshake::Authenticated,
    listener::{Host, QuicListener},
};
use crate::{
    TransportError,
    auto::{
        Accepted, NAME,
        candidate::{
            Candidate, Established, Place, Port, PortListener, Target, Updates, Visit, offer,
            picked,
        },
    },
    security::Security,
    tls::NO_COMMON_TRANSPORT,
};

#[async_trait]
impl Candidate for Quic {
    fn transports(&self) -> Vec<&'static str> {
        vec![Self::NAME]
    }

    fn port(&self) -> Port {
        Port::Datagrams {
            buffer: self.options.socket_buffer,
            is_foreign: true,
        }
    }

    async fn open(&self, to: Target, updates: &Updates) -> Result<(), TransportError> {
        let up = (self.connect_over(&to.address, &to.security, &to.transports)).await?;
        let offer = offer(&up.transport, up.message.as_deref()).await?;
        let path = up.bare.probe.sample();
        let connection = Established::new(up.bare, Self::NAME, &up.transport);
        updates.up(connection, path, Some(offer), true);
        Ok(())
    }

    async fn listen(&self, place: Place) -> Result<Box<dyn PortListener>, TransportError> {
        let udp = place.udp()?;
        let (door, foreign) = (udp.door(), udp.foreign());
        let listener = QuicListener::beside(Racing, door, foreign, &place.security, self.options)?;
        Ok(Box::new(listener))
    }

    async fn ask(&self, address: &str, security: &Security, ours: &str) -> Option<TransportError> {
        if ours == Self::NAME {
            return None;
        }
        let asked = (self.connect_over(address, security, &[NO_COMMON_TRANSPORT])).await;
        // The listener closes as soon as it has understood, which may be before the handshake is complete here.
        match asked {
            Ok(mut authenticated) => {
                let _ = authenticated.bare.reader.read(&mut [0]).await;
            }
            Err(TransportError::ClosedDuringHandshake) => {}
            Err(_) => return None,
        }
        Some(TransportError::NoCommonTransport {
            ours: ours.into(),
            theirs: Self::NAME.into(),
        })
    }
}

/// Waits until the peer picks the connection.
#[derive(Clone, Copy)]
struct Racing;

impl Host for Racing {
    type Guest = Accepted;

    const TRANSPORTS: &'static [&'static str] = &[NAME, Quic::NAME];

    async fn host(
        self,
        connection: Authenticated,
        timeout: Duration,
    ) -> Result<Option<Accepted>, TransportError> {
        picked(connection.bare, Quic::NAME, &connection.transport, timeout).await
    }
}

#[async_trait]
impl PortListener for QuicListener<Racing> {
    fn local_address(&self) -> String {
        self.reachable()
    }

    async fn next(&mut self) -> Result<Visit, TransportError> {
        Self::next(self).await.map(Some)
    }
}
