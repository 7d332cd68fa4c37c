//! Estimation of the rate of a path from the arrivals of a packet train.
//!
//! Packets that are sent faster than the bottleneck transmits them leave it with the spacing of
//! their transmission times: C. Dovrolis, P. Ramanathan, D. Moore, *Packet-dispersion techniques
//! and a capacity-estimation methodology*, IEEE/ACM Transactions on Networking 12 (6), 2004. A
//! train of many packets measures a rate between capacity and available bandwidth, which is a
//! suitable initial rate for a sender.
//!
//! Network cards and kernels deliver packets in batches with one arrival time. That distorts the
//! gaps between neighbours, but not the slope of the whole train.

use std::time::Duration;

use crate::{Time, rate::rate_of};

/// The maximum number of packets of a train.
pub const MAX_TRAIN: usize = 512;

/// The minimum share of lost packets, from the start of a queue overflow to the end of the train.
/// With a smaller share, no overflow is assumed.
const OVERFLOW_LOSS: f64 = 0.2;

/// The minimum logarithm of the likelihood ratio between an overflow and independent losses at
/// which an overflow is assumed. Independent losses exceed it in at most one train of a thousand.
const OVERFLOW_GAIN: f64 = 9.0;

/// The value that replaces [`OVERFLOW_GAIN`] if more than [`HEAVY_LOSS`] of a train is lost. It is
/// lower, because few paths lose so many packets at random, and many queues are short.
const HEAVY_OVERFLOW_GAIN: f64 = 4.0;
/// The loss rate of a train above which [`HEAVY_OVERFLOW_GAIN`] applies.
const HEAVY_LOSS: f64 = 0.3;

/// The minimum number of distinct arrival times for an estimate with an upper and a lower bound.
/// Chosen: four arrival times are three intervals.
const MIN_BATCHES: usize = 4;

/// The number of packets in a section of a train. Sections are evaluated separately if the sender
/// paused while it sent the train.
pub(crate) const SECTION_PACKETS: usize = 16;

/// An estimate from sections needs at least one section that waited in a queue among this number of
/// sections. Chosen: fewer may be chance.
const MIN_QUEUED_DIVISOR: usize = 8;

/// An estimate of the bottleneck rate from a packet train.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RateEstimate {
    /// The rate in bytes on the wire per second.
    pub rate: u64,
    /// The tenth percentile of the rates between pairs of arrivals, in bytes on the wire per
    /// second.
    pub low: u64,
    /// The ninetieth percentile of these rates, or `None` if the rate is a lower bound.
    pub high: Option<u64>,
    /// Number of packets that arrived.
    pub packets: usize,
    /// Number of packets missing before the last one that arrived.
    pub lost: usize,
}

impl RateEstimate {
    /// Returns whether [`rate`](Self::rate) is a lower bound.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.high.is_none()
    }

    /// Limits the estimate to `sent`, the rate at which the whole train was sent, because a train
    /// cannot show a higher rate. If the train was sent about as slowly as it arrived, the sender
    /// was the bottleneck, and the estimate becomes a lower bound.
    fn limited_by_sender(mut self, sent: u64) -> Self {
        if u128::from(sent) * 100 < u128::from(self.rate) * 105 {
            self.high = None;
        }
        self.rate = self.rate.min(sent);
        self.low = self.low.min(sent);
        self
    }
}

/// A packet of a train that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Time,
    /// The time between the sending of the first packet and this one, by the sender's clock.
    left: Duration,
    bytes: u64,
}

/// The number of packets and bytes of a train that arrived until one point in time.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// The point in time, in nanoseconds since the origin of [`Time`].
    at: u64,
    packets: usize,
    bytes: u64,
    /// The time between the sending of the train's first packet and of the packet that arrived
    /// last.
    left: Duration,
}

/// The receiver of a packet train.
///
/// The sender numbers packets from zero. Duplicates and numbers beyond the length are ignored.
#[derive(Clone, Debug)]
pub struct TrainReceiver {
    length: usize,
    seen: [u64; MAX_TRAIN / 64],
    arrivals: Vec<Arrival>,
    highest: usize,
}

