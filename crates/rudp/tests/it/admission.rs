//! The cost of unauthenticated connectors for a listener: bytes, memory and signatures.

use std::net::SocketAddr;
use std::time::Duration;

use transpute_netem::model::derive_seed;
use transpute_rudp::{AcceptLimits, ClosedReason, RudpConfig, RudpConnection, Time, VERSION};

use crate::link::{Datagram, Link, RTT};
use crate::serving::{Listener, connect, transmit};
use crate::sim::address;

const MS: Duration = Duration::from_millis(1);

/// The first byte of a handshake packet, by type.
const INITIAL: u8 = 0x30;
const HANDSHAKE: u8 = 0x31;
const RETRY: u8 = 0x32;
const VERSIONS: u8 = 0x33;

/// Limits of a listener without room for half-open connectors, so that every connector needs a
/// token.
fn busy() -> AcceptLimits {
    let mut limits = AcceptLimits::default();
    limits.half_open = 0;
    limits
}

fn listener(limits: AcceptLimits) -> Listener {
    Listener::with_limits(RudpConfig::default(), true, 1000, limits)
}

/// Returns the first packets of a connector: its first messages, then a train.
fn first_packets(seed: u64, config: &RudpConfig) -> Vec<Vec<u8>> {
    let mut connector = connect(config.clone(), Time::ZERO, true, seed);
    let mut sent = Vec::new();
    transmit(&mut connector, Time::ZERO, &mut sent);
    sent.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Returns the number of bytes in datagrams that contain only a train packet.
fn train_bytes(sent: &[(SocketAddr, Vec<u8>)]) -> usize {
    let is_train = |bytes: &&Vec<u8>| bytes[0] == HANDSHAKE && bytes.len() == 1200;
    sent.iter()
        .map(|(_, bytes)| bytes)
        .filter(is_train)
        .map(Vec::len)
        .sum()
}

/// An attacker sends packets of a connector, each several times, and does not answer.
#[test]
fn an_unvalidated_address_gets_at_most_three_times_the_bytes_it_sent() {
    let packets = first_packets(1, &RudpConfig::default());
    assert_eq!(packets.len(), 34);
    for count in 0..=packets.len() {
        for repeats in [1, 2, 5] {
            let mut listener = listener(AcceptLimits::default());
            let (mut received, mut sent_back, mut trains) = (0, 0, 0);
            let mut drain = |listener: &mut Listener, now, received: usize| {
                let sent = listener.transmit(now);
                sent_back += sent.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                trains += train_bytes(&sent);
                assert!(sent_back <= 3 * received, "{sent_back} for {received}");
                assert!(trains <= received, "trains of {trains} for {received}");
                (sent_back, trains)
            };
            let mut now = Time::ZERO;
            for packet in &packets[..count] {
                for _ in 0..repeats {
                    received += packet.len();
                    listener.handle_datagram(now, address(1), &mut packet.clone());
                    drain(&mut listener, now, received);
                }
                now = now + MS / 10;
            }
            while let Some(at) = listener.next_timeout() {
                now = at;
                listener.handle_timeout(now);
                drain(&mut listener, now, received);
                if repeats == 1 {
                    continue;
                }
                // In the first second, the attacker also repeats its first packet at every timeout
                // of the listener.
                if now < Time::ZERO + 1000 * MS
                    && let Some(packet) = packets[..count].first()
                {
                    received += packet.len();
                    listener.handle_datagram(now, address(1), &mut packet.clone());
                }
            }
            let (sent_back, trains) = drain(&mut listener, now, received);
            assert_eq!(sent_back > 0, count >= 2, "{count}");
            if count == packets.len() {
                assert_eq!(trains, 32 * 1200);
            }
        }
    }
}

/// A flight that was stopped by the anti-amplification limit continues when more bytes arrive.
#[test]
fn a_flight_resumes_when_more_bytes_arrive() {
    let packets = first_packets(1, &RudpConfig::default());
    let mut listener = listener(AcceptLimits::default());
    for packet in &packets[..2] {
        listener.handle_datagram(Time::ZERO, address(1), &mut packet.clone());
    }
    let mut now = Time::ZERO;
    let mut silent = 0;
    while silent < 2 {
        let sent = listener.transmit(now);
        silent = if sent.is_empty() { silent + 1 } else { 0 };
        now = listener
            .next_timeout()
            .expect("the listener must keep a timer");
        listener.handle_timeout(now);
    }
    let first = &packets[0];
    listener.handle_datagram(now, address(1), &mut first.clone());
    let sent = listener.transmit(now);
    assert!(!sent.is_empty(), "expected a datagram at {now:?}, got none");
}

/// A connector that receives a Retry packet takes one more round trip.
#[test]
fn a_retry_costs_one_round_trip() {
    let connector = connect(RudpConfig::default(), Time::ZERO, true, 1);
    let mut link = Link::of(connector, listener(busy()));
    let mut retries = 0;
    let mut listener_trains = 0;
    link.run(4 * RTT, &mut |datagram| {
        retries += usize::from(datagram.is(RETRY));
        let to = (datagram.to, datagram.bytes.clone());
        listener_trains += usize::from(!datagram.is_upward) * train_bytes(&[to]);
        true
    });
    let established = link.seen[0].established.expect("established");
    assert_eq!(established, Time::ZERO + 2 * RTT);
    assert_eq!(link.listener.sessions, 1);
    // Each of three copies of the first flight has two packets, and each packet causes a Retry
    // packet.
    assert_eq!(retries, 6);
    assert_eq!(
        listener_trains, 0,
        "a listener under load must not send a train"
    );
    assert_eq!(link.connector.incoming_train(), None);
}

/// A token is valid for one address, one connection and ten seconds.
#[test]
fn tokens_of_other_connectors_are_rejected() {
    let connector = connect(RudpConfig::default(), Time::ZERO, true, 1);
    let mut link = Link::of(connector, listener(busy()));
    let mut with_token: Vec<Vec<u8>> = Vec::new();
    link.run(RTT + MS, &mut |datagram| {
        let has_token = datagram.is(INITIAL) && datagram.is_upward && datagram.bytes[24] > 0;
        if has_token {
            with_token.push(datagram.bytes.clone());
        }
        !has_token
    });
    let messages = &with_token[..2];
    let sessions = |from: SocketAddr, now: Time, change: &dyn Fn(&mut Vec<u8>)| {
        let mut other = listener(busy());
        for message in messages {
            let mut message = message.clone();
            change(&mut message);
            other.handle_datagram(now, from, &mut message);
        }
        let replies = other.transmit(now);
        (
            other.sessions,
            replies
                .iter()
                .filter(|(_, bytes)| bytes[0] == RETRY)
                .count(),
        )
    };
    let now = link.now;
    assert_eq!(sessions(address(1), now, &|_| {}), (1, 0));
    assert_eq!(sessions(address(1), now + 9000 * MS, &|_| {}), (1, 0));
    assert_eq!(sessions(address(1), now + 10_000 * MS, &|_| {}), (0, 2));
    assert_eq!(sessions(address(9), now, &|_| {}), (0, 2));
    let elsewhere = SocketAddr::from(([192, 0, 2, 9], 1));
    assert_eq!(sessions(elsewhere, now, &|_| {}), (0, 2));
    // Two of the offsets are in the token, and one is in each of the two IDs. A token with a
    // flipped bit, or with another ID, is not valid.
    for at in [25, 50, 2, 17] {
        let flip = |message: &mut Vec<u8>| message[at] ^= 1;
        assert_eq!(sessions(address(1), now, &flip), (0, 2), "{at}");
    }
}

fn forged(first: u8, version: u8, answered: &[u8], list: &[u8]) -> Datagram {
    let mut bytes = vec![first, version];
    bytes.extend_from_slice(&answered[10..18]);
    bytes.extend_from_slice(&answered[2..10]);
    bytes.push(list.len() as u8);
    bytes.extend_from_slice(list);
    Datagram {
        is_upward: false,
        from: address(2),
        to: address(1),
        bytes,
    }
}

/// Only one Retry packet is accepted. A second one, one for another connection and a forged one
/// have no effect.
#[test]
fn retry_packets_count_once() {
    for limits in [busy(), AcceptLimits::default()] {
        let connector = connect(RudpConfig::default(), Time::ZERO, true, 1);
        let mut link = Link::of(connector, listener(limits));
        let mut first = Vec::new();
        link.run(MS, &mut |datagram| {
            first.extend((first.is_empty()).then(|| datagram.bytes.clone()));
            true
        });
        let answered: &Vec<u8> = &first[0];
        let mut other_connection = answered.clone();
        other_connection[3] ^= 1;
        link.inject(forged(RETRY, VERSION, &other_connection, &[1; 36]));
        if limits != busy() {
            // The packet is injected before the listener's first packet arrives.
            link.run(RTT / 2 - 2 * MS, &mut |_| true);
            link.inject(forged(RETRY, VERSION, answered, &[2; 36]));
        }
        let mut tokens = Vec::new();
        let mut injected = false;
        let mut collect = |datagram: &mut Datagram| {
            if datagram.is_upward && datagram.is(INITIAL) && datagram.bytes[24] > 0 {
                tokens.push(datagram.bytes[25..61].to_vec());
            }
            true
        };
        for _ in 0..40 {
            link.run(4 * MS, &mut collect);
            if link.now >= Time::ZERO + RTT && !std::mem::replace(&mut injected, true) {
                link.inject(forged(RETRY, VERSION, answered, &[3; 36]));
            }
        }
        assert!(link.connector.is_established() && link.accepted().is_established());
        tokens.dedup();
        assert_eq!(tokens.len(), 1, "{tokens:?}");
        assert_ne!(tokens[0], [3; 36]);
    }
}

/// Returns a packet with another version.
fn of_version(packet: &[u8], version: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[1] = version;
    packet
}

#[test]
fn another_version_gets_the_list_of_versions() {
    let packets = first_packets(1, &RudpConfig::default());
    let mut listener = listener(AcceptLimits::default());
    for (index, packet) in packets.iter().enumerate() {
        listener.handle_datagram(Time::ZERO, address(1), &mut of_version(packet, 9));
        let replies = listener.transmit(Time::ZERO);
        // Train packets are not answered.
        assert_eq!(replies.len(), usize::from(index < 2));
        for (to, reply) in replies {
            assert_eq!(to, address(1));
            assert_eq!(reply[..2], [VERSIONS, 0]);
            assert_eq!(reply[2..10], packet[10..18]);
            assert_eq!(reply[10..18], packet[2..10]);
            assert_eq!(reply[18..], [1, VERSION]);
            // A version negotiation packet is not answered with another one, nor is a short packet.
            for bytes in [&reply[..], &packet[..1199]] {
                listener.handle_datagram(Time::ZERO, address(1), &mut of_version(bytes, 9));
                assert!(listener.transmit(Time::ZERO).is_empty());
            }
        }
    }
    let mut answers = 0;
    for _ in 0..10_000 {
        listener.handle_datagram(Time::ZERO, address(1), &mut of_version(&packets[0], 9));
        answers += listener.transmit(Time::ZERO).len();
    }
    assert!(answers <= 100, "{answers}");
    assert_eq!((listener.sessions, listener.acceptor.half_open()), (0, 0));
}

/// A list without this version ends the handshake with an error that names both versions. A list
/// with this version is forged and ignored.
#[test]
fn a_version_mismatch_names_both_versions() {
    let mismatch = Some(ClosedReason::VersionMismatch { ours: 3, theirs: 7 });
    for (list, expected) in [
        (&[4, 7, 5][..], mismatch),
        (&[VERSION][..], None),
        (&[4, VERSION, 7], None),
        (&[], None),
        (&[4; 9], None),
    ] {
        let mut link = Link::new(&RudpConfig::default());
        let mut first = Vec::new();
        link.run(MS, &mut |datagram| {
            first.extend((first.is_empty()).then(|| datagram.bytes.clone()));
            false
        });
        let mut foreign = first[0].clone();
        foreign[12] ^= 1;
        link.inject(forged(VERSIONS, 0, &foreign, &[4]));
        link.inject(forged(VERSIONS, 0, &first[0], list));
        link.run(RTT / 2 + MS, &mut |_| false);
        assert_eq!(link.connector.closed_reason(), expected, "{list:?}");
    }
    let error = ClosedReason::VersionMismatch { ours: 3, theirs: 7 }.to_string();
    assert!(error.contains('3') && error.contains('7'), "{error}");
}

/// Floods the listener with a hundred thousand first packets per second from random addresses, with
/// complete and incomplete messages.
fn flood(limits: AcceptLimits, max_sessions: u64) {
    const SECONDS: u64 = 3;
    const PER_MS: u64 = 100;
    let mut quiet = RudpConfig::default();
    quiet.probe = false;
    let pool: Vec<_> = (0..200).map(|seed| first_packets(seed, &quiet)).collect();
    let connector = connect(RudpConfig::default(), Time::ZERO, true, 12_345);
    let mut link = Link::of(connector, listener(limits));
    // A legitimate connector starts in the middle of the flood.
    let mut legitimate = None;
    let (mut received, mut sent_back) = (0, 0);
    for ms in 0..SECONDS * 1000 {
        for n in 0..PER_MS {
            let random = |label| derive_seed(ms * PER_MS + n, label);
            let ip = (random(1) as u32).to_be_bytes();
            let from = SocketAddr::from((ip, 1 + (random(2) % 60_000) as u16));
            let packets = &pool[random(3) as usize % pool.len()];
            // The connector sends one of its two packets, or both.
            let count = 1 + random(4) as usize % 2;
            for packet in &packets[..count] {
                received += packet.len();
                (link.listener).handle_datagram(link.now, from, &mut packet.clone());
            }
        }
        let acceptor = &link.listener.acceptor;
        assert!(acceptor.half_open() <= limits.half_open.max(1));
        assert!(acceptor.held_bytes() <= limits.half_open * 4 * 1024);
        assert_eq!(acceptor.early_bytes(), 0);
        assert!(link.listener.handshakes() <= limits.handshakes);
        if ms == 1000 {
            let connector = connect(RudpConfig::default(), link.now, true, 12_345);
            legitimate = Some(link.now);
            link.connector = connector;
        }
        link.run(MS, &mut |datagram| {
            let is_legitimate = datagram.from == address(1) || datagram.to == address(1);
            if !is_legitimate {
                sent_back += datagram.bytes.len();
            }
            is_legitimate && legitimate.is_some()
        });
        link.listener.sweep();
    }
    assert!(sent_back <= 3 * received, "{sent_back} for {received}");
    let sessions = link.listener.sessions as u64;
    assert!(sessions > 0 && sessions <= max_sessions, "{sessions}");
    let established = link.seen[0]
        .established
        .expect("expected the legitimate connector to be established");
    // The Retry packet costs one more round trip than usual, and one or two copies of the first
    // flight are lost, which are 5 ms apart.
    let took = established.since(legitimate.unwrap());
    assert!(took <= 2 * RTT + 10 * MS, "{took:?}");
    let is_legitimate =
        |one: &mut RudpConnection| one.remote() == address(1) && one.is_established();
    assert!(link.listener.connections().any(is_legitimate));
}

#[test]
fn a_flood_of_first_packets_costs_bounded_memory_and_signatures() {
    // Half of the maximum number of handshakes start, and none of them ends. The legitimate
    // connector adds one.
    flood(AcceptLimits::default(), 64 + 1);
}

#[test]
fn a_flood_of_first_packets_costs_bounded_signatures_per_second() {
    let mut limits = AcceptLimits::default();
    limits.handshakes = 1_000_000;
    limits.signatures = 50;
    // Signatures are made for a burst of one second, for three seconds, and for the legitimate
    // connector.
    flood(limits, 50 * 4 + 1);
}

/// Connectors with a validated address share the signatures of their network.
#[test]
fn signatures_per_network_are_limited() {
    let mut limits = busy();
    limits.signatures_per_network = 8;
    let mut server = listener(limits);
    for number in 0..60 {
        // The connectors are in two networks, each with a prefix of 24 bits.
        let network = 2 + number % 2;
        let source = SocketAddr::from(([192, 0, network as u8, number as u8], 1));
        let mut quiet = RudpConfig::default();
        quiet.probe = false;
        let mut link = Link::of(connect(quiet, Time::ZERO, true, number), server);
        link.source = source;
        link.run(RTT + RTT / 2 + MS, &mut |datagram| {
            // Drops copies, because a rejected connector tries again.
            !(datagram.is_upward && datagram.bytes.len() < 1200)
        });
        server = link.listener;
        server.sweep();
    }
    // All connectors start within a quarter of a second, so each network gets a burst of eight.
    assert_eq!(server.sessions, 16);
}
