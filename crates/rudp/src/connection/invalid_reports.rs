//! Tests of a connection against a peer that has the keys and sends invalid reports, trains and
//! challenges.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;

use transpute_units::{Bandwidth, KnownDirection};

use super::RudpConnection;
use super::adversarial::established;
use crate::frame::{self, Frame, Report, read_frame};
use crate::rate::ControllerKind;
use crate::seal::{HEADER_LEN, Opener, Sealer, TAG_LEN};
use crate::stats::TrainResult;
use crate::trains::{DATA_TRAIN, SETUP_TRAIN, TRAIN_PACKETS};
use crate::wire::Reader;
use crate::{EndpointSide, RudpConfig, RudpEvent, Time};

/// The maximum number of bytes that a connection without data sends unasked: its train, pings and
/// close notices.
const OWN_BYTES: u64 = TRAIN_PACKETS as u64 * 1200 + 40 * 1200;

/// The maximum number of bytes that one more datagram causes: answers to two challenges, and two
/// reports with acknowledgements.
const ANSWER_BYTES: u64 = 600;

/// The maximum number of events that are queued if the caller does not poll: one for each train ID,
/// and some that occur once.
const MAX_EVENTS: usize = 255 + 8;

/// A time longer than the period in which close notices are repeated.
const NOTICES: Duration = Duration::from_secs(8);

/// Number of addresses that the peer sends from. The first one is its real address.
const ADDRESSES: usize = 3;

/// A connection and its peer, which sends invalid frames.
struct Scene {
    victim: RudpConnection,
    sealer: Sealer,
    opener: Opener,
    number: u64,
    /// The last challenge of the victim.
    token: u64,
    now: Time,
    /// `sent_bytes` counts the bytes that the peer sent from each of its addresses, and
    /// `received_bytes` the bytes that the victim sent to each.
    sent_bytes: [u64; ADDRESSES],
    received_bytes: [u64; ADDRESSES],
}

/// A frame that the peer sends, or other bytes in place of a frame.
#[derive(Clone, Debug)]
enum Item {
    Report(Report),
    Train {
        id: u8,
        index: u8,
        count: u8,
        left: Duration,
    },
    Challenge(u64),
    Response(u64),
    /// The right answer to the victim's challenge.
    Answer,
    Ping,
    Limit(u64),
    Close(u64),
    /// An unknown type of frame: the victim ends the connection.
    Malformed,
    /// Padding of the datagram to 1,200 bytes, which allows the victim more bytes in its answers.
    /// It must be the last item.
    Padding,
}

impl Scene {
    fn new(side: EndpointSide, config: RudpConfig) -> Self {
        let (victim, keys) = established(side, address(0), config);
        let mut scene = Self {
            victim,
            sealer: keys.sealer,
            opener: keys.opener,
            number: 0,
            token: 0,
            now: Time::ZERO,
            sent_bytes: [0; ADDRESSES],
            received_bytes: [0; ADDRESSES],
        };
        scene.receive();
        while scene.victim.poll_event().is_some() {}
        scene
    }

    fn send(&mut self, items: &[Item]) {
        self.send_from(0, items);
    }

    /// Sends as many of the items as fit into one datagram, from this address.
    fn send_from(&mut self, from: usize, items: &[Item]) {
        let mut packet = vec![0; HEADER_LEN];
        for item in items {
            let before = packet.len();
            self.put(item, &mut packet);
            if packet.len() + TAG_LEN > 1472 {
                packet.truncate(before);
                break;
            }
        }
        packet.resize(packet.len() + TAG_LEN, 0);
        self.sealer
            .seal(self.number, &mut packet)
            .expect("sealing works");
        self.number += 1;
        self.sent_bytes[from] += packet.len() as u64;
        (self.victim).handle_datagram(self.now, address(from), &mut packet);
        self.receive();
    }

    fn put(&self, item: &Item, packet: &mut Vec<u8>) {
        match item {
            Item::Report(report) => frame::put_report(packet, report),
            Item::Train {
                id,
                index,
                count,
                left,
            } => frame::put_train(packet, *id, *index, *count, *left),
            Item::Challenge(token) => frame::put_challenge(packet, *token),
            Item::Response(token) => frame::put_response(packet, *token),
            Item::Answer => frame::put_response(packet, self.token),
            Item::Ping => frame::put_ping(packet),
            Item::Limit(limit) => frame::put_limit(packet, *limit),
            Item::Close(code) => frame::put_close(packet, *code),
            Item::Malformed => packet.push(0xff),
            Item::Padding => {
                frame::put_padding(packet, 1200_usize.saturating_sub(packet.len() + TAG_LEN));
            }
        }
    }

