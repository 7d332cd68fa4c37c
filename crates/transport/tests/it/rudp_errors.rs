//! Tests of the errors of reliable UDP, and of data that is delivered nevertheless.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{
    ConnectError, HandshakeError, Link, Listener, Rudp, RudpOptions, Security, StreamError, Tcp,
    Transport, TransportError,
};

use crate::{
    meeting::{beside, link_at, pinned},
    relay,
};

fn hasty() -> Rudp {
    let mut options = RudpOptions::default();
    options.setup_timeout = Duration::from_millis(500);
    Rudp::new(options)
}

#[tokio::test]
async fn another_transport_is_named() {
    let (listening, connecting) = pinned();
    let (rudp, tcp) = (Rudp::default(), Tcp::default());
    for (here, there) in [
        (&rudp as &dyn Transport, &tcp as &dyn Transport),
        (&tcp, &rudp),
    ] {
        let mut listener = here.listen("127.0.0.1:0", &listening).await.unwrap();
        let address = listener.local_address();
        let error = beside(&mut *listener, there.connect(&address, &connecting))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                TransportError::Handshake(HandshakeError::NoCommonTransport { .. })
            ),
            "{error}"
        );
    }
}

#[tokio::test]
async fn plaintext_on_one_side_only_is_an_error_that_names_both() {
    let (listening, connecting) = pinned();
    let rudp = Rudp::default();
    for (here, there, expected) in [
        (&listening, &Security::Plaintext, ["plaintext", "TLS"]),
        (&Security::Plaintext, &connecting, ["TLS", "plaintext"]),
    ] {
        let mut listener = rudp.listen("127.0.0.1:0", here).await.unwrap();
        let address = listener.local_address();
        let error = beside(&mut *listener, rudp.connect(&address, there))
            .await
            .unwrap_err();
        match error {
            TransportError::Handshake(HandshakeError::SecurityMismatch { ours, theirs }) => {
                assert_eq!([ours, theirs], expected);
            }
            error => panic!("{error}"),
        }
    }
}

/// A listener of another version answers with the versions that it supports.
#[tokio::test]
async fn a_listener_of_another_version_is_named_with_its_version() {
    let (_, connecting) = pinned();
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let answer = async {
        let mut first = [0; 2048];
        let (_, from) = socket.recv_from(&mut first).await.unwrap();
        // Kind, version 0, both ids exchanged, and one version.
        let versions = [&[0x33, 0][..], &first[10..18], &first[2..10], &[1, 9]].concat();
        socket.send_to(&versions, from).await.unwrap();
    };
    let rudp = Rudp::default();
    let (connected, ()) = tokio::join!(rudp.connect(&address, &connecting), answer);
    let text = connected.unwrap_err().to_string();
    assert!(
        text.contains("version 9") && text.contains("version 3"),
        "{text}"
    );
}

#[tokio::test]
async fn blocked_udp_is_named_with_the_way_out() {
    let (listening, connecting) = pinned();
    let mut listener = hasty().listen("127.0.0.1:0", &listening).await.unwrap();
    let relay = relay::relay(&listener.local_address()).await;
    relay.faults.cut.store(true, Ordering::Relaxed);
    let rudp = hasty();
    let connect = rudp.connect(&relay.address, &connecting);
    let error = beside(&mut *listener, connect).await.unwrap_err();
    assert!(
        matches!(
            error,
            TransportError::Connect(ConnectError::UdpBlocked { .. })
        ),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("UDP") && text.contains("tcp"), "{text}");
}

async fn pair(rudp: &Rudp) -> (Link, Link, relay::Relay, Box<dyn Listener>) {
    let (listening, connecting) = pinned();
    let mut listener = rudp.listen("127.0.0.1:0", &listening).await.unwrap();
    let relay = relay::relay(&listener.local_address()).await;
    let (accepted, connected) = link_at(&relay.address, &mut *listener, rudp, &connecting).await;
    (accepted, connected, relay, listener)
}

