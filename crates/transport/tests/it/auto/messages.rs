//! Tests of the messages of `auto` byte by byte, and of the errors of malformed ones.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use transpute_transport::{
    ConnectError, HandshakeError, Listener, Registry, Security, Tcp, TcpOptions, TransportError,
    auto::{AutoListener, AutoOptions, Offer, Pick},
};

use super::always::race_among;
use crate::meeting::beside;

/// The plaintext preamble of a side that supports the transport `auto` and no other.
const PREAMBLE: &[u8] = b"transpute/1 plaintext \x09auto auto";
/// The plaintext preamble of a listener with the offer [`ALL`].
const LISTENER: &[u8] =
    b"transpute/1 plaintext \x32auto,tcp,tcp-striped auto (tcp, tcp-striped, rudp)";
const ALL: &[u8] = b"tpoffer3\x14\x00tcp,tcp-striped,rudp\x00\x00";

/// Sends bytes of the protocol in docs/protocol.md to a listener that offers all transports.
async fn say(address: &str, words: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[PREAMBLE, words].concat()).await.unwrap();
    let mut heard = vec![0; LISTENER.len() + ALL.len()];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard, [LISTENER, ALL].concat());
    stream
}

#[tokio::test]
async fn what_is_said_is_what_the_document_says() {
    let mut listener = AutoListener::bind("127.0.0.1:0", &Security::Plaintext, Offer::all())
        .await
        .unwrap();
    let address = listener.local_address();
    // Chosen twice: the second time is part of the data.
    let twice = b"tpchose2\x03tcptpchose2\x03tcp";
    let (accepted, mut stream) = tokio::join!(listener.next(), say(&address, twice));
    let accepted = accepted.unwrap();
    assert_eq!(accepted.pick, Pick::from("tcp"));
    let (mut reader, mut writer) = accepted.link.into_parts();
    let mut got = [0; 12];
    reader.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"tpchose2\x03tcp");
    writer.write_all(b"hello").await.unwrap();
    writer.flush().await.unwrap();
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"\x00hello");

    for (words, answer) in [
        (&b"tpchose2\x04quic"[..], Some(1)),
        (b"tpchose2\x04rudp", Some(1)),
        (b"tpchose2\x03udp", Some(1)),
        (b"tpchose2\x08tcp:n=99", Some(1)),
        (b"tpchose1\x03tcp\x00\x00", None),
        (b"GET / HTTP/1.1\r\n", None),
    ] {
        let refused = async {
            let mut stream = say(&address, words).await;
            let mut got = Vec::new();
            let _ = stream.read_to_end(&mut got).await;
            got
        };
        let got = beside(&mut listener, refused).await;
        assert_eq!(got.first().copied(), answer, "{}", words.escape_ascii());
        assert!(got.len() <= 1);
    }
    // The first message names a link that the listener does not know, as if a stripe joined it. The
    // listener refuses it, and does not open a new link.
    let lonely = [&b"tpstrip3"[..], &[7; 16], &[0, 1], &[0; 32]].concat();
    let refused = async {
        let mut stream = say(&address, &lonely).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    beside(&mut listener, refused).await;
}

/// Runs a listener that sends only these bytes. Returns the error of a connector that races for
/// `tcp` there.
async fn race_against(bytes: &[u8], tcp: TcpOptions) -> TransportError {
    let mut registry = Registry::new();
    registry.register(Arc::new(Tcp::new(tcp))).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let fake = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(bytes).await.unwrap();
        std::future::pending::<()>().await;
    };
    let racing = async {
        let options = AutoOptions::default();
        let racing = race_among("tcp", &address, &Security::Plaintext, options, &registry);
        let won = racing.await?;
        let (mut reader, _writer) = won.link.into_parts();
        let read = reader.read(&mut [0]).await;
        Err(TransportError::from_io(read.unwrap_err()))
    };
    tokio::select! {
        result = racing => { let result: Result<(), _> = result; result.unwrap_err() }
        () = fake => unreachable!(),
    }
}

#[tokio::test]
async fn a_listener_that_offers_nonsense_is_told_from_a_good_one() {
    let long = [&b"tpoffer3\x03\x00tcp\x01\x04"[..], &[0; 1025]].concat();
    for offer in [
        &b"tpoffer1\x01\x03tcp\x00\x00"[..],
        b"tpoffer3\x00\x00\x00\x00",
        b"\x00hello...",
        &long,
    ] {
        let bytes = [PREAMBLE, offer].concat();
        let error = race_against(&bytes, TcpOptions::default()).await;
        let root = error.root();
        assert!(
            matches!(
                root,
                TransportError::Handshake(HandshakeError::NotTranspute { .. })
            ),
            "{error}"
        );
    }
    // A silent listener is waited for with a time limit.
    let mut options = TcpOptions::default();
    options.handshake_timeout = Duration::from_millis(100);
    let error = race_against(b"", options).await;
    let root = error.root();
    assert!(
        matches!(
            root,
            TransportError::Handshake(HandshakeError::Timeout { .. })
        ),
        "{error}"
    );
}

/// A late refusal of the listener is reported by the first read.
#[tokio::test]
async fn a_refusal_is_read_in_front_of_the_first_byte() {
    let bytes = [PREAMBLE, ALL, &[1]].concat();
    let error = race_against(&bytes, TcpOptions::default()).await;
    assert!(
        matches!(error, TransportError::Connect(ConnectError::ChoiceRefused)),
        "{error}"
    );
}
