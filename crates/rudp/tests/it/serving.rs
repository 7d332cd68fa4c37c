//! Connectors, and a listener that demultiplexes datagrams to its connections as a driver does.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use transpute_netem::model::derive_seed;
use transpute_rudp::{
    AcceptContext, AcceptLimits, AcceptResult, Acceptor, EndpointSide, Entropy, Id, PlaintextTls,
    RudpConfig, RudpConnection, Time, Tls, is_set_up, receiver,
};

use crate::sim::address;
use crate::toy_tls::{Message, ToyTls};

/// The protocol name of plaintext connections.
const NAME: &str = "test";

pub(crate) fn entropy(seed: u64) -> Entropy {
    let mut entropy = Entropy::default();
    for (word, label) in entropy.chunks_exact_mut(8).zip(0..) {
        word.copy_from_slice(&derive_seed(seed, label).to_le_bytes());
    }
    entropy
}

/// Starts a handshake: that of [`ToyTls`], or that of plaintext mode.
pub(crate) fn tls(
    side: EndpointSide,
    encrypted: bool,
    seed: u64,
    parameters: &[u8],
) -> Box<dyn Tls> {
    let random = entropy(seed);
    if encrypted {
        return Box::new(ToyTls::new(side, random, parameters));
    }
    let random = std::array::from_fn(|at| random[at]);
    let agreed = Arc::new(OnceLock::new());
    Box::new(match side {
        EndpointSide::Connector => PlaintextTls::connector(random, parameters, &[NAME], agreed),
        EndpointSide::Listener => {
            PlaintextTls::listener(random, parameters, &[NAME], b"hello", agreed)
        }
    })
}

/// Starts a connection to port 2.
pub(crate) fn connect(config: RudpConfig, now: Time, encrypted: bool, seed: u64) -> RudpConnection {
    let tls = |parameters: &[u8]| Some(tls(EndpointSide::Connector, encrypted, seed, parameters));
    RudpConnection::connect(address(2), config, now, &entropy(seed), tls)
        .expect("the library works")
}

/// A connection of a listener, with the data for demultiplexing.
struct Served {
    connection: RudpConnection,
    /// The source address of its handshake.
    from: SocketAddr,
    /// The IDs in its handshake packets.
    ids: [Id; 2],
}

/// A listener: an acceptor and its connections.
pub(crate) struct Listener {
    pub(crate) acceptor: Acceptor,
    config: RudpConfig,
    encrypted: bool,
    random: u64,
    served: Vec<Served>,
    replies: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Number of TLS sessions started. Each one costs a signature.
    pub(crate) sessions: usize,
    /// A message that each connection rejects, with the alert.
    pub(crate) refusal: Option<(Message, transpute_rudp::Alert)>,
    /// The index of a byte of the transport parameters that is changed.
    pub(crate) wrong_parameter: Option<usize>,
}

impl Listener {
    pub(crate) fn new(config: RudpConfig, encrypted: bool, seed: u64) -> Self {
        Self::with_limits(config, encrypted, seed, AcceptLimits::default())
    }

    pub(crate) fn with_limits(
        config: RudpConfig,
        encrypted: bool,
        seed: u64,
        limits: AcceptLimits,
    ) -> Self {
        Self {
            acceptor: Acceptor::new(limits, &[7; 16]).expect("the library works"),
            config,
            encrypted,
            random: seed,
            served: Vec::new(),
            replies: VecDeque::new(),
            sessions: 0,
            refusal: None,
            wrong_parameter: None,
        }
    }

    /// Returns the first connection, if there is one.
    pub(crate) fn first(&self) -> Option<&RudpConnection> {
        self.served.first().map(|one| &one.connection)
    }

    /// Returns the first connection, if there is one.
    pub(crate) fn connection(&mut self) -> Option<&mut RudpConnection> {
        self.connections().next()
    }

    /// Returns the first connection and drops the others.
    pub(crate) fn into_connection(self) -> Option<RudpConnection> {
        self.served.into_iter().map(|one| one.connection).next()
    }

    pub(crate) fn connections(&mut self) -> impl Iterator<Item = &mut RudpConnection> {
        self.served.iter_mut().map(|one| &mut one.connection)
    }

    /// Returns the number of handshakes in progress.
    pub(crate) fn handshakes(&self) -> usize {
        let is_under_way =
            |one: &&Served| !one.connection.is_established() && !one.connection.is_drained();
        self.served.iter().filter(is_under_way).count()
    }

