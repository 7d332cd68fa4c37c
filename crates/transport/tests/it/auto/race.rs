//! Tests of a race while connections are established, fail or stay silent, and of the calls of its
//! policy.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{
    ConnectError, Link, Listener, PathClass, Quic, QuicOptions, Registry, Security, Tcp,
    TcpOptions, TransportError,
    auto::{self, Accepted, AutoListener, AutoOptions, Offer, Pick, Policy, RaceProgress, Stage},
};

use super::always::{race_among, race_for};
use crate::{
    meeting::{beside, patient, pinned},
    relay,
};

/// A policy that decides by a function and records its inputs.
struct By<F>(F, Mutex<Vec<RaceProgress>>);

fn by<F: Fn(&RaceProgress) -> Option<Pick>>(decide: F) -> By<F> {
    By(decide, Mutex::default())
}

impl<F: Fn(&RaceProgress) -> Option<Pick> + Send + Sync> Policy for By<F> {
    fn decide(&self, progress: &RaceProgress) -> Option<Pick> {
        self.1.lock().unwrap().push(progress.clone());
        (self.0)(progress)
    }
}

async fn bind(security: &Security, offer: Offer) -> AutoListener {
    AutoListener::bind("127.0.0.1:0", security, offer)
        .await
        .unwrap()
}

async fn say_hello(accepted: Accepted, link: Link) {
    let (mut reader, _) = accepted.link.into_parts();
    let (_, mut writer) = link.into_parts();
    writer.write_all(b"hello").await.unwrap();
    writer.flush().await.unwrap();
    let mut got = [0; 5];
    reader.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
}

fn is_blocked(stage: &Stage) -> bool {
    matches!(stage, Stage::Failed(error) if matches!(**error, TransportError::Connect(ConnectError::UdpBlocked { .. })))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_is_asked_once_for_each_change() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let address = listener.local_address();
    // If a policy never chooses, the first established transport is taken after all are established
    // or have failed.
    let policy = by(|_| None);
    let racing = auto::race(&address, &connecting, patient(), &policy);
    let (accepted, won) = tokio::join!(listener.next(), racing);
    let won = won.unwrap();
    assert_eq!((won.pick, won.failed.len()), (Pick::from("rudp"), 0));
    let asked = policy.1.into_inner().unwrap();
    assert!(asked.is_sorted_by_key(|progress| progress.elapsed));
    assert!(asked.len() <= 5, "{asked:#?}");
    let last = asked.last().unwrap();
    assert!(
        last.tcp_rtt.is_some()
            && last.stage("tcp").up().is_some()
            && last.stage("quic").up().is_some()
    );
    let rudp = last.stage("rudp").up().unwrap();
    assert!(rudp.is_complete && rudp.path.largest_datagram >= Some(1200));
    for stage in [last.stage("tcp"), last.stage("quic"), last.stage("rudp")] {
        assert!(stage.up().unwrap().path.least_rtt() > Some(Duration::ZERO));
    }
    let offered: Vec<_> = last.offer.as_ref().unwrap().names().collect();
    assert_eq!(offered, ["tcp", "tcp-striped", "quic", "rudp"]);
    say_hello(accepted.unwrap(), won.link).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_near_listener_is_connected_to_over_tcp_alone() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let address = listener.local_address();
    for picks_at_once in [true, false] {
        let policy = by(|progress: &RaceProgress| match progress.stage("tcp").up() {
            Some(_) if picks_at_once || progress.stage("rudp").up().is_some() => {
                Some(Pick::from("tcp"))
            }
            _ => None,
        });
        let racing = auto::race(&address, &connecting, patient(), &policy);
        let (accepted, won) = tokio::join!(listener.next(), racing);
        let won = won.unwrap();
        let asked = policy.1.into_inner().unwrap();
        let was_near = won.progress.tcp_rtt.unwrap() < PathClass::SAME_LAN_LIMIT;
        // A busy machine may answer after UDP has started.
        if was_near && asked[0].elapsed < PathClass::SAME_LAN_LIMIT {
            assert_eq!(won.progress.stage("rudp").is_pending(), picks_at_once);
            let rudp = won.progress.stage("rudp").up().map(|report| report.after);
            let tcp = won.progress.stage("tcp").up().unwrap().after;
            assert!(rudp.is_none_or(|rudp| rudp > tcp));
        }
        say_hello(accepted.unwrap(), won.link).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_udp_costs_no_more_than_tcp_takes() {
    let (listening, connecting) = pinned();
    for choice in ["tcp", "tcp-striped:n=2"] {
        let mut listener = bind(&listening, Offer::all()).await;
        let relay = relay::relay(&listener.local_address()).await;
        relay.faults.cut.store(true, Ordering::Relaxed);
        let pick = Pick::from(choice);
        let policy = by(
            move |progress: &RaceProgress| match progress.stage("rudp") {
                Stage::Failed(_) => Some(pick.clone()),
                _ => Some(Pick::from("rudp")),
            },
        );
        let racing = auto::race(&relay.address, &connecting, AutoOptions::default(), &policy);
        let (accepted, won) = tokio::join!(listener.next(), racing);
        let won = won.unwrap();
        assert!(is_blocked(won.progress.stage("quic")) && is_blocked(won.progress.stage("rudp")));
        let (wanted, error) = &won.failed[0];
        assert!(
            *wanted == Pick::from("rudp") && error.contains("not over UDP"),
            "{error}"
        );
        let tcp = won.progress.stage("tcp").up().unwrap();
        // Half a round trip of this path is less than the minimum wait. The rest is for a busy
        // machine.
        let waited = won.progress.elapsed - tcp.after;
        let least = Duration::from_millis(10);
        assert!(
            least <= waited && waited < least + Duration::from_millis(50),
            "{waited:?}"
        );
        say_hello(accepted.unwrap(), won.link).await;
    }
}

/// Half a round trip of this path is not enough time to give up the only transport.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_over_udp_may_be_late_where_nothing_else_is_offered() {
    let (listening, connecting) = pinned();
    for (choice, heals) in [("quic", true), ("quic", false), ("rudp", true)] {
        let mut listener = bind(&listening, Offer::of([choice]).unwrap()).await;
        let relay = relay::relay(&listener.local_address()).await;
        relay.faults.cut.store(true, Ordering::Relaxed);
        let heal = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            relay.faults.cut.store(!heals, Ordering::Relaxed);
        };
        let mut options = QuicOptions::default();
        options.connect_timeout = Duration::from_secs(2);
        let mut registry = Registry::with_builtins();
        registry.retain(|name| name != "quic");
        registry.register(Arc::new(Quic::new(options))).unwrap();
        let options = AutoOptions::default();
        let racing = race_among(choice, &relay.address, &connecting, options, &registry);
        let both = async { tokio::join!(racing, heal).0 };
        if heals {
            let (accepted, won) = tokio::join!(listener.next(), both);
            say_hello(accepted.unwrap(), won.unwrap().link).await;
        } else {
            let error = beside(&mut listener, both).await.unwrap_err();
            let root = error.root();
            assert!(
                matches!(root, TransportError::Connect(ConnectError::Timeout { .. })),
                "{error}"
            );
        }
    }
}

