//! The acceptor of a listener, which handles first packets of unauthenticated peers at bounded
//! cost.
//!
//! A first packet creates an entry in a bounded table, which stays until the connector's messages
//! are complete. Then a connection is created, at the cost of a signature and a key exchange. Above
//! a load that the caller sets, a connector must first prove that it can be reached at its address.
//! It receives a token, for which the listener keeps no state (RFC 9000, section 8.1.2).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::level::Level;
use super::packet::{self, Header, Id, Kind, SET_UP_DATAGRAM};
use super::tls::BeginTls;
use super::token::Tokens;
use super::{Entropy, TrainPacket, split_entropy};
use crate::config::RudpConfig;
use crate::connection::RudpConnection;
use crate::frame::{Frame, read_frame};
use crate::trains::TRAIN_PACKETS;
use crate::wire::Reader;
use crate::{EndpointSide, Time};

/// The time after which an incomplete entry is dropped. A connector repeats its first messages
/// within one second, so its third repetition still finds the entry.
const HALF_OPEN_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum number of train packets that an entry remembers: the number that a connector of this
/// version sends.
const MAX_TRAIN: usize = TRAIN_PACKETS as usize;

/// The maximum number of version negotiation packets per second. They are smaller than the packets
/// they answer, and a connector needs only one.
const MAX_VERSION_PACKETS_PER_SECOND: u32 = 100;

/// The maximum number of source networks that have their own rate limit. All further networks share
/// one limit.
const MAX_NETWORKS: usize = 1024;

/// The limits of a listener for connectors that are not authenticated yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AcceptLimits {
    /// The maximum number of connectors whose first messages are incomplete. Each takes up to 18
    /// KiB of memory. Default: 256.
    pub half_open: usize,
    /// The maximum number of handshakes in progress. At this number, no new handshake starts. From
    /// half of this number on, connectors must validate their address. Default: 128.
    pub handshakes: usize,
    /// The maximum number of signatures per second for connectors whose address is not validated.
    /// Default: 256, which takes a tenth of the time of a processor core.
    pub signatures: u32,
    /// The maximum number of signatures per second for connectors of one network (24 bits of IPv4,
    /// 48 bits of IPv6) whose address is validated. Default: 64.
    pub signatures_per_network: u32,
}

impl Default for AcceptLimits {
    fn default() -> Self {
        Self {
            half_open: 256,
            handshakes: 128,
            signatures: 256,
            signatures_per_network: 64,
        }
    }
}

/// The result of [`Acceptor::handle_datagram`].
pub enum AcceptResult {
    /// The datagram was ignored, or the connector's first messages are still incomplete.
    Ignored,
    /// The caller must send this datagram back to the source address.
    Reply(Vec<u8>),
    /// A connection whose handshake has started.
    Connection(Box<RudpConnection>),
}

/// A rate limiter that allows bursts of one second: the generic cell rate algorithm (ITU-T I.371).
#[derive(Clone, Copy, Debug)]
struct RateLimiter {
    per_second: u32,
    /// The time at which the bucket would be full again.
    full_at: Time,
}

impl RateLimiter {
    fn new(per_second: u32) -> Self {
        Self {
            per_second,
            full_at: Time::ZERO,
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.per_second.max(1)
    }

    fn has_room(&self, now: Time) -> bool {
        self.full_at.since(now) + self.interval() <= Duration::from_secs(1)
    }

    fn take(&mut self, now: Time) -> bool {
        let has_room = self.has_room(now);
        if has_room {
            self.full_at = self.full_at.max(now) + self.interval();
        }
        has_room
    }
}

/// A connector whose first messages are incomplete.
struct HalfOpen {
    level: Level,
    began: Time,
    received_bytes: u64,
    retried: bool,
    /// Train packets that arrived after the first messages. They are kept so that the train
    /// measures the path even if one of the messages was lost.
    train: Vec<(Time, TrainPacket)>,
}

/// The number of bytes of data packets that arrived before their keys, over all connections of a
/// listener.
pub(crate) type EarlyBytes = Arc<AtomicUsize>;

/// Processes first packets and creates connections from them.
pub struct Acceptor {
    limits: AcceptLimits,
    tokens: Tokens,
    half_open: HashMap<(SocketAddr, Id), HalfOpen>,
    signatures: RateLimiter,
    networks: HashMap<[u8; 6], RateLimiter>,
    other_networks: RateLimiter,
    versions: RateLimiter,
    early: EarlyBytes,
}

/// The inputs of [`Acceptor::handle_datagram`] other than the datagram.
pub struct AcceptContext<'a> {
    /// The settings of a new connection.
    pub config: &'a RudpConfig,
    /// Random bytes, which must be different for each call.
    pub entropy: Entropy,
    /// Number of connections whose handshake is in progress.
    pub handshakes: usize,
    /// The function that starts a TLS handshake.
    pub tls: &'a mut BeginTls<'a>,
}

