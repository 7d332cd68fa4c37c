//! Picking one of several transports: what comes through, what is learned, and what happens when things are otherwise.

#![cfg(unix)]

mod meeting;
mod relay;
mod strangers;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
};
use transpute_transport::{
    Identity, Link, Listener, Security, Transport, TransportError, Udp,
    auto::{Accepted, AutoListener, AutoOptions, Candidates, Offer, Pick},
};

use self::{
    meeting::{patient, pinned},
    strangers::beside,
};

fn unpinned() -> (Security, Security) {
    let security = || Security::Unpinned {
        identity: Arc::new(Identity::generate().unwrap()),
    };
    (security(), security())
}

async fn bind(security: &Security, offer: Offer) -> AutoListener {
    AutoListener::bind("127.0.0.1:0", security, offer, patient())
        .await
        .unwrap()
}

fn pick(text: &str) -> Pick {
    text.parse().unwrap()
}

/// Waits for both sides of a link that is picked.
async fn meet(
    listener: &mut AutoListener,
    candidates: Candidates,
    choice: &str,
) -> (Accepted, Link) {
    let choice = pick(choice);
    let (accepted, link) = tokio::join!(
        listener.next(),
        candidates.pick(&choice, b"from below".to_vec())
    );
    (accepted.unwrap(), link.unwrap())
}