/// The end of a party's stream may cross the close of a peer that has everything. Nothing is lost
/// by it.
#[tokio::test]
async fn finishing_after_the_peer_has_finished_and_left_is_no_error() {
    let (accepted, connected, _relay, _listener) = pair(&Rudp::default()).await;
    let leave = async move {
        let (reader, mut writer) = accepted.into_parts();
        writer.write_all(&[1; 1000]).await.unwrap();
        writer.shutdown().await.unwrap();
        drop((reader, writer));
    };
    let (mut reader, mut writer) = connected.into_parts();
    let mut got = Vec::new();
    let (read, ()) = tokio::join!(reader.read_to_end(&mut got), leave);
    assert_eq!(read.unwrap(), 1000);
    // The peer's notice arrives in this time. If it arrived later, finishing would also succeed.
    tokio::time::sleep(Duration::from_millis(200)).await;
    writer.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_was_shut_down_arrives_though_the_link_is_dropped() {
    let (accepted, connected, relay, _listener) = pair(&Rudp::default()).await;
    relay.faults.loss.store(10, Ordering::Relaxed);
    let (mut reader, _writer) = accepted.into_parts();
    let receiving = tokio::spawn(async move {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).await.map(|_| got)
    });
    let (_reader, mut writer) = connected.into_parts();
    let sent: Vec<u8> = (0..1_000_000_u32)
        .map(|n| (n.wrapping_mul(n) >> 8) as u8)
        .collect();
    writer.write_all(&sent).await.unwrap();
    // Started and not awaited.
    let begun = tokio::time::timeout(Duration::ZERO, writer.shutdown()).await;
    drop(begun);
    drop((writer, _reader));
    assert!(receiving.await.unwrap().unwrap() == sent);
}

#[tokio::test]
async fn a_live_stream_survives_loss_and_says_what_it_cost() {
    let (accepted, connected, relay, _listener) = pair(&Rudp::default()).await;
    relay.faults.loss.store(20, Ordering::Relaxed);
    let stats = connected.stats();
    let (mut reader, _keep) = accepted.into_parts();
    let (_keep, mut writer) = connected.into_parts();
    let sent: Vec<u8> = (0..3_000_000_u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    let mut got = vec![0; sent.len()];
    let send = async {
        writer.write_all(&sent).await.unwrap();
        writer.flush().await.unwrap();
    };
    let (_, read) = tokio::join!(send, reader.read_exact(&mut got));
    read.unwrap();
    assert!(got == sent);
    let path = stats.path();
    assert!(path.rtt.is_some() && path.min_rtt <= path.rtt);
    let extra = path.wire_bytes_retransmitted.unwrap() + path.wire_bytes_parity.unwrap();
    assert!(extra > 0 && path.wire_bytes_sent.unwrap() > sent.len() as u64 + extra);
}

/// An outage of five seconds causes only a delay.
#[tokio::test]
#[ignore = "slow: cargo xtask slow-tests"]
async fn a_short_outage_is_survived_and_a_long_one_is_noticed() {
    let (accepted, connected, relay, _listener) = pair(&Rudp::default()).await;
    let (_reader, mut writer) = connected.into_parts();
    let (mut reader, _writer) = accepted.into_parts();
    let total = 8 << 20;
    let sending = tokio::spawn(async move {
        writer.write_all(&vec![1; total]).await?;
        writer.flush().await?;
        Ok::<_, std::io::Error>(writer)
    });
    let mut got = vec![0; 1 << 20];
    reader.read_exact(&mut got).await.unwrap();
    relay.faults.cut.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    relay.faults.cut.store(false, Ordering::Relaxed);
    let mut rest = vec![0; total - got.len()];
    reader.read_exact(&mut rest).await.unwrap();
    let _writer = sending.await.unwrap().unwrap();
    relay.faults.cut.store(true, Ordering::Relaxed);
    let read = tokio::time::timeout(Duration::from_secs(20), reader.read(&mut [0; 1])).await;
    let error = TransportError::from_io(read.unwrap().unwrap_err());
    assert!(
        matches!(error, TransportError::Stream(StreamError::PeerVanished)),
        "{error}"
    );
}
