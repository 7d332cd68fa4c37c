//! Packets from attackers without keys, and from peers that have keys and violate the protocol.

use std::time::Duration;

use transpute_netem::model::derive_seed;
use transpute_rudp::{Read, RudpConfig, RudpConnection, RudpEvent, Stats, Time, is_set_up};

use crate::serving::{connect, pair};
use crate::sim::address;

const MS: Duration = Duration::from_millis(1);

/// Two ends joined by function calls only, and all datagrams that were sent.
pub(crate) struct Pair {
    pub(crate) connector: RudpConnection,
    pub(crate) listener: RudpConnection,
    pub(crate) now: Time,
    pub(crate) recorded: Vec<Vec<u8>>,
}

impl Pair {
    pub(crate) fn new(config: RudpConfig) -> Self {
        Self::seeded(config, 1)
    }

    pub(crate) fn seeded(config: RudpConfig, seed: u64) -> Self {
        let mut recorded = Vec::new();
        let (connector, listener) = pair([config.clone(), config], true, seed, &mut recorded);
        Self {
            connector,
            listener,
            now: Time::ZERO,
            recorded,
        }
    }

    pub(crate) fn exchange(&mut self) {
        for _ in 0..200 {
            self.now = self.now + MS / 4;
            for upward in [true, false] {
                let (from, to) = if upward {
                    (&mut self.connector, &mut self.listener)
                } else {
                    (&mut self.listener, &mut self.connector)
                };
                if from.next_timeout().is_some_and(|at| at <= self.now) {
                    from.handle_timeout(self.now);
                }
                let mut out = Vec::new();
                while let Some(transmit) = from.poll_transmit(self.now, &mut out, 8) {
                    for datagram in out.chunks_mut(transmit.segment_size) {
                        self.recorded.push(datagram.to_vec());
                        to.handle_datagram(self.now, address(if upward { 1 } else { 2 }), datagram);
                    }
                    out.clear();
                }
            }
        }
    }
}