    /// Advances the time, and handles all timers that expire.
    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.victim.next_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.victim.handle_timeout(self.now);
            self.receive();
        }
        self.now = until;
    }

    /// Receives what the victim sends, and counts it.
    fn receive(&mut self) {
        let mut out = Vec::new();
        while let Some(transmit) = self.victim.poll_transmit(self.now, &mut out, 10) {
            let is_to = |to: &usize| address(*to) == transmit.destination;
            let to = (0..ADDRESSES).find(is_to).expect("an address of the peer");
            self.received_bytes[to] += transmit.len as u64;
            for datagram in out.chunks_mut(transmit.segment_size) {
                let number = self.opener.number(datagram).expect("a packet for this end");
                let frames = self.opener.open(number, datagram).expect("sealed");
                let mut reader = Reader(frames);
                while !reader.is_empty() {
                    if let Frame::Challenge(token) = read_frame(&mut reader).expect("well-formed") {
                        self.token = token;
                    }
                }
            }
            out.clear();
        }
    }
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 1 + index as u16))
}

fn report(train: u8, rate: u64) -> Report {
    Report {
        train,
        received: 255,
        clear: 255,
        clear_received: 255,
        largest: u16::MAX,
        rate,
        error: 0x7fff,
        at_least: false,
    }
}

/// The maximum rate that a report can contain, in bytes per second.
const MAX_RATE: u64 = (1 << 48) - 1;

/// A report may contain any values. The values that are passed on are limited by what was sent and
/// by [`TrainResult::MAX_CLAIM`].
#[test]
fn implausible_reports_are_clamped() {
    let mut scene = Scene::new(EndpointSide::Connector, RudpConfig::default());
    assert_eq!(scene.victim.outgoing_train(), None);
    scene.send(&[Item::Report(report(SETUP_TRAIN, MAX_RATE))]);
    let result = scene.victim.outgoing_train().expect("a report");
    assert_eq!((result.sent, result.received), (32, 32));
    assert_eq!((result.clear, result.clear_received), (32, 32));
    assert_eq!(result.queue_bytes(), None);
    assert_eq!(result.rate, Some(TrainResult::MAX_CLAIM));
    assert_eq!(result.error_permille, 1000);
    assert_eq!(scene.victim.incoming_train(), None);
    assert_eq!(scene.victim.datagram_size(), 1472);
    let Some(RudpEvent::PathEstimated {
        rate,
        error_permille,
        ..
    }) = scene.victim.poll_event()
    else {
        panic!("expected an event with the estimate");
    };
    assert_eq!((rate, error_permille), (TrainResult::MAX_CLAIM, 1000));
}

/// Reports on trains that were not sent, or not yet, are ignored. A rate that the application has
/// set is not replaced.
#[test]
fn reports_on_trains_that_were_not_sent_are_ignored() {
    let fixed = RudpConfig {
        controller: ControllerKind::Fixed,
        prior: KnownDirection::of_rate(Bandwidth::from_bytes_per_second(1e6)),
        probe: false,
        ..RudpConfig::default()
    };
    for side in [EndpointSide::Connector, EndpointSide::Listener] {
        let mut scene = Scene::new(side, fixed.clone());
        let rate = |scene: &Scene| scene.victim.controller.pacing_rate();
        let before = (rate(&scene), scene.victim.datagram_size());
        for number in 0..=255 {
            scene.send(&[Item::Report(report(number, MAX_RATE))]);
        }
        assert_eq!(scene.victim.outgoing_train(), None);
        assert_eq!((rate(&scene), scene.victim.datagram_size()), before);
        assert_eq!(scene.victim.poll_event(), None);
    }
}

/// A peer may send any number of datagrams with a hundred reports each.
#[test]
fn a_million_reports_have_the_effect_of_one() {
    let mut scene = Scene::new(EndpointSide::Connector, RudpConfig::default());
    let items: Vec<_> = (0..100)
        .map(|n| {
            Item::Report(report(
                [SETUP_TRAIN, DATA_TRAIN, n][n as usize % 3],
                1 << (n % 48),
            ))
        })
        .collect();
    let before = scene.received_bytes;
    for _ in 0..10_000 {
        scene.send(&items);
    }
    // No report is answered, and only the latest one becomes an event.
    assert_eq!(scene.received_bytes, before);
    let estimated = std::iter::from_fn(|| scene.victim.poll_event());
    let estimated: Vec<_> = estimated.collect();
    assert!(
        matches!(estimated[..], [RudpEvent::PathEstimated { .. }]),
        "{estimated:?}"
    );
}

/// A peer that asks for answers with the smallest packets gets at most three times the bytes it
/// sent.
#[test]
fn small_requests_have_small_answers() {
    for side in [EndpointSide::Listener, EndpointSide::Connector] {
        let mut scene = Scene::new(side, RudpConfig::default());
        scene.send(&[Item::Challenge(0)]);
        let (sent_bytes, received_bytes) = (scene.sent_bytes[0], scene.received_bytes[0]);
        for token in 1..2000 {
            scene.send(&[Item::Challenge(token)]);
        }
        let (sent_bytes, received_bytes) = (
            scene.sent_bytes[0] - sent_bytes,
            scene.received_bytes[0] - received_bytes,
        );
        assert!(
            received_bytes <= 3 * sent_bytes,
            "{side:?}: {received_bytes} for {sent_bytes}"
        );
    }
}

