//! The handshake over paths that lose, reorder, duplicate and corrupt packets, and with peers that
//! reject it.

use std::time::Duration;

use transpute_netem::scenario::{GilbertElliott, PathConfig};
use transpute_rudp::{
    AcceptLimits, Alert, ClosedReason, EndpointSide, RudpConfig, RudpConnection, RudpEvent, Time,
};

use crate::link::{Datagram, Link, RTT};
use crate::serving::{Listener, entropy, tls};
use crate::sim::{Setup, address, run};
use crate::toy_tls::{DECRYPT_ERROR, Message, ToyTls};

const MS: Duration = Duration::from_millis(1);

/// The first byte of a handshake packet, by type.
const INITIAL: u8 = 0x30;
const HANDSHAKE: u8 = 0x31;

fn path(rtt_ms: f64) -> PathConfig {
    let mut path = PathConfig::default();
    path.delay_ms = rtt_ms / 2.0;
    path.rate_mbit = Some(100.0);
    path
}

/// Establishes connections over this path, and sends some bytes both ways over each.
fn survives(path: &PathConfig, corrupt: f64, seeds: u64) {
    for seed in 0..seeds {
        for encrypted in [true, false] {
            let mut setup = Setup::new(path, 1000, seed);
            setup.down_bytes = 1000;
            setup.corrupt = corrupt;
            setup.encrypted = encrypted;
            let outcome = run(&setup);
            outcome.assert_complete(&format!("seed {seed}, {path:?}"));
        }
    }
}

#[test]
fn a_handshake_completes_under_thirty_percent_loss() {
    let mut path = path(40.0);
    path.loss = 0.3;
    survives(&path, 0.0, 100);
}

#[test]
fn a_handshake_completes_under_reordering_and_duplication() {
    let mut path = path(40.0);
    path.reorder = 0.3;
    path.duplicate = 0.3;
    path.jitter_ms = 5.0;
    survives(&path, 0.0, 100);
}

#[test]
fn corrupted_packets_count_as_lost() {
    survives(&path(40.0), 0.2, 100);
}

#[test]
fn a_handshake_completes_under_bursts_of_loss() {
    let mut path = path(40.0);
    path.burst = Some(GilbertElliott {
        p_enter: 0.05,
        p_leave: 0.3,
        loss_good: 0.0,
        loss_bad: 1.0,
    });
    survives(&path, 0.0, 100);
}

/// Copies of flights avoid timeouts, which take at least 333 ms. A handshake lost no whole flight
/// if it took at most 30 ms longer than one and a half round trips.
#[test]
fn two_percent_loss_causes_no_timeout() {
    const HANDSHAKES: u64 = 20_000;
    let mut path = path(100.0);
    path.loss = 0.02;
    let mut slow = 0;
    for seed in 0..HANDSHAKES {
        let mut setup = Setup::new(&path, 0, seed);
        setup.connector.probe = false;
        setup.listener.probe = false;
        setup.time_limit = Duration::from_millis(181);
        let outcome = run(&setup);
        let ends = [&outcome.connector, &outcome.listener];
        slow += u64::from(ends.iter().any(|end| end.established_at.is_none()));
    }
    let share = 1.0 - slow as f64 / HANDSHAKES as f64;
    eprintln!("{slow} of {HANDSHAKES} handshakes had to wait: {share} did not");
    assert!(share >= 0.999, "{share}");
}

#[test]
fn a_handshake_takes_one_round_trip_and_measures_it() {
    for rtt_ms in [1.0, 20.0, 300.0] {
        let mut path = path(rtt_ms);
        path.rate_mbit = Some(1000.0);
        let outcome = run(&Setup::new(&path, 1000, 1));
        outcome.assert_complete("clean");
        let at = |at: Option<Time>| at.unwrap().as_nanos() as f64 / 1e6;
        // The tolerance of 0.6 ms includes 0.3 ms for the transmission of the connector's train.
        let (connector, listener) = (&outcome.connector, &outcome.listener);
        let established = at(connector.established_at);
        assert!(
            (rtt_ms..rtt_ms + 0.6).contains(&established),
            "{established}"
        );
        let established = at(listener.established_at);
        assert!(
            (1.5 * rtt_ms..1.5 * rtt_ms + 0.8).contains(&established),
            "{established}"
        );
        for end in [connector, listener] {
            let min_rtt = end.stats().unwrap().min_rtt.as_secs_f64() * 1e3;
            assert!((rtt_ms..rtt_ms + 0.4).contains(&min_rtt), "{min_rtt}");
        }
    }
}

