//! A peer that has the keys and sends invalid reports, trains and challenges.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;

use transpute_units::{Bandwidth, KnownDirection};

use super::Connection;
use super::adversarial::established;
use crate::frame::{self, Frame, Report, read_frame};
use crate::rate::Kind;
use crate::seal::{HEADER_LEN, Opener, Sealer, TAG_LEN};
use crate::stats::TrainResult;
use crate::trains::{DATA_TRAIN, SETUP_TRAIN, TRAIN_PACKETS};
use crate::wire::Reader;
use crate::{Config, Event, Side, Time};

/// What an end without data may send by itself: its train, pings and close notices.
const OWN_BYTES: u64 = TRAIN_PACKETS as u64 * 1200 + 40 * 1200;

/// What one more datagram may bring about: answers to two challenges, two reports with acknowledgements.
const ANSWER_BYTES: u64 = 600;

/// Events that wait although nobody asks for them: one for each train that can be numbered, and some that come once.
const MAX_EVENTS: usize = 255 + 8;

/// Longer than an end repeats its close notice.
const NOTICES: Duration = Duration::from_secs(8);

/// Addresses that the peer sends from; it is at the first.
const ADDRESSES: usize = 3;

/// A connection and its peer, which sends invalid frames.
struct Scene {
    victim: Connection,
    sealer: Sealer,
    opener: Opener,
    number: u64,
    /// The last challenge of the victim.
    token: u64,
    now: Time,
    /// Bytes from and to each address of the peer.
    given: [u64; ADDRESSES],
    got: [u64; ADDRESSES],
}

/// Something to say.
#[derive(Clone, Debug)]
enum Lie {
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
    /// Room for answers: the last thing in a datagram of 1,200 bytes.
    Padding,
}

impl Scene {
    fn new(side: Side, config: Config) -> Self {
        let (victim, keys) = established(side, address(0), config);
        let mut scene = Self {
            victim,
            sealer: keys.sealer,
            opener: keys.opener,
            number: 0,
            token: 0,
            now: Time::ZERO,
            given: [0; ADDRESSES],
            got: [0; ADDRESSES],
        };
        scene.listen();
        while scene.victim.poll_event().is_some() {}
        scene
    }

    fn say(&mut self, lies: &[Lie]) {
        self.say_from(0, lies);
    }

