//! A transport that races several and always picks the same one.

use async_trait::async_trait;
use transpute_transport::{
    Link, Listener, Security, Transport, TransportError,
    auto::{self, AutoListener, Offer, Pick},
};

use crate::{always::Always, meeting::patient};

/// Everything is tried, and this becomes the link.
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
/// Forgets which of several transports had an error.
fn plain(error: &TransportError) -> TransportError {
    match error.root() {
        TransportError::WrongPeer { expected, found } => TransportError::WrongPeer {
            expected: expected.clone(),
            found: *found,
        },
        TransportError::SecurityMismatch { ours, theirs } => {
            TransportError::SecurityMismatch { ours, theirs }
        }
        TransportError::NotTranspute { evidence } => TransportError::NotTranspute {
            evidence: evidence.clone(),
        },
        TransportError::PeerRefusedUs { alert } => TransportError::PeerRefusedUs {
            alert: alert.clone(),
        },
        TransportError::ClosedDuringHandshake => TransportError::ClosedDuringHandshake,
        TransportError::Connect { address, source } => TransportError::Connect {
            address: address.clone(),
            source: source.kind().into(),
        },
        other => panic!("{other}"),
    }
}
