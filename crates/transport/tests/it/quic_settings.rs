//! Tests of the settings after the name `quic`, and of links without pins.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{HandshakeError, Link, Listener, Registry, Security, TransportError};

use crate::meeting::{beside, identity, link_at, unpinned};

/// Checks that a connector fails because only one side pins keys.
async fn is_refused(
    listener: &mut dyn Listener,
    connecting: impl Future<Output = Result<Link, TransportError>>,
) {
    let error = beside(listener, connecting).await.unwrap_err();
    assert!(
        matches!(
            error,
            TransportError::Handshake(HandshakeError::NotTranspute { .. })
        ),
        "{error}"
    );
}

async fn carries(from: Link, to: Link) {
    let (_keep, mut writer) = from.into_parts();
    let (mut reader, _keep_too) = to.into_parts();
    let mut got = Vec::new();
    let send = async {
        writer.write_all(&[7; 100_000]).await?;
        writer.shutdown().await
    };
    let (sent, read) = tokio::join!(send, reader.read_to_end(&mut got));
    sent.unwrap();
    read.unwrap();
    assert_eq!(got, [7; 100_000]);
}

#[tokio::test]
async fn the_congestion_control_asked_for_is_in_force_on_both_sides() {
    for (text, name) in [
        ("quic", "bbr"),
        ("quic:cc=bbr", "bbr"),
        ("quic:cc=cubic", "cubic"),
        ("quic:rate=1g+rtt=110", "bbr"),
        ("quic:cc=cubic,rate=100m,rtt=0.5", "cubic"),
    ] {
        let transport = Registry::with_builtins().get(text).unwrap();
        let mut listener = transport.listen("127.0.0.1:0", &unpinned()).await.unwrap();
        let address = listener.local_address();
        let (accepted, connected) =
            link_at(&address, &mut *listener, &*transport, &unpinned()).await;
        for link in [&accepted, &connected] {
            let path = link.stats().path();
            assert_eq!(path.congestion_control.as_deref(), Some(name), "{text}");
        }
        carries(connected, accepted).await;
    }
}

#[test]
fn settings_it_does_not_have_are_refused() {
    let registry = Registry::with_builtins();
    for (text, message) in [
        (
            "quic:n=2",
            "transport quic has no setting \"n\"; it has: cc, first, rate, rtt",
        ),
        ("quic:cc=reno", "it has bbr and cubic"),
        ("quic:rate=1t", "expected bits per second"),
        ("quic:rtt=-1", "expected milliseconds"),
    ] {
        let error = registry.get(text).err().unwrap().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_link_without_pins_works_and_no_pinned_peer_takes_part() {
    let quic = Registry::with_builtins().get("quic").unwrap();
    let mut listener = quic.listen("127.0.0.1:0", &unpinned()).await.unwrap();
    let address = listener.local_address();
    let (accepted, connected) = link_at(&address, &mut *listener, &*quic, &unpinned()).await;
    for link in [&accepted, &connected] {
        assert!(link.info().encrypted && link.info().peer_fingerprint.is_none());
        assert!(link.info().cipher.is_some());
    }
    carries(accepted, connected).await;

    // The connection fails even with the right key, because the ALPN names differ.
    let me = identity();
    let pinned = Security::tls(Arc::clone(&me), [me.fingerprint()]);
    is_refused(&mut *listener, quic.connect(&address, &pinned)).await;
}

#[tokio::test]
async fn a_listener_with_pins_takes_nobody_without() {
    let quic = Registry::with_builtins().get("quic").unwrap();
    let (me, peer) = (identity(), identity());
    let pinned = Security::tls(me, [peer.fingerprint()]);
    let mut listener = quic.listen("127.0.0.1:0", &pinned).await.unwrap();
    let address = listener.local_address();
    // Also the holder of the pinned key is rejected.
    let security = Security::Unpinned { identity: peer };
    is_refused(&mut *listener, quic.connect(&address, &security)).await;
}