    /// Says all that fits into one datagram, from this address.
    fn say_from(&mut self, from: usize, lies: &[Lie]) {
        let mut packet = vec![0; HEADER_LEN];
        for lie in lies {
            let before = packet.len();
            self.put(lie, &mut packet);
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
        self.given[from] += packet.len() as u64;
        (self.victim).handle_datagram(self.now, address(from), &mut packet);
        self.listen();
    }

    fn put(&self, lie: &Lie, packet: &mut Vec<u8>) {
        match lie {
            Lie::Report(report) => frame::put_report(packet, report),
            Lie::Train {
                id,
                index,
                count,
                left,
            } => frame::put_train(packet, *id, *index, *count, *left),
            Lie::Challenge(token) => frame::put_challenge(packet, *token),
            Lie::Response(token) => frame::put_response(packet, *token),
            Lie::Answer => frame::put_response(packet, self.token),
            Lie::Ping => frame::put_ping(packet),
            Lie::Limit(limit) => frame::put_limit(packet, *limit),
            Lie::Close(code) => frame::put_close(packet, *code),
            Lie::Malformed => packet.push(0xff),
            Lie::Padding => {
                frame::put_padding(packet, 1200_usize.saturating_sub(packet.len() + TAG_LEN));
            }
        }
    }

    /// Lets time pass, with all that becomes due.
    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.victim.next_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.victim.handle_timeout(self.now);
            self.listen();
        }
        self.now = until;
    }

    /// Hears what the victim sends, and counts it.
    fn listen(&mut self) {
        let mut out = Vec::new();
        while let Some(transmit) = self.victim.poll_transmit(self.now, &mut out, 10) {
            let is_to = |to: &usize| address(*to) == transmit.destination;
            let to = (0..ADDRESSES).find(is_to).expect("an address of the peer");
            self.got[to] += transmit.len as u64;
            for datagram in out.chunks_mut(transmit.segment_size) {
                let number = self.opener.number(datagram).expect("for us");
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

/// The largest rate that a report can say.
const MAX_RATE: u64 = (1 << 48) - 1;

/// A report may claim anything; what is passed on stays within what there is and what was sent.
#[test]
fn absurd_reports_are_cut_down() {
    let mut scene = Scene::new(Side::Connector, Config::default());
    assert_eq!(scene.victim.outgoing_train(), None);
    scene.say(&[Lie::Report(report(SETUP_TRAIN, MAX_RATE))]);
    let told = scene.victim.outgoing_train().expect("a report came");
    assert_eq!((told.sent, told.received), (32, 32));
    assert_eq!((told.clear, told.clear_received), (32, 32));
    assert_eq!(told.queue_bytes(), None);
    assert_eq!(told.rate, Some(TrainResult::MAX_CLAIM));
    assert_eq!(told.error_permille, 1000);
    assert_eq!(scene.victim.incoming_train(), None);
    assert_eq!(scene.victim.datagram_size(), 1472);
    let Some(Event::PathEstimated {
        rate,
        error_permille,
        ..
    }) = scene.victim.poll_event()
    else {
        panic!("the estimate is told");
    };
    assert_eq!((rate, error_permille), (TrainResult::MAX_CLAIM, 1000));
}

/// Nothing is learnt from reports on trains that were not sent, or not yet: a rate that the program has given stays.
#[test]
fn reports_of_trains_that_were_not_sent_are_nothing() {
    let fixed = Config {
        controller: Kind::Fixed,
        prior: KnownDirection::of_rate(Bandwidth::from_bytes_per_second(1e6)),
        probe: false,
        ..Config::default()
    };
    for side in [Side::Connector, Side::Listener] {
        let mut scene = Scene::new(side, fixed.clone());
        let rate = |scene: &Scene| scene.victim.controller.pacing_rate();
        let before = (rate(&scene), scene.victim.datagram_size());
        for number in 0..=255 {
            scene.say(&[Lie::Report(report(number, MAX_RATE))]);
        }
        assert_eq!(scene.victim.outgoing_train(), None);
        assert_eq!((rate(&scene), scene.victim.datagram_size()), before);
        assert_eq!(scene.victim.poll_event(), None);
    }
}

/// One datagram holds a hundred reports, and there may be any number of datagrams.
#[test]
fn a_million_reports_are_one() {
    let mut scene = Scene::new(Side::Connector, Config::default());
    let lies: Vec<_> = (0..100)
        .map(|n| {
            Lie::Report(report(
                [SETUP_TRAIN, DATA_TRAIN, n][n as usize % 3],
                1 << (n % 48),
            ))
        })
        .collect();
    let before = scene.got;
    for _ in 0..10_000 {
        scene.say(&lies);
    }
    // Nothing is answered, and only the latest is told.
    assert_eq!(scene.got, before);
    let estimated = std::iter::from_fn(|| scene.victim.poll_event());
    let estimated: Vec<_> = estimated.collect();
    assert!(
        matches!(estimated[..], [Event::PathEstimated { .. }]),
        "{estimated:?}"
    );
}

/// A peer that asks for answers with the smallest packets gets little more than it gave.
#[test]
fn small_questions_have_small_answers() {
    for side in [Side::Listener, Side::Connector] {
        let mut scene = Scene::new(side, Config::default());
        scene.say(&[Lie::Challenge(0)]);
        let (given, got) = (scene.given[0], scene.got[0]);
        for token in 1..2000 {
            scene.say(&[Lie::Challenge(token)]);
        }
        let (given, got) = (scene.given[0] - given, scene.got[0] - got);
        assert!(got <= 3 * given, "{side:?}: {got} for {given}");
    }
}

/// A peer that sends no train and reports none: the connection works, and knows nothing of the path.
#[test]
fn a_peer_may_measure_nothing() {
    for side in [Side::Listener, Side::Connector] {
        let mut scene = Scene::new(side, Config::default());
        scene.say(&[Lie::Ping]);
        scene.wait(Duration::from_secs(6));
        let victim = &scene.victim;
        assert_eq!(
            (victim.outgoing_train(), victim.incoming_train()),
            (None, None)
        );
        assert!(!victim.is_closed());
        assert!(scene.got[0] <= OWN_BYTES, "{}", scene.got[0]);
    }
}

fn lie() -> impl Strategy<Value = Lie> {
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
        4 => report.prop_map(Lie::Report),
        4 => (train, 0..255_u8, 1..=255_u8, 0..1_u64 << 24).prop_map(|(id, index, count, left)| {
            Lie::Train {
                id,
                index: index % count,
                count,
                left: Duration::from_micros(left),
            }
        }),
        1 => any::<u64>().prop_map(Lie::Challenge),
        1 => any::<u64>().prop_map(Lie::Response),
        1 => Just(Lie::Answer),
        1 => Just(Lie::Ping),
        1 => Just(Lie::Padding),
        1 => (0..1_u64 << 48).prop_map(Lie::Limit),
    ]
}

/// What one datagram contains: mostly lies that leave the connection open.
fn datagram() -> impl Strategy<Value = Vec<Lie>> {
    prop_oneof![
        20 => prop::collection::vec(lie(), 1..60),
        1 => any::<u64>().prop_map(|code| vec![Lie::Close(code >> 2)]),
        1 => Just(vec![Lie::Malformed]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn whatever_is_claimed_stays_within_bounds(
        is_listener in any::<bool>(),
        probe in any::<bool>(),
        controller in 0..Kind::ALL.len(),
        packets in prop::collection::vec((datagram(), 0..60_000_u64, 0..2 * ADDRESSES), 1..80),
        stops_at_end in any::<bool>(),
    ) {
        let side = if is_listener { Side::Listener } else { Side::Connector };
        let controller = Kind::ALL[controller];
        let mut scene = Scene::new(side, Config { probe, controller, ..Config::default() });
        let mut count = 0;
        let mut was_at = [true, false, false];
        for (lies, micros, from) in &packets {
            scene.say_from(from.saturating_sub(ADDRESSES), lies);
            count += 1;
            let is_over = stops_at_end && scene.victim.is_closed();
            scene.wait(if is_over { NOTICES } else { Duration::from_micros(*micros) });
            let victim = &scene.victim;
            let got: u64 = scene.got.iter().sum();
            prop_assert!(got <= OWN_BYTES + ANSWER_BYTES * count, "{got} for {count} datagrams");
            for (at, was_at) in was_at.iter_mut().enumerate() {
                *was_at |= victim.remote() == address(at);
                let (given, got) = (scene.given[at], scene.got[at]);
                prop_assert!(*was_at || got <= 3 * given, "{got} for {given}");
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