#[test]
fn both_trains_are_reported_within_a_round_trip() {
    let mut up = PathConfig::default();
    up.delay_ms = 50.0;
    up.rate_mbit = Some(100.0);
    let mut down = up.clone();
    down.rate_mbit = Some(40.0);
    let mut setup = Setup::new(&up, 2_000_000, 1);
    setup.down = down;
    let mut outcome = run(&setup);
    outcome.assert_complete("trains");
    let context = outcome.describe();
    // The report arrives after the listener's flight. The connector's train takes 3.2 ms up, and
    // the report takes 0.1 ms down.
    let reported = outcome.connector.estimated_at.expect("a report");
    assert!(reported < Time::ZERO + 106 * MS, "{reported:?}");
    // The report of the listener's train is sent with the first data.
    let reported = outcome.listener.estimated_at.expect("a report");
    assert!(reported < Time::ZERO + 170 * MS, "{reported:?}");
    let is_near = |rate: Option<u64>, expected: f64| {
        let rate = rate.expect("a rate") as f64;
        assert!((rate / expected - 1.0).abs() < 0.1, "{rate}: {context}");
    };
    for (end, out_rate, in_rate) in [
        (&mut outcome.connector, 12.5e6, 5e6),
        (&mut outcome.listener, 5e6, 12.5e6),
    ] {
        let connection = end.connection().unwrap();
        let sent = connection.outgoing_train().expect("a report");
        let arrived = connection
            .incoming_train()
            .expect("expected the result of a train");
        is_near(sent.rate, out_rate);
        is_near(arrived.rate, in_rate);
        for train in [sent, arrived] {
            assert_eq!((train.sent, train.received), (32, 32));
            assert_eq!((train.clear, train.clear_received), (32, 32));
        }
    }
}

/// A train is used even if a packet of the connector's first messages was lost.
#[test]
fn a_train_counts_even_if_a_first_message_was_lost() {
    for lost in [0, 1] {
        let mut link = Link::new(&RudpConfig::default());
        let mut initials = 0;
        link.run(3 * RTT, &mut |datagram| {
            let is_first = datagram.is_upward && datagram.is(INITIAL);
            initials += u32::from(is_first);
            !(is_first && initials == lost + 1)
        });
        assert!(link.connector.is_established());
        let train = link.connector.outgoing_train().expect("a report");
        assert_eq!(train.received, 32, "without initial packet {lost}");
    }
}

/// The connector repeats its last flight, after its data, until the listener has it.
#[test]
fn the_last_flight_is_repeated_until_it_arrives() {
    let departures = [0, 0, 5, 10, 20, 40, 80, 160, 320, 640];
    for (lost, departure) in departures.into_iter().enumerate() {
        let mut link = Link::new(&RudpConfig::default());
        link.connector.write(&[1; 3000]);
        let mut count = 0;
        link.run(Duration::from_secs(4), &mut |datagram| {
            let is_last = datagram.is_upward && datagram.is(HANDSHAKE);
            count += usize::from(is_last);
            !(is_last && count <= lost)
        });
        let established = link.seen[1].established.expect("established");
        let expected = Time::ZERO + 3 * RTT / 2 + departure * MS;
        let late = established.since(expected);
        assert!(
            established >= expected && late < MS,
            "{lost}: {established:?}"
        );
        assert_eq!(link.seen[1].read, 3000, "{lost}");
        assert!(
            count <= lost + 5,
            "expected the repetitions to end, got {count} for {lost}"
        );
    }
}

