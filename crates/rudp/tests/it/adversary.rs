//! Packets from somebody who has no keys, and from somebody who has and does not follow the protocol.

use std::time::Duration;

use transpute_rudp::{Config, Connection, Event, Keys, Read, Side, Time};
use transpute_testbed::model::derive_seed;

use crate::sim::{address, keys};

const MS: Duration = Duration::from_millis(1);

/// Two ends joined by nothing but function calls, and all that was sent.
pub(crate) struct Pair {
    pub(crate) connector: Connection,
    pub(crate) listener: Connection,
    pub(crate) now: Time,
    pub(crate) recorded: Vec<Vec<u8>>,
}

impl Pair {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            connector: Connection::connect(
                keys(Side::Connector, true),
                address(2),
                config.clone(),
                Time::ZERO,
                1,
            ),
            listener: Connection::listen(keys(Side::Listener, true), config, Time::ZERO, 2),
            now: Time::ZERO,
            recorded: Vec::new(),
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

/// Bombards both ends in mid-connection and checks that nothing but counters changes.
fn bombard(count: u64) {
    let mut pair = Pair::new(Config::default());
    pair.connector.write(&[7; 100_000]);
    pair.exchange();
    assert!(pair.connector.is_established() && pair.listener.is_established());
    let state = |connection: &Connection| {
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
    let ignored = |connection: &Connection| {
        let stats = connection.stats();
        stats.ignored_foreign + stats.ignored_forged + stats.ignored_replayed
    };
    let was = ignored(&pair.connector) + ignored(&pair.listener);
    let mut datagram = Vec::new();
    for n in 0..count {
        let dice = |label| derive_seed(n, label);
        datagram.clear();
        let template = &pair.recorded[dice(1) as usize % pair.recorded.len()];
        match dice(2) % 5 {
            // Noise, sometimes with a plausible header.
            0 => {
                let length = (dice(3) % 1500) as usize;
                datagram.extend(
                    (0..length as u64)
                        .map(|at| derive_seed(n, 100 + at / 8).to_le_bytes()[at as usize % 8]),
                );
                let keep = (dice(4) % 12) as usize;
                let keep = keep.min(length).min(template.len());
                datagram[..keep].copy_from_slice(&template[..keep]);
            }
            // One bit of a real packet.
            1 => {
                datagram.extend_from_slice(template);
                let bit = dice(3) as usize % (datagram.len() * 8);
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            2 => datagram.extend_from_slice(&template[..dice(3) as usize % template.len()]),
            // Replayed, as it was.
            3 => datagram.extend_from_slice(template),
            // A real packet under another number.
            _ => {
                datagram.extend_from_slice(template);
                let number = dice(3) % 100_000 + 1_000_000;
                datagram[5..11].copy_from_slice(&number.to_le_bytes()[..6]);
            }
        }
        let end = if dice(5) % 2 == 0 {
            &mut pair.connector
        } else {
            &mut pair.listener
        };
        end.handle_datagram(pair.now, address(666), &mut datagram);
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
    // And it still works.
    pair.listener.write(b"still here");
    pair.exchange();
    let mut buffer = [0; 64];
    assert_eq!(pair.connector.read(pair.now, &mut buffer), Read::Data(10));
    assert_eq!(&buffer[..10], b"still here");
}

#[test]
fn a_hundred_thousand_forgeries_change_nothing() {
    bombard(100_000);
}

#[test]
#[ignore = "slow: cargo xtask slow-tests"]
fn ten_million_forgeries_change_nothing() {
    bombard(10_000_000);
}

/// What a listener sends to somebody who sends it captured packets and never answers.
#[test]
fn an_unvalidated_path_gets_at_most_three_times_what_it_gave() {
    for take in [1, 2, 3, 10, 60, 130] {
        let mut connector = Connection::connect(
            keys(Side::Connector, true),
            address(2),
            Config::default(),
            Time::ZERO,
            1,
        );
        let mut listener =
            Connection::listen(keys(Side::Listener, true), Config::default(), Time::ZERO, 2);
        listener.write(&[1; 1_000_000]);
        let mut out = Vec::new();
        let (mut given, mut got) = (0, 0);
        let mut now = Time::ZERO;
        let drain = |listener: &mut Connection, now| {
            let mut answer = Vec::new();
            let mut sum = 0;
            while let Some(transmit) = listener.poll_transmit(now, &mut answer, 10) {
                sum += transmit.len;
                answer.clear();
            }
            sum
        };
        for _ in 0..take {
            out.clear();
            if connector.poll_transmit(now, &mut out, 1).is_none() {
                break;
            }
            given += out.len();
            listener.handle_datagram(now, address(666), &mut out);
            got += drain(&mut listener, now);
            assert!(got <= 3 * given, "{got} for {given}");
        }
        // Time passes, timers fire, until the listener gives up.
        let mut is_late_challenge_sent = false;
        while let Some(at) = listener.next_timeout() {
            assert!(at >= now);
            now = at;
            listener.handle_timeout(now);
            let more = drain(&mut listener, now);
            let is_late = now > Time::ZERO + 2000 * MS && now < Time::ZERO + 4000 * MS;
            is_late_challenge_sent |= is_late && more > 0;
            got += more;
            assert!(got <= 3 * given, "{got} for {given}");
        }
        assert!(listener.is_drained());
        assert!(got > 0);
        // Whatever else it had to say, it asks again.
        assert!(is_late_challenge_sent, "{take}");
    }
}

#[test]
fn nobody_there_ends_with_a_typed_error() {
    let mut connector = Connection::connect(
        keys(Side::Connector, true),
        address(2),
        Config::default(),
        Time::ZERO,
        1,
    );
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    let mut packets = 0;
    loop {
        while connector.poll_transmit(now, &mut out, 10).is_some() {
            packets += 1;
            out.clear();
        }
        let Some(at) = connector.next_timeout() else {
            break;
        };
        now = at;
        connector.handle_timeout(now);
    }
    let reason = transpute_rudp::ClosedReason::PathBlocked(Duration::from_secs(5));
    assert_eq!(connector.poll_event(), Some(Event::Closed(Some(reason))));
    assert_eq!(connector.closed_reason(), Some(reason));
    assert!((130..160).contains(&packets), "{packets}");
    assert_eq!(now, Time::ZERO + Duration::from_secs(5));
}

#[test]
fn wrong_keys_are_strangers() {
    let mut connector = Connection::connect(
        keys(Side::Connector, true),
        address(2),
        Config::default(),
        Time::ZERO,
        1,
    );
    let other = Keys::new(
        Side::Listener,
        &[4; 32],
        b"simulation",
        transpute_rudp::Cipher::Aes128Gcm,
    )
    .unwrap();
    let mut listener = Connection::listen(other, Config::default(), Time::ZERO, 2);
    let mut out = Vec::new();
    connector.poll_transmit(Time::ZERO, &mut out, 1).unwrap();
    listener.handle_datagram(Time::ZERO, address(1), &mut out);
    assert_eq!(listener.stats().ignored_foreign, 1);
    assert_eq!(listener.remote(), None);
}

#[test]
fn a_close_reaches_the_other_end_with_its_code() {
    let mut pair = Pair::new(Config::default());
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

/// A queue that is full for many probe timeouts takes nothing of what is said meanwhile.
#[test]
fn a_close_is_repeated_until_the_other_end_says_the_same() {
    let mut pair = Pair::new(Config::default());
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
    // It has heard the answer, and goes at once.
    assert!(pair.connector.is_drained());
}

/// All that two ends know of each other after a set-up in which somebody on the path sends everything again, at once and
/// later, from where it came from and from elsewhere.
fn set_up(repeats: usize) -> impl PartialEq + std::fmt::Debug {
    let mut pair = Pair::new(Config::default());
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
        // What either end sent comes again to the other, and back to itself.
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
    let told = |end: &Connection| {
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
    let (connector, listener) = (told(&pair.connector), told(&pair.listener));
    assert_eq!(listener.4, (Some(address(1)), 300_000));
    (connector, listener)
}

#[test]
fn what_is_sent_again_counts_once_and_is_not_answered() {
    let undisturbed = set_up(0);
    for repeats in [1, 3] {
        assert_eq!(set_up(repeats), undisturbed, "{repeats}");
    }
}

/// What was recorded of one connection means nothing to the next one of the same parties.
#[test]
fn what_was_recorded_of_one_connection_is_foreign_to_another() {
    let mut first = Pair::new(Config::default());
    first.connector.write(&[7; 100_000]);
    first.exchange();
    let keys = |side| {
        let cipher = transpute_rudp::Cipher::Aes128Gcm;
        // The secret of a session that is resumed would be the same, the context never is.
        Keys::new(side, &[3; 32], b"another", cipher).unwrap()
    };
    let mut listener = Connection::listen(keys(Side::Listener), Config::default(), Time::ZERO, 2);
    let mut connector = Connection::connect(
        keys(Side::Connector),
        address(2),
        Config::default(),
        Time::ZERO,
        1,
    );
    let mut out = Vec::new();
    while connector.poll_transmit(Time::ZERO, &mut out, 8).is_some() {}
    for datagram in &first.recorded {
        for end in [&mut listener, &mut connector] {
            end.handle_datagram(first.now, address(1), &mut datagram.clone());
            // Not even under the id of this connection.
            let mut renamed = datagram.clone();
            renamed[1..5].copy_from_slice(&end.local_id().to_le_bytes());
            end.handle_datagram(first.now, address(1), &mut renamed);
        }
    }
    for end in [&mut listener, &mut connector] {
        let stats = end.stats();
        let count = first.recorded.len() as u64;
        assert_eq!(
            (stats.ignored_foreign, stats.ignored_forged),
            (count, count)
        );
        assert_eq!(stats.received_packets, 0);
        assert!(!end.is_established());
        assert!(end.outgoing_train().is_none() && end.incoming_train().is_none());
    }
    assert_eq!(listener.remote(), None);
    out.clear();
    assert!(listener.poll_transmit(first.now, &mut out, 8).is_none());
}
