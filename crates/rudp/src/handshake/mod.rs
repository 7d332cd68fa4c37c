//! The set-up of a connection: a TLS 1.3 handshake in packets of this protocol.
//!
//! | time | connector | listener |
//! | --- | --- | --- |
//! | 0 | ClientHello, then a train of packets | |
//! | 1/2 round trip | | ServerHello to Finished, a report on the train, a train |
//! | 1 round trip | Certificate to Finished, data | |
//! | 3/2 round trips | | data |
//!
//! A *flight* is all messages that an end sends in one turn. Few packets make up a flight, and a
//! lost one would cost a timeout, so each flight leaves [`COPIES`] times, [`COPY_SPACING`] apart:
//! losses come in bursts. Nothing is acknowledged: the peer's next flight shows that the last one
//! came, and flights are repeated until then.
//!
//! The peer is authenticated when the TLS handshake is complete and not before: no data is sent or
//! delivered until then, and a report counts from then on.

mod acceptor;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod adversarial;
mod flight;
#[cfg(test)]
mod forgeries;
mod level;
pub(crate) mod packet;
mod parameters;
mod plaintext;
mod reassembly;
mod sending;
mod tls;
mod token;

use std::time::Duration;

pub use self::packet::{Id, receiver};
pub use self::{
    acceptor::{AcceptLimits, Accepting, Acceptor, Intake},
    packet::{VERSION, is_set_up},
    plaintext::{Agreed, PlaintextTls},
    tls::{Alert, BeginTls, DataSecret, EXPORTER_LABEL, HandshakeKeys, PacketKey, TAG_BYTES, Tls},
};
pub(crate) use self::{
    acceptor::{Begun, EarlyBytes},
    packet::{SET_UP_DATAGRAM, Space},
};
use self::{
    flight::{Flight, Phase},
    level::Level,
    packet::{Envelope, Header, Kind},
    parameters::Parameters,
};
use crate::event::{ClosedReason, Violation};
use crate::frame::{Frame, Report, read_frame};
use crate::wire::Reader;
use crate::{Keys, Side, Time};

/// A packet of a train that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainPacket {
    pub(crate) id: u8,
    pub(crate) index: u8,
    pub(crate) count: u8,
    /// Time from the departure of the first packet of the train to that of this one.
    pub(crate) left: Duration,
    /// Bytes of UDP payload.
    pub(crate) size: u16,
}

impl TrainPacket {
    /// Returns what a frame says about the packet of `size` bytes that it is in, if it belongs to a
    /// train.
    pub(crate) fn of(frame: &Frame<'_>, size: usize) -> Option<Self> {
        match *frame {
            Frame::Train {
                id,
                index,
                count,
                left,
            } => Some(Self {
                id,
                index,
                count,
                left: Duration::from_micros(left.into()),
                size: u16::try_from(size).unwrap_or(u16::MAX),
            }),
            _ => None,
        }
    }
}

/// What a datagram of the set-up did.
pub(crate) enum SetUpEvent {
    /// The handshake is complete: the peer is authenticated.
    Complete(Box<Complete>),
    Train(TrainPacket),
    Report(Report),
    /// The stream to the peer must not pass this place.
    Limit(u64),
    /// The peer ends the connection with this code.
    Close(u64),
    Failed(ClosedReason),
}

/// What a complete handshake established.
pub(crate) struct Complete {
    pub(crate) keys: Keys,
    /// Place that the stream to the peer must not pass.
    pub(crate) limit: u64,
    pub(crate) rtt: Duration,
    /// The listener asked for a token, and kept nothing that came before it.
    pub(crate) retried: bool,
}

/// The set-up at one end.
pub(crate) struct Handshake {
    side: Side,
    /// `None` once the handshake is complete.
    tls: Option<Box<dyn Tls>>,
    /// An authentic packet of the listener came: its id holds, and nothing that anybody can forge
    /// counts any more.
    is_answered: bool,
    envelope: Envelope,
    /// The id to which the connector sent its first packet.
    first: Id,
    initial: Level,
    handshake: Option<Level>,
    flight: Flight,
    began: Time,
    rtt: Option<Duration>,
    retried: bool,
    /// The peer is known to be where it seems to be.
    validated: bool,
    received_bytes: u64,
    sent_bytes: u64,
    /// Those of them that were packets of a train.
    train_bytes: u64,
    give_up_at: Time,
    /// A report that came before the handshake was complete.
    report: Option<Report>,
    /// The largest limit that came.
    limit: u64,
}

/// The randomness of a connection: [`Connection::connect`](crate::Connection::connect) and
/// [`Acceptor`] take it from their caller, since the protocol has no source of its own.
pub type Entropy = [u8; 32];

