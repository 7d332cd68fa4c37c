//! A peer that is gone is noticed within 10 seconds, and one that merely does not read is not taken for gone.
//!
//! These wait out the kernel's timers, so they run only when asked for: `cargo test -- --ignored`.
#![cfg(target_os = "linux")]

mod notice;

use std::time::{Duration, Instant};

use socket2::{SockFilter, SockRef};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use transpute_transport::{LinkReader, LinkWriter, Security, Tcp, Transport, TransportError};

use self::notice::is_reported_in_time;

/// Links to a peer in the hands of the test.
async fn linked() -> (LinkReader, LinkWriter, TcpStream) {
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = service.local_addr().unwrap().to_string();
    let tcp = Tcp::default();
    let (link, accepted) = tokio::join!(
        tcp.connect(&address, &Security::Plaintext),
        service.accept()
    );
    let (mut peer, _) = accepted.unwrap();
    peer.write_all(b"transpute/1 plaintext\n!").await.unwrap();
    let (mut reader, writer) = link.unwrap().into_parts();
    assert_eq!(reader.read_u8().await.unwrap(), b'!');
    (reader, writer, peer)
}

/// Makes a peer deaf: from now on the kernel drops every packet to it unseen, so it answers nothing, as after a power
/// cut or a broken cable.
fn vanish(peer: &TcpStream) {
    // One instruction: BPF_RET | BPF_K, accept 0 bytes.
    SockRef::from(peer)
        .attach_filter(&[SockFilter::new(0x06, 0, 0, 0)])
        .unwrap();
}

#[tokio::test]
#[ignore = "takes 10 s; run with --ignored"]
async fn an_idle_peer_that_vanishes_is_noticed() {
    let (mut reader, _writer, peer) = linked().await;
    vanish(&peer);
    is_reported_in_time(&mut reader, Instant::now(), "idle").await;
}

#[tokio::test]
#[ignore = "takes 10 s; run with --ignored"]
async fn a_peer_that_vanishes_while_data_is_on_its_way_is_noticed() {
    let (mut reader, mut writer, peer) = linked().await;
    vanish(&peer);
    let since = Instant::now();
    writer.write_all(&[1; 1000]).await.unwrap();
    is_reported_in_time(&mut reader, since, "sending").await;
}

#[tokio::test]
#[ignore = "takes 20 s; run with --ignored"]
async fn a_peer_that_stops_reading_and_then_vanishes_is_noticed() {
    let (mut reader, mut writer, peer) = linked().await;
    let sending = tokio::spawn(async move { writer.write_all(&vec![1; 64 << 20]).await });
    // Long enough for the window to close and the kernel to space its probes widely.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(!sending.is_finished());
    vanish(&peer);
    is_reported_in_time(&mut reader, Instant::now(), "stalled").await;
    let error = TransportError::from_io(sending.await.unwrap().unwrap_err());
    assert!(matches!(error, TransportError::PeerVanished), "{error}");
}

#[tokio::test]
#[ignore = "takes 30 s; run with --ignored"]
async fn a_live_peer_that_does_not_read_is_waited_for() {
    let tcp = Tcp::default();
    let security = Security::Plaintext;
    let mut listener = tcp.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    let (accepted, connected) = tokio::join!(listener.accept(), tcp.connect(&address, &security));
    let (_reader, mut writer) = connected.unwrap().into_parts();
    let (mut reader, _writer) = accepted.unwrap().into_parts();
    let total = 64 << 20;
    let sending = tokio::spawn(async move {
        writer.write_all(&vec![1; total]).await?;
        writer.shutdown().await
    });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!sending.is_finished());
    let mut got = Vec::new();
    assert_eq!(reader.read_to_end(&mut got).await.unwrap(), total);
    sending.await.unwrap().unwrap();
}
