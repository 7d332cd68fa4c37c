//! Connection establishment: a TLS 1.3 handshake in packets of this protocol.
//!
//! | time | connector | listener |
//! | --- | --- | --- |
//! | 0 | ClientHello, then a train of packets | |
//! | 1/2 round trip | | ServerHello to Finished, a report on the train, a train |
//! | 1 round trip | Certificate to Finished, data | |
//! | 3/2 round trips | | data |
//!
//! A *flight* consists of all messages that an end sends in one turn. It takes only a few packets,
//! and the loss of one of them would cost a timeout. So each flight is sent
//! [`COPIES`](flight::COPIES) times, at an interval of [`COPY_SPACING`](flight::COPY_SPACING)
//! because losses come in bursts. Flights are not acknowledged: a flight is repeated until the
//! peer's next flight shows that it arrived.
//!
//! The peer is authenticated when the TLS handshake is complete, and not before. Until then no data
//! are sent or delivered, and reports have no effect.

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
    acceptor::{AcceptContext, AcceptLimits, AcceptResult, Acceptor},
    packet::{VERSION, is_set_up},
    plaintext::{PlaintextAgreement, PlaintextTls},
    tls::{Alert, BeginTls, DataSecret, EXPORTER_LABEL, HandshakeKeys, PacketKey, TAG_BYTES, Tls},
};
pub(crate) use self::{
    acceptor::{CompleteHello, EarlyBytes},
    packet::{SET_UP_DATAGRAM, Space},
    sending::AMPLIFICATION_FACTOR,
};
use self::{
    flight::{Flight, Phase},
    level::Level,
    packet::{Header, Kind, PacketTemplate},
    parameters::Parameters,
};
use crate::event::{ClosedReason, Violation};
use crate::frame::{Frame, Report, read_frame};
use crate::wire::Reader;
use crate::{EndpointSide, PacketKeys, Time};

/// A packet of a train that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainPacket {
    pub(crate) id: u8,
    pub(crate) index: u8,
    pub(crate) count: u8,
    /// The time between the sending of the first packet of the train and this one.
    pub(crate) left: Duration,
    /// The size in bytes of UDP payload.
    pub(crate) size: u16,
}

impl TrainPacket {
    /// Returns the train packet that a frame describes, if it is a train frame. `size` is the size
    /// of the packet that contains it.
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

/// The effect of a handshake datagram.
pub(crate) enum SetUpEvent {
    /// The handshake is complete: the peer is authenticated.
    Complete(Box<Complete>),
    Train(TrainPacket),
    Report(Report),
    /// The limit that the peer sets for this end's outgoing stream: the offset up to which data may
    /// be sent.
    Limit(u64),
    /// The peer closes the connection with this code.
    Close(u64),
    Failed(ClosedReason),
}

/// The result of a complete handshake.
pub(crate) struct Complete {
    pub(crate) keys: PacketKeys,
    /// The flow-control limit of this end's outgoing stream.
    pub(crate) limit: u64,
    pub(crate) rtt: Duration,
    /// `true` if the listener sent a Retry packet, and so kept no earlier packet of the connector.
    pub(crate) retried: bool,
}

/// The handshake at one end.
pub(crate) struct Handshake {
    side: EndpointSide,
    /// `None` once the handshake is complete.
    tls: Option<Box<dyn Tls>>,
    /// `true` after an authentic packet of the listener arrived. Then the listener's ID is fixed,
    /// and Retry and version negotiation packets are ignored.
    is_answered: bool,
    template: PacketTemplate,
    /// The ID to which the connector sent its first packet.
    first: Id,
    initial: Level,
    handshake: Option<Level>,
    flight: Flight,
    began: Time,
    rtt: Option<Duration>,
    retried: bool,
    /// `true` if the address of the peer is validated.
    validated: bool,
    received_bytes: u64,
    sent_bytes: u64,
    /// The part of `sent_bytes` that belongs to packets of a train.
    train_bytes: u64,
    give_up_at: Time,
    /// A report that arrived before the handshake was complete.
    report: Option<Report>,
    /// The largest flow-control limit received.
    limit: u64,
}

/// The random bytes of a connection. [`RudpConnection::connect`](crate::RudpConnection::connect)
/// and [`Acceptor`] take them from their caller, because the protocol has no source of randomness
/// of its own.
pub type Entropy = [u8; 32];

/// Splits random bytes into two random IDs and a random number.
pub(crate) fn split_entropy(entropy: &Entropy) -> (Id, Id, u64) {
    let (mut first, mut own, mut seed) = (Id::default(), Id::default(), [0; 8]);
    first.copy_from_slice(&entropy[..8]);
    own.copy_from_slice(&entropy[8..16]);
    seed.copy_from_slice(&entropy[16..24]);
    (first, own, u64::from_le_bytes(seed))
}

impl Handshake {
    /// Returns the transport parameters of a connector, for its TLS library.
    pub(crate) fn connector_parameters(first: Id, connector: Id, limit: u64) -> Vec<u8> {
        let parameters = Parameters {
            side: EndpointSide::Connector,
            first,
            connector,
            listener: Id::default(),
            retried: false,
            limit,
        };
        parameters.encode()
    }

