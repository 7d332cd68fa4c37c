//! Tests of the errors of a party whose peer is not the expected one.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use transpute_transport::{
    AddressError, BindError, HandshakeError, Identity, Link, Security, Tcp, TcpOptions, Transport,
    TransportError,
};

use crate::meeting::{beside, identity, link_at, requires_a_pin};

async fn read_error(link: Link) -> TransportError {
    let (mut reader, _writer) = link.into_parts();
    TransportError::from_io(reader.read(&mut [0; 1]).await.unwrap_err())
}

#[tokio::test]
async fn plaintext_and_tls_name_the_option() {
    let tcp = Tcp::default();
    let (a, b) = (identity(), identity());
    let tls =
        |me: &Arc<Identity>, peer: &Identity| Security::tls(Arc::clone(me), [peer.fingerprint()]);

    let mut listener = tcp.listen("127.0.0.1:0", &tls(&a, &b)).await.unwrap();
    let address = listener.local_address();
    let error = beside(&mut *listener, async {
        read_error(tcp.connect(&address, &Security::Plaintext).await.unwrap()).await
    })
    .await;
    assert_eq!(
        error.to_string(),
        "this side speaks plaintext and the peer TLS: --plaintext must be given on both sides or on neither"
    );

    let mut listener = tcp
        .listen("127.0.0.1:0", &Security::Plaintext)
        .await
        .unwrap();
    let address = listener.local_address();
    let error = beside(&mut *listener, tcp.connect(&address, &tls(&b, &a)))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "this side speaks TLS and the peer plaintext: --plaintext must be given on both sides or on neither"
    );
}

#[tokio::test]
async fn another_service_is_recognised() {
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = service.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = service.accept().await {
            let _ = stream.write_all(b"SSH-2.0-Example\r\n").await;
            let _ = stream.read(&mut [0; 4096]).await;
        }
    });
    let tcp = Tcp::default();
    let me = identity();
    let pins = [me.fingerprint()];
    let over_tls = tcp
        .connect(&address, &Security::tls(me, pins))
        .await
        .unwrap_err();
    let plain = read_error(tcp.connect(&address, &Security::Plaintext).await.unwrap()).await;
    for error in [over_tls, plain] {
        assert_eq!(
            error.to_string(),
            "the peer does not speak transpute/1: it sent \"SSH-2.0-Example\\r\\n\""
        );
    }
}

#[tokio::test]
async fn a_peer_that_hangs_up_or_says_nothing_is_reported() {
    let mut options = TcpOptions::default();
    options.handshake_timeout = Duration::from_millis(200);
    let tcp = Tcp::new(options);
    let me = identity();
    let security = Security::tls(Arc::clone(&me), [me.fingerprint()]);

    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = service.local_addr().unwrap().to_string();
    // The listener does not accept, so the kernel completes the connection and no process answers.
    let error = tcp.connect(&address, &security).await.unwrap_err();
    assert!(
        matches!(&error, TransportError::Handshake(HandshakeError::Timeout { address: named, .. }) if *named == address),
        "{error}"
    );
    let link = tcp.connect(&address, &Security::Plaintext).await.unwrap();
    let error = read_error(link).await;
    assert!(
        matches!(
            error,
            TransportError::Handshake(HandshakeError::Timeout { .. })
        ),
        "{error}"
    );

    let hang_up = async {
        // The two from before, and the present one.
        for _ in 0..3 {
            let (mut stream, _) = service.accept().await?;
            stream.shutdown().await?;
            stream.read_to_end(&mut Vec::new()).await?;
        }
        io::Result::Ok(())
    };
    let (_, result) = tokio::join!(hang_up, tcp.connect(&address, &security));
    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            TransportError::Handshake(HandshakeError::ClosedDuringHandshake)
        ),
        "{error}"
    );
}

#[tokio::test]
async fn addresses_are_named_in_errors() {
    let tcp = Tcp::default();
    // Bound but not listening, so that no other process takes the port and connections are refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let refused = tcp
        .connect(&address, &Security::Plaintext)
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with(&format!("cannot connect to {address}: ")),
        "{refused}"
    );

    let first = tcp
        .listen("127.0.0.1:0", &Security::Plaintext)
        .await
        .unwrap();
    let address = first.local_address();
    let taken = tcp
        .listen(&address, &Security::Plaintext)
        .await
        .err()
        .unwrap();
    assert!(
        matches!(&taken, TransportError::Bind(BindError::Listen { address: named, source })
            if *named == address && source.kind() == io::ErrorKind::AddrInUse),
        "{taken}"
    );

    for bad in ["localhost", "::1:7700"] {
        assert!(matches!(
            tcp.connect(bad, &Security::Plaintext).await,
            Err(TransportError::Address(AddressError::InvalidAddress { address, .. })) if address == bad
        ));
    }
}

#[tokio::test]
async fn no_pin_no_link() {
    requires_a_pin(&Tcp::default()).await;
}

#[tokio::test]
async fn any_one_of_several_pins_will_do() {
    let tcp = Tcp::default();
    let (a, b, c) = (identity(), identity(), identity());
    let mut listener = tcp
        .listen(
            "127.0.0.1:0",
            &Security::tls(Arc::clone(&a), [b.fingerprint(), c.fingerprint()]),
        )
        .await
        .unwrap();
    let address = listener.local_address();
    for peer in [b, c] {
        let security = Security::tls(Arc::clone(&peer), [a.fingerprint()]);
        let (accepted, _) = link_at(&address, &mut *listener, &tcp, &security).await;
        assert_eq!(accepted.info().peer_fingerprint, Some(peer.fingerprint()));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn linux_reports_the_path() {
    let tcp = Tcp::default();
    let security = Security::Plaintext;
    let mut listener = tcp.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    let (accepted, connected) = link_at(&address, &mut *listener, &tcp, &security).await;
    let stats = connected.stats();
    let (_reader, mut writer) = connected.into_parts();
    let (mut reader, _writer) = accepted.into_parts();
    let send = async {
        writer.write_all(&vec![1; 1 << 20]).await?;
        writer.shutdown().await
    };
    let mut got = Vec::new();
    let (sent, received) = tokio::join!(send, reader.read_to_end(&mut got));
    sent.unwrap();
    assert_eq!(received.unwrap(), 1 << 20);
    let live = stats.snapshot();
    assert_eq!(live.bytes_sent, 1 << 20);
    assert!(
        live.path
            .rtt
            .is_some_and(|rtt| rtt < Duration::from_secs(5))
    );
    assert!(live.path.min_rtt.is_some() && live.path.delivery_rate.is_some());
    // The preamble of 30 bytes is the whole overhead in plaintext.
    let retransmitted = live.path.wire_bytes_retransmitted.unwrap();
    assert_eq!(
        live.path.wire_bytes_sent.unwrap() - retransmitted,
        (1 << 20) + 30
    );
    // The last statistics remain readable after the link is dropped.
    drop((reader, writer, _reader, _writer));
    let after = stats.snapshot();
    assert_eq!(after.path.wire_bytes_sent, live.path.wire_bytes_sent);
}
