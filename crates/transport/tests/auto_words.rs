//! What the two ends of `auto` say to each other, byte by byte, and what they make of nonsense.

#![cfg(unix)]

mod strangers;

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use transpute_transport::{
    Listener, Security, TransportError,
    auto::{AutoListener, AutoOptions, Candidates, Offer},
};

use self::strangers::beside;

const PREAMBLE: &[u8] = b"transpute/1 plaintext\n";
const ALL: &[u8] = b"tpoffer1\x03\x03tcp\x0btcp-striped\x04rudp\x02\x00hi";

/// Speaks the protocol of docs/protocol.md byte by byte, to a listener that offers everything.
async fn say(address: &str, words: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[PREAMBLE, words].concat()).await.unwrap();
    let mut heard = vec![0; PREAMBLE.len() + ALL.len()];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard, [PREAMBLE, ALL].concat());
    stream
}

#[tokio::test]
async fn what_is_said_is_what_the_document_says() {
    let offer = Offer::all().saying(*b"hi").unwrap();
    let mut listener = AutoListener::bind(
        "127.0.0.1:0",
        &Security::Plaintext,
        offer,
        AutoOptions::default(),
    )
    .await
    .unwrap();
    let address = listener.local_address();
    // Picked twice: the second time is part of the conversation.
    let twice = b"tpchose1\x03tcp\x02\x00yotpchose1\x03tcp\x00\x00";
    let (accepted, mut stream) = tokio::join!(listener.next(), say(&address, twice));
    let accepted = accepted.unwrap();
    assert_eq!(
        (accepted.pick, &accepted.blob[..]),
        ("tcp".parse().unwrap(), &b"yo"[..])
    );
    let (mut reader, mut writer) = accepted.link.into_parts();
    let mut got = [0; 14];
    reader.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"tpchose1\x03tcp\x00\x00");
    writer.write_all(b"hello").await.unwrap();
    writer.flush().await.unwrap();
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"\x00hello");

    for (words, answer) in [
        (&b"tpchose1\x04quic\x00\x00"[..], Some(1)),
        (b"tpchose1\x04rudp\x00\x00", Some(2)),
        (b"tpchose1\x03udp\x00\x00", Some(3)),
        (b"tpchose1\x08tcp:n=99\x00\x00", Some(3)),
        (b"tpchose1\x03tcp\xff\xff", Some(3)),
        (b"tprudp 2udp\x00................", None),
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
    // A stripe that belongs to nothing is not taken for a link.
    let lonely = [&b"tpstrip2"[..], &[7; 16], &[0, 1], &[0; 32]].concat();
    let refused = async {
        let mut stream = say(&address, &lonely).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    beside(&mut listener, refused).await;
}

/// Somebody who takes connections, and a connector to it.
async fn meet_a_fake(options: AutoOptions) -> (TcpListener, Candidates) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let candidates = Candidates::connect(&address, &Security::Plaintext, options).unwrap();
    (listener, candidates)
}

#[tokio::test]
async fn a_listener_that_offers_nonsense_is_told_from_a_good_one() {
    let long = [&b"tpoffer1\x01\x03tcp\x01\x04"[..], &[0; 1025]].concat();
    for offer in [
        &b"tpoffer2\x01\x03tcp\x00\x00"[..],
        b"tpoffer1\x00",
        b"\x00hello...",
        &long,
    ] {
        let (listener, candidates) = meet_a_fake(AutoOptions::default()).await;
        let fake = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&[PREAMBLE, offer].concat()).await.unwrap();
            std::future::pending::<()>().await;
        };
        let error = tokio::select! {
            told = candidates.control() => told.unwrap_err(),
            () = fake => unreachable!(),
        };
        assert!(
            matches!(error.root(), TransportError::NotTranspute { .. }),
            "{error}"
        );
        let unpicked = candidates
            .pick(&"tcp".parse().unwrap(), Vec::new())
            .await
            .unwrap_err();
        assert!(matches!(
            unpicked.error.root(),
            TransportError::NotTranspute { .. }
        ));
    }
    // One that says nothing is not waited for without end.
    let mut options = AutoOptions::default();
    options.tcp.handshake_timeout = Duration::from_millis(100);
    let (_listener, candidates) = meet_a_fake(options).await;
    let error = candidates.control().await.unwrap_err();
    assert!(
        matches!(error.root(), TransportError::Timeout { .. }),
        "{error}"
    );
}

/// A listener that refuses after all is heard at the first read.
#[tokio::test]
async fn a_refusal_is_heard_at_the_first_read() {
    let (listener, candidates) = meet_a_fake(AutoOptions::default()).await;
    let fake = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&[PREAMBLE, ALL].concat()).await.unwrap();
        stream.write_all(&[1]).await.unwrap();
        std::future::pending::<()>().await;
    };
    let connected = async {
        let link = candidates
            .pick(&"tcp".parse().unwrap(), Vec::new())
            .await
            .unwrap();
        let (mut reader, _writer) = link.into_parts();
        reader.read(&mut [0]).await.unwrap_err()
    };
    let error = tokio::select! {
        error = connected => TransportError::from_io(error),
        () = fake => unreachable!(),
    };
    assert!(
        matches!(error, TransportError::ChoiceRefused { .. }),
        "{error}"
    );
}
