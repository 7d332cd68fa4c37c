//! What a listener spends on connectors that are not authenticated: bytes, memory, signatures.

use std::net::SocketAddr;
use std::time::Duration;

use transpute_netem::model::derive_seed;
use transpute_rudp::{AcceptLimits, ClosedReason, Config, Connection, Time, VERSION};

use crate::link::{Datagram, Link, RTT};
use crate::serving::{Listener, connect, transmit};
use crate::sim::address;

const MS: Duration = Duration::from_millis(1);

/// First bytes of packets of the set-up.
const INITIAL: u8 = 0x30;
const HANDSHAKE: u8 = 0x31;
const RETRY: u8 = 0x32;
const VERSIONS: u8 = 0x33;

/// A table without room: every connector needs a token.
const BUSY: AcceptLimits = AcceptLimits {
    half_open: 0,
    handshakes: 128,
    signatures: 256,
    signatures_per_network: 64,
};

fn listener(limits: AcceptLimits) -> Listener {
    Listener::with_limits(Config::default(), true, 1000, limits)
}

/// Returns what a connector sends at first: its first messages, then a train.
fn first_packets(seed: u64, config: &Config) -> Vec<Vec<u8>> {
    let mut connector = connect(config.clone(), Time::ZERO, true, seed);
    let mut sent = Vec::new();
    transmit(&mut connector, Time::ZERO, &mut sent);
    sent.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Bytes of datagrams that hold nothing but a packet of a train.
fn train_bytes(sent: &[(SocketAddr, Vec<u8>)]) -> usize {
    let is_train = |bytes: &&Vec<u8>| bytes[0] == HANDSHAKE && bytes.len() == 1200;
    sent.iter()
        .map(|(_, bytes)| bytes)
        .filter(is_train)
        .map(Vec::len)
        .sum()
}

/// Somebody sends packets of a connector, each several times, and never answers.
#[test]
fn an_address_that_is_not_validated_gets_at_most_three_times_what_it_gave() {
    let packets = first_packets(1, &Config::default());
    assert_eq!(packets.len(), 34);
    for count in 0..=packets.len() {
        for repeats in [1, 2, 5] {
            let mut listener = listener(AcceptLimits::default());
            let (mut given, mut got, mut trains) = (0, 0, 0);
            let mut drain = |listener: &mut Listener, now, given: usize| {
                let sent = listener.transmit(now);
                got += sent.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                trains += train_bytes(&sent);
                assert!(got <= 3 * given, "{got} for {given}");
                assert!(trains <= given, "trains of {trains} for {given}");
                (got, trains)
            };
            let mut now = Time::ZERO;
            for packet in &packets[..count] {
                for _ in 0..repeats {
                    given += packet.len();
                    listener.handle_datagram(now, address(1), &mut packet.clone());
                    drain(&mut listener, now, given);
                }
                now = now + MS / 10;
            }
            while let Some(at) = listener.next_timeout() {
                now = at;
                listener.handle_timeout(now);
                drain(&mut listener, now, given);
                if repeats == 1 {
                    continue;
                }
                // What was sent is sent again, for a while.
                if now < Time::ZERO + 1000 * MS
                    && let Some(packet) = packets[..count].first()
                {
                    given += packet.len();
                    listener.handle_datagram(now, address(1), &mut packet.clone());
                }
            }
            let (got, trains) = drain(&mut listener, now, given);
            assert_eq!(got > 0, count >= 2, "{count}");
            if count == packets.len() {
                assert_eq!(trains, 32 * 1200);
            }
        }
    }
}

/// A flight that the limit held back goes on when more bytes come.
#[test]
fn a_flight_resumes_when_more_bytes_come() {
    let packets = first_packets(1, &Config::default());
    let mut listener = listener(AcceptLimits::default());
    for packet in &packets[..2] {
        listener.handle_datagram(Time::ZERO, address(1), &mut packet.clone());
    }
    let mut now = Time::ZERO;
    let mut silent = 0;
    while silent < 2 {
        let sent = listener.transmit(now);
        silent = if sent.is_empty() { silent + 1 } else { 0 };
        now = listener.next_timeout().expect("it goes on trying");
        listener.handle_timeout(now);
    }
    let first = &packets[0];
    listener.handle_datagram(now, address(1), &mut first.clone());
    let sent = listener.transmit(now);
    assert!(!sent.is_empty(), "nothing at {now:?}");
}

/// A connector that is asked for a token takes one round trip more.
#[test]
fn a_retry_costs_one_round_trip() {
    let connector = connect(Config::default(), Time::ZERO, true, 1);
    let mut link = Link::of(connector, listener(BUSY));
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
    // Two packets in each of three copies.
    assert_eq!(retries, 6);
    assert_eq!(listener_trains, 0, "under load there is none");
    assert_eq!(link.connector.incoming_train(), None);
}

/// A token is for one address, one connection and ten seconds.
#[test]
fn tokens_of_others_are_worth_nothing() {
    let connector = connect(Config::default(), Time::ZERO, true, 1);
    let mut link = Link::of(connector, listener(BUSY));
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
        let mut other = listener(BUSY);
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
    // A bit of the token; of either id.
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

/// One Retry packet counts; a second one, or one for another connection, changes nothing. Neither
/// does one that somebody forged, where the listener asks for no token.
#[test]
fn retry_packets_count_once() {
    for limits in [BUSY, AcceptLimits::default()] {
        let connector = connect(Config::default(), Time::ZERO, true, 1);
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
        if limits != BUSY {
            // Before the listener's first packet.
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

/// Turns a packet into one of another version.
fn of_version(packet: &[u8], version: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[1] = version;
    packet
}

#[test]
fn another_version_gets_the_list_of_versions() {
    let packets = first_packets(1, &Config::default());
    let mut listener = listener(AcceptLimits::default());
    for (index, packet) in packets.iter().enumerate() {
        listener.handle_datagram(Time::ZERO, address(1), &mut of_version(packet, 9));
        let replies = listener.transmit(Time::ZERO);
        // Not for trains.
        assert_eq!(replies.len(), usize::from(index < 2));
        for (to, reply) in replies {
            assert_eq!(to, address(1));
            assert_eq!(reply[..2], [VERSIONS, 0]);
            assert_eq!(reply[2..10], packet[10..18]);
            assert_eq!(reply[10..18], packet[2..10]);
            assert_eq!(reply[18..], [1, VERSION]);
            // Nor for one another, nor for short packets.
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

/// A list without this version ends the set-up with an error that names both; a list that holds it
/// is forged.
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
        let mut link = Link::new(&Config::default());
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

/// A hundred thousand first packets a second from addresses that nobody answers at: complete and
/// incomplete ones.
fn flood(limits: AcceptLimits, max_sessions: u64) {
    const SECONDS: u64 = 3;
    const PER_MS: u64 = 100;
    let quiet = Config {
        probe: false,
        ..Config::default()
    };
    let pool: Vec<_> = (0..200).map(|seed| first_packets(seed, &quiet)).collect();
    let connector = connect(Config::default(), Time::ZERO, true, 12_345);
    let mut link = Link::of(connector, listener(limits));
    // The honest connector comes in the middle.
    let mut honest = None;
    let (mut given, mut got) = (0, 0);
    for ms in 0..SECONDS * 1000 {
        for n in 0..PER_MS {
            let dice = |label| derive_seed(ms * PER_MS + n, label);
            let ip = (dice(1) as u32).to_be_bytes();
            let from = SocketAddr::from((ip, 1 + (dice(2) % 60_000) as u16));
            let packets = &pool[dice(3) as usize % pool.len()];
            // One packet of two, or both.
            let count = 1 + dice(4) as usize % 2;
            for packet in &packets[..count] {
                given += packet.len();
                (link.listener).handle_datagram(link.now, from, &mut packet.clone());
            }
        }
        let acceptor = &link.listener.acceptor;
        assert!(acceptor.half_open() <= limits.half_open.max(1));
        assert!(acceptor.held_bytes() <= limits.half_open * 4 * 1024);
        assert_eq!(acceptor.early_bytes(), 0);
        assert!(link.listener.handshakes() <= limits.handshakes);
        if ms == 1000 {
            let connector = connect(Config::default(), link.now, true, 12_345);
            honest = Some(link.now);
            link.connector = connector;
        }
        link.run(MS, &mut |datagram| {
            let is_honest = datagram.from == address(1) || datagram.to == address(1);
            if !is_honest {
                got += datagram.bytes.len();
            }
            is_honest && honest.is_some()
        });
        link.listener.sweep();
    }
    assert!(got <= 3 * given, "{got} for {given}");
    let sessions = link.listener.sessions as u64;
    assert!(sessions > 0 && sessions <= max_sessions, "{sessions}");
    let established = link.seen[0]
        .established
        .expect("the honest connector gets through");
    // One round trip more than usual, and a lost copy or two.
    let took = established.since(honest.unwrap());
    assert!(took <= 2 * RTT + 10 * MS, "{took:?}");
    let is_honest = |one: &mut Connection| one.remote() == address(1) && one.is_established();
    assert!(link.listener.connections().any(is_honest));
}

#[test]
fn a_flood_of_first_packets_costs_bounded_memory_and_signatures() {
    // Half of the handshakes that may be under way, none of which ends, and the honest one.
    flood(AcceptLimits::default(), 64 + 1);
}

#[test]
fn a_flood_of_first_packets_costs_bounded_signatures_a_second() {
    let limits = AcceptLimits {
        handshakes: 1_000_000,
        signatures: 50,
        ..AcceptLimits::default()
    };
    // A burst of one second's worth, three seconds, and the honest one.
    flood(limits, 50 * 4 + 1);
}

/// Connectors that show their address share the signatures of their network.
#[test]
fn a_network_gets_so_many_signatures_a_second() {
    let limits = AcceptLimits {
        signatures_per_network: 8,
        ..BUSY
    };
    let mut server = listener(limits);
    for number in 0..60 {
        // Two networks of 24 bits.
        let network = 2 + number % 2;
        let source = SocketAddr::from(([192, 0, network as u8, number as u8], 1));
        let quiet = Config {
            probe: false,
            ..Config::default()
        };
        let mut link = Link::of(connect(quiet, Time::ZERO, true, number), server);
        link.source = source;
        link.run(RTT + RTT / 2 + MS, &mut |datagram| {
            // No copies: a connector that is refused comes again.
            !(datagram.is_upward && datagram.bytes.len() < 1200)
        });
        server = link.listener;
        server.sweep();
    }
    // All within a quarter of a second, by their clocks: a burst of eight for each.
    assert_eq!(server.sessions, 16);
}
