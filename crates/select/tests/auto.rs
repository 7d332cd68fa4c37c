//! The transport `auto` on real sockets: what is chosen, what happens when that fails, and what liars achieve.

#![cfg(unix)]

mod curious;
// Those of the crate whose transports are chosen from.
#[path = "../../transport/tests/meeting/mod.rs"]
mod meeting;
#[path = "../../transport/tests/relay/mod.rs"]
mod relay;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};
use transpute_select::{
    Auto, End, Named, PaperRules, PathEstimate, Selection, Setup, Source, Spec, Udp, Workload,
};
use transpute_transport::{
    Identity, Link, Listener, Security, Transport, TransportError,
    auto::{AutoListener, AutoOptions, Offer},
};

use self::curious::Curious;
use self::meeting::{patient, pinned};

/// Far beyond what any of this takes: a hang, not a slow machine.
const FOREVER: Duration = Duration::from_secs(60);

fn small() -> Workload {
    Workload::transfer(End::Listener, 2000).unwrap()
}

fn large() -> Workload {
    Workload::transfer(End::Listener, 30_000_000).unwrap()
}

fn auto(workload: Workload) -> Auto {
    Auto::new(workload).with_options(patient())
}

fn specs(names: &[&str]) -> Vec<Spec> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Returns how often a chooser was asked whether it wants to know more.
fn asked(curious: &Curious) -> usize {
    curious.asked.load(Ordering::Relaxed)
}

/// Connects to a listener, says something each way, and returns how the transport was chosen.
async fn meet(listener: &mut AutoListener, auto: &Auto, security: &Security) -> Selection {
    let address = listener.local_address();
    meet_at(listener, &address, auto, security).await
}

async fn meet_at(
    listener: &mut AutoListener,
    address: &str,
    auto: &Auto,
    security: &Security,
) -> Selection {
    let talk = async {
        let (accepted, selected) = tokio::join!(listener.next(), auto.select(address, security));
        let (accepted, (link, selection)) = (accepted.unwrap(), selected.unwrap());
        let winner = selection.choice.winner();
        assert_eq!(link.info().transport, winner.name());
        assert_eq!(accepted.pick.transport(), winner.name());
        greet(link, accepted.link).await;
        selection
    };
    timeout(FOREVER, talk).await.unwrap()
}

async fn greet(near: Link, far: Link) {
    let ((mut from_far, mut to_far), (mut from_near, mut to_near)) =
        (near.into_parts(), far.into_parts());
    to_far.write_all(b"hello").await.unwrap();
    to_far.flush().await.unwrap();
    let mut got = [0; 5];
    from_near.read_exact(&mut got).await.unwrap();
    to_near.write_all(&got).await.unwrap();
    to_near.flush().await.unwrap();
    from_far.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
}

async fn bind(security: &Security, offer: Offer) -> AutoListener {
    AutoListener::bind("127.0.0.1:0", security, offer, patient())
        .await
        .unwrap()
}