/// Data that arrive before the connector's last messages are kept, once the address is validated.
#[test]
fn early_data_are_kept_until_the_last_messages() {
    // The table has no room, so that the connector needs a token, which validates its address.
    let mut limits = AcceptLimits::default();
    limits.half_open = 0;
    let config = RudpConfig::default();
    let listener = Listener::with_limits(config.clone(), true, 1000, limits);
    let connector = Link::new(&config).connector;
    let mut link = Link::of(connector, listener);
    assert_eq!(link.connector.write(&[1; 90_000]), 90_000);
    let mut held = Vec::new();
    link.run(RTT * 4, &mut |datagram| {
        let is_last = datagram.is_upward && datagram.is(HANDSHAKE);
        if is_last {
            held.push(datagram.clone());
        }
        !is_last
    });
    assert!(link.connector.is_established());
    let early = link.listener.acceptor.early_bytes();
    assert!(early > 80_000, "{early}");
    let accepted = link.accepted();
    assert!(!accepted.is_established() && accepted.is_validated());
    assert_eq!((accepted.readable(), link.seen[1].read), (0, 0));
    let retransmitted = link.connector.stats().retransmitted_packets;
    link.inject(held.swap_remove(0));
    link.run(2 * RTT, &mut |_| true);
    assert_eq!(link.seen[1].read, 90_000);
    assert_eq!(link.listener.acceptor.early_bytes(), 0);
    let stats = link.connector.stats();
    assert!(
        stats.retransmitted_packets <= retransmitted + 2,
        "expected no retransmission of kept data: {stats:?}"
    );
}

/// Data from an address that is not validated are dropped.
#[test]
fn early_data_from_an_unvalidated_address_are_dropped() {
    let mut link = Link::new(&RudpConfig::default());
    link.connector.write(&[1; 200_000]);
    link.run(3 * RTT, &mut |datagram| {
        !(datagram.is_upward && datagram.is(HANDSHAKE))
    });
    assert!(link.connector.is_established());
    assert_eq!(link.listener.acceptor.early_bytes(), 0);
    assert!(link.accepted().stats().ignored_foreign > 10);
}

/// The early data are bounded, both for one connection and for all connections together.
#[test]
fn early_data_are_bounded() {
    let mut limits = AcceptLimits::default();
    limits.half_open = 0;
    let mut config = RudpConfig::default();
    config.probe = false;
    let mut listener = Listener::with_limits(config.clone(), true, 1000, limits);
    let mut max = 0;
    for number in 0..20 {
        let tls = |parameters: &[u8]| Some(tls(EndpointSide::Connector, true, number, parameters));
        let connector = RudpConnection::connect(
            address(2),
            config.clone(),
            Time::ZERO,
            &entropy(number),
            tls,
        );
        let mut link = Link::of(connector.unwrap(), listener);
        link.source = address(100 + number as u16);
        link.run(2 * RTT, &mut |datagram| {
            !(datagram.is_upward && datagram.is(HANDSHAKE))
        });
        let before = link.listener.acceptor.early_bytes();
        for size in [27, 1472] {
            for _ in 0..20_000 {
                let mut datagram = vec![0x10; size];
                (link.listener).handle_datagram(link.now, link.source, &mut datagram);
            }
        }
        let after = link.listener.acceptor.early_bytes();
        assert!(after - before <= 1 << 20);
        max = max.max(after);
        listener = link.listener;
    }
    assert!((15 << 20..=16 << 20).contains(&max), "{max}");
    for connection in listener.connections() {
        assert!(!connection.is_established());
        connection.close(Time::ZERO, 0);
    }
}

/// Runs a handshake that is expected to fail, for this time. Returns the reasons of both ends.
fn failing(
    connector: RudpConnection,
    mut listener: Listener,
    time: Duration,
) -> [Option<ClosedReason>; 2] {
    listener.sessions = 0;
    let mut link = Link::of(connector, listener);
    link.run(time, &mut |_| true);
    for seen in &link.seen {
        let is_established = seen.events.contains(&RudpEvent::Established);
        let closed = seen
            .events
            .iter()
            .filter(|event| matches!(event, RudpEvent::Closed(_)));
        assert_eq!(closed.count(), 1, "{:?}", seen.events);
        assert!(!is_established || seen.events.first() != Some(&RudpEvent::Closed(None)));
    }
    assert_eq!(
        link.seen[1].established, None,
        "the listener must not authenticate the connector"
    );
    [
        link.connector.closed_reason(),
        link.accepted().closed_reason(),
    ]
}