/// Returns two random ids and a random number.
pub(crate) fn split_entropy(entropy: &Entropy) -> (Id, Id, u64) {
    let (mut first, mut own, mut seed) = (Id::default(), Id::default(), [0; 8]);
    first.copy_from_slice(&entropy[..8]);
    own.copy_from_slice(&entropy[8..16]);
    seed.copy_from_slice(&entropy[16..24]);
    (first, own, u64::from_le_bytes(seed))
}

impl Handshake {
    /// Returns the parameters of a connector, for its TLS library.
    pub(crate) fn connector_parameters(first: Id, connector: Id, limit: u64) -> Vec<u8> {
        let parameters = Parameters {
            side: Side::Connector,
            first,
            connector,
            listener: Id::default(),
            retried: false,
            limit,
        };
        parameters.encode()
    }

    /// Returns the parameters of a listener, for its TLS library.
    pub(crate) fn listener_parameters(begun: &Begun, limit: u64) -> Vec<u8> {
        let parameters = Parameters {
            side: Side::Listener,
            first: begun.first,
            connector: begun.connector,
            listener: begun.listener,
            retried: begun.retried,
            limit,
        };
        parameters.encode()
    }

    /// Begins the handshake of a listener with a connector whose first messages are complete.
    pub(crate) fn accept(
        now: Time,
        begun: Begun,
        tls: Box<dyn Tls>,
        timeout: Duration,
    ) -> (Self, Vec<SetUpEvent>) {
        let envelope = Envelope {
            to_first: begun.connector,
            to: begun.connector,
            from: begun.listener,
            token: Vec::new(),
        };
        let mut this = Self::new(now, Side::Listener, envelope, begun.level, tls, timeout);
        this.first = begun.first;
        this.received_bytes = begun.received_bytes;
        this.retried = begun.retried;
        // A token shows the address.
        this.validated = begun.retried;
        let mut events = Vec::new();
        this.advance(now, &mut events);
        (this, events)
    }

    /// Begins the handshake of a connector. `None`: the cryptographic library refuses.
    pub(crate) fn connect(
        now: Time,
        (first, own): (Id, Id),
        tls: Box<dyn Tls>,
        timeout: Duration,
    ) -> Option<Self> {
        let envelope = Envelope {
            to_first: first,
            // Known once the listener answers.
            to: Id::default(),
            from: own,
            token: Vec::new(),
        };
        let initial = Level::initial(Side::Connector, &first)?;
        let mut this = Self::new(now, Side::Connector, envelope, initial, tls, timeout);
        this.first = first;
        this.pump(now);
        Some(this)
    }

    fn new(
        now: Time,
        side: Side,
        envelope: Envelope,
        initial: Level,
        tls: Box<dyn Tls>,
        timeout: Duration,
    ) -> Self {
        Self {
            side,
            tls: Some(tls),
            is_answered: false,
            first: envelope.from,
            envelope,
            initial,
            handshake: None,
            flight: Flight::default(),
            began: now,
            rtt: None,
            retried: false,
            validated: side == Side::Connector,
            received_bytes: 0,
            sent_bytes: 0,
            train_bytes: 0,
            give_up_at: now + timeout,
            report: None,
            limit: 0,
        }
    }

    /// Returns the ids by which packets of the set-up find this end.
    pub(crate) fn local_ids(&self) -> [Id; 2] {
        [self.first, self.envelope.from]
    }

