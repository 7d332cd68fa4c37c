//! Tests of the handshake against arbitrary datagrams to an acceptor, to its connection and to a
//! connector.
//!
//! [`run`] takes arbitrary bytes, so that a fuzzer can call it as well as the property tests in
//! `fuzzing`.

use std::net::SocketAddr;
use std::time::Duration;

use super::level::{Level, public_keys};
use super::packet::{self, Id, Kind, PacketTemplate, SET_UP_DATAGRAM, Space};
use super::reassembly::MAX_MESSAGES;
use super::{AcceptContext, AcceptLimits, AcceptResult, Acceptor, is_set_up};
use crate::connection::RudpConnection;
use crate::frame;
use crate::toy_tls::ToyTls;
use crate::wire::Reader;
use crate::{EndpointSide, RudpConfig, Time, Tls};

/// The maximum number of bytes that an end sends in its handshake without an answer: eight copies
/// of a flight, and a train.
const MAX_OWN_BYTES: usize = (8 * 2 + 32) * SET_UP_DATAGRAM;

/// The maximum number of datagrams that an end may send at one time.
const MAX_BATCHES: usize = 200;

const LIMITS: AcceptLimits = AcceptLimits {
    half_open: 4,
    handshakes: 4,
    signatures: 4,
    signatures_per_network: 2,
};

/// An attacker on the path, with the IDs and keys that it knows.
struct Attacker {
    first: Id,
    own: Id,
    number: u32,
    /// Recorded datagrams, for replay.
    recorded: Vec<Vec<u8>>,
}

impl Attacker {
    /// Creates a datagram from the script: a recorded one, an altered one, one forged under initial
    /// keys, or random bytes.
    fn datagram(&mut self, reader: &mut Reader<'_>) -> Vec<u8> {
        let mut small = || reader.uint(1).unwrap_or(0) as usize;
        let (kind, a, b) = (small(), small(), small());
        let noise = |reader: &mut Reader<'_>, count: usize| {
            let count = count.min(reader.0.len());
            reader.take(count).unwrap_or_default().to_vec()
        };
        let recorded = |at: usize| self.recorded.get(at % self.recorded.len().max(1)).cloned();
        match kind % 8 {
            0 => recorded(a).unwrap_or_default(),
            1 => {
                let mut datagram = recorded(a).unwrap_or_default();
                let at = b * 7 % datagram.len().max(1);
                if let Some(byte) = datagram.get_mut(at) {
                    *byte ^= 1 << (kind / 8 % 8);
                }
                datagram
            }
            2 => {
                let mut datagram = recorded(a).unwrap_or_default();
                datagram.truncate(b * 5);
                datagram
            }
            3 => {
                let mut datagram = noise(reader, b);
                datagram.insert(0, 0x30 | (a as u8 & 7));
                datagram.resize(datagram.len().max(a * 8), 0);
                datagram
            }
            4 => {
                // Creates Retry and version negotiation packets with the correct IDs.
                let answered = packet::Header {
                    kind: Kind::Initial,
                    to: self.first,
                    from: self.own,
                };
                match a % 2 {
                    0 => packet::retry(&answered, &noise(reader, b % 80)),
                    _ => {
                        let mut versions = packet::versions(&answered);
                        versions.truncate(18);
                        versions.extend(noise(reader, b % 12));
                        versions
                    }
                }
            }
            _ => self.forged(kind, (a, b), reader),
        }
    }

    /// Creates a packet under initial keys, which anyone on the path can derive.
    fn forged(&mut self, kind: usize, (a, b): (usize, usize), reader: &mut Reader<'_>) -> Vec<u8> {
        let side = [EndpointSide::Connector, EndpointSide::Listener][kind / 8 % 2];
        let Some(keys) = public_keys(side, &self.first) else {
            return Vec::new();
        };
        let mut level = Level::new(Space::Initial, keys);
        level.skip_to(self.number);
        self.number += 1;
        let to = match side {
            EndpointSide::Connector => self.first,
            EndpointSide::Listener => self.own,
        };
        let template = PacketTemplate {
            to_first: to,
            to,
            from: [a as u8; 8],
            token: vec![7; kind / 16 % 4 * 16],
        };
        let mut frames = Vec::new();
        for _ in 0..=a % 3 {
            match b % 8 {
                0..=3 => {
                    let offset = reader.uint(2).unwrap_or(0) as usize;
                    let messages = [&[kind as u8 % 3, 0, a as u8], &[b as u8; 400][..]].concat();
                    frame::put_crypto(&mut frames, offset.min(b * 64), &messages);
                }
                4 => frame::put_train(&mut frames, 1, a as u8 % 64, 64, Duration::ZERO),
                5 => frame::put_close(&mut frames, b as u64),
                6 => frame::put_limit(&mut frames, 1 << 40),
                _ => frames.extend(reader.take(a.min(reader.0.len())).unwrap_or_default()),
            }
        }
        let room = SET_UP_DATAGRAM.saturating_sub(frames.len() + template.overhead(Space::Initial));
        frame::put_padding(&mut frames, room);
        let kind = [Kind::Initial, Kind::Train][b / 64 % 2];
        let mut datagram = Vec::new();
        level.put(Time::ZERO, &mut datagram, &template, kind, &frames);
        datagram
    }
}