fn connector_with(change: impl FnOnce(&mut ToyTls), wrong: Option<usize>) -> RudpConnection {
    let tls = |parameters: &[u8]| {
        let mut parameters = parameters.to_vec();
        if let Some(at) = wrong {
            parameters[at] ^= 1;
        }
        let mut toy = ToyTls::new(EndpointSide::Connector, entropy(1), &parameters);
        change(&mut toy);
        Some(Box::new(toy) as Box<dyn transpute_rudp::Tls>)
    };
    let config = RudpConfig::default();
    RudpConnection::connect(address(2), config, Time::ZERO, &entropy(1), tls).unwrap()
}

/// Both the rejecting end and its peer know of the rejection within two round trips.
#[test]
fn alerts_reach_the_peer() {
    let alert = Alert(42);
    let (here, there) = (
        Some(ClosedReason::HandshakeFailed(42)),
        Some(ClosedReason::RefusedByPeer(42)),
    );
    for message in [Message::ClientHello, Message::ConnectorFinished] {
        let mut listener = Listener::new(RudpConfig::default(), true, 1000);
        listener.refusal = Some((message, alert));
        let closed = failing(connector_with(|_| {}, None), listener, 2 * RTT + 2 * MS);
        assert_eq!(closed, [there, here], "{message:?}");
    }
    let listener = Listener::new(RudpConfig::default(), true, 1000);
    let refusing = |toy: &mut ToyTls| toy.refusal = Some((Message::ListenerFinished, alert));
    let closed = failing(connector_with(refusing, None), listener, 2 * RTT);
    assert_eq!(closed, [here, there]);
    // Without handshake keys a connector cannot send a close that the listener accepts, because
    // anyone on the path could forge it.
    let listener = Listener::new(RudpConfig::default(), true, 1000);
    let refusing = |toy: &mut ToyTls| toy.refusal = Some((Message::ServerHello, alert));
    let closed = failing(
        connector_with(refusing, None),
        listener,
        Duration::from_secs(8),
    );
    let blocked = Some(ClosedReason::PathBlocked(Duration::from_secs(5)));
    assert_eq!(closed, [here, blocked]);
}

/// Every ID in the transport parameters, and the flag of a Retry packet, is compared with the
/// packets.
#[test]
fn wrong_transport_parameters_are_rejected() {
    let illegal = Alert::ILLEGAL_PARAMETER.0;
    let (here, there) = (
        Some(ClosedReason::HandshakeFailed(illegal)),
        Some(ClosedReason::RefusedByPeer(illegal)),
    );
    // Changes a byte of the first ID, of the connector's own ID, or of the version.
    for at in (0..16).chain([23]) {
        let listener = Listener::new(RudpConfig::default(), true, 1000);
        let closed = failing(connector_with(|_| {}, Some(at)), listener, 2 * RTT + 2 * MS);
        assert_eq!(closed, [there, here], "byte {at} of the connector's");
    }
    // Changes a byte of the first ID, of the connector's own ID, of the listener's own ID, of the
    // flag for a Retry packet, or of the version.
    for at in (0..25).chain([32]) {
        let mut listener = Listener::new(RudpConfig::default(), true, 1000);
        listener.wrong_parameter = Some(at);
        let closed = failing(connector_with(|_| {}, None), listener, 2 * RTT);
        assert_eq!(closed, [here, there], "byte {at} of the listener's");
    }
}

/// An end detects that its peer received other messages: here, another random number of the
/// listener.
#[test]
fn a_handshake_with_changed_messages_fails() {
    assert_eq!(DECRYPT_ERROR, Alert(51));
    let mut link = Link::new(&RudpConfig::default());
    // An attacker on the path answers instead of the listener.
    let mut other = Listener::new(RudpConfig::default(), true, 5000);
    let mut answers: Vec<Datagram> = Vec::new();
    link.run(RTT / 2 - MS, &mut |datagram| {
        other.handle_datagram(Time::ZERO, address(1), &mut datagram.bytes.clone());
        for (to, bytes) in other.transmit(Time::ZERO) {
            answers.push(Datagram {
                is_upward: false,
                from: address(2),
                to,
                bytes,
            });
        }
        true
    });
    // The attacker's first packet arrives first, and the rest comes from the listener.
    link.inject(answers.swap_remove(0));
    link.run(3 * RTT, &mut |_| true);
    assert_eq!(link.seen[0].established, None);
    assert!(!link.connector.is_established() && !link.accepted().is_established());
}