impl TrainReceiver {
    /// Creates a receiver for a train of this many packets. Packets beyond the first [`MAX_TRAIN`]
    /// are ignored.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self {
            length: length.min(MAX_TRAIN),
            seen: [0; MAX_TRAIN / 64],
            arrivals: Vec::new(),
            highest: 0,
        }
    }

    /// Records the arrival of a packet of `bytes` bytes on the wire. `left` is the time between the
    /// sending of the first packet and this one.
    pub fn push(&mut self, index: usize, at: Time, left: Duration, bytes: u64) {
        if index >= self.length {
            return;
        }
        let (word, bit) = (index / 64, 1 << (index % 64));
        if self.seen[word] & bit != 0 {
            return;
        }
        self.seen[word] |= bit;
        self.highest = self.highest.max(index);
        self.arrivals.push(Arrival { at, left, bytes });
    }

    /// Returns the number of packets that arrived.
    #[must_use]
    pub fn received(&self) -> usize {
        self.arrivals.len()
    }

    /// Returns whether all packets arrived.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.arrivals.len() == self.length
    }

    /// Returns the number of packets sent before the train overflowed a queue, and the number of
    /// these that arrived. Without an overflow, these are the counts of the whole train. Call this
    /// method when no more packets will arrive.
    ///
    /// The sender sends a train faster than the path transmits it, so the train waits in the queue
    /// before the bottleneck. Random losses are spread evenly over the train. Overflow losses begin
    /// when the queue is full, and affect most of the later packets. The start of an overflow is
    /// the split with the maximum likelihood, if two loss rates explain the losses much better than
    /// one. If the sender paused, the train may have overflowed the queue several times. Therefore
    /// the search is repeated on the part before the overflow.
    #[must_use]
    pub fn before_overflow(&self) -> (usize, usize) {
        let mut clear = (self.length, self.received());
        while let Some(earlier) = self.overflow_in(clear) {
            clear = earlier;
        }
        clear
    }

    /// Returns [`before_overflow`](Self::before_overflow) for a part of the train: its first `sent`
    /// packets, of which `received` arrived. Returns `None` if they did not overflow a queue.
    fn overflow_in(&self, (sent, received): (usize, usize)) -> Option<(usize, usize)> {
        let lost = sent - received;
        let even = likelihood(lost, sent);
        let mut best = None;
        let mut gain = if share(lost, sent) > HEAVY_LOSS {
            HEAVY_OVERFLOW_GAIN
        } else {
            OVERFLOW_GAIN
        };
        let mut lost_before = 0;
        for before in 1..sent {
            let last = before - 1;
            lost_before += usize::from(self.seen[last / 64] >> (last % 64) & 1 == 0);
            let (after, lost_after) = (sent - before, lost - lost_before);
            let min_loss = OVERFLOW_LOSS.max(2.0 * share(lost_before, before));
            if share(lost_after, after) < min_loss {
                continue;
            }
            let split = likelihood(lost_before, before) + likelihood(lost_after, after) - even;
            if split > gain {
                (best, gain) = (Some((before, before - lost_before)), split);
            }
        }
        best
    }

    /// Returns the estimate, or `None` if there are fewer than two distinct arrival times.
    ///
    /// Lost packets take no time at the bottleneck. So only packets that arrived count, in the
    /// order of their arrival.
    ///
    /// If the train took less than twice as long to arrive as to be sent, the sender may have
    /// paused. Then only the sections are used that took at least twice as long to arrive as to be
    /// sent. These waited in a queue, as all packets of a fast train do.
    #[must_use]
    pub fn estimate(&self) -> Option<RateEstimate> {
        let points = self.points();
        let (first, last) = (points.first()?, points.last()?);
        let span = last.at - first.at;
        if span == 0 {
            return None;
        }
        let packets = last.packets;
        let lost = (self.highest + 1).saturating_sub(packets);
        if points.len() < MIN_BATCHES {
            // The first batch may have been collected for as long as the longest interval between
            // batches, so this interval is added to the time.
            let longest = points
                .windows(2)
                .map(|pair| pair[1].at - pair[0].at)
                .max()?;
            let span = Duration::from_nanos(span + longest);
            let rate = rate_of(last.bytes - first.bytes, span);
            return Some(RateEstimate {
                rate,
                low: rate,
                high: None,
                packets,
                lost,
            });
        }
        let among = |rates: Vec<u64>| RateEstimate {
            rate: percentile(&rates, 50),
            low: percentile(&rates, 10),
            high: Some(percentile(&rates, 90)),
            packets,
            lost,
        };
        let mut rates = slopes(&points);
        if rates.is_empty() {
            rates.push(slope(first, last));
        }
        let overall = among(rates);
        let sending = last.left.saturating_sub(first.left);
        if is_faster(sending, span) {
            return Some(overall);
        }
        // Excludes the longest pause, in which the sender may have been suspended.
        let awake = sending - longest_pause(&points).min(sending);
        let overall = overall.limited_by_sender(rate_of(last.bytes - first.bytes, awake));
        let queued = queued_sections(&points).map(|(rates, together)| {
            let queued = among(rates);
            RateEstimate {
                rate: queued.rate.min(together),
                low: queued.low.min(together),
                ..queued
            }
        });
        let faster = queued.filter(|queued| queued.rate > overall.rate);
        Some(faster.unwrap_or(overall))
    }

    /// Returns the arrival times, each with the packets and bytes that arrived until then. A rate
    /// must not include the bytes of the first arrival time, because a batch may have been
    /// collected for an unknown time.
    fn points(&self) -> Vec<Point> {
        let mut arrivals = self.arrivals.clone();
        arrivals.sort_by_key(|arrival| arrival.at);
        let mut points: Vec<Point> = Vec::new();
        let mut bytes = 0;
        for (n, arrival) in arrivals.iter().enumerate() {
            bytes += arrival.bytes;
            let point = Point {
                at: arrival.at.as_nanos(),
                packets: n + 1,
                bytes,
                left: arrival.left,
            };
            match points.last_mut() {
                Some(last) if last.at == point.at => *last = point,
                _ => points.push(point),
            }
        }
        points
    }
}