    /// Returns whether the TLS handshake is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.tls.is_none()
    }

    /// Returns whether the peer is known to be at its address.
    pub(crate) fn is_validated(&self) -> bool {
        self.validated
    }

    /// Takes a datagram of the set-up. Returns whether any of it was authentic, and what it did.
    pub(crate) fn handle(&mut self, now: Time, datagram: &mut [u8]) -> (bool, Vec<SetUpEvent>) {
        let mut events = Vec::new();
        let size = datagram.len();
        match packet::header(datagram) {
            Some(header) if header.kind == Kind::Retry => self.on_retry(now, &header, datagram),
            Some(header) if header.kind == Kind::Versions => {
                events.extend(self.on_versions(&header, datagram));
            }
            _ => {}
        }
        let mut rest = datagram;
        let mut counted = false;
        while let Some((sealed, behind)) = packet::split(rest) {
            rest = behind;
            let header = sealed.header;
            let Some(level) = self.level_of(&header) else {
                continue;
            };
            let Some(frames) = level.open(now, sealed) else {
                continue;
            };
            if self.side == Side::Connector && !self.is_answered {
                self.envelope.to = header.from;
                self.is_answered = true;
            } else if header.from != self.envelope.to {
                // Another listener answers, or somebody on the path: the first one counts (RFC
                // 9000, section 7.2).
                continue;
            }
            if !std::mem::replace(&mut counted, true) {
                self.received_bytes += size as u64;
            }
            self.read_frames(now, header.kind, frames, size, &mut events);
            // The next packet of the datagram may be under keys that follow from the messages of
            // this one.
            self.advance(now, &mut events);
            if (events.iter()).any(|event| matches!(event, SetUpEvent::Failed(_))) {
                break;
            }
        }
        (counted, events)
    }

    /// Returns the level that a packet belongs to, if it is for this end.
    fn level_of(&mut self, header: &Header) -> Option<&mut Level> {
        let is_ours = match header.kind {
            Kind::Initial | Kind::Train if self.side == Side::Listener => header.to == self.first,
            _ => header.to == self.envelope.from,
        };
        match header.kind {
            Kind::Initial => is_ours.then_some(&mut self.initial),
            Kind::Train if self.side == Side::Listener => is_ours.then_some(&mut self.initial),
            Kind::Handshake => self.handshake.as_mut().filter(|_| is_ours),
            _ => None,
        }
    }

    fn read_frames(
        &mut self,
        now: Time,
        kind: Kind,
        frames: &[u8],
        size: usize,
        events: &mut Vec<SetUpEvent>,
    ) {
        let is_protected = kind == Kind::Handshake;
        // Only an end that received the ServerHello has these keys.
        self.validated |= is_protected;
        let mut reader = Reader(frames);
        while !reader.is_empty() {
            let known = match (read_frame(&mut reader), kind) {
                (Ok(Frame::Padding), _) => true,
                (Ok(Frame::Crypto(offset, messages)), Kind::Initial | Kind::Handshake) => {
                    self.on_crypto(now, is_protected, offset, messages)
                }
                (Ok(Frame::Seen(space, number, held)), Kind::Handshake) => {
                    let level = match space {
                        Space::Initial => Some(&self.initial),
                        Space::Handshake => self.handshake.as_ref(),
                    };
                    let rtt = level.and_then(|level| level.on_seen(now, number, held));
                    self.rtt = self.rtt.or(rtt);
                    true
                }
                (Ok(frame @ Frame::Train { .. }), Kind::Train | Kind::Handshake) => {
                    events.extend(TrainPacket::of(&frame, size).map(SetUpEvent::Train));
                    true
                }
                (Ok(Frame::Report(report)), Kind::Handshake) => {
                    match self.is_complete() {
                        true => events.push(SetUpEvent::Report(report)),
                        false => self.report = Some(report),
                    }
                    true
                }
                (Ok(Frame::Limit(limit)), Kind::Handshake) => {
                    self.limit = self.limit.max(limit);
                    if self.is_complete() {
                        events.push(SetUpEvent::Limit(limit));
                    }
                    true
                }
                (Ok(Frame::Close(code)), Kind::Initial | Kind::Handshake) => {
                    // A listener that refuses the first messages has no other keys to say so.
                    let is_first = self.side == Side::Connector && self.handshake.is_none();
                    if is_protected || is_first {
                        events.push(SetUpEvent::Close(code));
                    }
                    true
                }
                _ => false,
            };
            if !known {
                // Anybody on the path can make initial packets: they are ignored.
                if is_protected {
                    let reason = ClosedReason::Violation(Violation::Malformed);
                    events.push(SetUpEvent::Failed(reason));
                }
                return;
            }
        }
    }

    /// Takes a piece of messages. Returns whether it could be.
    fn on_crypto(&mut self, now: Time, is_protected: bool, offset: u16, messages: &[u8]) -> bool {
        let level = match &mut self.handshake {
            Some(level) if is_protected => level,
            // The messages of the initial level are complete. The peer repeats them because it
            // lacks the answer.
            Some(_) => {
                if self.side == Side::Listener {
                    self.flight.repeat(now);
                }
                return true;
            }
            None => &mut self.initial,
        };
        level.incoming.insert(offset, messages).is_ok()
    }

    /// Returns whether a packet without protection may be the answer to this connector's first
    /// packets.
    fn is_first_answer(&self, header: &Header) -> bool {
        self.side == Side::Connector
            && header.to == self.envelope.from
            && header.from == self.first
            && !self.is_answered
    }

    fn on_retry(&mut self, now: Time, header: &Header, datagram: &[u8]) {
        if let Some(token) = packet::token(datagram)
            && self.is_first_answer(header)
            && !self.retried
        {
            self.retried = true;
            self.envelope.token = token.to_vec();
            self.flight.begin(now, Phase::Hello);
        }
    }

    fn on_versions(&self, header: &Header, datagram: &[u8]) -> Option<SetUpEvent> {
        let theirs = packet::listed_versions(datagram).filter(|_| self.is_first_answer(header))?;
        if theirs.contains(&VERSION) {
            return None;
        }
        Some(SetUpEvent::Failed(ClosedReason::VersionMismatch {
            ours: VERSION,
            theirs: theirs.iter().copied().max()?,
        }))
    }

    /// Passes messages to TLS and takes its own, until nothing moves.
    fn advance(&mut self, now: Time, events: &mut Vec<SetUpEvent>) {
        loop {
            let is_initial = self.handshake.is_none();
            let level = self.handshake.as_mut().unwrap_or(&mut self.initial);
            let messages = level.incoming.take();
            if messages.is_empty() {
                break;
            }
            let Some(tls) = &mut self.tls else { break };
            if let Err(alert) = tls.read(&messages) {
                events.push(SetUpEvent::Failed(ClosedReason::HandshakeFailed(alert.0)));
                return;
            }
            self.pump(now);
            if is_initial == self.handshake.is_none() {
                break;
            }
        }
        let is_done = (self.tls.as_ref()).is_some_and(|tls| !tls.is_handshaking());
        if is_done {
            match self.complete(now) {
                Ok(complete) => {
                    events.push(SetUpEvent::Complete(Box::new(complete)));
                    events.extend(self.report.take().map(SetUpEvent::Report));
                }
                Err(alert) => {
                    events.push(SetUpEvent::Failed(ClosedReason::HandshakeFailed(alert.0)));
                }
            }
        }
    }

    /// Takes the messages that TLS wants to send.
    fn pump(&mut self, now: Time) {
        let Some(tls) = &mut self.tls else { return };
        let mut has_new = false;
        loop {
            let level = self.handshake.as_mut().unwrap_or(&mut self.initial);
            let before = level.outgoing.len();
            let keys = tls.write(&mut level.outgoing);
            let has_grown = level.outgoing.len() > before;
            has_new |= has_grown;
            match keys {
                Some(keys) => self.handshake = Some(Level::new(Space::Handshake, keys)),
                None if !has_grown => break,
                None => {}
            }
        }
        if has_new {
            let is_last = self.side == Side::Connector && self.handshake.is_some();
            let phase = if is_last { Phase::Finish } else { Phase::Hello };
            self.flight.begin(now, phase);
        }
    }

    /// Checks the peer's parameters and derives the keys of the data packets.
    fn complete(&mut self, now: Time) -> Result<Complete, Alert> {
        let mut tls = self.tls.take().ok_or(Alert::INTERNAL_ERROR)?;
        let peer = match self.side {
            Side::Connector => Side::Listener,
            Side::Listener => Side::Connector,
        };
        let parameters = tls
            .peer_parameters()
            .and_then(|bytes| Parameters::decode(bytes, peer))
            .ok_or(Alert::ILLEGAL_PARAMETER)?;
        let (connector, listener) = match self.side {
            Side::Connector => (self.envelope.from, self.envelope.to),
            Side::Listener => (self.envelope.to, self.envelope.from),
        };
        let is_ours = parameters.first == self.first && parameters.connector == connector;
        // A listener whose load changes may answer one copy of the first messages with a Retry
        // packet and take the next.
        let is_theirs = self.side == Side::Listener
            || (parameters.listener == listener && (!parameters.retried || self.retried));
        if !is_ours || !is_theirs {
            return Err(Alert::ILLEGAL_PARAMETER);
        }
        let context = [self.first, connector, listener].concat();
        let keys = match tls.secret(&context)? {
            DataSecret::Exported(secret, cipher) => {
                Keys::new(self.side, &secret[..], &context, cipher)
            }
            DataSecret::Plaintext => Keys::plaintext(self.side, &context),
        };
        if self.side == Side::Listener {
            self.flight = Flight::default();
        }
        Ok(Complete {
            keys: keys.map_err(|_| Alert::INTERNAL_ERROR)?,
            limit: parameters.limit.max(self.limit),
            // Every flight of an honest peer says which packet it answers.
            rtt: (self.rtt).unwrap_or_else(|| now.since(self.began)),
            retried: self.retried,
        })
    }

    /// Returns when something is to be done.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let give_up = (!self.is_complete()).then_some(self.give_up_at);
        [self.flight.due(), give_up].into_iter().flatten().min()
    }

    /// Does what is due. Returns whether the handshake is to be given up.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        self.flight.handle_timeout(now);
        !self.is_complete() && now >= self.give_up_at
    }
}