    /// Removes drained connections.
    pub(crate) fn sweep(&mut self) {
        self.served.retain(|one| !one.connection.is_drained());
    }

    pub(crate) fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) {
        let at = if is_set_up(datagram) {
            let Some(id) = receiver(datagram) else { return };
            let is_for = |one: &Served| one.from == from && one.ids.contains(&id);
            self.served.iter().position(is_for)
        } else {
            let id = (datagram.get(1..5)).and_then(|id| id.try_into().ok().map(u32::from_le_bytes));
            let by_id = |one: &Served| one.connection.local_id().is_some_and(|own| id == Some(own));
            // Data may arrive before the connector's last messages. The listener does not know its
            // ID until then.
            let is_early = |one: &Served| one.connection.local_id().is_none() && one.from == from;
            let known = self.served.iter().position(by_id);
            known.or_else(|| self.served.iter().position(is_early))
        };
        match at {
            Some(at) => (self.served[at].connection).handle_datagram(now, from, datagram),
            None if is_set_up(datagram) => self.accept(now, from, datagram),
            None => {}
        }
    }

    fn accept(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) {
        self.random += 1;
        let (seed, encrypted, refusal) = (self.random, self.encrypted, self.refusal);
        let mut sessions = 0;
        let wrong = self.wrong_parameter;
        let mut tls = |parameters: &[u8]| {
            sessions += 1;
            let mut parameters = parameters.to_vec();
            if let Some(byte) = wrong.and_then(|at| parameters.get_mut(at)) {
                *byte ^= 1;
            }
            if refusal.is_none() {
                return Some(tls(EndpointSide::Listener, encrypted, seed, &parameters));
            }
            let mut toy = ToyTls::new(EndpointSide::Listener, entropy(seed), &parameters);
            toy.refusal = refusal;
            Some(Box::new(toy) as Box<dyn Tls>)
        };
        let context = AcceptContext {
            config: &self.config,
            entropy: entropy(seed),
            handshakes: self.handshakes(),
            tls: &mut tls,
        };
        let result = (self.acceptor).handle_datagram(now, from, datagram, context);
        self.sessions += sessions;
        match result {
            AcceptResult::Ignored => {}
            AcceptResult::Reply(reply) => self.replies.push_back((from, reply)),
            AcceptResult::Connection(connection) => {
                let connection = *connection;
                let ids = connection.set_up_ids().expect("in its set-up");
                self.served.push(Served {
                    connection,
                    from,
                    ids,
                });
            }
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let timeouts = self.served.iter().map(|one| one.connection.next_timeout());
        timeouts.flatten().min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        for connection in self.connections() {
            if connection.next_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
        }
    }

    /// Returns the next answer to a datagram of no connection, and its destination.
    pub(crate) fn take_reply(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.replies.pop_front()
    }

    /// Returns the datagrams that are due now, each with its destination.
    pub(crate) fn transmit(&mut self, now: Time) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut sent: Vec<_> = self.replies.drain(..).collect();
        for connection in self.connections() {
            transmit(connection, now, &mut sent);
        }
        sent
    }
}

/// Appends the datagrams that a connection sends now, each with its destination.
pub(crate) fn transmit(
    connection: &mut RudpConnection,
    now: Time,
    sent: &mut Vec<(SocketAddr, Vec<u8>)>,
) {
    let mut out = Vec::new();
    while let Some(transmit) = connection.poll_transmit(now, &mut out, 8) {
        let datagrams = out.chunks(transmit.segment_size);
        sent.extend(datagrams.map(|datagram| (transmit.destination, datagram.to_vec())));
        out.clear();
    }
}

/// Returns two ends whose handshake has started: the listener has the connector's first messages,
/// and nothing else was sent. Appends the sent datagrams to `datagrams`.
pub(crate) fn pair(
    configs: [RudpConfig; 2],
    encrypted: bool,
    seed: u64,
    datagrams: &mut Vec<Vec<u8>>,
) -> (RudpConnection, RudpConnection) {
    let [connector, listener] = configs;
    let mut connector = connect(connector, Time::ZERO, encrypted, seed);
    let mut listener = Listener::new(listener, encrypted, seed + 1000);
    let mut out = Vec::new();
    while listener.connection().is_none() {
        out.clear();
        let transmit = connector.poll_transmit(Time::ZERO, &mut out, 1);
        assert!(transmit.is_some(), "the first messages are not enough");
        datagrams.push(out.clone());
        listener.handle_datagram(Time::ZERO, address(1), &mut out);
    }
    let listener = listener.into_connection().expect("there is one");
    (connector, listener)
}