    /// Returns the transport parameters of a listener, for its TLS library.
    pub(crate) fn listener_parameters(hello: &CompleteHello, limit: u64) -> Vec<u8> {
        let parameters = Parameters {
            side: EndpointSide::Listener,
            first: hello.first,
            connector: hello.connector,
            listener: hello.listener,
            retried: hello.retried,
            limit,
        };
        parameters.encode()
    }

    /// Starts the handshake of a listener with a connector whose first messages are complete.
    pub(crate) fn accept(
        now: Time,
        hello: CompleteHello,
        tls: Box<dyn Tls>,
        timeout: Duration,
    ) -> (Self, Vec<SetUpEvent>) {
        let template = PacketTemplate {
            to_first: hello.connector,
            to: hello.connector,
            from: hello.listener,
            token: Vec::new(),
        };
        let mut this = Self::new(
            now,
            EndpointSide::Listener,
            template,
            hello.level,
            tls,
            timeout,
        );
        this.first = hello.first;
        this.received_bytes = hello.received_bytes;
        this.retried = hello.retried;
        // A valid token validates the address.
        this.validated = hello.retried;
        let mut events = Vec::new();
        this.advance(now, &mut events);
        (this, events)
    }

    /// Starts the handshake of a connector. Returns `None` if the cryptographic library fails.
    pub(crate) fn connect(
        now: Time,
        (first, own): (Id, Id),
        tls: Box<dyn Tls>,
        timeout: Duration,
    ) -> Option<Self> {
        let template = PacketTemplate {
            to_first: first,
            // The listener's ID is known once the listener answers.
            to: Id::default(),
            from: own,
            token: Vec::new(),
        };
        let initial = Level::initial(EndpointSide::Connector, &first)?;
        let mut this = Self::new(
            now,
            EndpointSide::Connector,
            template,
            initial,
            tls,
            timeout,
        );
        this.first = first;
        this.take_messages(now);
        Some(this)
    }

    fn new(
        now: Time,
        side: EndpointSide,
        template: PacketTemplate,
        initial: Level,
        tls: Box<dyn Tls>,
        timeout: Duration,
    ) -> Self {
        Self {
            side,
            tls: Some(tls),
            is_answered: false,
            first: template.from,
            template,
            initial,
            handshake: None,
            flight: Flight::default(),
            began: now,
            rtt: None,
            retried: false,
            validated: side == EndpointSide::Connector,
            received_bytes: 0,
            sent_bytes: 0,
            train_bytes: 0,
            give_up_at: now + timeout,
            report: None,
            limit: 0,
        }
    }

    /// Returns the IDs in handshake packets to this end.
    pub(crate) fn local_ids(&self) -> [Id; 2] {
        [self.first, self.template.from]
    }

    /// Returns whether the TLS handshake is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.tls.is_none()
    }

    /// Returns whether the address of the peer is validated.
    pub(crate) fn is_validated(&self) -> bool {
        self.validated
    }

