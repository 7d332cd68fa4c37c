//! QUIC as a candidate of `auto`. It shares the UDP port with reliable UDP, whose endpoint receives
//! the datagrams of QUIC and passes them on.

use async_trait::async_trait;
use tokio::io::AsyncReadExt;

use super::{Quic, listener::QuicListener};
use crate::{
    HandshakeError, TransportError,
    auto::candidate::{
        Candidate, CandidateListener, ChoiceHandler, Established, Place, Port, Target, Updates,
        offer,
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

    async fn listen(&self, place: Place) -> Result<CandidateListener, TransportError> {
        let udp = place.udp()?;
        let (port, foreign) = (udp.handle(), udp.foreign());
        let listener = QuicListener::beside(
            ChoiceHandler(Self::NAME),
            port,
            foreign,
            &place.security,
            self.options,
        )?;
        Ok(Box::new(listener))
    }

    async fn ask(&self, address: &str, security: &Security, ours: &str) -> Option<TransportError> {
        if ours == Self::NAME {
            return None;
        }
        let asked = (self.connect_over(address, security, &[NO_COMMON_TRANSPORT])).await;
        // The listener closes the connection after its handshake. If this side receives the close
        // before its own handshake is complete, the handshake fails with `ClosedDuringHandshake`.
        match asked {
            Ok(mut authenticated) => {
                let _ = authenticated.bare.reader.read(&mut [0]).await;
            }
            Err(TransportError::Handshake(HandshakeError::ClosedDuringHandshake)) => {}
            Err(_) => return None,
        }
        Some(TransportError::Handshake(
            HandshakeError::NoCommonTransport {
                ours: ours.into(),
                theirs: Self::NAME.into(),
            },
        ))
    }
}
