//! A transport that tries several and always picks the same one.

use std::time::Duration;

use async_trait::async_trait;
use transpute_transport::{
    Link, Listener, Security, Transport, TransportError,
    auto::{AutoListener, AutoOptions, Candidates, Offer, Pick},
};

/// Everything is tried, and this becomes the link.
pub(crate) struct Picked(pub(crate) Pick);

/// Options for machines that are busy with other tests.
pub(crate) fn patient() -> AutoOptions {
    let mut options = AutoOptions::default();
    options.udp_patience = Duration::from_secs(4);
    options.choice_timeout = Duration::from_millis(4500);
    options
}

#[async_trait]
impl Transport for Picked {
    fn name(&self) -> &'static str {
        self.0.transport()
    }

    fn describe(&self) -> &'static str {
        "picked out of several"
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let listener = AutoListener::bind(address, security, Offer::all(), patient()).await?;
        Ok(Box::new(listener))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let candidates = Candidates::connect(address, security, patient())?;
        let picked = candidates.pick(&self.0, b"blob".to_vec()).await;
        picked.map_err(|unpicked| plain(unpicked.error))
    }
}

/// Forgets which of several transports had an error.
fn plain(error: TransportError) -> TransportError {
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
        _ => error,
    }
}
