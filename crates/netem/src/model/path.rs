//! One direction of a path.

use std::collections::VecDeque;

use super::bottleneck::Bottleneck;
use super::counters::PathCounters;
use super::loss::Loss;
use super::random::Stream;
use crate::scenario::{Change, PathConfig};

/// The maximum number of bytes that a path holds: under way and in its queue together.
///
/// A path without a bottleneck has no queue that could overflow, and a sender without congestion
/// control would fill the memory of the machine. Packets beyond this limit count as overflowed.
pub const MAX_HELD_BYTES: u64 = 1 << 30;

/// The maximum number of packets that one packet may overtake.
const MAX_OVERTAKEN: u64 = 8;

/// The minimum time between two random values of the jitter, in nanoseconds.
const MIN_JITTER_STEP: u64 = 10_000_000;

/// One direction of a path, for packets of type `P`.
///
/// Times are in nanoseconds since the path was created. If a call passes an earlier time than a
/// previous call did, the latest time so far is used instead.
///
/// - **Loss** depends only on the seed and the number of the packet. So the same seed drops the
///   same packets, whatever traffic they carry.
/// - **Queue and bottleneck** form a drop-tail queue: a packet that does not fit the queue is
///   dropped. The packet that is being transmitted counts as queued.
/// - **Jitter** changes gradually. Every 10 ms (or four times the jitter, if longer) a new offset
///   between minus and plus the jitter is drawn. Between two offsets the delay changes linearly.
///   Its mean is the configured delay at every packet rate, and no packet overtakes another.
///   Independent offsets per packet would either reorder packets or delay every dense flow by the
///   whole jitter.
/// - **Reordering** lets a packet overtake up to eight packets that are under way. It has no effect
///   if no packet is under way.
///
/// ```
/// use transpute_netem::model::Path;
/// use transpute_netem::scenario::PathConfig;
///
/// // 12 Mbit/s: 1 ms for 1,500 bytes; and a delay of 20 ms.
/// let mut config = PathConfig::default();
/// config.delay_ms = 20.0;
/// config.rate_mbit = Some(12.0);
/// let mut path = Path::new(&config, 1);
/// path.enqueue(0, vec![0; 1500]);
/// assert!(path.dequeue(20_999_999).is_none());
/// assert!(path.dequeue(21_000_000).is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Path<P> {
    now: u64,
    loss: Loss,
    mtu: Option<u32>,
    duplicate: f64,
    duplicate_stream: Stream,
    bottleneck: Option<Bottleneck<P>>,
    delay: u64,
    jitter: u64,
    jitter_stream: Stream,
    reorder: f64,
    reorder_stream: Stream,
    /// Packets past the bottleneck with their arrival times, which never decrease.
    flying: VecDeque<(u64, P)>,
    flying_bytes: u64,
    /// Future changes of the path, sorted by time.
    changes: VecDeque<Change>,
    counters: PathCounters,
}

impl<P: AsRef<[u8]> + Clone> Path<P> {
    /// Creates a path without packets.
    ///
    /// Expects a configuration that [`Scenario::validate`](crate::scenario::Scenario::validate)
    /// accepts. Other values do not panic, but the result is of no use: a negative time is taken as
    /// zero, for instance.
    #[must_use]
    pub fn new(config: &PathConfig, seed: u64) -> Self {
        let bottleneck = (config.rate_mbit.zip(config.queue_limit_bytes()))
            .map(|(rate, limit)| Bottleneck::new(bits_per_second(rate), limit));
        let mut changes: Vec<_> = config.changes.clone();
        changes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        Self {
            now: 0,
            loss: Loss::new(config.loss, config.burst, Stream::new(seed, 1)),
            mtu: config.path_mtu,
            duplicate: config.duplicate,
            duplicate_stream: Stream::new(seed, 2),
            bottleneck,
            delay: nanoseconds(config.delay_ms),
            jitter: nanoseconds(config.jitter_ms),
            jitter_stream: Stream::new(seed, 3),
            reorder: config.reorder,
            reorder_stream: Stream::new(seed, 4),
            flying: VecDeque::new(),
            flying_bytes: 0,
            changes: changes.into(),
            counters: PathCounters::default(),
        }
    }

    /// Puts a packet on the wire. Returns the path MTU if the packet is larger and therefore
    /// dropped, as a router reports it to the sender. Returns `None` if the packet was lost before
    /// that router.
    pub fn enqueue(&mut self, now: u64, packet: P) -> Option<u32> {
        self.advance(now);
        let bytes = packet.as_ref().len() as u64;
        self.counters.packets_in += 1;
        self.counters.bytes_in += bytes;
        let lost = self.loss.drops_next();
        let twice = self.duplicate_stream.chance(self.duplicate);
        if lost {
            self.counters.lost_packets += 1;
            self.counters.lost_bytes += bytes;
            return None;
        }
        if let Some(mtu) = self.mtu.filter(|&mtu| bytes > u64::from(mtu)) {
            self.counters.oversized_packets += 1;
            self.counters.oversized_bytes += bytes;
            return Some(mtu);
        }
        if twice {
            self.counters.duplicated_packets += 1;
            self.counters.duplicated_bytes += bytes;
            self.admit(packet.clone());
        }
        self.admit(packet);
        None
    }

    /// Returns a packet that has arrived by now.
    pub fn dequeue(&mut self, now: u64) -> Option<P> {
        self.advance(now);
        if self.flying.front()?.0 > self.now {
            return None;
        }
        let (_, packet) = self.flying.pop_front()?;
        let bytes = packet.as_ref().len() as u64;
        self.flying_bytes -= bytes;
        self.counters.packets_out += 1;
        self.counters.bytes_out += bytes;
        Some(packet)
    }

