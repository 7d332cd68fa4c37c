//! Tests that each transport can be chosen and carries data, and that messages other than a choice
//! are rejected.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
};
use transpute_transport::{
    ConnectError, HandshakeError, Link, Listener, Quic, Registry, Rudp, Security, Tcp, TcpStriped,
    Transport, TransportError, Udp, UnsupportedError,
    auto::{self, Accepted, AutoListener, Offer, Pick},
};

use super::always::{race_among, race_for};
use crate::meeting::{beside, patient, pinned, unpinned};

async fn bind(security: &Security, offer: Offer) -> AutoListener {
    AutoListener::bind("127.0.0.1:0", security, offer)
        .await
        .unwrap()
}

fn pick(text: &str) -> Pick {
    Pick::from(text)
}

/// Returns whether the error states that the peer uses another transport.
fn is_told(error: &TransportError) -> bool {
    matches!(
        error.root(),
        TransportError::Handshake(HandshakeError::NoCommonTransport { .. })
            | TransportError::Handshake(HandshakeError::NotTranspute { .. })
    )
}

/// Waits for both sides of a link with this choice.
async fn meet(listener: &mut AutoListener, security: &Security, choice: &str) -> (Accepted, Link) {
    let address = listener.local_address();
    let (accepted, won) = tokio::join!(
        listener.next(),
        race_for(choice, &address, security, patient())
    );
    let (accepted, won) = (accepted.unwrap(), won.unwrap());
    assert_eq!((&won.pick, &accepted.pick), (&pick(choice), &pick(choice)));
    assert!(won.failed.is_empty());
    (accepted, won.link)
}

