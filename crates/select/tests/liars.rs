//! Peers that keep silent, break off half-way, or flood: the choice is made all the same, and in bounded time.
//!
//! Where something is waited for without need, these tests wait for a minute and fail; nothing else is timed. Every limit but the one
//! that is tried is set to hours.

#![cfg(target_os = "linux")]

mod curious;
// Those of the crate whose transports are chosen from.
#[path = "../../transport/tests/meeting/mod.rs"]
mod meeting;
#[path = "../../transport/tests/relay/mod.rs"]
mod relay;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    time::timeout,
};
use transpute_select::{Auto, End, Selection, Udp, Workload};
use transpute_transport::{
    Link, Listener, Security, TransportError,
    auto::{Accepted, AutoListener, AutoOptions, Offer},
};

use self::curious::Curious;
use self::meeting::{patient, pinned};

/// Far beyond what any of this takes: a hang, not a slow machine.
const FOREVER: Duration = Duration::from_secs(60);

/// What is never waited for.
const HOURS: Duration = Duration::from_secs(36_000);

fn large() -> Workload {
    Workload::transfer(End::Listener, 30_000_000).unwrap()
}

/// Chooses among these, in this order, with options: at once, or when everything is known.
fn in_order(order: &[&'static str], is_hasty: bool, options: AutoOptions) -> Auto {
    let chooser = match is_hasty {
        true => Curious::new(order, |_| true),
        false => Curious::new(order, |_| false),
    };
    by_model(order, options).with_chooser(chooser)
}

fn by_model(among: &[&str], options: AutoOptions) -> Auto {
    let among = among.iter().map(|name| name.parse().unwrap()).collect();
    Auto::new(large()).among(among).with_options(options)
}

/// Waits for hours for everything, but for the choice.
fn only_the_choice_is_timed() -> AutoOptions {
    let mut options = AutoOptions::default();
    options.tcp.connect_timeout = HOURS;
    options.tcp.handshake_timeout = HOURS;
    options.quic.connect_timeout = HOURS;
    options.quic.handshake_timeout = HOURS;
    options.rudp.setup_timeout = HOURS;
    options.udp_patience = HOURS;
    options.choice_timeout = Duration::from_millis(500);
    options
}

async fn bind(security: &Security) -> AutoListener {
    AutoListener::bind("127.0.0.1:0", security, Offer::all(), patient())
        .await
        .unwrap()
}

/// Connects, and fails rather than hang. The listener goes on meanwhile.
async fn select(
    listener: &mut AutoListener,
    address: &str,
    auto: &Auto,
    security: &Security,
) -> (Option<Accepted>, Link, Selection) {
    let mut accepted = None;
    let selecting = async {
        let mut selecting = std::pin::pin!(auto.select(address, security));
        loop {
            tokio::select! {
                selected = &mut selecting => return selected.unwrap(),
                next = listener.next(), if accepted.is_none() => accepted = Some(next.unwrap()),
            }
        }
    };
    let (link, selection) = timeout(FOREVER, selecting)
        .await
        .expect("the choice is made");
    assert_eq!(link.info().transport, selection.choice.winner().name());
    (accepted, link, selection)
}

/// Does the same, and has the two sides talk over what was chosen.
async fn meet(
    listener: &mut AutoListener,
    address: &str,
    auto: &Auto,
    security: &Security,
) -> Selection {
    let (accepted, near, selection) = select(listener, address, auto, security).await;
    let talk = async {
        let far = match accepted {
            Some(accepted) => accepted.link,
            None => listener.next().await.unwrap().link,
        };
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
    };
    timeout(FOREVER, talk).await.expect("the link works");
    selection
}

/// TCP is taken and never answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_over_tcp_does_not_hold_up_quic() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening).await;
    let relay = relay::relay(&listener.local_address()).await;
    relay.faults.mute.store(true, Ordering::Relaxed);
    let among = ["tcp", "rudp", "tcp-striped", "quic"];
    let options = only_the_choice_is_timed();
    for auto in [
        by_model(&among, options),
        in_order(&among, false, options),
        // Is chosen before it is up.
        in_order(&among, true, options),
    ] {
        let selection = meet(&mut listener, &relay.address, &auto, &connecting).await;
        assert_eq!(selection.choice.winner().as_str(), "quic");
        assert_eq!(selection.path.udp, Udp::Passes);
        for (_, why) in selection.choice.excluded.iter().chain(&selection.failed) {
            assert!(why.contains("timed out"), "{why}");
        }
    }
    // A probe says what it found.
    let auto = by_model(&among, options);
    let probing = async {
        tokio::select! {
            probed = auto.probe(&relay.address, &connecting) => probed.unwrap(),
            accepted = listener.next() => panic!("{accepted:?}"),
        }
    };
    let probed = timeout(FOREVER, probing).await.expect("it ends");
    assert_eq!(probed.path.udp, Udp::Passes);
    relay.tcp.abort();
}

