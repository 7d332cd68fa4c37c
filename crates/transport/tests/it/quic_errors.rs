//! Tests of the errors of a party whose peer is not the expected one, and of the ends of a link.

use std::{io, net::UdpSocket, sync::Arc, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{
    AddressError, BindError, ConnectError, Link, Listener, Quic, QuicOptions, Security,
    StreamError, Tcp, Transport, TransportError,
};

use crate::meeting::{identity, link_at, pinned, requires_a_pin};

/// Returns two linked parties and the listener.
async fn pair(quic: &Quic) -> (Link, Link, Box<dyn Listener>) {
    let (listening, connecting) = pinned();
    let mut listener = quic.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    let (accepted, connected) = link_at(&address, &mut *listener, quic, &connecting).await;
    (accepted, connected, listener)
}

#[tokio::test]
async fn plaintext_is_refused_by_name() {
    let quic = Quic::default();
    let message =
        "the transport quic is always encrypted; for a plaintext link use the transport tcp";
    let listened = quic.listen("127.0.0.1:0", &Security::Plaintext).await;
    assert_eq!(listened.err().unwrap().to_string(), message);
    let connected = quic.connect("127.0.0.1:1", &Security::Plaintext).await;
    assert_eq!(connected.unwrap_err().to_string(), message);
}

#[tokio::test]
async fn nobody_there_and_nobody_answering_are_told_apart() {
    let mut options = QuicOptions::default();
    options.connect_timeout = Duration::from_millis(500);
    let quic = Quic::new(options);
    let me = identity();
    let security = Security::tls(Arc::clone(&me), [me.fingerprint()]);

    // Bind the port, so that no other process takes it. The socket never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let error = quic.connect(&address, &security).await.unwrap_err();
    assert!(
        matches!(&error, TransportError::Connect(ConnectError::Timeout { address: named, .. }) if *named == address),
        "{error}"
    );
    drop(silent);
    // Only Linux is required to report refusals.
    if cfg!(target_os = "linux") {
        let error = quic.connect(&address, &security).await.unwrap_err();
        assert!(
            matches!(&error, TransportError::Connect(ConnectError::Connect { address: named, source })
                if *named == address && source.kind() == io::ErrorKind::ConnectionRefused),
            "{error}"
        );
    }
}

#[tokio::test]
async fn addresses_are_named_in_errors() {
    let quic = Quic::default();
    let me = identity();
    let security = Security::tls(Arc::clone(&me), [me.fingerprint()]);
    let first = quic.listen("127.0.0.1:0", &security).await.unwrap();
    let address = first.local_address();
    let taken = quic.listen(&address, &security).await.err().unwrap();
    assert!(
        matches!(&taken, TransportError::Bind(BindError::Listen { address: named, source })
            if *named == address && source.kind() == io::ErrorKind::AddrInUse),
        "{taken}"
    );
    assert!(one_number_serves_both(&quic, &security).await);
    for bad in ["localhost", "::1:7700"] {
        assert!(matches!(
            quic.connect(bad, &security).await,
            Err(TransportError::Address(AddressError::InvalidAddress { address, .. })) if address == bad
        ));
    }
    assert!(matches!(
        quic.connect("127.0.0.1:0", &security).await,
        Err(TransportError::Connect(ConnectError::Connect { .. }))
    ));
}

/// Returns whether QUIC and TCP listen at one address, with ports of their own. Another process may
/// have a TCP port, but not all of them.
async fn one_number_serves_both(quic: &Quic, security: &Security) -> bool {
    for _ in 0..16 {
        let listener = quic.listen("127.0.0.1:0", security).await.unwrap();
        let address = listener.local_address();
        if Tcp::default().listen(&address, security).await.is_ok() {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn no_pin_no_link() {
    requires_a_pin(&Quic::default()).await;
}

#[tokio::test]
async fn what_was_shut_down_arrives_though_both_sides_leave_at_once() {
    let quic = Quic::default();
    let total = 8 << 20;
    for _ in 0..5 {
        let (a, b, _listener) = pair(&quic).await;
        let (a_reader, mut writer) = a.into_parts();
        let (mut reader, b_writer) = b.into_parts();
        let send = async move {
            writer.write_all(&vec![7; total]).await?;
            writer.shutdown().await?;
            // The connection closes here, while the peer is reading.
            drop((writer, a_reader));
            io::Result::Ok(())
        };
        let mut got = Vec::new();
        let receive = async {
            // Long enough for all data to wait in the streams.
            tokio::time::sleep(Duration::from_millis(100)).await;
            reader.read_to_end(&mut got).await
        };
        let (sent, received) = tokio::join!(send, receive);
        sent.unwrap();
        assert_eq!(received.unwrap(), total);
        assert!(got.iter().all(|&byte| byte == 7));
        drop(b_writer);
    }
}

#[tokio::test]
async fn shutting_down_survives_a_peer_that_leaves_with_everything() {
    let (a, b, _listener) = pair(&Quic::default()).await;
    let party = async |link: Link| {
        let (mut reader, mut writer) = link.into_parts();
        writer.write_all(b"the result").await?;
        let mut got = Vec::new();
        let (closed, read) = tokio::join!(writer.shutdown(), reader.read_to_end(&mut got));
        closed?;
        read?;
        assert_eq!(got, b"the result");
        io::Result::Ok(())
    };
    // The party that finishes first drops its link.
    let (first, second) = tokio::join!(party(a), party(b));
    first.unwrap();
    second.unwrap();
}

#[tokio::test]
async fn a_dropped_half_leaves_the_other_direction_open_and_ends_nothing() {
    let (a, b, _listener) = pair(&Quic::default()).await;
    let (a_reader, mut a_writer) = a.into_parts();
    let (mut b_reader, mut b_writer) = b.into_parts();
    b_writer.write_all(b"unfinished").await.unwrap();
    b_writer.flush().await.unwrap();
    drop(b_writer);
    let (mut a_reader, mut got) = (a_reader, [0; 10]);
    a_reader.read_exact(&mut got).await.unwrap();
    let more = tokio::time::timeout(Duration::from_millis(100), a_reader.read(&mut got)).await;
    assert!(more.is_err(), "{more:?}");
    drop(a_reader);
    a_writer.write_all(b"and back").await.unwrap();
    a_writer.shutdown().await.unwrap();
    let mut got = Vec::new();
    b_reader.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"and back");
}

#[tokio::test]
async fn a_stream_that_is_cut_is_no_complete_one() {
    let (a, b, _listener) = pair(&Quic::default()).await;
    let (a_reader, mut writer) = a.into_parts();
    let (mut reader, _b_writer) = b.into_parts();
    writer.write_all(b"half of it").await.unwrap();
    writer.flush().await.unwrap();
    let mut got = [0; 10];
    reader.read_exact(&mut got).await.unwrap();
    drop((a_reader, writer));
    for _ in 0..2 {
        let error = TransportError::from_io(reader.read(&mut got).await.unwrap_err());
        assert!(
            matches!(error, TransportError::Stream(StreamError::Truncated)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn small_messages_that_nobody_reads_do_no_harm() {
    let (a, b, _listener) = pair(&Quic::default()).await;
    let (_a_reader, mut writer) = a.into_parts();
    let (mut reader, _b_writer) = b.into_parts();
    // Each in a packet of its own: far more than the pieces that the library accepts in one stream.
    let messages = 10_000;
    for _ in 0..messages {
        writer.write_all(&[1; 40]).await.unwrap();
        writer.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    let closing = tokio::spawn(async move { writer.shutdown().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut got = Vec::new();
    reader.read_to_end(&mut got).await.unwrap();
    assert_eq!(got.len(), messages * 40);
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_path_is_reported() {
    let (a, b, _listener) = pair(&Quic::default()).await;
    assert_eq!(b.info().cipher.as_deref(), Some("QUIC with TLS 1.3"));
    let stats = b.stats();
    let (_keep, mut writer) = b.into_parts();
    let (mut reader, _keep_too) = a.into_parts();
    let send = async {
        writer.write_all(&vec![1; 4 << 20]).await?;
        writer.shutdown().await
    };
    let mut got = Vec::new();
    let (sent, received) = tokio::join!(send, reader.read_to_end(&mut got));
    sent.unwrap();
    assert_eq!(received.unwrap(), 4 << 20);
    let live = stats.snapshot();
    assert!(
        live.path
            .rtt
            .is_some_and(|rtt| rtt < Duration::from_secs(5))
    );
    assert!(live.path.min_rtt <= live.path.rtt && live.path.min_rtt.is_some());
    assert!(live.path.congestion_window.is_some_and(|window| window > 0));
    assert!(live.path.delivery_rate.is_some_and(|rate| rate > 0));
    assert!(live.path.wire_bytes_sent.unwrap() > 4 << 20);
    assert!(live.path.wire_bytes_received.is_some() && live.path.retransmits.is_some());
    // The last statistics remain readable after the link is dropped.
    drop((reader, writer, _keep, _keep_too));
    assert!(stats.snapshot().path.wire_bytes_sent >= live.path.wire_bytes_sent);
}
