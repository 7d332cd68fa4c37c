//! The simulator: two ends, two directions of a path, and one clock.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use transpute_netem::model::{Path, derive_seed};
use transpute_netem::scenario::PathConfig;
use transpute_rudp::{
    AcceptLimits, ClosedReason, Read, RudpConfig, RudpConnection, RudpEvent, Stats, Time,
};

use crate::serving::{Listener, connect};

/// The size of the IP and UDP headers, in bytes.
const IP_UDP: usize = 28;

/// An IP packet: 28 bytes of headers, which are ignored, and a datagram.
#[derive(Clone)]
pub(crate) struct Packet(pub(crate) Vec<u8>);

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The parameters of a transfer.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) up: PathConfig,
    pub(crate) down: PathConfig,
    /// The probability that a bit of a packet is flipped.
    pub(crate) corrupt: f64,
    /// The path MTU from each of these times on, in bytes of UDP payload, for both directions.
    pub(crate) mtu: Vec<(Duration, usize)>,
    pub(crate) up_bytes: u64,
    pub(crate) down_bytes: u64,
    pub(crate) connector: RudpConfig,
    pub(crate) listener: RudpConfig,
    pub(crate) seed: u64,
    pub(crate) encrypted: bool,
    /// The time after which the simulation stops.
    pub(crate) time_limit: Duration,
    /// The maximum number of segments per batch.
    pub(crate) segments: usize,
    /// The largest datagram of the interfaces, in bytes of UDP payload, and whether the system
    /// reports it when it rejects a larger one.
    pub(crate) interface: Option<(usize, bool)>,
    /// Suspensions of the processes.
    pub(crate) sleep: Option<Sleep>,
    /// The factor by which arrivals at the listener are compressed in the first 2 ms, as if a hop
    /// on the path had been suspended. If it is set, a packet takes 3 us to send.
    pub(crate) squeeze: Option<u32>,
    /// The limits of the listener for unauthenticated connectors.
    pub(crate) limits: AcceptLimits,
    /// The time from which the connector's packets come from another port. Packets to the old port
    /// are lost from then on.
    pub(crate) rebind: Option<Duration>,
}

impl Setup {
    /// Returns the source address of the connector's packets.
    fn connector_address(&self, now: Time) -> SocketAddr {
        let is_moved = self.rebind.is_some_and(|at| now >= Time::ZERO + at);
        address(if is_moved { 9 } else { 1 })
    }
}

/// A process that is suspended at times, for 20 to 50 ms, while its socket still receives packets.
#[derive(Clone, Copy)]
pub(crate) struct Sleep {
    /// The mean time between suspensions.
    pub(crate) awake: Duration,
    /// The size of the socket's buffer in bytes. Packets beyond it are lost.
    pub(crate) socket: usize,
    /// `true` if the process handles timers before it reads the socket. A program does this if
    /// another thread owns the socket.
    pub(crate) timers_first: bool,
}

impl Setup {
    pub(crate) fn new(path: &PathConfig, up_bytes: u64, seed: u64) -> Self {
        Self {
            up: path.clone(),
            down: path.clone(),
            corrupt: 0.0,
            mtu: Vec::new(),
            up_bytes,
            down_bytes: 0,
            connector: RudpConfig::default(),
            listener: RudpConfig::default(),
            seed,
            encrypted: true,
            time_limit: Duration::from_secs(600),
            segments: 16,
            interface: None,
            sleep: None,
            squeeze: None,
            limits: AcceptLimits::default(),
            rebind: None,
        }
    }
}

/// The role of one end.
enum Role {
    Connector(Box<RudpConnection>),
    Listener(Box<Listener>),
}

impl Role {
    fn connection(&mut self) -> Option<&mut RudpConnection> {
        match self {
            Self::Connector(connection) => Some(connection),
            Self::Listener(listener) => listener.connection(),
        }
    }

    fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) {
        match self {
            Self::Connector(connection) => connection.handle_datagram(now, from, datagram),
            Self::Listener(listener) => listener.handle_datagram(now, from, datagram),
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        match self {
            Self::Connector(connection) => connection.next_timeout(),
            Self::Listener(listener) => listener.next_timeout(),
        }
    }

    /// Handles expired timers.
    fn handle_timeout(&mut self, now: Time) {
        if self.next_timeout().is_some_and(|at| at <= now) {
            match self {
                Self::Connector(connection) => connection.handle_timeout(now),
                Self::Listener(listener) => listener.handle_timeout(now),
            }
        }
    }

    fn take_reply(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        match self {
            Self::Connector(_) => None,
            Self::Listener(listener) => listener.take_reply(),
        }
    }
}