/// A peer may send no train and no report. The connection works, and knows nothing of the path.
#[test]
fn a_peer_may_send_no_train_and_no_report() {
    for side in [EndpointSide::Listener, EndpointSide::Connector] {
        let mut scene = Scene::new(side, RudpConfig::default());
        scene.send(&[Item::Ping]);
        scene.wait(Duration::from_secs(6));
        let victim = &scene.victim;
        assert_eq!(
            (victim.outgoing_train(), victim.incoming_train()),
            (None, None)
        );
        assert!(!victim.is_closed());
        assert!(
            scene.received_bytes[0] <= OWN_BYTES,
            "{}",
            scene.received_bytes[0]
        );
    }
}

fn item() -> impl Strategy<Value = Item> {
    let rate = prop_oneof![Just(0), Just(1), Just(MAX_RATE), 0..=MAX_RATE];
    let train = prop_oneof![Just(SETUP_TRAIN), Just(DATA_TRAIN), any::<u8>()];
    let report = (
        train.clone(),
        any::<[u8; 3]>(),
        any::<u16>(),
        rate,
        0..0x8000_u16,
        any::<bool>(),
    );
    let report = report.prop_map(|(train, counts, largest, rate, error, at_least)| {
        let [received, clear, clear_received] = counts;
        Report {
            train,
            received,
            clear,
            clear_received,
            largest,
            rate,
            error,
            at_least,
        }
    });
    prop_oneof![
        4 => report.prop_map(Item::Report),
        4 => (train, 0..255_u8, 1..=255_u8, 0..1_u64 << 24).prop_map(|(id, index, count, left)| {
            Item::Train {
                id,
                index: index % count,
                count,
                left: Duration::from_micros(left),
            }
        }),
        1 => any::<u64>().prop_map(Item::Challenge),
        1 => any::<u64>().prop_map(Item::Response),
        1 => Just(Item::Answer),
        1 => Just(Item::Ping),
        1 => Just(Item::Padding),
        1 => (0..1_u64 << 48).prop_map(Item::Limit),
    ]
}

/// Generates the frames of one datagram. Most frames leave the connection open.
fn datagram() -> impl Strategy<Value = Vec<Item>> {
    prop_oneof![
        20 => prop::collection::vec(item(), 1..60),
        1 => any::<u64>().prop_map(|code| vec![Item::Close(code >> 2)]),
        1 => Just(vec![Item::Malformed]),
    ]
}

#[test]
fn a_datagram_size_above_the_limit_does_not_disable_error_correction() {
    let config = RudpConfig {
        max_datagram: u16::MAX,
        ..RudpConfig::default()
    };
    let (mut connection, _) = established(EndpointSide::Connector, address(0), config);
    assert!(connection.redundancy.place(0, &[1]).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn reported_values_stay_within_bounds(
        is_listener in any::<bool>(),
        probe in any::<bool>(),
        controller in 0..ControllerKind::ALL.len(),
        packets in prop::collection::vec((datagram(), 0..60_000_u64, 0..2 * ADDRESSES), 1..80),
        stops_at_end in any::<bool>(),
    ) {
        let side = if is_listener { EndpointSide::Listener } else { EndpointSide::Connector };
        let controller = ControllerKind::ALL[controller];
        let mut scene = Scene::new(side, RudpConfig { probe, controller, ..RudpConfig::default() });
        let mut count = 0;
        let mut was_at = [true, false, false];
        for (items, micros, from) in &packets {
            scene.send_from(from.saturating_sub(ADDRESSES), items);
            count += 1;
            let is_over = stops_at_end && scene.victim.is_closed();
            scene.wait(if is_over { NOTICES } else { Duration::from_micros(*micros) });
            let victim = &scene.victim;
            let received_bytes: u64 = scene.received_bytes.iter().sum();
            prop_assert!(received_bytes <= OWN_BYTES + ANSWER_BYTES * count, "{received_bytes} for {count} datagrams");
            for (at, was_at) in was_at.iter_mut().enumerate() {
                *was_at |= victim.remote() == address(at);
                let (sent_bytes, received_bytes) = (scene.sent_bytes[at], scene.received_bytes[at]);
                prop_assert!(*was_at || received_bytes <= 3 * sent_bytes, "{received_bytes} for {sent_bytes}");
            }
            prop_assert!(victim.events.len() <= MAX_EVENTS, "{} events", victim.events.len());
            for train in [victim.outgoing_train(), victim.incoming_train()].into_iter().flatten() {
                prop_assert!(train.received <= train.sent);
                prop_assert!(train.clear_received <= train.clear && train.clear <= train.sent);
                prop_assert!(train.rate.is_none_or(|rate| (1..=TrainResult::MAX_CLAIM).contains(&rate)));
                prop_assert!(train.error_permille <= 1000);
            }
            prop_assert!(probe || victim.outgoing_train().is_none());
            prop_assert!((1200..=1472).contains(&victim.datagram_size()));
            prop_assert!(victim.controller.pacing_rate() <= 3 * TrainResult::MAX_CLAIM);
            if is_over {
                break;
            }
        }
    }
}