/// UDP is never answered, and whoever connects waits for hours for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_over_udp_does_not_hold_up_tcp() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening).await;
    let relay = relay::relay(&listener.local_address()).await;
    relay.faults.cut.store(true, Ordering::Relaxed);
    let among = ["rudp", "quic", "tcp"];
    for is_hasty in [false, true] {
        let auto = in_order(&among, is_hasty, only_the_choice_is_timed());
        let selection = meet(&mut listener, &relay.address, &auto, &connecting).await;
        assert_eq!(selection.choice.winner().as_str(), "tcp");
    }
    relay.tcp.abort();
}

/// The control connection is up, and further ones are taken and never answered: the link does without them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_on_further_connections_does_not_hold_up_the_first() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening).await;
    let relay = relay::relay(&listener.local_address()).await;
    relay.faults.heard.store(1, Ordering::Relaxed);
    relay.faults.mute.store(true, Ordering::Relaxed);
    let among = ["tcp-striped", "tcp-striped:n=2", "tcp"];
    let auto = in_order(&among, false, only_the_choice_is_timed());
    let selection = meet(&mut listener, &relay.address, &auto, &connecting).await;
    assert_eq!(selection.choice.winner().as_str(), "tcp-striped");
    assert!(selection.failed.is_empty());
    relay.tcp.abort();
}

/// Reliable UDP comes up, and then nothing more: no train, and no report on ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_reports_nothing_is_not_waited_for() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening).await;
    let relay = relay::relay(&listener.local_address()).await;
    // The challenges, and the answers to them.
    relay.faults.spared.store(2, Ordering::Relaxed);
    relay.faults.cut.store(true, Ordering::Relaxed);
    let mut options = only_the_choice_is_timed();
    options.choice_timeout = HOURS;
    options.rudp.idle_timeout = HOURS;
    let auto = in_order(&["rudp", "tcp"], false, options);
    let (_, link, selection) = select(&mut listener, &relay.address, &auto, &connecting).await;
    assert_eq!(selection.choice.winner().as_str(), "rudp");
    let path = &selection.path;
    assert_eq!((path.up.rate, path.up.loss), (None, None));
    assert_eq!((path.down.rate, path.down.loss), (None, None));
    assert_eq!(path.udp, Udp::Passes);
    drop(link);
    relay.tcp.abort();
}

/// Nothing at all is ever answered: an error in the time of a handshake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_everywhere_is_an_error() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let _udp = UdpSocket::bind(&address).await.unwrap();
    let (_, connecting) = pinned();
    for security in [connecting, Security::Plaintext] {
        let mut options = only_the_choice_is_timed();
        options.choice_timeout = HOURS;
        options.udp_patience = Duration::from_millis(30);
        options.tcp.handshake_timeout = Duration::from_millis(300);
        let auto = by_model(&["rudp", "quic", "tcp", "tcp-striped"], options);
        let selected = timeout(FOREVER, auto.select(&address, &security)).await;
        let error = selected.expect("it ends").unwrap_err();
        assert!(
            matches!(error.root(), TransportError::Timeout { .. }),
            "{error}"
        );
        let probed = timeout(FOREVER, auto.probe(&address, &security)).await;
        assert!(probed.expect("it ends").is_err());
    }
}