    /// Returns the time of the next [`dequeue`](Self::dequeue), or `None` if no packet is under
    /// way.
    ///
    /// No packet arrives before this time. At this time there may be none yet, and then this method
    /// returns a later time.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        match self.flying.front() {
            // A packet that is still in the bottleneck arrives no earlier than this one.
            Some((at, _)) => Some(*at),
            None => self.bottleneck.as_ref()?.leaves_at(),
        }
    }

    /// Returns the number of packets that wait or are under way.
    #[must_use]
    pub fn held_packets(&self) -> usize {
        self.flying.len()
            + self
                .bottleneck
                .as_ref()
                .map_or(0, Bottleneck::waiting_packets)
    }

    /// Returns the number of bytes that wait or are under way.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.flying_bytes
            + self
                .bottleneck
                .as_ref()
                .map_or(0, Bottleneck::waiting_bytes)
    }

    /// Returns the number of bytes in the queue of the bottleneck, including the packet on the
    /// link. It is 0 on a path without a bottleneck.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        (self.bottleneck.as_ref()).map_or(0, Bottleneck::waiting_bytes)
    }

    /// Returns the counters up to now.
    #[must_use]
    pub fn counters(&self) -> &PathCounters {
        &self.counters
    }

    /// Advances the path to this time: applies changes and departures in the order of their times.
    fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        loop {
            let leaves = (self.bottleneck.as_ref()).and_then(Bottleneck::leaves_at);
            let changes = self
                .changes
                .front()
                .map(|change| nanoseconds(change.at_s * 1e3));
            match (changes, leaves) {
                (Some(at), leaves)
                    if at <= self.now && leaves.is_none_or(|leaves| at <= leaves) =>
                {
                    if let Some(change) = self.changes.pop_front() {
                        self.apply(at, &change);
                    }
                }
                (_, Some(at)) if at <= self.now => {
                    if let Some((at, packet)) = self.bottleneck.as_mut().and_then(Bottleneck::pop) {
                        self.launch(at, packet);
                    }
                }
                _ => return,
            }
        }
    }

    /// Adds a packet to the queue, or launches it at once if there is no bottleneck.
    fn admit(&mut self, packet: P) {
        let bytes = packet.as_ref().len() as u64;
        let refused = if self.held_bytes() + bytes > MAX_HELD_BYTES {
            true
        } else if let Some(bottleneck) = &mut self.bottleneck {
            let refused = bottleneck.push(self.now, packet).is_err();
            self.counters.queue_peak_bytes = self
                .counters
                .queue_peak_bytes
                .max(bottleneck.waiting_bytes());
            refused
        } else {
            self.launch(self.now, packet);
            false
        };
        if refused {
            self.counters.overflowed_packets += 1;
            self.counters.overflowed_bytes += bytes;
        }
    }

    /// Starts the propagation of a packet that has left the bottleneck.
    fn launch(&mut self, at: u64, packet: P) {
        self.flying_bytes += packet.as_ref().len() as u64;
        let overtakes = self.reorder_stream.chance(self.reorder);
        let distance = 1 + self.reorder_stream.next() % MAX_OVERTAKEN;
        if overtakes && !self.flying.is_empty() {
            // The distance is at most eight, so the cast is exact.
            let place = self.flying.len().saturating_sub(distance as usize);
            // Packets that have arrived but were not collected cannot be overtaken.
            if let Some(place) = (place..self.flying.len()).find(|&place| self.flying[place].0 > at)
            {
                let arrival = self.flying[place].0;
                self.flying.insert(place, (arrival, packet));
                self.counters.reordered_packets += 1;
                return;
            }
        }
        let latest = self.flying.back().map_or(0, |(at, _)| *at);
        let arrival = latest.max(at.saturating_add(self.delay_at(at)));
        self.flying.push_back((arrival, packet));
    }

    /// Returns the delay of a packet that leaves the bottleneck at this time.
    fn delay_at(&self, at: u64) -> u64 {
        if self.jitter == 0 {
            return self.delay;
        }
        let step = MIN_JITTER_STEP.max(self.jitter.saturating_mul(4));
        let (index, within) = (at / step, (at % step) as f64 / step as f64);
        let from = self.jitter_stream.unit_at(index);
        let to = self.jitter_stream.unit_at(index + 1);
        let offset = (2.0 * (from + (to - from) * within) - 1.0) * self.jitter as f64;
        // The cast saturates: a delay cannot be negative.
        (self.delay as f64 + offset).round() as u64
    }

    fn apply(&mut self, at: u64, change: &Change) {
        if let Some(ms) = change.delay_ms {
            self.delay = nanoseconds(ms);
        }
        if let Some(ms) = change.jitter_ms {
            self.jitter = nanoseconds(ms);
        }
        if let Some(loss) = change.loss {
            self.loss.independent = loss;
        }
        if let Some(burst) = change.burst {
            self.loss.burst = Some(burst);
        }
        self.mtu = change.path_mtu.or(self.mtu);
        self.reorder = change.reorder.unwrap_or(self.reorder);
        self.duplicate = change.duplicate.unwrap_or(self.duplicate);
        if let Some(bottleneck) = &mut self.bottleneck {
            if let Some(rate) = change.rate_mbit {
                bottleneck.set_rate(at, bits_per_second(rate));
            }
            if let Some(bytes) = change.queue_bytes {
                bottleneck.set_limit(bytes);
            }
        }
    }
}

/// Converts milliseconds to nanoseconds. The cast saturates, and turns NaN into zero.
fn nanoseconds(milliseconds: f64) -> u64 {
    (milliseconds * 1e6).round() as u64
}

/// Converts Mbit/s to bit/s.
fn bits_per_second(rate_mbit: f64) -> u64 {
    (rate_mbit * 1e6).round() as u64
}
