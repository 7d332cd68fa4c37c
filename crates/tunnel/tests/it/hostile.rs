//! A peer that is no tunnel, breaks the protocol, or is silent.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split},
    time::{sleep, timeout},
};
use transpute_transport::{Link, LinkInfo};
use transpute_tunnel::{TunnelConfig, TunnelError, TunnelProtocolError, TunnelSide};

use crate::harness::{DEADLINE, End, allowing, echo};

const HELLO: &[u8] = b"tptunnel\x01\0\0\0";

/// Returns the encoding of a frame.
fn frame(kind: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap();
    [&[kind], &id.to_le_bytes()[..], &len.to_le_bytes(), payload].concat()
}

/// Starts the listening side of a tunnel, whose peer is the returned stream.
fn listener(config: TunnelConfig) -> (End, DuplexStream) {
    let (near, far) = duplex(1 << 20);
    let (reader, writer) = split(near);
    let link = Link::new(reader, writer, LinkInfo::new("test", "here", "there"), None);
    (End::start(link, TunnelSide::Listener, config), far)
}

/// Sends bytes to a tunnel that allows `target`, and returns the error that ends it.
async fn error_after(target: &str, bytes: &[u8]) -> TunnelError {
    let (end, mut peer) = listener(allowing(&[target]));
    peer.write_all(bytes).await.unwrap();
    let result = timeout(DEADLINE, end.task.wait()).await;
    result.expect("the tunnel goes on").unwrap_err()
}

#[tokio::test]
async fn violations_end_the_tunnel_with_a_typed_error() {
    use TunnelProtocolError as Violation;

    let target = echo().await;
    let open = |id| frame(1, id, target.as_bytes());
    let data = |id, len| frame(4, id, &vec![0; len]);
    let too_much: Vec<Vec<u8>> = std::iter::once(open(1))
        .chain((0..5).map(|_| data(1, 64 << 10)))
        .collect();
    for (frames, expected) in [
        (vec![frame(9, 1, b"")], Violation::UnknownFrame { found: 9 }),
        (
            vec![open(2)],
            Violation::StreamId {
                parity: "odd",
                last: 0,
                found: 2,
            },
        ),
        (
            vec![open(5), open(3)],
            Violation::StreamId {
                parity: "odd",
                last: 5,
                found: 3,
            },
        ),
        (
            vec![open(5), open(5)],
            Violation::StreamId {
                parity: "odd",
                last: 5,
                found: 5,
            },
        ),
        (
            vec![data(7, 10)],
            Violation::UnknownStream {
                kind: "Data",
                id: 7,
            },
        ),
        (
            vec![frame(7, 0, b"")],
            Violation::UnknownStream {
                kind: "Reset",
                id: 0,
            },
        ),
        (
            vec![open(1), frame(2, 1, b"")],
            Violation::Unexpected {
                kind: "Opened",
                id: 1,
            },
        ),
        (
            vec![open(1), frame(3, 1, b"no")],
            Violation::Unexpected {
                kind: "Refused",
                id: 1,
            },
        ),
        (
            vec![open(1), frame(6, 1, b""), frame(6, 1, b"")],
            Violation::Unexpected { kind: "End", id: 1 },
        ),
        (
            vec![open(1), frame(6, 1, b""), data(1, 1)],
            Violation::Unexpected {
                kind: "Data",
                id: 1,
            },
        ),
        (
            vec![open(1), frame(5, 1, &u32::MAX.to_le_bytes())],
            Violation::CreditOverflow {
                id: 1,
                max: 64 << 20,
                found: (256 << 10) + u64::from(u32::MAX),
            },
        ),
        (
            too_much,
            Violation::CreditExceeded {
                id: 1,
                credit: 0,
                found: 64 << 10,
            },
        ),
    ] {
        let bytes = [HELLO, &frames.concat()].concat();
        match error_after(&target, &bytes).await {
            TunnelError::Protocol(found) => assert_eq!(found, expected),
            other => panic!("{expected:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn other_programs_and_versions_are_named() {
    let error = error_after("80", b"SSH-2.0-OpenSSH").await;
    assert!(matches!(error, TunnelError::NotATunnel { .. }), "{error:?}");
    let error = error_after("80", b"tptunnel\x09\0\0\0").await;
    let is_version = matches!(
        error,
        TunnelError::Version {
            expected: 1,
            found: 9
        }
    );
    assert!(is_version, "{error:?}");

    // The peer learns this side's version, although this side ends first.
    let (_end, mut peer) = listener(TunnelConfig::default());
    peer.write_all(b"tptunnel\x09\0\0\0").await.unwrap();
    let mut bytes = Vec::new();
    peer.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes, HELLO);
}

#[tokio::test]
async fn a_peer_that_does_not_receive_cannot_fill_the_memory() {
    let (end, mut peer) = listener(TunnelConfig::default());
    let flood = async {
        peer.write_all(HELLO).await?;
        for number in 0.. {
            peer.write_all(&frame(1, number * 2 + 1, b"80")).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let (error, _) = tokio::join!(timeout(DEADLINE, end.task.wait()), flood);
    let error = error.unwrap().unwrap_err();
    let expected = TunnelProtocolError::TooManyAnswers { max: 8 << 20 };
    assert!(
        matches!(&error, TunnelError::Protocol(found) if *found == expected),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_link_is_kept_alive_and_a_silent_one_is_lost() {
    let (end, mut peer) = listener(TunnelConfig::default());
    peer.write_all(HELLO).await.unwrap();
    sleep(Duration::from_secs(25)).await;
    let mut bytes = vec![0; HELLO.len()];
    peer.read_exact(&mut bytes).await.unwrap();
    assert_eq!(bytes, HELLO);
    let mut ping = [0; 9];
    for _ in 0..2 {
        peer.read_exact(&mut ping).await.unwrap();
        assert_eq!(ping, *frame(8, 0, b""));
    }
    peer.write_all(&ping).await.unwrap();
    sleep(Duration::from_secs(25)).await;
    assert!(end.tunnel.is_open());
    let error = end.task.wait().await.unwrap_err();
    assert!(
        matches!(error, TunnelError::Silent { seconds: 30 }),
        "{error:?}"
    );
}

#[tokio::test]
async fn frames_of_ended_streams_are_ignored() {
    let target = echo().await;
    let (end, mut peer) = listener(allowing(&[&target]));
    let frames = [
        HELLO,
        &frame(1, 1, b"not allowed"),
        &frame(4, 1, b"early data"),
        &frame(6, 1, b""),
        &frame(7, 1, b""),
        &frame(1, 3, target.as_bytes()),
        &frame(4, 3, b"hello"),
        &frame(6, 3, b""),
    ];
    peer.write_all(&frames.concat()).await.unwrap();
    let expected = [
        HELLO,
        &frame(3, 1, b"this target is not allowed"),
        &frame(2, 3, b""),
        &frame(4, 3, b"hello"),
        &frame(6, 3, b""),
    ]
    .concat();
    let mut bytes = vec![0; expected.len()];
    peer.read_exact(&mut bytes).await.unwrap();
    assert_eq!(bytes, expected);
    assert!(end.tunnel.is_open());
}