fn share(lost: usize, sent: usize) -> f64 {
    lost as f64 / sent as f64
}

/// Returns the logarithm of the likelihood that `lost` of `sent` packets are lost independently, at
/// the loss rate that maximizes it.
fn likelihood(lost: usize, sent: usize) -> f64 {
    let of = |count: usize| match count {
        0 => 0.0,
        count => count as f64 * share(count, sent).ln(),
    };
    of(lost) + of(sent - lost)
}

/// Returns the slopes between points that are at least a third of the train's packets apart, in
/// bytes per second, sorted.
///
/// The median of all slopes is the estimator of H. Theil (1950) and P. K. Sen (1968). Pairs of near
/// points are left out: batched arrivals and packets of other flows distort their slopes most. The
/// minimum distance is a number of packets. If it were a time, then after a pause in the train
/// almost every pair would span the pause. The estimate would be too low.
fn slopes(points: &[Point]) -> Vec<u64> {
    let third = points[points.len() - 1].packets.div_ceil(3);
    let mut slopes = Vec::new();
    for (n, from) in points.iter().enumerate() {
        let far = points[n..].partition_point(|to| to.packets - from.packets < third);
        slopes.extend(points[n + far..].iter().map(|to| slope(from, to)));
    }
    slopes.sort_unstable();
    slopes
}

/// Returns the rates of the sections that took at least twice as long to arrive as to be sent, and
/// their common rate. Returns `None` if these sections are too few to distinguish a queue from a
/// pause on the path. After a pause, delayed packets arrive faster. That distorts single sections,
/// but not the common rate.
fn queued_sections(points: &[Point]) -> Option<(Vec<u64>, u64)> {
    let mut count = 0;
    let mut slopes = Vec::new();
    let (mut bytes, mut time, mut counted) = (0, 0, 0);
    for (n, from) in points.iter().enumerate() {
        let far = points[n..].partition_point(|to| to.packets - from.packets < SECTION_PACKETS);
        let Some(to) = points.get(n + far) else { break };
        count += 1;
        if is_faster(to.left.saturating_sub(from.left), to.at - from.at) {
            slopes.push(slope(from, to));
            let new = &points[n.max(counted)];
            bytes += to.bytes - new.bytes;
            time += to.at - new.at;
            counted = n + far;
        }
    }
    slopes.sort_unstable();
    let is_enough = !slopes.is_empty() && slopes.len() >= count / MIN_QUEUED_DIVISOR;
    is_enough.then(|| (slopes, rate_of(bytes, Duration::from_nanos(time))))
}

/// Returns the longest time in which the sender sent no packet.
fn longest_pause(points: &[Point]) -> Duration {
    let pauses = points
        .windows(2)
        .map(|pair| pair[1].left.saturating_sub(pair[0].left));
    pauses.max().unwrap_or_default()
}

/// Returns whether packets were sent at least twice as fast as they arrived.
fn is_faster(sending: Duration, arriving_ns: u64) -> bool {
    2 * sending.as_nanos() <= u128::from(arriving_ns)
}

fn slope(from: &Point, to: &Point) -> u64 {
    rate_of(to.bytes - from.bytes, Duration::from_nanos(to.at - from.at))
}

/// Returns a percentile of the sorted rates.
fn percentile(rates: &[u64], percent: usize) -> u64 {
    rates[(rates.len() - 1) * percent / 100]
}
