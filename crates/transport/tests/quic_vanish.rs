//! A peer that is gone is noticed within 10 seconds, and one that merely does not read is not taken for gone.
//!
//! These wait out the timers of the protocol, so they run only when asked for: `cargo test -- --ignored`.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UdpSocket,
};
use transpute_transport::{
    Identity, Link, LinkReader, Listener, Quic, Security, Transport, TransportError,
};

const PROMISE: Duration = Duration::from_secs(10);

/// Two parties, linked through a relay that can be cut.
struct Pair {
    accepted: Link,
    connected: Link,
    cut: Arc<AtomicBool>,
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
    let service = listener.local_address().parse().unwrap();
    let relay = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = relay.local_addr().unwrap().to_string();
    let cut = Arc::new(AtomicBool::new(false));
    tokio::spawn(forward(relay, service, Arc::clone(&cut)));
    let connecting = Security::tls(b, [a.fingerprint()]);
    let (accepted, connected) =
        tokio::join!(listener.accept(), quic.connect(&address, &connecting));
    Pair {
        accepted: accepted.unwrap(),
        connected: connected.unwrap(),
        cut,
        _listener: listener,
    }
}

/// Forwards between the service and whoever spoke first, until the cable is cut.
async fn forward(relay: UdpSocket, service: SocketAddr, cut: Arc<AtomicBool>) {
    let mut client = None;
    let mut buffer = [0; 2048];
    while let Ok((length, from)) = relay.recv_from(&mut buffer).await {
        let to = if from == service {
            client
        } else {
            client = Some(from);
            Some(service)
        };
        if let Some(to) = to
            && !cut.load(Ordering::Relaxed)
        {
            let _ = relay.send_to(&buffer[..length], to).await;
        }
    }
}

async fn is_reported_in_time(reader: &mut LinkReader, since: Instant, case: &str) {
    let read = tokio::time::timeout(3 * PROMISE, reader.read(&mut [0; 1])).await;
    let elapsed = since.elapsed();
    let error = TransportError::from_io(read.unwrap().unwrap_err());
    println!("{case}: {error} after {elapsed:?}");
    assert!(
        matches!(error, TransportError::PeerVanished),
        "{case}: {error}"
    );
    assert!(elapsed <= PROMISE, "{case}: noticed after {elapsed:?}");
}

#[tokio::test]
#[ignore = "takes 10 s; run with --ignored"]
async fn an_idle_peer_that_vanishes_is_noticed() {
    let pair = pair().await;
    let (mut one, _writer) = pair.accepted.into_parts();
    let (mut other, _writer) = pair.connected.into_parts();
    tokio::time::sleep(Duration::from_secs(3)).await;
    pair.cut.store(true, Ordering::Relaxed);
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
    pair.cut.store(true, Ordering::Relaxed);
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
    pair.cut.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    pair.cut.store(false, Ordering::Relaxed);
    let mut rest = Vec::new();
    assert_eq!(
        reader.read_to_end(&mut rest).await.unwrap(),
        total - got.len()
    );
    sending.await.unwrap().unwrap();
}