/// Carries messages as a session does: some there, some back, a bulk one way, and the ends.
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
    // What was said to pick the link is not counted.
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
async fn each_choice_carries_a_session_and_its_messages() {
    let choices = ["tcp", "tcp:cc=reno", "tcp-striped:n=3", "quic", "rudp"];
    let plaintext = (Security::Plaintext, Security::Plaintext);
    for (listening, connecting) in [pinned(), unpinned(), plaintext] {
        let is_plain = matches!(listening, Security::Plaintext);
        let offer = Offer::all().saying(*b"from above").unwrap();
        let mut listener = bind(&listening, offer).await;
        for choice in choices {
            if is_plain && choice == "quic" {
                continue;
            }
            let address = listener.local_address();
            let candidates = Candidates::connect(&address, &connecting, patient()).unwrap();
            let control = beside(&mut listener, candidates.control()).await.unwrap();
            assert_eq!(control.offer.blob(), b"from above");
            assert_eq!(control.offer.allows("quic"), !is_plain);
            let (accepted, link) = meet(&mut listener, candidates, choice).await;
            assert_eq!(
                (accepted.pick, &accepted.blob[..]),
                (pick(choice), &b"from below"[..])
            );
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
async fn every_candidate_tells_what_it_knows() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let mut options = patient();
    // Begun when somebody asks.
    (options.quic_at_once, options.rudp_at_once) = (false, false);
    let address = listener.local_address();
    let candidates = Candidates::connect(&address, &connecting, options).unwrap();
    let learned = async {
        tokio::join!(
            candidates.control(),
            candidates.quic(),
            candidates.rudp(),
            candidates.rudp_both_ways()
        )
    };
    let (control, quic, rudp, both) = beside(&mut listener, learned).await;
    let (control, quic, rudp, both) = (
        control.unwrap(),
        quic.unwrap(),
        rudp.unwrap(),
        both.unwrap(),
    );
    assert!(control.rtt() > Duration::ZERO && control.info.peer_fingerprint.is_some());
    assert_eq!((control.offer, control.info.transport), (quic.offer, "tcp"));
    assert!(quic.path.rtt.is_some() && quic.info.transport == "quic");
    assert!(rudp.rtt.is_some() && rudp.datagram >= 1200);
    assert!(control.after <= rudp.after && rudp.after <= both.after);
    for train in [both.up, both.down].into_iter().flatten() {
        assert_eq!(train.sent, 128);
        assert!(
            train.received <= 128 && (0.0..=1.0).contains(&train.error),
            "{train:?}"
        );
    }
    // Asking again changes nothing.
    assert_eq!(candidates.rudp().await.unwrap().up, both.up);
    let (accepted, link) = meet(&mut listener, candidates, "rudp").await;
    converse(accepted.link, link).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trains_of_a_slow_path_are_waited_for_within_bounds() {
    let (listening, connecting) = pinned();
    let mut options = patient();
    options.quic_at_once = false;
    // Trains of 128 ms, twice as long as is waited where none arrives, and of 1 s.
    for (spacing_ms, is_waited_for) in [(1, true), (8, false)] {
        let mut listener = bind(&listening, Offer::all()).await;
        let relay = relay::relay(&listener.local_address()).await;
        relay.faults.spacing_ms.store(spacing_ms, Ordering::Relaxed);
        let candidates = Candidates::connect(&relay.address, &connecting, options).unwrap();
        let learned = beside(&mut listener, candidates.rudp_both_ways()).await;
        let both = learned.unwrap();
        assert_eq!(both.down.is_some(), is_waited_for, "{both:?}");
        let trains = both.up.into_iter().chain(both.down);
        for rate in trains.filter_map(|train| train.rate) {
            // 1,500 bytes in that time, or in more where the machine is busy.
            let most = 1_800_000 / u64::from(spacing_ms);
            assert!((most / 10..most).contains(&rate), "{rate}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_udp_is_reported_and_tcp_can_still_be_picked() {
    let (listening, connecting) = pinned();
    for choice in ["tcp", "tcp-striped:n=2"] {
        let mut listener = bind(&listening, Offer::all()).await;
        let relay = relay::relay(&listener.local_address()).await;
        relay.faults.cut.store(true, Ordering::Relaxed);
        let options = AutoOptions::default();
        let candidates = Candidates::connect(&relay.address, &connecting, options).unwrap();
        let told = async { tokio::join!(candidates.quic(), candidates.rudp()) };
        let (quic, rudp) = beside(&mut listener, told).await;
        for (name, error) in [("quic", quic.unwrap_err()), ("rudp", rudp.unwrap_err())] {
            assert!(
                matches!(error.root(), TransportError::UdpBlocked { .. }),
                "{error}"
            );
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("the transport {name} did not come up"))
            );
        }
        // The next best is tried with what is left.
        let unpicked = beside(&mut listener, candidates.pick(&Pick::Rudp, Vec::new())).await;
        let unpicked = unpicked.unwrap_err();
        assert!(matches!(
            unpicked.error.root(),
            TransportError::UdpBlocked { .. }
        ));
        let (accepted, link) = meet(&mut listener, *unpicked.candidates, choice).await;
        converse(accepted.link, link).await;
        relay.tcp.abort();
    }
}

/// Half a round trip of this path is no time to give up the only way there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_over_udp_may_be_late_where_nothing_else_is_offered() {
    let (listening, connecting) = pinned();
    for choice in ["quic", "rudp"] {
        for heals in [true, false] {
            let mut listener = bind(&listening, Offer::of([choice]).unwrap()).await;
            let relay = relay::relay(&listener.local_address()).await;
            relay.faults.cut.store(true, Ordering::Relaxed);
            let options = AutoOptions::default();
            let candidates = Candidates::connect(&relay.address, &connecting, options).unwrap();
            beside(&mut listener, candidates.control()).await.unwrap();
            let heal = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                relay.faults.cut.store(!heals, Ordering::Relaxed);
            };
            let up = async {
                match choice {
                    "quic" => candidates.quic().await.map(drop),
                    _ => candidates.rudp().await.map(drop),
                }
            };
            let told = async { tokio::join!(up, heal) };
            match beside(&mut listener, told).await.0 {
                Ok(()) => assert!(heals),
                Err(error) => {
                    let is_blocked = matches!(error.root(), TransportError::UdpBlocked { .. });
                    assert!(!heals && is_blocked, "{choice}, {heals}: {error}");
                }
            }
            relay.tcp.abort();
        }
    }
}

/// Where QUIC has shown that UDP passes, packets of reliable UDP that stay out are lost ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reliable_udp_is_not_given_up_where_quic_is_up() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let relay = relay::relay(&listener.local_address()).await;
    let mut options = AutoOptions::default();
    // QUIC is to come up on a busy machine too.
    options.udp_patience = Duration::from_millis(300);
    let candidates = Candidates::connect(&relay.address, &connecting, options).unwrap();
    beside(&mut listener, candidates.quic()).await.unwrap();
    relay.faults.cut.store(true, Ordering::Relaxed);
    let heal = async {
        // Longer than a silent path of a millisecond is waited for.
        tokio::time::sleep(Duration::from_millis(800)).await;
        relay.faults.cut.store(false, Ordering::Relaxed);
    };
    let told = async { tokio::join!(candidates.rudp(), heal) };
    beside(&mut listener, told).await.0.unwrap();
    let (accepted, link) = meet(&mut listener, candidates, "rudp").await;
    converse(accepted.link, link).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_begun_on_suspicion_join_or_are_closed_without_harm() {
    let plaintext = (Security::Plaintext, Security::Plaintext);
    for (listening, connecting) in [pinned(), plaintext] {
        let mut listener = bind(&listening, Offer::all()).await;
        let address = listener.local_address();
        // As many as were begun, fewer, more, of another congestion control, and none.
        for choice in [
            "tcp-striped:n=4",
            "tcp-striped:n=2",
            "tcp-striped:n=6",
            "tcp-striped:n=4,cc=reno",
            "tcp-striped:n=1",
            "tcp",
            "rudp",
        ] {
            let candidates = Candidates::connect(&address, &connecting, patient()).unwrap();
            // Too early: nobody has answered yet.
            candidates.begin_further(4);
            beside(&mut listener, candidates.answered()).await.unwrap();
            candidates.begin_further(4);
            candidates.begin_further(4);
            beside(&mut listener, candidates.control()).await.unwrap();
            let (accepted, link) = meet(&mut listener, candidates, choice).await;
            assert_eq!(accepted.pick, pick(choice));
            converse(link, accepted.link).await;
        }
        // Nothing is picked at all.
        let candidates = Candidates::connect(&address, &connecting, patient()).unwrap();
        beside(&mut listener, candidates.answered()).await.unwrap();
        candidates.begin_further(32);
        drop(candidates);
        let candidates = Candidates::connect(&address, &connecting, patient()).unwrap();
        let (accepted, link) = meet(&mut listener, candidates, "tcp").await;
        converse(link, accepted.link).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_offered_can_be_picked() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::of(["tcp"]).unwrap()).await;
    let address = listener.local_address();
    // A listener that needs no UDP takes none.
    drop(UdpSocket::bind(&address).await.unwrap());
    let mut candidates = Candidates::connect(&address, &connecting, patient()).unwrap();
    let control = beside(&mut listener, candidates.control()).await.unwrap();
    assert_eq!(control.offer.names().collect::<Vec<_>>(), ["tcp"]);
    for choice in ["rudp", "tcp-striped"] {
        let unpicked = beside(&mut listener, candidates.pick(&pick(choice), Vec::new())).await;
        let unpicked = unpicked.unwrap_err();
        assert!(
            matches!(unpicked.error.root(), TransportError::NotOffered { transport, .. } if *transport == choice),
            "{}",
            unpicked.error
        );
        candidates = *unpicked.candidates;
    }
    let too_long = candidates
        .pick(&pick("tcp"), vec![0; 1025])
        .await
        .unwrap_err();
    assert!(matches!(
        too_long.error,
        TransportError::TooLong {
            got: 1025,
            limit: 1024
        }
    ));
    // A congestion control that is not there costs nothing but itself.
    let missing = too_long
        .candidates
        .pick(&pick("tcp:cc=nonesuch"), Vec::new())
        .await;
    let missing = missing.unwrap_err();
    assert!(matches!(
        missing.error,
        TransportError::CongestionControl { .. }
    ));
    let (accepted, link) = meet(&mut listener, *missing.candidates, "tcp").await;
    converse(accepted.link, link).await;
}

#[tokio::test]
async fn reliable_udp_and_quic_alone_can_be_offered() {
    let (listening, connecting) = pinned();
    for choice in ["rudp", "quic"] {
        let mut listener = bind(&listening, Offer::of([choice]).unwrap()).await;
        let address = listener.local_address();
        let candidates = Candidates::connect(&address, &connecting, patient()).unwrap();
        let (accepted, link) = meet(&mut listener, candidates, choice).await;
        converse(accepted.link, link).await;
    }
    let offer = Offer::of(["quic"]).unwrap();
    let bound = AutoListener::bind("127.0.0.1:0", &Security::Plaintext, offer, patient()).await;
    assert!(matches!(bound, Err(TransportError::NoPlaintext { .. })));
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
        matches!(error, TransportError::NoCommonTransport { .. }),
        "{error}"
    );
    let mut plain = udp.listen("127.0.0.1:0", &listening).await.unwrap();
    let candidates = Candidates::connect(&plain.local_address(), &connecting, patient()).unwrap();
    let error = tokio::select! {
        told = candidates.control() => told.unwrap_err(),
        accepted = plain.accept() => panic!("{accepted:?}"),
    };
    assert!(
        matches!(error.root(), TransportError::NoCommonTransport { .. }),
        "{error}"
    );
    let error = candidates.rudp().await.unwrap_err();
    assert!(
        matches!(error.root(), TransportError::NoCommonTransport { .. }),
        "{error}"
    );
}

/// Garbage at both ports while three transports carry links of one listener.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_of_several_transports_live_side_by_side_amid_garbage() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let address = listener.local_address();
    let mut pairs = Vec::new();
    for choice in ["quic", "rudp", "tcp", "tcp-striped:n=2", "quic", "rudp"] {
        let candidates = Candidates::connect(&address, &connecting, patient()).unwrap();
        let (accepted, link) = meet(&mut listener, candidates, choice).await;
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
    // And it still lets in who knows what to say.
    let candidates = Candidates::connect(&address, &connecting, patient()).unwrap();
    let (accepted, link) = meet(&mut listener, candidates, "quic").await;
    converse(link, accepted.link).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_picks_nothing_is_dropped() {
    let (listening, connecting) = pinned();
    let mut options = patient();
    options.tcp.handshake_timeout = Duration::from_millis(700);
    options.quic.handshake_timeout = Duration::from_millis(700);
    let bound = AutoListener::bind("127.0.0.1:0", &listening, Offer::all(), options).await;
    let mut listener = bound.unwrap();
    let address = listener.local_address();
    let idle = Candidates::connect(&address, &connecting, patient()).unwrap();
    let up = async { tokio::join!(idle.control(), idle.quic(), idle.rudp()) };
    let (control, quic, rudp) = beside(&mut listener, up).await;
    assert!(control.is_ok() && quic.is_ok() && rudp.is_ok());
    // Who goes without a word is no trouble either.
    drop(Candidates::connect(&address, &connecting, patient()).unwrap());
    let waited = tokio::time::sleep(Duration::from_millis(1500));
    beside(&mut listener, waited).await;
    // Too late: the link breaks at the first read, if it can be picked at all.
    if let Ok(link) = beside(&mut listener, idle.pick(&Pick::Quic, Vec::new())).await {
        let (mut reader, _writer) = link.into_parts();
        assert!(beside(&mut listener, reader.read(&mut [0])).await.is_err());
    }
    let candidates = Candidates::connect(&address, &connecting, patient()).unwrap();
    let (accepted, link) = meet(&mut listener, candidates, "tcp").await;
    converse(accepted.link, link).await;
}
