//! Reliable UDP as a candidate of `auto`. Its endpoint serves the UDP port, and its set-up measures
//! the path.

use async_trait::async_trait;

use super::{Rudp, listener::RudpListener};
use crate::{
    HandshakeError, TransportError,
    auto::candidate::{
        Candidate, CandidateListener, ChoiceHandler, Established, Place, Port, Target, Updates,
        offer,
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
        let (up, watch) = (self.connect_over(&to.address, &to.security, &to.transports)).await?;
        let offer = offer(&up.transport, up.message.as_deref()).await?;
        let connection = Established::new(up.bare, Self::NAME, &up.transport);
        updates.up(connection, watch.sample(), Some(offer), false);
        // Wait until the probe trains of the set-up have measured the path.
        watch.measured().await;
        updates.measured(watch.sample());
        Ok(())
    }

    async fn listen(&self, place: Place) -> Result<CandidateListener, TransportError> {
        let (handle, message) = (place.udp()?.handle(), place.offer.encode());
        let listener = RudpListener::beside(
            ChoiceHandler(Self::NAME),
            handle,
            &place.security,
            &message,
            self.options,
        )?;
        Ok(Box::new(listener))
    }

    async fn ask(&self, address: &str, security: &Security, ours: &str) -> Option<TransportError> {
        let asked = self.connect_over(address, security, &[NO_COMMON_TRANSPORT]);
        let bare = asked.await.ok()?.0.bare;
        let mut stream = tokio::io::join(bare.reader, bare.writer);
        match mismatch::tell(&mut stream, ours).await {
            error @ TransportError::Handshake(HandshakeError::NoCommonTransport { .. }) => {
                Some(error)
            }
            _ => None,
        }
    }
}