/// One end and its application.
pub(crate) struct End {
    role: Role,
    to_write: u64,
    written: u64,
    finished: bool,
    pub(crate) read: u64,
    pub(crate) saw_end: bool,
    pub(crate) closed: Option<Option<ClosedReason>>,
    pub(crate) delivered: bool,
    pub(crate) last_read_at: Time,
    pub(crate) established_at: Option<Time>,
    pub(crate) path_estimate: Option<u64>,
    pub(crate) estimated_at: Option<Time>,
    salt: u64,
    peer_salt: u64,
    pattern: Vec<u8>,
}

/// The result of a transfer.
pub(crate) struct Outcome {
    pub(crate) connector: End,
    pub(crate) listener: End,
    pub(crate) now: Time,
    /// `true` if the time limit was reached.
    pub(crate) hung: bool,
    /// The share of the connector's datagrams that was lost by the path or by the listener's
    /// socket.
    pub(crate) lost: f64,
    /// The maximum number of bytes that the connector had written and the listener had not read, in
    /// the second half of the transfer. In the first half, the path is not known yet.
    pub(crate) ahead: u64,
}

impl Outcome {
    /// Returns the time from the handshake of the connector to the last byte read by the listener.
    pub(crate) fn transfer(&self) -> Duration {
        let from = self.connector.established_at.expect("established");
        self.listener.last_read_at.since(from)
    }

    pub(crate) fn assert_complete(&self, context: &str) {
        assert!(
            !self.hung,
            "{context}: hung at {:?}: {}",
            self.now,
            self.describe()
        );
        for end in [&self.connector, &self.listener] {
            assert_eq!(end.closed, Some(None), "{context}: {}", self.describe());
            assert!(end.delivered, "{context}");
            assert!(end.saw_end, "{context}: {}", self.describe());
        }
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{:?} {:?}\n{:?}\n{:?}",
            self.connector.closed,
            self.listener.closed,
            self.connector.stats(),
            self.listener.stats()
        )
    }
}

impl End {
    fn new(role: Role, to_write: u64, salt: u64, peer_salt: u64) -> Self {
        Self {
            role,
            to_write,
            written: 0,
            finished: false,
            read: 0,
            saw_end: false,
            closed: None,
            delivered: false,
            last_read_at: Time::ZERO,
            established_at: None,
            path_estimate: None,
            estimated_at: None,
            salt,
            peer_salt,
            pattern: Vec::new(),
        }
    }

    /// Returns the connection of this end, if it has one.
    pub(crate) fn connection(&mut self) -> Option<&mut RudpConnection> {
        self.role.connection()
    }

    /// Returns the statistics of the connection, if there is one.
    pub(crate) fn stats(&self) -> Option<Stats> {
        match &self.role {
            Role::Connector(connection) => Some(connection.stats()),
            Role::Listener(listener) => listener.first().map(RudpConnection::stats),
        }
    }

    /// Returns whether there is no connection, or it is drained.
    fn is_drained(&mut self) -> bool {
        self.connection().is_none_or(|one| one.is_drained())
    }

    /// Writes and reads as much as possible, and records events. Panics if data were altered.
    fn work(&mut self, now: Time, buffer: &mut [u8]) {
        let Some(connection) = self.role.connection() else {
            return;
        };
        while let Some(event) = connection.poll_event() {
            match event {
                RudpEvent::Established => self.established_at = Some(now),
                RudpEvent::PathEstimated { rate, .. } => {
                    self.path_estimate = Some(rate);
                    self.estimated_at = self.estimated_at.or(Some(now));
                }
                RudpEvent::Delivered => self.delivered = true,
                RudpEvent::Closed(reason) => self.closed = Some(reason),
                _ => {}
            }
        }
        if self.established_at.is_some() {
            while self.written < self.to_write {
                let take = (self.to_write - self.written)
                    .min(65_536)
                    .min(connection.writable());
                if take == 0 {
                    break;
                }
                fill(&mut self.pattern, self.salt, self.written, take as usize);
                let taken = connection.write(&self.pattern);
                assert!(taken as u64 <= take);
                self.written += taken as u64;
                if taken == 0 {
                    break;
                }
            }
            if self.written == self.to_write && !self.finished {
                self.finished = true;
                connection.finish();
            }
        }
        loop {
            match connection.read(now, buffer) {
                Read::Data(count) => {
                    fill(&mut self.pattern, self.peer_salt, self.read, count);
                    assert!(
                        self.pattern == buffer[..count],
                        "data altered at {}",
                        self.read
                    );
                    self.read += count as u64;
                    self.last_read_at = now;
                }
                Read::End => {
                    self.saw_end = true;
                    break;
                }
                Read::Nothing | Read::Closed => break,
            }
        }
    }
}