fn tls(side: EndpointSide, random: u8, parameters: &[u8]) -> Option<Box<dyn Tls>> {
    Some(Box::new(ToyTls::new(side, [random; 32], parameters)))
}

/// A connector, an acceptor and the connection that it created, if any.
pub(super) struct Scene {
    now: Time,
    pub(super) connector: RudpConnection,
    acceptor: Acceptor,
    pub(super) accepted: Option<RudpConnection>,
    sessions: usize,
    config: RudpConfig,
}

impl Scene {
    pub(super) fn new(probe: bool) -> Option<Self> {
        let config = RudpConfig {
            probe,
            ..RudpConfig::default()
        };
        let tls = |parameters: &[u8]| tls(EndpointSide::Connector, 1, parameters);
        let connector =
            RudpConnection::connect(listener(), config.clone(), Time::ZERO, &[3; 32], tls)?;
        Some(Self {
            now: Time::ZERO,
            connector,
            acceptor: Acceptor::new(LIMITS, &[5; 16])?,
            accepted: None,
            sessions: 0,
            config,
        })
    }

    /// Passes a datagram to the listener, as a driver does. Returns the number of bytes that are
    /// sent back at once.
    pub(super) fn pass_to_listener(&mut self, from: SocketAddr, datagram: &mut [u8]) -> usize {
        let now = self.now;
        let is_for = |one: &&mut RudpConnection| one.remote() == from || !is_set_up(datagram);
        if let Some(connection) = self.accepted.as_mut().filter(is_for) {
            connection.handle_datagram(now, from, datagram);
            return 0;
        }
        if !is_set_up(datagram) {
            return 0;
        }
        let size = datagram.len();
        let mut tls = |parameters: &[u8]| {
            self.sessions += 1;
            tls(EndpointSide::Listener, 2, parameters)
        };
        let context = AcceptContext {
            config: &self.config,
            entropy: [4; 32],
            handshakes: usize::from(self.accepted.is_some()),
            tls: &mut tls,
        };
        match (self.acceptor).handle_datagram(now, from, datagram, context) {
            AcceptResult::Ignored => 0,
            AcceptResult::Reply(reply) => {
                assert!(
                    reply.len() < size,
                    "an answer to an unauthenticated peer must be smaller than its packet"
                );
                reply.len()
            }
            AcceptResult::Connection(connection) => {
                self.accepted.get_or_insert(*connection);
                0
            }
        }
    }