/// A listener or an attacker that stays silent on one connection does not delay the choice of
/// another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_on_one_connection_does_not_hold_up_the_others() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let relay = relay::relay(&listener.local_address()).await;
    relay.faults.mute.store(true, Ordering::Relaxed);
    // The policy prefers TCP, which never connects.
    let mut options = AutoOptions::default();
    options.choice_timeout = Duration::from_millis(500);
    let began = Instant::now();
    let racing = race_for("tcp", &relay.address, &connecting, options);
    let (accepted, won) = tokio::join!(listener.next(), racing);
    let won = won.unwrap();
    assert_eq!((won.pick, won.failed.len()), (Pick::from("rudp"), 1));
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    say_hello(accepted.unwrap(), won.link).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_waits_for_everything_and_picks_nothing() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let relay = relay::relay(&listener.local_address()).await;
    let mut options = AutoOptions::default();
    options.choice_timeout = Duration::from_secs(1);
    let probing = auto::probe(&relay.address, &connecting, options);
    let (visit, progress) = tokio::join!(listener.next_visit(), probing);
    // The listener detects it.
    assert!(visit.unwrap().is_none());
    let progress = progress.unwrap();
    assert!(progress.stage("tcp").up().is_some() && progress.stage("quic").up().is_some());
    let trains = progress.stage("rudp").up().unwrap();
    for train in [trains.path.sent_train, trains.path.received_train]
        .into_iter()
        .flatten()
    {
        assert!(train.received <= train.sent && train.error_permille <= 1000);
    }
    // If UDP is blocked, it waits long enough to be sure.
    relay.faults.cut.store(true, Ordering::Relaxed);
    let probing = auto::probe(&relay.address, &connecting, options);
    let progress = beside(&mut listener, probing).await.unwrap();
    assert!(is_blocked(progress.stage("quic")) && is_blocked(progress.stage("rudp")));
    assert!(progress.stage("tcp").up().is_some() && progress.elapsed >= Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_picks_nothing_is_dropped() {
    let (listening, connecting) = pinned();
    let (mut tcp, mut quic) = (TcpOptions::default(), QuicOptions::default());
    tcp.handshake_timeout = Duration::from_millis(300);
    quic.handshake_timeout = Duration::from_millis(300);
    let mut registry = Registry::new();
    registry.register(Arc::new(Tcp::new(tcp))).unwrap();
    registry.register(Arc::new(Quic::new(quic))).unwrap();
    let offer = Offer::of_registry(&registry);
    let bound = AutoListener::bind_among("127.0.0.1:0", &listening, offer, &registry).await;
    let mut listener = bound.unwrap();
    let address = listener.local_address();
    // The policy waits until both connections are dropped. Its choice then fails, at the latest at
    // the first read.
    let policy = by(|progress: &RaceProgress| {
        if progress.stage("tcp").up().is_none() || progress.stage("quic").up().is_none() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(800));
        Some(Pick::from("quic"))
    });
    let racing = auto::race(&address, &connecting, patient(), &policy);
    if let Ok(won) = beside(&mut listener, racing).await {
        let (mut reader, _writer) = won.link.into_parts();
        assert!(beside(&mut listener, reader.read(&mut [0])).await.is_err());
    }
    let racing = race_for("tcp", &address, &connecting, patient());
    let (accepted, won) = tokio::join!(listener.next(), racing);
    say_hello(accepted.unwrap(), won.unwrap().link).await;
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_is_reported_at_once() {
    let (near, _) = pinned();
    // The system does not assign a port as low as this, also not to this end. Otherwise TCP could
    // connect to itself.
    let address = "127.0.0.1:1";
    let began = Instant::now();
    let options = AutoOptions::default();
    let error = race_for("tcp", address, &near, options).await.unwrap_err();
    let root = error.root();
    assert!(
        matches!(root, TransportError::Connect(ConnectError::Connect { .. })),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(1));
}
