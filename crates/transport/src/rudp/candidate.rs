//! Reliable UDP as a candidate of `auto`. Its endpoint serves the UDP port, and its set-up measures
//! the path.

use std::time::Duration;

use async_trait::async_trait;

use super::{
    Rudp,
    connect::Authenticated,
    listener::{ConnectionHandler, RudpListener},
};
use crate::{
    HandshakeError, TransportError,
    auto::{
        NAME,
        candidate::{
            AcceptResult, Candidate, CandidateListener, Established, Place, Port, Target, Updates,
            offer, picked,
        },
    },
    mismatch,
    security::Security,
    tls::NO_COMMON_TRANSPORT,
};

#[async_trait]
impl Candidate for Rudp {
    fn transports(&self) -> Vec<&'static str> {
        vec![Self::NAME]
    }

    fn port(&self) -> Port {
        Port::Datagrams {
            buffer: self.options.socket_buffer,
            is_foreign: false,
        }
    }

    async fn open(&self, to: Target, updates: &Updates) -> Result<(), TransportError> {
        let up = (self.connect_over(&to.address, &to.security, &to.transports)).await?;
        let offer = offer(&up.transport, up.message.as_deref()).await?;
        let connection = Established::new(up.bare, Self::NAME, &up.transport);
        updates.up(connection, up.watch.sample(), Some(offer), false);
        // Wait until the probe trains of the set-up have measured the path.
        up.watch.measured().await;
        updates.measured(up.watch.sample());
        Ok(())
    }

    async fn listen(&self, place: Place) -> Result<CandidateListener, TransportError> {
        let (handle, message) = (place.udp()?.handle(), place.offer.encode());
        let listener =
            RudpListener::beside(Racing, handle, &place.security, &message, self.options)?;
        Ok(Box::new(listener))
    }

    async fn ask(&self, address: &str, security: &Security, ours: &str) -> Option<TransportError> {
        let asked = self.connect_over(address, security, &[NO_COMMON_TRANSPORT]);
        let bare = asked.await.ok()?.bare;
        let mut stream = tokio::io::join(bare.reader, bare.writer);
        match mismatch::tell(&mut stream, ours).await {
            error @ TransportError::Handshake(HandshakeError::NoCommonTransport { .. }) => {
                Some(error)
            }
            _ => None,
        }
    }
}

/// Handles the connections of an `auto` listener: waits until the peer chooses the connection.
#[derive(Clone, Copy)]
struct Racing;

impl ConnectionHandler for Racing {
    type Handled = AcceptResult;

    const TRANSPORTS: &'static [&'static str] = &[NAME, Rudp::NAME];
    const NAME: &'static str = Rudp::NAME;

    async fn handle_connection(
        self,
        connection: Authenticated,
        timeout: Duration,
    ) -> Result<Option<AcceptResult>, TransportError> {
        let picked = picked(connection.bare, Rudp::NAME, &connection.transport, timeout).await?;
        Ok(picked.map(Some))
    }
}