    fn check(&self) {
        assert!(self.acceptor.half_open() <= LIMITS.half_open);
        let held = LIMITS.half_open * (MAX_MESSAGES + 64 * size_of::<Time>() * 4);
        assert!(self.acceptor.held_bytes() <= held);
        // Signatures are allowed for a burst of one second, and at the limited rate afterwards.
        let rate = LIMITS.signatures + LIMITS.signatures_per_network;
        let seconds = 2 + self.now.as_nanos() / 1_000_000_000;
        assert!(self.sessions as u64 <= u64::from(rate) * seconds);
    }
}

pub(super) fn listener() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 2))
}

fn connector(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

/// Interprets `script` as datagrams, deliveries and steps of time, and applies them. Returns
/// whether both ends were established.
pub(crate) fn run(script: &[u8]) -> bool {
    let mut reader = Reader(script);
    let options = reader.u8().unwrap_or(0);
    let Some(mut scene) = Scene::new(options & 1 == 0) else {
        return false;
    };
    let mut attacker = Attacker {
        first: [3; 8],
        own: [3; 8],
        number: 0,
        recorded: Vec::new(),
    };
    // Three numbers of bytes: sent from the connector's address to the listener, sent back by the
    // listener, and sent by the connector itself.
    let (mut sent_bytes, mut received_bytes, mut own_bytes) = (0, 0, 0);
    while !reader.is_empty() {
        let action = reader.u8().unwrap_or(0);
        if action & 3 != 0 {
            let mut datagram = attacker.datagram(&mut reader);
            match action & 3 {
                1 => {
                    sent_bytes += datagram.len();
                    received_bytes += scene.pass_to_listener(connector(1), &mut datagram);
                }
                2 => {
                    let from = connector(2 + u16::from(action >> 4));
                    scene.pass_to_listener(from, &mut datagram);
                }
                _ => (scene.connector).handle_datagram(scene.now, listener(), &mut datagram),
            }
        }
        scene.now = scene.now + Duration::from_micros(100 * reader.uint(1).unwrap_or(0));
        let now = scene.now;
        let ends = std::iter::once(&mut scene.connector).chain(scene.accepted.as_mut());
        let mut sent: [Vec<Vec<u8>>; 2] = Default::default();
        for (end, sent) in ends.zip(&mut sent) {
            if end.next_timeout().is_some_and(|at| at <= now) {
                end.handle_timeout(now);
            }
            let mut out = Vec::new();
            while let Some(transmit) = end.poll_transmit(now, &mut out, 10) {
                let datagrams = out.chunks(transmit.segment_size).map(<[u8]>::to_vec);
                sent.extend(datagrams);
                out.clear();
                assert!(sent.len() < MAX_BATCHES, "the end sends endlessly");
            }
            while end.poll_event().is_some() {}
        }
        for (index, sent) in sent.into_iter().enumerate() {
            for mut datagram in sent {
                let is_recorded = attacker.recorded.len() < 100;
                if is_recorded {
                    attacker.recorded.push(datagram.clone());
                }
                match index {
                    0 => own_bytes += datagram.len(),
                    _ => received_bytes += datagram.len(),
                }
                // The script decides whether the path delivers the datagram.
                match (action & 4 != 0, index) {
                    (false, _) => {}
                    (true, 0) => {
                        sent_bytes += datagram.len();
                        received_bytes += scene.pass_to_listener(connector(1), &mut datagram);
                    }
                    (true, _) => {
                        (scene.connector).handle_datagram(now, listener(), &mut datagram);
                    }
                }
            }
        }
        let is_validated = scene
            .accepted
            .as_ref()
            .is_some_and(RudpConnection::is_validated);
        let is_first = (scene.accepted.as_ref()).is_none_or(|one| one.remote() == connector(1));
        assert!(
            is_validated || !is_first || received_bytes <= 3 * sent_bytes,
            "{received_bytes} for {sent_bytes}"
        );
        assert!(
            scene.connector.is_established() || own_bytes <= MAX_OWN_BYTES,
            "{own_bytes}"
        );
        scene.check();
    }
    let ends = [Some(&scene.connector), scene.accepted.as_ref()];
    (ends.iter()).all(|end| end.is_some_and(RudpConnection::is_established))
}