/// Writes the bytes of a stream at an offset, which differ for each offset and stream.
fn fill(out: &mut Vec<u8>, salt: u64, offset: u64, count: usize) {
    out.clear();
    let mut word = offset / 8;
    let skip = (offset % 8) as usize;
    while out.len() < count + skip {
        let value = (word ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        out.extend_from_slice(&(value ^ (value >> 29)).to_le_bytes());
        word += 1;
    }
    out.drain(..skip);
    out.truncate(count);
}

pub(crate) fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

struct Direction {
    path: Path<Packet>,
    random: u64,
    corrupt: f64,
}

/// A socket's buffer, and the suspensions of the process that reads it.
struct Inbox {
    held: VecDeque<(Time, Vec<u8>)>,
    bytes: usize,
    asleep_until: Time,
    next_sleep: Time,
    random: u64,
}

impl Inbox {
    fn new(random: u64) -> Self {
        Self {
            held: VecDeque::new(),
            bytes: 0,
            asleep_until: Time::ZERO,
            next_sleep: Time::ZERO,
            random,
        }
    }

    fn put(&mut self, now: Time, datagram: &[u8], sleep: Option<Sleep>) {
        if sleep.is_some_and(|sleep| self.bytes + datagram.len() > sleep.socket) {
            return;
        }
        self.bytes += datagram.len();
        self.held.push_back((now, datagram.to_vec()));
    }

    fn random(&mut self, sides: u64) -> u64 {
        self.random = self.random.wrapping_add(1);
        derive_seed(self.random, 78) % sides
    }

    /// Returns whether the process is suspended.
    fn is_suspended(&mut self, now: Time, sleep: Option<Sleep>) -> bool {
        let Some(sleep) = sleep else {
            return false;
        };
        if now >= self.next_sleep {
            let micros = 20_000 + self.random(30_000);
            // There is no suspension at the start, during the handshake.
            if self.next_sleep > Time::ZERO {
                self.asleep_until = now + Duration::from_micros(micros);
            }
            let awake = self.random(2 * sleep.awake.as_micros() as u64);
            self.next_sleep = now.max(self.asleep_until) + Duration::from_micros(1 + awake);
        }
        now < self.asleep_until
    }
}

impl Direction {
    fn send(&mut self, now: Time, datagram: &[u8]) {
        let packet = [&[0; IP_UDP], datagram].concat();
        self.path.enqueue(now.as_nanos(), Packet(packet));
    }

    fn chance(&mut self) -> u64 {
        self.random = self.random.wrapping_add(1);
        derive_seed(self.random, 77)
    }
}

/// Runs a transfer until both ends are drained.
pub(crate) fn run(setup: &Setup) -> Outcome {
    let start = Time::ZERO;
    let connector = connect(
        setup.connector.clone(),
        start,
        setup.encrypted,
        derive_seed(setup.seed, 1),
    );
    let listener = Listener::with_limits(
        setup.listener.clone(),
        setup.encrypted,
        derive_seed(setup.seed, 2),
        setup.limits,
    );
    let mut ends = [
        End::new(
            Role::Connector(Box::new(connector)),
            setup.up_bytes,
            0xaaaa_0000_0000,
            0x5555_0000_0000,
        ),
        End::new(
            Role::Listener(Box::new(listener)),
            setup.down_bytes,
            0x5555_0000_0000,
            0xaaaa_0000_0000,
        ),
    ];
    let mut directions = [(&setup.up, 3), (&setup.down, 4)].map(|(config, label)| Direction {
        path: Path::new(config, derive_seed(setup.seed, label)),
        random: derive_seed(setup.seed, label + 2),
        corrupt: setup.corrupt,
    });
    let mut now = start;
    let mut buffer = vec![0; 65_536];
    let mut out = Vec::new();
    let mut stuck = 0;
    let mut inboxes = [7, 8].map(|label| Inbox::new(derive_seed(setup.seed, label)));
    let mut first_arrival = None;
    let (mut sent, mut taken) = ([0u64; 2], [0u64; 2]);
    let mut ahead = 0;
    loop {
        // Handles arrivals. Packets in direction 0 arrive at end 1.
        for (index, direction) in directions.iter_mut().enumerate() {
            while let Some(Packet(mut bytes)) = direction.path.dequeue(now.as_nanos()) {
                let (chance, place) = (direction.chance(), direction.chance());
                let datagram = &mut bytes[IP_UDP..];
                if (chance >> 11) as f64 / ((1u64 << 53) as f64) < direction.corrupt {
                    let bit = (place % (datagram.len() as u64 * 8)) as usize;
                    datagram[bit / 8] ^= 1 << (bit % 8);
                }
                let mut at = now;
                if let (0, Some(squeeze)) = (index, setup.squeeze) {
                    let first = *first_arrival.get_or_insert(now);
                    if now.since(first) < Duration::from_millis(2) {
                        at = first + now.since(first) / squeeze;
                    }
                }
                inboxes[1 - index].put(at, datagram, setup.sleep);
            }
        }
        for (index, end) in ends.iter_mut().enumerate() {
            let inbox = &mut inboxes[index];
            if inbox.is_suspended(now, setup.sleep) {
                continue;
            }
            let timers_first = setup.sleep.is_some_and(|sleep| sleep.timers_first);
            if timers_first {
                end.role.handle_timeout(now);
            }
            let connector_address = setup.connector_address(now);
            let from = [address(2), connector_address][index];
            for (at, mut datagram) in inbox.held.drain(..) {
                taken[1 - index] += 1;
                end.role.handle_datagram(at, from, &mut datagram);
            }
            inbox.bytes = 0;
            end.role.handle_timeout(now);
            end.work(now, &mut buffer);
            while let Some((_, reply)) = end.role.take_reply() {
                sent[index] += 1;
                directions[index].send(now, &reply);
            }
            while let Some(connection) = end.role.connection() {
                out.clear();
                let mut at = now;
                if setup.squeeze.is_some() && now == start {
                    at = now + Duration::from_micros(3 * sent[index]);
                }
                let Some(transmit) = connection.poll_transmit(at, &mut out, setup.segments) else {
                    break;
                };
                assert_eq!(transmit.len, out.len());
                let mtu = (setup.mtu.iter().rev())
                    .find(|(from, _)| now >= Time::ZERO + *from)
                    .map_or(65_535, |(_, mtu)| *mtu);
                if let Some((max, is_reported)) = setup.interface
                    && transmit.segment_size > max
                {
                    let fits = is_reported.then_some(max as u16);
                    connection.on_refused(transmit.segment_size, fits);
                    continue;
                }
                for datagram in out.chunks(transmit.segment_size) {
                    sent[index] += 1;
                    let is_gone = index == 1 && transmit.destination != connector_address;
                    if datagram.len() <= mtu && !is_gone {
                        directions[index].send(now, datagram);
                    }
                }
            }
            end.work(now, &mut buffer);
        }
        if 2 * ends[1].read > setup.up_bytes {
            ahead = ahead.max(ends[0].written - ends[1].read);
        }
        if ends.iter_mut().all(End::is_drained) {
            break;
        }
        let arrivals = directions
            .iter()
            .filter_map(|direction| direction.path.next_deadline().map(Time::from_nanos));
        let timeouts = (ends.iter().zip(&inboxes)).filter_map(|(end, inbox)| {
            let at = end.role.next_timeout()?;
            Some(if now < inbox.asleep_until {
                inbox.asleep_until
            } else {
                at
            })
        });
        let Some(next) = arrivals.chain(timeouts).min() else {
            break;
        };
        if next <= now {
            stuck += 1;
            assert!(
                stuck < 1000,
                "busy at {now:?}: {:?} {:?}",
                ends[0].role.next_timeout(),
                ends[1].role.next_timeout()
            );
        } else {
            stuck = 0;
        }
        now = now.max(next);
        if now.since(start) > setup.time_limit {
            break;
        }
    }
    let hung = !(ends.iter_mut()).all(|end| end.closed.is_some() || end.connection().is_none());
    let [connector, listener] = ends;
    Outcome {
        connector,
        listener,
        now,
        hung,
        lost: (sent[0] - taken[0].min(sent[0])) as f64 / sent[0].max(1) as f64,
        ahead,
    }
}

/// Returns retransmitted and parity packets as a share of the packets sent.
pub(crate) fn overhead(stats: &Stats) -> f64 {
    let extra = stats.retransmitted_packets + stats.parity_packets;
    extra as f64 / stats.sent_packets.max(1) as f64
}