/// Sends forged packets to both ends of an established connection, and checks that only counters
/// change.
fn send_forgeries(count: u64) {
    let mut pair = Pair::new(RudpConfig::default());
    pair.connector.write(&[7; 100_000]);
    pair.exchange();
    assert!(pair.connector.is_established() && pair.listener.is_established());
    let state = |connection: &RudpConnection| {
        let stats = connection.stats();
        (
            (
                stats.sent_packets,
                stats.received_packets,
                stats.received_bytes,
                stats.rtt,
                stats.bytes_in_flight,
            ),
            (
                connection.next_timeout(),
                connection.readable(),
                connection.writable(),
                connection.remote(),
            ),
        )
    };
    for end in [&mut pair.connector, &mut pair.listener] {
        while end.poll_event().is_some() {}
    }
    let before = [state(&pair.connector), state(&pair.listener)];
    let ignored = |connection: &RudpConnection| {
        let stats = connection.stats();
        stats.ignored_foreign + stats.ignored_forged + stats.ignored_replayed
    };
    let was = ignored(&pair.connector) + ignored(&pair.listener);
    let mut datagram = Vec::new();
    for n in 0..count {
        let random = |label| derive_seed(n, label);
        datagram.clear();
        let template = &pair.recorded[random(1) as usize % pair.recorded.len()];
        match random(2) % 5 {
            // Random bytes, some of them with a valid header.
            0 => {
                let length = (random(3) % 1500) as usize;
                datagram.extend(
                    (0..length as u64)
                        .map(|at| derive_seed(n, 100 + at / 8).to_le_bytes()[at as usize % 8]),
                );
                let keep = (random(4) % 12) as usize;
                let keep = keep.min(length).min(template.len());
                datagram[..keep].copy_from_slice(&template[..keep]);
            }
            // A real packet with one bit flipped.
            1 => {
                datagram.extend_from_slice(template);
                let bit = random(3) as usize % (datagram.len() * 8);
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            2 => datagram.extend_from_slice(&template[..random(3) as usize % template.len()]),
            // A replayed packet.
            3 => datagram.extend_from_slice(template),
            // A real packet with another packet number.
            _ => {
                datagram.extend_from_slice(template);
                let number = random(3) % 100_000 + 1_000_000;
                datagram[5..11].copy_from_slice(&number.to_le_bytes()[..6]);
            }
        }
        // The datagram comes from the address of the peer or from another one.
        let (end, peer) = match random(5) % 2 {
            0 => (&mut pair.connector, address(2)),
            _ => (&mut pair.listener, address(1)),
        };
        let from = [peer, address(666)][random(6) as usize % 2];
        end.handle_datagram(pair.now, from, &mut datagram);
    }
    assert_eq!(before, [state(&pair.connector), state(&pair.listener)]);
    assert_eq!(
        ignored(&pair.connector) + ignored(&pair.listener),
        was + count
    );
    for end in [&mut pair.connector, &mut pair.listener] {
        assert_eq!(end.poll_event(), None);
        let mut out = Vec::new();
        assert!(end.poll_transmit(pair.now, &mut out, 8).is_none());
    }
    // The connection still works.
    pair.listener.write(b"still here");
    pair.exchange();
    let mut buffer = [0; 64];
    assert_eq!(pair.connector.read(pair.now, &mut buffer), Read::Data(10));
    assert_eq!(&buffer[..10], b"still here");
}

#[test]
fn a_hundred_thousand_forgeries_have_no_effect() {
    send_forgeries(100_000);
}

#[test]
#[ignore = "slow: cargo xtask slow-tests"]
fn ten_million_forgeries_have_no_effect() {
    send_forgeries(10_000_000);
}

#[test]
fn a_missing_peer_is_reported_with_a_typed_error() {
    let mut connector = connect(RudpConfig::default(), Time::ZERO, true, 1);
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    let mut packets = 0;
    loop {
        while let Some(transmit) = connector.poll_transmit(now, &mut out, 10) {
            packets += transmit.len.div_ceil(transmit.segment_size);
            out.clear();
        }
        let Some(at) = connector.next_timeout() else {
            break;
        };
        now = at;
        connector.handle_timeout(now);
    }
    let reason = transpute_rudp::ClosedReason::PathBlocked(Duration::from_secs(5));
    assert_eq!(
        connector.poll_event(),
        Some(RudpEvent::Closed(Some(reason)))
    );
    assert_eq!(connector.closed_reason(), Some(reason));
    // The connector sends two packets at each of 0, 5, 10, 343, 1009, 2009, 3009 and 4009 ms, and a
    // train of 32 packets.
    assert_eq!(packets, 2 * 8 + 32);
    assert_eq!(now, Time::ZERO + Duration::from_secs(5));
}

#[test]
fn a_train_is_sent_in_bursts_of_four() {
    for (max_segments, bursts) in [(10, vec![4; 8]), (2, vec![2; 16]), (1, vec![1; 32])] {
        let mut connector = connect(RudpConfig::default(), Time::ZERO, true, 1);
        let mut out = Vec::new();
        let mut left = Vec::new();
        while let Some(transmit) = connector.poll_transmit(Time::ZERO, &mut out, max_segments) {
            assert_eq!((transmit.segment_size, transmit.len % 1200), (1200, 0));
            left.push(transmit.len / 1200);
        }
        // Two packets with the ClientHello are sent before the train.
        let packets = left.iter().sum::<usize>();
        assert_eq!(packets, 2 + 32);
        assert_eq!(left[..bursts.len()], bursts);
    }
}

#[test]
fn a_close_reaches_the_peer_with_its_code() {
    let mut pair = Pair::new(RudpConfig::default());
    pair.exchange();
    pair.connector.write(&[1; 1000]);
    pair.connector.close(pair.now, 42);
    pair.exchange();
    assert_eq!(
        pair.listener.closed_reason(),
        Some(transpute_rudp::ClosedReason::ClosedByPeer(42))
    );
    assert_eq!(
        pair.connector.closed_reason(),
        Some(transpute_rudp::ClosedReason::ClosedHere(42))
    );
    assert!(pair.listener.is_drained());
    let mut buffer = [0; 8];
    assert_eq!(pair.listener.read(pair.now, &mut buffer), Read::Closed);
    assert_eq!(pair.listener.write(b"x"), 0);
}

/// A queue that is full for many probe timeouts loses all close notices of that time.
#[test]
fn a_close_is_repeated_until_the_peer_confirms_it() {
    let mut pair = Pair::new(RudpConfig::default());
    pair.exchange();
    pair.connector.close(pair.now, 42);
    let mut out = Vec::new();
    for _ in 0..1000 {
        while (pair.connector.poll_transmit(pair.now, &mut out, 1)).is_some() {
            out.clear();
        }
        pair.now = pair.now + MS;
        pair.connector.handle_timeout(pair.now);
        assert!(!pair.connector.is_drained());
    }
    for _ in 0..1000 {
        pair.now = pair.now + MS;
        pair.connector.handle_timeout(pair.now);
        pair.exchange();
        if pair.listener.is_drained() {
            break;
        }
    }
    assert_eq!(
        pair.listener.closed_reason(),
        Some(transpute_rudp::ClosedReason::ClosedByPeer(42))
    );
    // The connector has received the answer, so it is drained at once.
    assert!(pair.connector.is_drained());
}

/// Returns the state of two ends after a handshake in which an attacker replays every packet.
/// Packets are replayed at once and later, from their original address and another one.
fn set_up(repeats: usize) -> impl PartialEq + std::fmt::Debug {
    let mut pair = Pair::new(RudpConfig::default());
    pair.connector.write(&[7; 300_000]);
    let mut recorded: Vec<(bool, Vec<u8>)> = Vec::new();
    for _ in 0..400 {
        pair.now = pair.now + MS / 4;
        for upward in [true, false] {
            let (from, to) = if upward {
                (&mut pair.connector, &mut pair.listener)
            } else {
                (&mut pair.listener, &mut pair.connector)
            };
            if from.next_timeout().is_some_and(|at| at <= pair.now) {
                from.handle_timeout(pair.now);
            }
            let mut out = Vec::new();
            while let Some(transmit) = from.poll_transmit(pair.now, &mut out, 8) {
                for datagram in out.chunks(transmit.segment_size) {
                    recorded.push((upward, datagram.to_vec()));
                    let source = address(if upward { 1 } else { 2 });
                    to.handle_datagram(pair.now, source, &mut datagram.to_vec());
                }
                out.clear();
            }
        }
        // Replays recent packets to the end that they were for, and to the end that sent them.
        let recent = &recorded[recorded.len().saturating_sub(300)..];
        for (upward, datagram) in recent {
            for repeat in 0..repeats {
                let to = if *upward != (repeat % 3 == 2) {
                    &mut pair.listener
                } else {
                    &mut pair.connector
                };
                to.handle_datagram(pair.now, address(666), &mut datagram.clone());
            }
        }
    }
    let state = |end: &RudpConnection| {
        let stats = end.stats();
        assert_eq!(stats.ignored_replayed > 0, repeats > 0);
        assert!(end.outgoing_train().is_some() && end.incoming_train().is_some());
        (
            (end.outgoing_train(), end.incoming_train()),
            (stats.sent_packets, stats.sent_bytes, stats.lost_packets),
            (
                stats.received_packets,
                stats.received_bytes,
                stats.rtt,
                stats.min_rtt,
            ),
            (
                stats.arrival_rate,
                stats.peer_arrival_rate,
                stats.controller,
            ),
            (end.remote(), end.readable()),
        )
    };
    let (connector, listener) = (state(&pair.connector), state(&pair.listener));
    assert_eq!(listener.4, (address(1), 300_000));
    (connector, listener)
}

#[test]
fn replayed_packets_have_no_effect_and_no_answer() {
    let undisturbed = set_up(0);
    for repeats in [1, 3] {
        assert_eq!(set_up(repeats), undisturbed, "{repeats}");
    }
}

/// Packets of one connection are not authentic in the next one of the same parties.
#[test]
fn packets_of_one_connection_are_rejected_by_another() {
    let mut first = Pair::new(RudpConfig::default());
    first.connector.write(&[7; 100_000]);
    first.exchange();
    // Tests a connection during its handshake, and an established one.
    for is_established in [false, true] {
        let mut second = Pair::seeded(RudpConfig::default(), 2);
        if is_established {
            second.exchange();
        }
        let ends = [
            (&mut second.connector, address(2)),
            (&mut second.listener, address(1)),
        ];
        for (end, peer) in ends {
            let before = end.stats();
            let (mut foreign, mut forged) = (0, 0);
            for datagram in &first.recorded {
                end.handle_datagram(second.now, peer, &mut datagram.clone());
                foreign += 1;
                // The packet is rejected even with the ID of this connection.
                if let Some(id) = end.local_id().filter(|_| !is_set_up(datagram)) {
                    let mut renamed = datagram.clone();
                    renamed[1..5].copy_from_slice(&id.to_le_bytes());
                    end.handle_datagram(second.now, peer, &mut renamed);
                    forged += 1;
                }
            }
            let stats = end.stats();
            assert_eq!(stats.ignored_foreign - before.ignored_foreign, foreign);
            // A packet number that was received already is ignored before authentication.
            let ignored = |stats: &Stats| stats.ignored_forged + stats.ignored_replayed;
            assert_eq!(ignored(&stats) - ignored(&before), forged);
            assert_eq!(stats.received_packets, before.received_packets);
            assert_eq!(end.is_established(), is_established);
            assert_eq!(forged > 0, is_established);
            assert_eq!(end.remote(), peer);
        }
        second.exchange();
        assert!(second.connector.is_established() && second.listener.is_established());
    }
}