/// Lets strangers come and go until the future is done.
async fn beside<T>(listener: &mut AutoListener, future: impl Future<Output = T>) -> T {
    let output = async {
        tokio::select! {
            output = future => output,
            accepted = listener.next() => panic!("{accepted:?}"),
        }
    };
    timeout(FOREVER, output).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_any_size_goes_through_and_every_candidate_is_judged() {
    let (listening, connecting) = pinned();
    let plaintext = (Security::Plaintext, Security::Plaintext);
    for (listening, connecting) in [(listening, connecting), plaintext] {
        let mut listener = bind(&listening, Offer::all()).await;
        for workload in [small(), large()] {
            let among = specs(&["tcp", "rudp", "quic", "tcp-striped"]);
            let auto = auto(workload).among(among.clone());
            let selection = meet(&mut listener, &auto, &connecting).await;
            let judged = selection.choice.ranking().len() + selection.choice.excluded.len();
            assert_eq!(judged, among.len());
            assert_eq!(selection.choice.chooser, "model");
            assert!(!selection.choice.reason.is_empty() && selection.failed.is_empty());
            assert!(selection.decided_after_s >= 0.0 && selection.path.rtt.min_s > 0.0);
            assert!(selection.path.validate().is_ok());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_choosers_choose_too() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let paper = auto(large()).with_chooser(Arc::new(PaperRules));
    let selection = meet(&mut listener, &paper, &connecting).await;
    assert_eq!(selection.choice.chooser, "paper");

    for name in ["tcp", "quic", "rudp", "tcp-striped"] {
        let named = auto(small()).with_chooser(Arc::new(Named::new(name).unwrap()));
        let selection = meet(&mut listener, &named, &connecting).await;
        assert_eq!(selection.choice.winner().as_str(), name);
    }
    let unknown = auto(small()).with_chooser(Arc::new(Named::new("pigeon").unwrap()));
    let address = listener.local_address();
    let refused = beside(&mut listener, unknown.select(&address, &connecting)).await;
    assert!(refused.unwrap_err().to_string().contains("pigeon"));

    // One that wants everything known gets it.
    let curious = Curious::new(&["rudp"], |_| false);
    let all = auto(large()).with_chooser(curious.clone());
    let selection = meet(&mut listener, &all, &connecting).await;
    assert_eq!(selection.choice.winner().as_str(), "rudp");
    assert!(asked(&curious) >= 2);
    let path = &selection.path;
    assert_eq!((path.udp, path.source), (Udp::Passes, Source::Measured));
    assert!(path.up.loss.is_some_and(|loss| loss.sent() >= 100));
    assert!(selection.choice.ranking().len() >= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_listener_does_not_offer_is_not_chosen() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::of(["tcp"]).unwrap()).await;
    let auto_all = auto(large()).with_chooser(Curious::new(&["quic", "rudp"], |_| false));
    let selection = meet(&mut listener, &auto_all, &connecting).await;
    assert_eq!(selection.choice.winner().name(), "tcp");
    let why = |name: &str| {
        let excluded = &selection.choice.excluded;
        let found = excluded.iter().find(|(spec, _)| spec.as_str() == name);
        found.unwrap().1.clone()
    };
    for name in ["quic", "rudp", "tcp-striped"] {
        assert_eq!(why(name), "the listener does not offer it");
    }
    // Nothing in common.
    let address = listener.local_address();
    let only = auto(small()).among(specs(&["rudp", "quic"]));
    let refused = beside(&mut listener, only.select(&address, &connecting)).await;
    assert!(refused.unwrap_err().to_string().contains("does not offer"));
}

/// The listener's words are heard before anything is chosen, whichever connection brings them first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_listener_says_changes_the_workload() {
    let slow = |seconds: u8| {
        let mut parts = *small().parts();
        parts.garble_s = f64::from(seconds);
        Workload::new(parts).unwrap()
    };
    let adapt = move |words: &[u8]| match words {
        [seconds] => Some(slow(*seconds)),
        _ => None,
    };
    let (listening, connecting) = pinned();
    let plaintext = (Security::Plaintext, Security::Plaintext);
    for (listening, connecting) in [(listening, connecting), plaintext] {
        for (words, expected) in [
            (vec![7], slow(7)),
            (vec![7, 7], small()),
            (vec![0xff; 1024], small()),
            (Vec::new(), small()),
        ] {
            let offer = Offer::all().saying(words.clone()).unwrap();
            let mut listener = bind(&listening, offer).await;
            let auto = auto(small()).adapting(adapt);
            let selection = meet(&mut listener, &auto, &connecting).await;
            assert_eq!(selection.workload, expected, "{words:?}");
            let address = listener.local_address();
            let probed = beside(&mut listener, auto.probe(&address, &connecting)).await;
            assert_eq!(probed.unwrap().said, words);
        }
    }
}

#[tokio::test]
async fn what_an_offer_says_already_stays() {
    let said = |auto: Auto| async move {
        let mut listener = auto
            .listen("127.0.0.1:0", &Security::Plaintext)
            .await
            .unwrap();
        let address = listener.local_address();
        let connecting = Auto::default();
        let probing = connecting.probe(&address, &Security::Plaintext);
        tokio::select! {
            probed = probing => probed.unwrap().said,
            accepted = listener.accept() => panic!("{accepted:?}"),
        }
    };
    let offer = Offer::all().saying(*b"first").unwrap();
    let auto = Auto::default().offering(offer).saying(*b"second").unwrap();
    assert_eq!(said(auto).await, b"first");
    let auto = Auto::default().saying(*b"second").unwrap();
    assert_eq!(said(auto).await, b"second");
    assert!(Auto::default().saying(vec![0; 1025]).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_best_is_taken_when_the_one_chosen_fails() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    // Settings that there are not.
    let names = ["tcp:speed=more", "tcp-striped:n=99", "tcp"];
    let auto = auto(small())
        .among(specs(&names))
        .with_chooser(Curious::new(&names, |_| false));
    let selection = meet(&mut listener, &auto, &connecting).await;
    assert_eq!(selection.choice.winner().as_str(), "tcp");
    let failed: Vec<_> = (selection.failed.iter())
        .map(|(spec, _)| spec.as_str())
        .collect();
    assert_eq!(failed, names[..2]);
    assert!(
        selection.failed[1].1.contains("99"),
        "{:?}",
        selection.failed
    );
    assert_eq!(selection.choice.excluded, selection.failed);

    // One that is chosen before it is up, and never comes up.
    let relay = relay::relay(&listener.local_address()).await;
    relay.faults.cut.store(true, Ordering::Relaxed);
    let hasty = Curious::new(&["rudp", "tcp"], |_| true);
    let auto = Auto::new(small()).with_chooser(hasty.clone());
    let selection = meet_at(&mut listener, &relay.address, &auto, &connecting).await;
    assert_eq!(selection.choice.winner().as_str(), "tcp");
    assert_eq!(selection.failed[0].0.as_str(), "rudp");
    assert!(asked(&hasty) >= 2);
    relay.tcp.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_udp_costs_a_little_waiting_and_no_link() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let relay = relay::relay(&listener.local_address()).await;
    relay.faults.cut.store(true, Ordering::Relaxed);
    let hasty = Auto::new(large());
    for chooser in [Curious::new(&["rudp", "quic"], |_| false)] {
        let auto = hasty.clone().with_chooser(chooser);
        let selection = meet_at(&mut listener, &relay.address, &auto, &connecting).await;
        assert_eq!(selection.path.udp, Udp::Blocked);
        assert!(selection.choice.winner().name().starts_with("tcp"));
        let excluded = &selection.choice.excluded;
        assert!(excluded.iter().any(|(spec, _)| spec.name() == "rudp"));
        assert!(excluded.iter().any(|(spec, _)| spec.name() == "quic"));
    }
    relay.tcp.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_peer_is_named_as_one() {
    let (listening, connecting) = pinned();
    let (_, stranger) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let address = listener.local_address();
    let auto = auto(large());
    // We expect somebody else.
    let selecting = auto.select(&address, &stranger);
    let error = beside(&mut listener, selecting).await.unwrap_err();
    assert!(
        matches!(error.root(), TransportError::WrongPeer { .. }),
        "{error}"
    );
    // They do.
    let (identity, fingerprint) = match (&connecting, &listening) {
        (Security::Tls { peers, .. }, Security::Tls { identity, .. }) => {
            assert_eq!(peers[..], [identity.fingerprint()]);
            (
                Arc::new(Identity::generate().unwrap()),
                identity.fingerprint(),
            )
        }
        _ => unreachable!(),
    };
    let unwelcome = Security::tls(identity, [fingerprint]);
    let refused = async {
        match auto.select(&address, &unwelcome).await {
            Err(error) => error,
            // As on any link, the first read says so.
            Ok((link, _)) => {
                let (mut reader, _writer) = link.into_parts();
                TransportError::from_io(reader.read(&mut [0]).await.unwrap_err())
            }
        }
    };
    let error = beside(&mut listener, refused).await;
    assert!(
        matches!(error.root(), TransportError::PeerRefusedUs { .. }),
        "{error}"
    );
    let probed = beside(&mut listener, auto.probe(&address, &unwelcome)).await;
    let error = probed.unwrap_err();
    assert!(
        matches!(error.root(), TransportError::PeerRefusedUs { .. }),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_is_known_is_not_measured_again() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("paths.json");
    // A cache that is none is passed over.
    std::fs::write(&file, "{\"format\":1,\"paths\":").unwrap();
    // What is up first.
    let order = ["tcp", "quic"];
    let first = Curious::new(&order, |_| false);
    let among = specs(&["tcp", "rudp", "quic"]);
    let remembering = || auto(large()).among(among.clone()).remembering(file.clone());
    let auto_first = remembering().with_chooser(first.clone());
    let selection = meet(&mut listener, &auto_first, &connecting).await;
    assert_eq!(selection.path.source, Source::Measured);
    let known = selection.path.down.rate.or(selection.path.up.rate);

    // Another process.
    let second = Curious::new(&order, |path| path.down.rate.is_some());
    let auto_second = remembering().with_chooser(second.clone());
    let selection = meet(&mut listener, &auto_second, &connecting).await;
    // On loopback a train does not always tell a rate.
    if known.is_some() && selection.path.source == Source::Cached {
        assert!(asked(&second) < asked(&first));
        assert_eq!(asked(&second), 1);
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(&listener.local_address()), "{text}");
}

/// A path that was remembered settles the choice at the first report.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remembered_rate_settles_the_choice() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("paths.json");
    let Security::Tls { peers, .. } = &connecting else {
        unreachable!()
    };
    let (peer, address) = (peers[0].to_string(), listener.local_address());
    let millis = |at: std::time::SystemTime| {
        at.duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_millis() as u64
    };
    let mut known = PathEstimate::of_rtt(0.1e-3).unwrap();
    known.down.rate = Some(transpute_select::Rate::known(7e8));
    known.when_unix_ms = Some(millis(std::time::SystemTime::now()) - 1000);
    let mut cache = transpute_select::Cache::default();
    cache.put(&peer, &address, &known);
    cache.save(&file).unwrap();

    let chooser = Curious::new(&["tcp"], |path| path.down.rate.is_some());
    let auto = auto(large())
        .among(specs(&["tcp"]))
        .remembering(file)
        .with_chooser(chooser.clone());
    let selection = meet(&mut listener, &auto, &connecting).await;
    // The round-trip time of a busy machine may be another path's.
    if selection.path.rtt.min_s < 0.5e-3 {
        assert_eq!(selection.path.source, Source::Cached);
        let rate = selection.path.down.rate.unwrap();
        assert_eq!(rate.bits_per_second, 7e8);
        assert!(rate.relative_error > 0.0);
        assert_eq!(asked(&chooser), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_leaves_the_listener_to_others() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let address = listener.local_address();
    let auto = auto(large());
    for _ in 0..3 {
        let probed = beside(&mut listener, auto.probe(&address, &connecting)).await;
        let probed = probed.unwrap();
        assert_eq!(probed.path.udp, Udp::Passes);
        assert!(probed.path.up.loss.is_some() && probed.path.mtu.is_some());
        assert!(probed.candidates.len() >= 4);
        for candidate in &probed.candidates {
            assert_eq!(
                (candidate.setup, &candidate.unavailable),
                (Setup::Whole, &None)
            );
        }
    }
    let visit = async {
        let probing = auto.probe(&address, &connecting);
        let (visit, _) = tokio::join!(listener.next_visit(), probing);
        visit.unwrap()
    };
    assert!(timeout(FOREVER, visit).await.unwrap().is_none());
    meet(&mut listener, &auto, &connecting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_is_told_at_once() {
    let address = {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        taken.local_addr().unwrap().to_string()
    };
    let (_, connecting) = pinned();
    for security in [Security::Plaintext, connecting] {
        let mut options = patient();
        // QUIC has to be given up long before its own time limit.
        options.quic.handshake_timeout = FOREVER * 2;
        options.udp_patience = Duration::from_millis(30);
        let auto = auto(small()).with_options(options);
        let nobody = timeout(FOREVER, auto.select(&address, &security)).await;
        let error = nobody.unwrap().unwrap_err();
        assert!(
            matches!(error.root(), TransportError::Connect { .. }),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_without_a_common_transport_is_reported_at_once() {
    let (listening, connecting) = pinned();
    let mut plain = transpute_transport::Udp::default()
        .listen("127.0.0.1:0", &listening)
        .await
        .unwrap();
    let address = plain.local_address();
    let mut options = AutoOptions::default();
    options.quic.handshake_timeout = FOREVER * 2;
    let auto = auto(small()).with_options(options);
    let error = tokio::select! {
        selected = timeout(FOREVER, auto.select(&address, &connecting)) => selected.unwrap().unwrap_err(),
        accepted = plain.accept() => panic!("{accepted:?}"),
    };
    assert!(
        matches!(error.root(), TransportError::NoCommonTransport { .. }),
        "{error}"
    );
}

const PREAMBLE: &[u8] = b"transpute/1 plaintext\n";

/// A listener that says what it likes to everybody who connects, and does not close.
async fn liar(words: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(&words).await;
            held.push(stream);
        }
    });
    address
}

/// Silence, half an offer, floods and lies: an error or a link in bounded time, never a panic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_listeners_neither_hang_nor_crash() {
    let all = b"tpoffer1\x03\x03tcp\x0btcp-striped\x04rudp\x00\x00";
    let many = [&b"tpoffer1\xff"[..], &[b'a'; 600]].concat();
    let flood = vec![b'x'; 1 << 20];
    let mut options = AutoOptions::default();
    options.tcp.handshake_timeout = Duration::from_millis(300);
    options.quic.handshake_timeout = Duration::from_millis(300);
    for (words, may_come_up) in [
        (Vec::new(), false),
        (PREAMBLE.to_vec(), false),
        (PREAMBLE[..10].to_vec(), false),
        ([PREAMBLE, &all[..12]].concat(), false),
        ([PREAMBLE, &many[..]].concat(), false),
        (flood, false),
        // A good offer, and nothing behind it; and with a flood behind it.
        ([PREAMBLE, all].concat(), true),
        ([PREAMBLE, all, &[0xff; 1 << 16]].concat(), true),
    ] {
        let address = liar(words.clone()).await;
        let shown = words[..words.len().min(60)].escape_ascii().to_string();
        let wants = Curious::new(&["rudp", "tcp"], |_| false);
        for auto in [
            auto(large()).with_options(options),
            auto(large()).with_options(options).with_chooser(wants),
        ] {
            let selected = timeout(FOREVER, auto.select(&address, &Security::Plaintext)).await;
            let selected = selected.unwrap_or_else(|_| panic!("hangs: {shown}"));
            assert_eq!(selected.is_ok(), may_come_up, "{shown}: {selected:?}");
            let probed = timeout(FOREVER, auto.probe(&address, &Security::Plaintext)).await;
            assert!(probed.is_ok(), "hangs: {shown}");
        }
    }
}