impl Acceptor {
    /// Creates an acceptor whose tokens are encrypted with this random key. Returns `None` if the
    /// cryptographic library fails.
    #[must_use]
    pub fn new(limits: AcceptLimits, token_key: &[u8; 16]) -> Option<Self> {
        Some(Self {
            limits,
            tokens: Tokens::new(token_key)?,
            half_open: HashMap::new(),
            signatures: RateLimiter::new(limits.signatures),
            networks: HashMap::new(),
            other_networks: RateLimiter::new(limits.signatures_per_network),
            versions: RateLimiter::new(MAX_VERSION_PACKETS_PER_SECOND),
            early: EarlyBytes::default(),
        })
    }

    /// Returns the number of connectors whose first messages are incomplete.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Returns the number of bytes that are held for connectors whose first messages are
    /// incomplete: at most 18 KiB each.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let entries = self.half_open.values();
        let sizes = entries.map(|entry| {
            let train = entry.train.capacity() * size_of::<(Time, TrainPacket)>();
            entry.level.incoming.held_bytes() + train
        });
        sizes.sum()
    }

    /// Returns the bytes of data packets that the connections keep before they have the keys: at
    /// most 16 MiB.
    #[must_use]
    pub fn early_bytes(&self) -> usize {
        self.early.load(Ordering::Relaxed)
    }

    /// Processes a handshake datagram that belongs to no connection.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &mut [u8],
        context: AcceptContext<'_>,
    ) -> AcceptResult {
        let Some(header) = packet::header(datagram).filter(|_| datagram.len() >= SET_UP_DATAGRAM)
        else {
            return AcceptResult::Ignored;
        };
        match header.kind {
            Kind::Initial => {}
            Kind::Train => {
                self.take_train(now, (from, header.to), datagram);
                return AcceptResult::Ignored;
            }
            Kind::OtherVersion if self.versions.take(now) => {
                return AcceptResult::Reply(packet::versions(&header));
            }
            _ => return AcceptResult::Ignored,
        }
        let key = (from, header.to);
        let is_known = self.half_open.contains_key(&key);
        if !is_known && let Some(refusal) = self.admit(now, from, datagram, &context) {
            return refusal;
        }
        self.take_messages(now, (from, header), datagram, context)
    }

    /// Creates an entry for a new connector, or returns the result for a connector that is
    /// rejected.
    fn admit(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &mut [u8],
        context: &AcceptContext<'_>,
    ) -> Option<AcceptResult> {
        let Some((sealed, _)) = packet::split(datagram) else {
            return Some(AcceptResult::Ignored);
        };
        let header = sealed.header;
        let ids = (header.to, header.from);
        let is_validated =
            !sealed.token.is_empty() && self.tokens.check(now, from, ids, sealed.token);
        if context.handshakes >= self.limits.handshakes && is_validated {
            return Some(AcceptResult::Ignored);
        }
        (self.half_open).retain(|_, entry| now.since(entry.began) <= HALF_OPEN_TIMEOUT);
        let is_full = self.half_open.len() >= self.limits.half_open;
        let is_busy = is_full
            || context.handshakes >= self.limits.handshakes / 2
            || !self.signatures.has_room(now);
        if is_busy && !is_validated {
            return Some(self.reply_with_retry(now, from, &header));
        }
        if is_full {
            let oldest = (self.half_open.iter()).min_by_key(|(_, entry)| entry.began);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                self.half_open.remove(&key);
            }
        }
        let Some(level) = Level::initial(EndpointSide::Listener, &header.to) else {
            return Some(AcceptResult::Ignored);
        };
        let entry = HalfOpen {
            level,
            began: now,
            received_bytes: 0,
            retried: is_validated,
            train: Vec::new(),
        };
        self.half_open.insert((from, header.to), entry);
        None
    }

    fn reply_with_retry(&mut self, now: Time, from: SocketAddr, header: &Header) -> AcceptResult {
        match self.tokens.make(now, from, (header.to, header.from)) {
            Some(token) => AcceptResult::Reply(packet::retry(header, &token)),
            None => AcceptResult::Ignored,
        }
    }

    /// Stores a packet of a train if its connector has an entry.
    fn take_train(&mut self, now: Time, key: (SocketAddr, Id), datagram: &mut [u8]) {
        let size = datagram.len();
        let Some(entry) = (self.half_open.get_mut(&key)).filter(|one| one.train.len() < MAX_TRAIN)
        else {
            return;
        };
        let frames = packet::split(datagram).and_then(|(sealed, _)| entry.level.open(now, sealed));
        let Some(frames) = frames else { return };
        let frame = read_frame(&mut Reader(frames));
        if let Some(packet) = frame.ok().and_then(|frame| TrainPacket::of(&frame, size)) {
            entry.received_bytes += size as u64;
            entry.train.push((now, packet));
        }
    }

    fn take_messages(
        &mut self,
        now: Time,
        (from, header): (SocketAddr, Header),
        datagram: &mut [u8],
        context: AcceptContext<'_>,
    ) -> AcceptResult {
        let key = (from, header.to);
        let size = datagram.len() as u64;
        let Some(entry) = self.half_open.get_mut(&key) else {
            return AcceptResult::Ignored;
        };
        let opened = packet::split(datagram)
            .and_then(|(sealed, _)| entry.level.open(now, sealed))
            .map(<[u8]>::to_vec);
        let Some(frames) = opened else {
            if entry.received_bytes == 0 {
                self.half_open.remove(&key);
            }
            return AcceptResult::Ignored;
        };
        entry.received_bytes += size;
        let mut reader = Reader(&frames);
        while !reader.is_empty() {
            match read_frame(&mut reader) {
                Ok(Frame::Padding) => {}
                Ok(Frame::Crypto(offset, messages))
                    if entry.level.incoming.insert(offset, messages).is_ok() => {}
                _ => return AcceptResult::Ignored,
            }
        }
        if !is_complete(entry.level.incoming.in_order()) {
            return AcceptResult::Ignored;
        }
        let Some(entry) = self.half_open.remove(&key) else {
            return AcceptResult::Ignored;
        };
        if entry.retried {
            if !self.network(now, from.ip()).take(now) {
                return AcceptResult::Ignored;
            }
        } else if !self.signatures.take(now) {
            return self.reply_with_retry(now, from, &header);
        }
        let (own, _, seed) = split_entropy(&context.entropy);
        let hello = CompleteHello {
            level: entry.level,
            first: header.to,
            connector: header.from,
            listener: own,
            received_bytes: entry.received_bytes,
            retried: entry.retried,
            train: entry.train,
        };
        let early = Arc::clone(&self.early);
        let config = context.config.clone();
        let connection =
            RudpConnection::accept(now, (from, hello), config, (seed, early), context.tls);
        connection.map_or(AcceptResult::Ignored, |connection| {
            AcceptResult::Connection(Box::new(connection))
        })
    }

    fn network(&mut self, now: Time, ip: IpAddr) -> &mut RateLimiter {
        let mut network = [0; 6];
        match ip.to_canonical() {
            IpAddr::V4(ip) => network[..3].copy_from_slice(&ip.octets()[..3]),
            IpAddr::V6(ip) => network.copy_from_slice(&ip.octets()[..6]),
        }
        if self.networks.len() >= MAX_NETWORKS && !self.networks.contains_key(&network) {
            (self.networks).retain(|_, bucket| bucket.full_at > now);
            if self.networks.len() >= MAX_NETWORKS {
                return &mut self.other_networks;
            }
        }
        let limit = self.limits.signatures_per_network;
        (self.networks.entry(network)).or_insert_with(|| RateLimiter::new(limit))
    }
}

/// A connector whose first messages are complete.
pub(crate) struct CompleteHello {
    pub(crate) level: Level,
    pub(crate) first: Id,
    pub(crate) connector: Id,
    pub(crate) listener: Id,
    pub(crate) received_bytes: u64,
    pub(crate) retried: bool,
    pub(crate) train: Vec<(Time, TrainPacket)>,
}

/// Returns whether these bytes start with a complete handshake message: type (1), length (3,
/// big-endian), body (RFC 8446, section 4).
fn is_complete(messages: &[u8]) -> bool {
    let Some((&[_, a, b, c], body)) = messages.split_first_chunk() else {
        return false;
    };
    body.len() >= u32::from_be_bytes([0, a, b, c]) as usize
}
