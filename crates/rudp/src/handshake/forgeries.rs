//! Tests of packets under initial keys, which anyone on the path can forge.

use std::net::SocketAddr;
use std::time::Duration;

use super::adversarial::Scene;
use super::level::{Level, public_keys};
use super::packet::{Id, Kind, PacketTemplate, Space};
use crate::connection::RudpConnection;
use crate::event::CODE_ALERT;
use crate::frame::{self, Report};
use crate::trains::SETUP_TRAIN;
use crate::{ClosedReason, EndpointSide, Time};

/// The IDs of the connector of [`Scene`].
const FIRST: Id = [3; 8];
const CONNECTOR: Id = [3; 8];

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

/// Creates a packet under initial keys that looks as if `side` had sent it.
fn forge(side: EndpointSide, from: Id, frames: &[u8]) -> Vec<u8> {
    let mut level = Level::new(Space::Initial, public_keys(side, &FIRST).unwrap());
    level.skip_to(1000);
    let to = match side {
        EndpointSide::Connector => FIRST,
        EndpointSide::Listener => CONNECTOR,
    };
    let template = PacketTemplate {
        to_first: to,
        to,
        from,
        token: Vec::new(),
    };
    let mut padded = frames.to_vec();
    frame::put_padding(&mut padded, 1100_usize.saturating_sub(frames.len()));
    let mut packet = Vec::new();
    (level.put(Time::ZERO, &mut packet, &template, Kind::Initial, &padded)).unwrap();
    packet
}

fn close() -> Vec<u8> {
    let mut frames = Vec::new();
    frame::put_close(&mut frames, CODE_ALERT + 40);
    frames
}

fn sent(end: &mut RudpConnection, now: Time) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut sent = Vec::new();
    while let Some(transmit) = end.poll_transmit(now, &mut out, 1) {
        sent.push(out[..transmit.len].to_vec());
        out.clear();
    }
    sent
}

/// Returns a connector without a train, the listener's connection, and the two datagrams of the
/// listener's flight.
fn started() -> (Scene, RudpConnection, Vec<Vec<u8>>) {
    let mut scene = Scene::new(false).unwrap();
    for mut datagram in sent(&mut scene.connector, Time::ZERO) {
        scene.pass_to_listener(address(1), &mut datagram);
    }
    let mut accepted = scene.accepted.take().expect("both messages arrived");
    let flight = sent(&mut accepted, Time::ZERO);
    assert_eq!(flight.len(), 2);
    (scene, accepted, flight)
}

/// Passes datagrams to a connector, one per millisecond.
fn pass_to(connector: &mut RudpConnection, datagrams: &[&Vec<u8>]) {
    for (datagram, ms) in datagrams.iter().zip(1..) {
        let now = Time::ZERO + Duration::from_millis(ms);
        connector.handle_datagram(now, super::adversarial::listener(), &mut datagram.to_vec());
    }
}

/// A listener that rejects the first messages has only initial keys. So a connector accepts a close
/// under initial keys until it has handshake keys.
#[test]
fn a_connector_without_handshake_keys_accepts_a_close_under_initial_keys() {
    let forged = forge(EndpointSide::Listener, [9; 8], &close());
    let (mut scene, _, _) = started();
    pass_to(&mut scene.connector, &[&forged]);
    let refused = Some(ClosedReason::RefusedByPeer(40));
    assert_eq!(scene.connector.closed_reason(), refused);
    let (mut scene, _, flight) = started();
    pass_to(&mut scene.connector, &[&flight[0], &flight[1], &forged]);
    assert!(scene.connector.is_established() && !scene.connector.is_closed());
}

#[test]
fn a_listener_ignores_a_close_or_report_under_initial_keys() {
    let mut frames = Vec::new();
    let report = Report {
        train: SETUP_TRAIN,
        rate: 1 << 30,
        ..Report::default()
    };
    frame::put_report(&mut frames, &report);
    for frames in [close(), frames] {
        let (mut scene, mut accepted, flight) = started();
        let mut forged = forge(EndpointSide::Connector, CONNECTOR, &frames);
        accepted.handle_datagram(Time::ZERO, address(1), &mut forged);
        assert!(!accepted.is_closed() && accepted.outgoing_train().is_none());
        pass_to(&mut scene.connector, &[&flight[0], &flight[1]]);
        for mut datagram in sent(&mut scene.connector, Time::ZERO) {
            accepted.handle_datagram(Time::ZERO, address(1), &mut datagram);
        }
        assert!(accepted.is_established());
        assert!(
            accepted
                .poll_event()
                .is_some_and(|event| event == crate::RudpEvent::Established)
        );
    }
}

/// The first packet of a listener determines its ID: packets with another ID are ignored.
#[test]
fn packets_of_another_listener_are_ignored_after_the_first() {
    let mut frames = Vec::new();
    frame::put_crypto(&mut frames, 1150, &[0; 60]);
    let forged = forge(EndpointSide::Listener, [9; 8], &frames);
    let (mut scene, _, flight) = started();
    let closing = forge(EndpointSide::Listener, [9; 8], &close());
    pass_to(
        &mut scene.connector,
        &[&flight[0], &forged, &closing, &flight[1]],
    );
    assert!(scene.connector.is_established());
}

/// Duplicates are ignored. The listener repeats packets that arrived before their keys.
#[test]
fn the_packets_of_the_flight_may_arrive_in_any_order_and_number() {
    let orders: [&[usize]; 6] = [
        &[0, 1],
        &[0, 0, 1, 1, 0],
        &[1, 0, 1],
        &[1, 1, 0, 0, 1, 0],
        &[1, 0, 0, 1, 1, 1],
        &[0, 1, 0, 1, 0, 1],
    ];
    for order in orders {
        let (mut scene, _, flight) = started();
        let datagrams: Vec<_> = order.iter().map(|&index| &flight[index]).collect();
        pass_to(&mut scene.connector, &datagrams);
        assert!(scene.connector.is_established(), "{order:?}");
        assert_eq!(scene.connector.closed_reason(), None);
    }
}

/// Two ends whose connection has ended do not answer each other endlessly.
#[test]
fn closed_ends_stop_sending() {
    let (mut scene, mut accepted, flight) = started();
    pass_to(&mut scene.connector, &flight.iter().collect::<Vec<_>>());
    scene.connector.close(Time::ZERO, 1);
    accepted.close(Time::ZERO, 2);
    let mut datagrams = 0;
    let mut now = Time::ZERO;
    for ms in 0..10_000 {
        now = Time::ZERO + Duration::from_millis(ms);
        for end in [&mut scene.connector, &mut accepted] {
            if end.next_timeout().is_some_and(|at| at <= now) {
                end.handle_timeout(now);
            }
        }
        for mut datagram in sent(&mut scene.connector, now) {
            accepted.handle_datagram(now, address(1), &mut datagram);
            datagrams += 1;
        }
        for mut datagram in sent(&mut accepted, now) {
            let from = super::adversarial::listener();
            scene.connector.handle_datagram(now, from, &mut datagram);
            datagrams += 1;
        }
    }
    assert!(datagrams < 30, "{datagrams}");
    assert!(
        scene.connector.is_drained() && accepted.is_drained(),
        "{now:?}"
    );
}
