//! A transport that races several and always chooses the same one.

use async_trait::async_trait;
use transpute_transport::{
    ConnectError, HandshakeError, Link, Listener, Security, Transport, TransportError,
    auto::{self, AutoListener, Offer, Pick},
};

use super::always::Always;
use crate::meeting::patient;

/// Tries all transports, and makes this one the link.
pub(crate) struct Picked(pub(crate) &'static str);

#[async_trait]
impl Transport for Picked {
    fn name(&self) -> &'static str {
        self.0.split(':').next().unwrap()
    }

    fn describe(&self) -> &'static str {
        "picked out of several"
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let listener = AutoListener::bind(address, security, Offer::all()).await?;
        Ok(Box::new(listener))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let won = auto::race(address, security, patient(), &Always(Pick::from(self.0))).await;
        // The policy waits for its transport alone, and the suite expects its errors.
        let won = won.map_err(|error| plain(&error))?;
        assert_eq!(won.pick, Pick::from(self.0), "{:?}", won.failed);
        Ok(won.link)
    }
}
/// Removes the name of the transport from an error.
fn plain(error: &TransportError) -> TransportError {
    match error.root() {
        TransportError::Handshake(HandshakeError::WrongPeer { expected, found }) => {
            TransportError::Handshake(HandshakeError::WrongPeer {
                expected: expected.clone(),
                found: *found,
            })
        }
        TransportError::Handshake(HandshakeError::SecurityMismatch { ours, theirs }) => {
            TransportError::Handshake(HandshakeError::SecurityMismatch { ours, theirs })
        }
        TransportError::Handshake(HandshakeError::NotTranspute { evidence }) => {
            TransportError::Handshake(HandshakeError::NotTranspute {
                evidence: evidence.clone(),
            })
        }
        TransportError::Handshake(HandshakeError::PeerRefusedUs { alert }) => {
            TransportError::Handshake(HandshakeError::PeerRefusedUs {
                alert: alert.clone(),
            })
        }
        TransportError::Handshake(HandshakeError::ClosedDuringHandshake) => {
            TransportError::Handshake(HandshakeError::ClosedDuringHandshake)
        }
        TransportError::Connect(ConnectError::Connect { address, source }) => {
            TransportError::Connect(ConnectError::Connect {
                address: address.clone(),
                source: source.kind().into(),
            })
        }
        other => panic!("{other}"),
    }
}