/// Exchanges messages as a session does: some in each direction, a large transfer in one, and the
/// ends.
async fn converse(near: Link, far: Link) {
    let (near_stats, far_stats) = (near.stats(), far.stats());
    let (mut from_far, mut to_far) = near.into_parts();
    let (mut from_near, mut to_near) = far.into_parts();
    let bulk: Vec<u8> = (0..600_000_u32)
        .map(|n| (n.wrapping_mul(n) >> 9) as u8)
        .collect();
    let here = async {
        for round in 0..20_u8 {
            to_far.write_all(&[round; 300]).await.unwrap();
            to_far.flush().await.unwrap();
            let mut got = [0; 100];
            from_far.read_exact(&mut got).await.unwrap();
            assert_eq!(got, [round ^ 0xff; 100]);
        }
        to_far.write_all(&bulk).await.unwrap();
        to_far.shutdown().await.unwrap();
        assert_eq!(from_far.read(&mut [0]).await.unwrap(), 0);
    };
    let there = async {
        for round in 0..20_u8 {
            let mut got = [0; 300];
            from_near.read_exact(&mut got).await.unwrap();
            assert_eq!(got, [round; 300]);
            to_near.write_all(&[round ^ 0xff; 100]).await.unwrap();
            to_near.flush().await.unwrap();
        }
        let mut got = Vec::new();
        from_near.read_to_end(&mut got).await.unwrap();
        assert!(got == bulk);
        to_near.shutdown().await.unwrap();
    };
    tokio::join!(here, there);
    // The choice and its answer are not counted.
    let sent = 20 * 300 + bulk.len() as u64;
    assert_eq!(
        (near_stats.bytes_sent(), far_stats.bytes_received()),
        (sent, sent)
    );
    assert_eq!(
        (far_stats.bytes_sent(), near_stats.bytes_received()),
        (2000, 2000)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_choice_carries_a_session() {
    let choices = [
        "tcp",
        "tcp:cc=reno",
        "tcp-striped:n=3",
        "tcp-striped:n=1",
        "quic",
        "rudp",
    ];
    let plaintext = (Security::Plaintext, Security::Plaintext);
    for (listening, connecting) in [pinned(), (unpinned(), unpinned()), plaintext] {
        let is_plain = matches!(listening, Security::Plaintext);
        let mut listener = bind(&listening, Offer::all()).await;
        for choice in choices {
            if is_plain && choice == "quic" {
                continue;
            }
            let (accepted, link) = meet(&mut listener, &connecting, choice).await;
            for info in [link.info(), accepted.link.info()] {
                assert_eq!(info.transport, pick(choice).transport());
                assert_eq!(info.encrypted, !is_plain);
                let authenticated = matches!(listening, Security::Tls { .. });
                assert_eq!(info.peer_fingerprint.is_some(), authenticated);
            }
            if cfg!(target_os = "linux") && choice == "tcp:cc=reno" {
                for link in [&link, &accepted.link] {
                    let control = link.stats().path().congestion_control;
                    assert_eq!(control.as_deref(), Some("reno"));
                }
            }
            converse(link, accepted.link).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_side_may_use_a_transport_by_its_name() {
    let (a, b) = pinned();
    let named: [(&str, Box<dyn Transport>); 4] = [
        ("tcp", Box::new(Tcp::default())),
        ("tcp-striped", Box::new(TcpStriped::default())),
        ("quic", Box::new(Quic::default())),
        ("rudp", Box::new(Rudp::default())),
    ];
    for (name, transport) in named {
        let mut listener = bind(&a, Offer::all()).await;
        let address = listener.local_address();
        let (accepted, link) = tokio::join!(listener.next(), transport.connect(&address, &b));
        let accepted = accepted.unwrap();
        assert_eq!(accepted.pick.transport(), name);
        converse(link.unwrap(), accepted.link).await;

        let mut listener = transport.listen("127.0.0.1:0", &a).await.unwrap();
        let address = listener.local_address();
        let racing = race_for(name, &address, &b, patient());
        let (accepted, won) = tokio::join!(listener.accept(), racing);
        converse(won.unwrap().link, accepted.unwrap()).await;
        // Only a link would be accepted, and a probe is not one.
        let probing = auto::probe(&address, &b, patient());
        let error = beside(&mut *listener, probing).await.unwrap_err();
        assert!(is_told(&error), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_offered_can_be_picked() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::of(["tcp"]).unwrap()).await;
    let address = listener.local_address();
    // A listener that needs no UDP binds no UDP port.
    drop(UdpSocket::bind(&address).await.unwrap());
    // A policy that waits for a transport that is not offered gets the first established one.
    for choice in ["rudp", "quic"] {
        let racing = race_for(choice, &address, &connecting, patient());
        let (accepted, won) = tokio::join!(listener.next(), racing);
        assert_eq!(accepted.unwrap().pick, pick("tcp"));
        assert_eq!(won.unwrap().pick, pick("tcp"));
    }
    let racing = race_for("tcp-striped", &address, &connecting, patient());
    let error = beside(&mut listener, racing).await.unwrap_err();
    let root = error.root();
    assert!(
        matches!(
            root,
            TransportError::Connect(ConnectError::NotOffered { .. })
        ),
        "{error}"
    );
    let racing = race_for("tcp:cc=nonesuch", &address, &connecting, patient());
    let error = beside(&mut listener, racing).await.unwrap_err();
    let root = error.root();
    assert!(
        matches!(
            root,
            TransportError::Unsupported(UnsupportedError::CongestionControl { .. })
        ),
        "{error}"
    );
    // None of the offered transports takes part.
    let mut registry = Registry::new();
    registry.register(Arc::new(Quic::default())).unwrap();
    let racing = race_among("quic", &address, &connecting, patient(), &registry);
    let error = beside(&mut listener, racing).await.unwrap_err();
    let root = error.root();
    assert!(
        matches!(root, TransportError::Connect(ConnectError::Connect { .. })),
        "{error}"
    );

    for choice in ["quic", "rudp"] {
        let mut listener = bind(&listening, Offer::of([choice]).unwrap()).await;
        let (accepted, link) = meet(&mut listener, &connecting, choice).await;
        converse(accepted.link, link).await;
    }
    let offer = Offer::of(["quic"]).unwrap();
    let bound = AutoListener::bind("127.0.0.1:0", &Security::Plaintext, offer).await;
    assert!(matches!(
        bound,
        Err(TransportError::Unsupported(
            UnsupportedError::NoPlaintext { .. }
        ))
    ));
}

#[tokio::test]
async fn a_peer_with_another_transport_is_told_so() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let address = listener.local_address();
    let udp = Udp::default();
    let error = beside(&mut listener, udp.connect(&address, &connecting))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            TransportError::Handshake(HandshakeError::NoCommonTransport { .. })
        ),
        "{error}"
    );
    let mut plain = udp.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = plain.local_address();
    let racing = race_for("tcp", &address, &connecting, patient());
    let error = beside(&mut *plain, racing).await.unwrap_err();
    assert!(is_told(&error), "{error}");
}

/// Sends garbage to both ports while several transports carry links of one listener.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_of_several_transports_coexist_amid_garbage() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let address = listener.local_address();
    let mut pairs = Vec::new();
    for choice in ["quic", "rudp", "tcp", "tcp-striped:n=2", "quic", "rudp"] {
        let (accepted, link) = meet(&mut listener, &connecting, choice).await;
        pairs.push((accepted.link, link));
    }
    let target = address.clone();
    let garbage = tokio::spawn(async move {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut noise = [0_u8; 1300];
        for round in 0..20_000_usize {
            for (index, byte) in noise.iter_mut().enumerate() {
                *byte = byte.wrapping_mul(31).wrapping_add((index ^ round) as u8);
            }
            noise[0] = round as u8;
            let length = 1 + round % noise.len();
            let _ = socket.send_to(&noise[..length], &target).await;
            if round % 1000 == 0 {
                let mut stranger = TcpStream::connect(&target).await.unwrap();
                let _ = stranger.write_all(&noise).await;
            }
            if round % 32 == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    let mut talks = tokio::task::JoinSet::new();
    for (near, far) in pairs {
        talks.spawn(converse(near, far));
    }
    let talking = async {
        while let Some(talked) = talks.join_next().await {
            talked.unwrap();
        }
        garbage.await.unwrap();
    };
    beside(&mut listener, talking).await;
    // It still accepts links.
    let (accepted, link) = meet(&mut listener, &connecting, "quic").await;
    converse(link, accepted.link).await;
}
