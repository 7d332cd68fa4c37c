//! Helpers for tests of two parties that connect to each other.

use std::{sync::Arc, time::Duration};

use transpute_transport::auto::AutoOptions;
use transpute_transport::{
    HandshakeError, Identity, Link, Listener, Security, Transport, TransportError,
};

/// Returns options for machines that are busy with other tests.
pub(crate) fn patient() -> AutoOptions {
    let mut options = AutoOptions::default();
    options.udp_patience = Duration::from_secs(4);
    options.choice_timeout = Duration::from_millis(4500);
    options
}

/// Makes a new identity.
pub(crate) fn identity() -> Arc<Identity> {
    Arc::new(Identity::generate().unwrap())
}

/// Returns two parties that have pinned each other.
pub(crate) fn pinned() -> (Security, Security) {
    let (a, b) = (identity(), identity());
    let (of_a, of_b) = (a.fingerprint(), b.fingerprint());
    (Security::tls(a, [of_b]), Security::tls(b, [of_a]))
}

/// Returns a party that accepts any key.
pub(crate) fn unpinned() -> Security {
    Security::Unpinned {
        identity: identity(),
    }
}

/// Accepts a link and connects to `address` at the same time. Returns the accepted and the
/// connected end.
pub(crate) async fn link_at(
    address: &str,
    listener: &mut dyn Listener,
    transport: &dyn Transport,
    security: &Security,
) -> (Link, Link) {
    let (accepted, connected) =
        tokio::join!(listener.accept(), transport.connect(address, security));
    (accepted.unwrap(), connected.unwrap())
}

/// Serves a listener that must not accept a link, until the future completes.
pub(crate) async fn beside<T>(listener: &mut dyn Listener, future: impl Future<Output = T>) -> T {
    tokio::select! {
        output = future => output,
        accepted = listener.accept() => panic!("{accepted:?}"),
    }
}

/// Checks that a transport neither listens nor connects without a pinned key.
pub(crate) async fn requires_a_pin(transport: &dyn Transport) {
    let security = Security::tls(identity(), []);
    assert!(matches!(
        transport.listen("127.0.0.1:0", &security).await.err(),
        Some(TransportError::Handshake(HandshakeError::NoPinnedPeer))
    ));
    assert!(matches!(
        transport.connect("127.0.0.1:1", &security).await,
        Err(TransportError::Handshake(HandshakeError::NoPinnedPeer))
    ));
}