/// Replays and forgeries, from an address of their own, until told to stop. Returns bytes sent and bytes that came back.
async fn flood(
    target: String,
    templates: Vec<Vec<u8>>,
    is_over: Arc<AtomicBool>,
) -> (usize, usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (mut sent, mut came) = (0, 0);
    let mut buffer = [0; 2048];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0_usize.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        for index in 0..16 {
            let mut packet = templates[draw() as usize % templates.len()].clone();
            match index % 4 {
                // As it was.
                0 => {}
                // Of a connection that is there, with another number or other contents.
                1 => {
                    let at = draw() as usize % packet.len();
                    packet[at] ^= 1 << (draw() % 8);
                }
                // Of a connection that may yet come.
                2 => packet[1..5].copy_from_slice(&draw().to_le_bytes()[..4]),
                _ => packet.truncate(1 + draw() as usize % packet.len()),
            }
            sent += socket.send_to(&packet, &target).await.unwrap_or(0);
        }
        while let Ok(length) = socket.try_recv(&mut buffer) {
            came += length;
        }
        if round % 4 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // What is still on its way.
    while let Ok(Ok(length)) = timeout(Duration::from_millis(300), socket.recv(&mut buffer)).await {
        came += length;
    }
    (sent, came)
}

/// Returns the memory of this process that is in use.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// While the port is flooded with what was recorded of real connections, whole and broken, choices are made, memory stays,
/// and the flood is answered with nothing over reliable UDP and with no more than three times as much over QUIC.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_keeps_nobody_from_choosing() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening).await;
    let address = listener.local_address();
    let relay = relay::relay(&address).await;
    for transport in ["quic", "rudp"] {
        let auto = in_order(&[transport, "tcp"], false, patient());
        let selection = meet(&mut listener, &relay.address, &auto, &connecting).await;
        assert_eq!(selection.choice.winner().as_str(), transport);
    }
    relay.tcp.abort();
    let recorded = std::mem::take(&mut *relay.faults.recorded.lock().unwrap());
    let (rudp, quic): (Vec<_>, Vec<_>) = recorded
        .into_iter()
        .partition(|packet| (0x10..0x30).contains(&packet[0]));
    assert!(rudp.len() > 20 && !quic.is_empty());

    let is_over = Arc::new(AtomicBool::new(false));
    let start = |templates| tokio::spawn(flood(address.clone(), templates, is_over.clone()));
    let floods = (start(rudp), start(quic));
    let mut before = 0;
    for round in 0..12 {
        let among = ["rudp", "quic", "tcp"];
        let auto = match round % 3 {
            0 => in_order(&among, false, patient()),
            1 => in_order(&among, true, AutoOptions::default()),
            _ => by_model(&among, AutoOptions::default()),
        };
        meet(&mut listener, &address, &auto, &connecting).await;
        if round == 5 {
            before = resident_bytes();
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    is_over.store(true, Ordering::Relaxed);
    let answered = async {
        tokio::select! {
            counts = async { (floods.0.await.unwrap(), floods.1.await.unwrap()) } => counts,
            accepted = listener.next() => panic!("{accepted:?}"),
        }
    };
    let ((rudp_sent, rudp_came), (quic_sent, quic_came)) = answered.await;
    assert_eq!(rudp_came, 0, "for {rudp_sent}");
    assert!(quic_came <= 3 * quic_sent, "{quic_came} for {quic_sent}");
    assert!(rudp_sent > 100_000 && quic_sent > 100_000);
    assert!(grown < 32 << 20, "grew by {grown}");
}
