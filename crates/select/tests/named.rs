//! One side uses `auto` and the other one transport by its name: they meet over that one, or both learn why not.

#![cfg(unix)]

#[path = "../../transport/tests/meeting/mod.rs"]
mod meeting;

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use transpute_select::{Auto, End, Workload};
use transpute_transport::{
    Identity, Link, Listener, Registry, Security, Transport, TransportError,
    auto::{AutoListener, Offer},
};

use self::meeting::{patient, pinned};

/// Far beyond what any of this takes: a hang, not a slow machine.
const FOREVER: Duration = Duration::from_secs(60);

/// All that `auto` can make the link, with settings that one side alone may have.
const NAMED: [&str; 6] = [
    "tcp",
    "tcp:cc=reno",
    "tcp-striped",
    "tcp-striped:n=3",
    "quic",
    "rudp",
];

fn auto() -> Auto {
    let workload = Workload::transfer(End::Listener, 2000).unwrap();
    Auto::new(workload).with_options(patient())
}

fn named(text: &str) -> Arc<dyn Transport> {
    Registry::with_builtins().get(text).unwrap()
}

fn name(text: &str) -> &str {
    text.split(':').next().unwrap()
}

fn unpinned() -> [Security; 2] {
    [0, 1].map(|_| Security::Unpinned {
        identity: Arc::new(Identity::generate().unwrap()),
    })
}

/// Sends more than a first flight each way, and closes in good order.
async fn exchange(one: Link, other: Link) {
    let party = async |link: Link| {
        let (mut reader, mut writer) = link.into_parts();
        let send = async {
            writer.write_all(&[7; 300_000]).await?;
            writer.shutdown().await
        };
        let mut got = Vec::new();
        let (sent, received) = tokio::join!(send, reader.read_to_end(&mut got));
        sent.unwrap();
        received.unwrap();
        assert!(got == [7; 300_000]);
    };
    tokio::join!(party(one), party(other));
}

async fn meet(
    listening: Arc<dyn Transport>,
    connecting: Arc<dyn Transport>,
    security: [Security; 2],
) {
    let mut listener = listening.listen("127.0.0.1:0", &security[0]).await.unwrap();
    let address = listener.local_address();
    let (accepted, connected) = tokio::join!(
        listener.accept(),
        connecting.connect(&address, &security[1])
    );
    let (accepted, connected) = (accepted.unwrap(), connected.unwrap());
    assert_eq!(accepted.info().transport, connected.info().transport);
    let is_named = matches!(security[0], Security::Tls { .. });
    assert_eq!(accepted.info().peer_fingerprint.is_some(), is_named);
    assert_eq!(connected.info().peer_fingerprint.is_some(), is_named);
    exchange(accepted, connected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_on_auto_accepts_a_transport_by_its_name() {
    for text in NAMED {
        for security in [pinned().into(), unpinned()] {
            let met = meet(Arc::new(auto()), named(text), security);
            assert!(timeout(FOREVER, met).await.is_ok(), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connector_on_auto_reaches_a_transport_by_its_name() {
    for text in NAMED {
        for security in [pinned().into(), unpinned()] {
            let met = meet(named(text), Arc::new(auto()), security);
            assert!(timeout(FOREVER, met).await.is_ok(), "{text}");
        }
    }
}

/// The layer above is told what was picked, as of a peer that uses `auto`.
#[tokio::test]
async fn the_listener_says_which_transport_the_peer_named() {
    let (listening, connecting) = pinned();
    let mut listener = AutoListener::bind("127.0.0.1:0", &listening, Offer::all(), patient())
        .await
        .unwrap();
    let address = listener.local_address();
    for text in NAMED {
        let transport = named(text);
        let (accepted, connected) =
            tokio::join!(listener.next(), transport.connect(&address, &connecting));
        let accepted = accepted.unwrap();
        assert_eq!(accepted.pick.transport(), name(text));
        assert_eq!(accepted.link.info().transport, name(text));
        connected.unwrap();
    }
}

/// Connects to a listener, and returns what the error says that each side uses.
async fn mismatch(listening: &dyn Transport, connecting: &dyn Transport) -> [String; 2] {
    let security = <[Security; 2]>::from(pinned());
    let mut listener = listening.listen("127.0.0.1:0", &security[0]).await.unwrap();
    let address = listener.local_address();
    let error = tokio::select! {
        error = connecting.connect(&address, &security[1]) => error.map_or_else(|error| error, |link| panic!("{:?}", link.info())),
        accepted = listener.accept() => panic!("{:?}", accepted.map(|link| link.info().clone())),
        () = tokio::time::sleep(FOREVER) => panic!("neither side notices"),
    };
    match error.root() {
        TransportError::NoCommonTransport { ours, theirs } => [ours.clone(), theirs.clone()],
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn who_has_no_transport_in_common_learns_what_the_other_uses() {
    assert_eq!(
        mismatch(&auto(), &*named("udp")).await,
        ["udp", "auto (tcp, tcp-striped, quic, rudp)"]
    );
    assert_eq!(mismatch(&*named("udp"), &auto()).await, ["auto", "udp"]);
    assert_eq!(
        mismatch(&*named("rudp"), &*named("tcp")).await,
        ["tcp", "rudp"]
    );
    assert_eq!(
        mismatch(&*named("tcp"), &*named("tcp-striped")).await,
        ["tcp-striped", "tcp"]
    );
    let only = auto().offering(Offer::of(["tcp", "quic"]).unwrap());
    assert_eq!(
        mismatch(&only, &*named("rudp")).await,
        ["rudp", "auto (tcp, quic)"]
    );
    // Ports of the other protocol: nothing answers there.
    for over_tcp in ["tcp", "tcp-striped", "rudp", "udp"] {
        let [ours, theirs] = mismatch(&*named("quic"), &*named(over_tcp)).await;
        assert_eq!([&ours[..], &theirs[..]], [over_tcp, "quic"]);
        let [ours, theirs] = mismatch(&*named(over_tcp), &*named("quic")).await;
        assert_eq!([&ours[..], &theirs[..]], ["quic", over_tcp]);
    }
}

/// A listener by name would take the probe for its peer.
#[tokio::test]
async fn a_probe_makes_no_link_with_a_listener_by_name() {
    for text in ["tcp", "quic"] {
        let (listening, connecting) = pinned();
        let mut listener = named(text).listen("127.0.0.1:0", &listening).await.unwrap();
        let address = listener.local_address();
        let auto = auto();
        tokio::select! {
            probed = auto.probe(&address, &connecting) => assert!(probed.is_err(), "{text}"),
            accepted = listener.accept() => panic!("{:?}", accepted.map(|link| link.info().clone())),
            () = tokio::time::sleep(FOREVER) => panic!("{text}: the probe hangs"),
        }
    }
}
