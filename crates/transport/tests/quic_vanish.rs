//! A peer that is gone is noticed within 10 seconds, and one that merely does not read is not taken for gone.
//!
//! These wait out the timers of the protocol, so they run only when asked for: `cargo test -- --ignored`.

mod notice;
mod relay;

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{Identity, Link, Listener, Quic, Security, Transport, TransportError};

use self::notice::is_reported_in_time;

/// Two parties, linked through a relay that can be cut.
struct Pair {
    accepted: Link,
    connected: Link,
    faults: Arc<relay::Faults>,
    _listener: Box<dyn Listener>,
}

async fn pair() -> Pair {
    let quic = Quic::default();
    let (a, b) = (
        Arc::new(Identity::generate().unwrap()),
        Arc::new(Identity::generate().unwrap()),
    );
    let listening = Security::tls(Arc::clone(&a), [b.fingerprint()]);
    let mut listener = quic.listen("127.0.0.1:0", &listening).await.unwrap();
    let relay = relay::relay(&listener.local_address()).await;
    // There is nothing for it.
    relay.tcp.abort();
    let connecting = Security::tls(b, [a.fingerprint()]);
    let (accepted, connected) =
        tokio::join!(listener.accept(), quic.connect(&relay.address, &connecting));
    Pair {
        accepted: accepted.unwrap(),
        connected: connected.unwrap(),
        faults: relay.faults,
        _listener: listener,
    }
}

#[tokio::test]
#[ignore = "takes 10 s; run with --ignored"]
async fn an_idle_peer_that_vanishes_is_noticed() {
    let pair = pair().await;
    let (mut one, _writer) = pair.accepted.into_parts();
    let (mut other, _writer) = pair.connected.into_parts();
    tokio::time::sleep(Duration::from_secs(3)).await;
    pair.faults.cut.store(true, Ordering::Relaxed);
    let since = Instant::now();
    tokio::join!(
        is_reported_in_time(&mut one, since, "idle listener"),
        is_reported_in_time(&mut other, since, "idle connector")
    );
}

#[tokio::test]
#[ignore = "takes 10 s; run with --ignored"]
async fn a_peer_that_vanishes_while_data_is_on_its_way_is_noticed() {
    let pair = pair().await;
    let (mut reader, mut writer) = pair.connected.into_parts();
    pair.faults.cut.store(true, Ordering::Relaxed);
    let since = Instant::now();
    writer.write_all(&[1; 100_000]).await.unwrap();
    let closing = tokio::spawn(async move { writer.shutdown().await });
    is_reported_in_time(&mut reader, since, "sending").await;
    let error = TransportError::from_io(closing.await.unwrap().unwrap_err());
    assert!(matches!(error, TransportError::PeerVanished), "{error}");
}

#[tokio::test]
#[ignore = "takes 30 s; run with --ignored"]
async fn a_live_peer_that_does_not_read_is_waited_for() {
    let pair = pair().await;
    let (_reader, mut writer) = pair.connected.into_parts();
    let (mut reader, _writer) = pair.accepted.into_parts();
    let total = 64 << 20;
    let sending = tokio::spawn(async move {
        writer.write_all(&vec![1; total]).await?;
        writer.shutdown().await
    });
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert!(!sending.is_finished());
    let mut got = Vec::new();
    assert_eq!(reader.read_to_end(&mut got).await.unwrap(), total);
    sending.await.unwrap().unwrap();
}

/// A cable that is out for five seconds costs nothing but time.
#[tokio::test]
#[ignore = "takes 10 s; run with --ignored"]
async fn a_short_outage_is_survived() {
    let pair = pair().await;
    let (_reader, mut writer) = pair.connected.into_parts();
    let (mut reader, _writer) = pair.accepted.into_parts();
    let total = 8 << 20;
    let sending = tokio::spawn(async move {
        writer.write_all(&vec![1; total]).await?;
        writer.shutdown().await
    });
    let mut got = vec![0; 1 << 20];
    reader.read_exact(&mut got).await.unwrap();
    pair.faults.cut.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    pair.faults.cut.store(false, Ordering::Relaxed);
    let mut rest = Vec::new();
    assert_eq!(
        reader.read_to_end(&mut rest).await.unwrap(),
        total - got.len()
    );
    sending.await.unwrap().unwrap();
}
