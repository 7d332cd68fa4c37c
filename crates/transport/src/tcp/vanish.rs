//! Tests that a link reports a vanished peer soon after the time-out, and that it waits for a live
//! peer that does not read.
//!
//! The kernel's timers run in real time, so these tests use a shorter time-out than the default of
//! 8 s.

use std::time::{Duration, Instant};

use socket2::{SockFilter, SockRef};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{Tcp, TcpOptions};
use crate::{LinkReader, LinkWriter, Security, StreamError, Transport, TransportError};

const TIMEOUT: Duration = Duration::from_secs(1);

/// A number of bytes that exceeds the socket buffers of both ends.
const MANY: usize = 64 << 20;

fn tcp(peer_timeout: Duration) -> Tcp {
    Tcp::new(TcpOptions {
        peer_timeout,
        ..TcpOptions::default()
    })
}

/// Returns a link to a peer that the test controls.
async fn linked(timeout: Duration) -> (LinkReader, LinkWriter, TcpStream) {
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = service.local_addr().unwrap().to_string();
    let tcp = tcp(timeout);
    let (link, accepted) = tokio::join!(
        tcp.connect(&address, &Security::Plaintext),
        service.accept()
    );
    let (mut peer, _) = accepted.unwrap();
    peer.write_all(b"transpute/1 plaintext \x07tcp tcp!")
        .await
        .unwrap();
    let (mut reader, writer) = link.unwrap().into_parts();
    assert_eq!(reader.read_u8().await.unwrap(), b'!');
    (reader, writer, peer)
}

/// Makes a peer vanish: from now on the kernel drops every packet to it, so it answers nothing, as
/// after a power cut or a broken cable.
fn vanish(peer: &TcpStream) {
    // A filter program of one instruction, BPF_RET | BPF_K, which accepts 0 bytes of each packet.
    SockRef::from(peer)
        .attach_filter(&[SockFilter::new(0x06, 0, 0, 0)])
        .unwrap();
}

/// Maximum time from the loss of the peer to the error of the link. It holds for the default
/// time-out of 8 s, and so for the shorter time-outs of these tests.
const PROMISE: Duration = Duration::from_secs(10);

/// Reads until an error occurs, and asserts that it is [`StreamError::PeerVanished`] and occurs
/// within [`PROMISE`].
async fn is_reported(reader: &mut LinkReader) {
    let since = Instant::now();
    let error = TransportError::from_io(reader.read(&mut [0]).await.unwrap_err());
    assert!(
        matches!(error, TransportError::Stream(StreamError::PeerVanished)),
        "{error}"
    );
    assert!(since.elapsed() <= PROMISE, "after {:?}", since.elapsed());
}

#[tokio::test]
async fn an_idle_peer_that_vanishes_is_noticed() {
    let (mut reader, _writer, peer) = linked(TIMEOUT).await;
    vanish(&peer);
    is_reported(&mut reader).await;
}

#[tokio::test]
async fn a_peer_that_vanishes_while_data_is_on_its_way_is_noticed() {
    let (mut reader, mut writer, peer) = linked(TIMEOUT).await;
    vanish(&peer);
    writer.write_all(&[1; 1000]).await.unwrap();
    is_reported(&mut reader).await;
}

#[tokio::test]
async fn a_peer_that_stops_reading_and_then_vanishes_is_noticed() {
    // This test doubles the time-out, because a process that does not run for a second on a busy
    // machine must not look like a vanished peer.
    let timeout = 2 * TIMEOUT;
    let (mut reader, mut writer, peer) = linked(timeout).await;
    let sending = tokio::spawn(async move { writer.write_all(&vec![1; MANY]).await });
    // During this time, the peer's receive window closes, and the kernel increases the interval of
    // its window probes.
    tokio::time::sleep(timeout * 3 / 2).await;
    assert!(!sending.is_finished());
    vanish(&peer);
    is_reported(&mut reader).await;
    let error = TransportError::from_io(sending.await.unwrap().unwrap_err());
    assert!(
        matches!(error, TransportError::Stream(StreamError::PeerVanished)),
        "{error}"
    );
}

#[tokio::test]
async fn a_live_peer_that_does_not_read_is_waited_for() {
    // This test doubles the time-out, because a process that does not run for a second on a busy
    // machine must not look like a vanished peer.
    let timeout = 2 * TIMEOUT;
    let (tcp, security) = (tcp(timeout), Security::Plaintext);
    let mut listener = tcp.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    let (accepted, connected) = tokio::join!(listener.accept(), tcp.connect(&address, &security));
    let (_reader, mut writer) = connected.unwrap().into_parts();
    let (mut reader, _writer) = accepted.unwrap().into_parts();
    let sending = tokio::spawn(async move {
        writer.write_all(&vec![1; MANY]).await?;
        writer.shutdown().await
    });
    tokio::time::sleep(2 * timeout).await;
    assert!(!sending.is_finished());
    let mut got = Vec::new();
    assert_eq!(reader.read_to_end(&mut got).await.unwrap(), MANY);
    sending.await.unwrap().unwrap();
}