    /// Processes a handshake datagram. Returns whether any packet in it was authentic, and its
    /// effects.
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
            if self.side == EndpointSide::Connector && !self.is_answered {
                self.template.to = header.from;
                self.is_answered = true;
            } else if header.from != self.template.to {
                // The packet is from another listener or from an attacker on the path. Only packets
                // of the first listener are accepted (RFC 9000, section 7.2).
                continue;
            }
            if !std::mem::replace(&mut counted, true) {
                self.received_bytes += size as u64;
            }
            self.read_frames(now, header.kind, frames, size, &mut events);
            // The keys of the next packet of the datagram may follow from the messages of this one.
            self.advance(now, &mut events);
            if (events.iter()).any(|event| matches!(event, SetUpEvent::Failed(_))) {
                break;
            }
        }
        (counted, events)
    }

    /// Returns the encryption level of a packet, if it is for this end.
    fn level_of(&mut self, header: &Header) -> Option<&mut Level> {
        let is_ours = match header.kind {
            Kind::Initial | Kind::Train if self.side == EndpointSide::Listener => {
                header.to == self.first
            }
            _ => header.to == self.template.from,
        };
        match header.kind {
            Kind::Initial => is_ours.then_some(&mut self.initial),
            Kind::Train if self.side == EndpointSide::Listener => {
                is_ours.then_some(&mut self.initial)
            }
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
        // A packet under handshake keys validates the address: only an end that received the
        // ServerHello has these keys.
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
                    // A listener that rejects the first messages has no handshake keys. So a
                    // connector accepts a close under initial keys until it has handshake keys
                    // itself.
                    let is_first = self.side == EndpointSide::Connector && self.handshake.is_none();
                    if is_protected || is_first {
                        events.push(SetUpEvent::Close(code));
                    }
                    true
                }
                _ => false,
            };
            if !known {
                // Anyone on the path can forge initial packets, so an invalid one is ignored.
                if is_protected {
                    let reason = ClosedReason::Violation(Violation::Malformed);
                    events.push(SetUpEvent::Failed(reason));
                }
                return;
            }
        }
    }

    /// Processes a piece of the handshake messages. Returns whether it was valid.
    fn on_crypto(&mut self, now: Time, is_protected: bool, offset: u16, messages: &[u8]) -> bool {
        let level = match &mut self.handshake {
            Some(level) if is_protected => level,
            // The messages of the initial level are complete. The peer repeats them because it
            // lacks the answer.
            Some(_) => {
                if self.side == EndpointSide::Listener {
                    self.flight.repeat(now);
                }
                return true;
            }
            None => &mut self.initial,
        };
        level.incoming.insert(offset, messages).is_ok()
    }

    /// Returns whether a packet without protection may be the answer to the first packets of this
    /// connector.
    fn is_first_answer(&self, header: &Header) -> bool {
        self.side == EndpointSide::Connector
            && header.to == self.template.from
            && header.from == self.first
            && !self.is_answered
    }

    fn on_retry(&mut self, now: Time, header: &Header, datagram: &[u8]) {
        if let Some(token) = packet::token(datagram)
            && self.is_first_answer(header)
            && !self.retried
        {
            self.retried = true;
            self.template.token = token.to_vec();
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

    /// Passes messages between TLS and the packets until neither side has more.
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
            self.take_messages(now);
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

    /// Takes the outgoing messages of TLS.
    fn take_messages(&mut self, now: Time) {
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
            let is_last = self.side == EndpointSide::Connector && self.handshake.is_some();
            let phase = if is_last { Phase::Finish } else { Phase::Hello };
            self.flight.begin(now, phase);
        }
    }

    /// Checks the peer's transport parameters and derives the keys of the data packets.
    fn complete(&mut self, now: Time) -> Result<Complete, Alert> {
        let mut tls = self.tls.take().ok_or(Alert::INTERNAL_ERROR)?;
        let peer = match self.side {
            EndpointSide::Connector => EndpointSide::Listener,
            EndpointSide::Listener => EndpointSide::Connector,
        };
        let parameters = tls
            .peer_parameters()
            .and_then(|bytes| Parameters::decode(bytes, peer))
            .ok_or(Alert::ILLEGAL_PARAMETER)?;
        let (connector, listener) = match self.side {
            EndpointSide::Connector => (self.template.from, self.template.to),
            EndpointSide::Listener => (self.template.to, self.template.from),
        };
        let is_ours = parameters.first == self.first && parameters.connector == connector;
        // A listener whose load changes may answer one copy of the first messages with a Retry
        // packet and accept the next copy. So `parameters.retried` may be false although this end
        // received a Retry packet.
        let is_theirs = self.side == EndpointSide::Listener
            || (parameters.listener == listener && (!parameters.retried || self.retried));
        if !is_ours || !is_theirs {
            return Err(Alert::ILLEGAL_PARAMETER);
        }
        let context = [self.first, connector, listener].concat();
        let keys = match tls.secret(&context)? {
            DataSecret::Exported(secret, cipher) => {
                PacketKeys::new(self.side, &secret[..], &context, cipher)
            }
            DataSecret::Plaintext => PacketKeys::plaintext(self.side, &context),
        };
        if self.side == EndpointSide::Listener {
            self.flight = Flight::default();
        }
        Ok(Complete {
            keys: keys.map_err(|_| Alert::INTERNAL_ERROR)?,
            limit: parameters.limit.max(self.limit),
            // A peer that follows the protocol acknowledges a packet in every flight, so the
            // round-trip time is known.
            rtt: (self.rtt).unwrap_or_else(|| now.since(self.began)),
            retried: self.retried,
        })
    }

    /// Returns the time of the next timeout.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let give_up = (!self.is_complete()).then_some(self.give_up_at);
        [self.flight.due(), give_up].into_iter().flatten().min()
    }

    /// Handles expired timers. Returns whether the handshake has timed out.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        self.flight.handle_timeout(now);
        !self.is_complete() && now >= self.give_up_at
    }
}
