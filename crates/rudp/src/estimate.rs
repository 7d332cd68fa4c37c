//! The rate of a path from how a train of packets arrives.
//!
//! Packets sent faster than the bottleneck takes them leave it as far apart as it needs for each: C. Dovrolis,
//! P. Ramanathan, D. Moore, *Packet-dispersion techniques and a capacity-estimation methodology*, IEEE/ACM Transactions
//! on Networking 12 (6), 2004. A train of many packets measures what is between capacity and available bandwidth, which is
//! what a sender should begin with. Network cards and kernels hand over packets in batches with one arrival time, which
//! ruins gaps between neighbours but not the slope of the whole train.

use std::time::Duration;

use crate::{Time, rate::rate_of};

/// No train is longer.
pub const MAX_TRAIN: usize = 512;

/// The part of what follows that is lost at least when a queue has overflowed.
const OVERFLOW_LOSS: f64 = 0.2;

/// How much likelier, as a logarithm, an overflow has to make what was seen than even losses do: these look so once in a thousand
/// trains or less.
const OVERFLOW_GAIN: f64 = 9.0;

/// The same where more than [`HEAVY_LOSS`] of a train is lost: few paths lose so much, and many queues are short.
const HEAVY_OVERFLOW_GAIN: f64 = 4.0;
const HEAVY_LOSS: f64 = 0.3;

/// The fewest moments of arrival for an estimate. Chosen: three intervals between them.
const MIN_BATCHES: usize = 4;

/// Packets in a part of a train that is looked at by itself where the sender did not send all of it fast.
pub(crate) const STRETCH: usize = 16;

/// The part of a train's stretches that must have been queued for a rate to be known: 1/8. Chosen: fewer may be chance.
const STRETCHES_DIVISOR: usize = 8;

/// The rate of a bottleneck as a train of packets shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RateEstimate {
    /// Bytes on the wire per second.
    pub rate: u64,
    /// The tenth percentile of slopes over parts of the train.
    pub low: u64,
    /// The ninetieth percentile; `None` where the path may be faster than can be told.
    pub high: Option<u64>,
    /// How many packets it is made of.
    pub packets: usize,
    /// How many of the packets up to the last that came did not come.
    pub lost: usize,
}

impl RateEstimate {
    /// Returns whether [`rate`](Self::rate) is a lower bound only.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.high.is_none()
    }

    /// Takes into account that the whole train left at this rate: the path has not shown to be faster, and if that is as slow
    /// as it arrived, then the sender was the bottleneck, and the estimate becomes a lower bound.
    fn limited_by_sender(mut self, sent: u64) -> Self {
        if u128::from(sent) * 100 < u128::from(self.rate) * 105 {
            self.high = None;
        }
        self.rate = self.rate.min(sent);
        self.low = self.low.min(sent);
        self
    }
}

/// A packet of a train that has come.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Time,
    /// How long after the first packet of the train it left, as its sender says.
    left: Duration,
    bytes: u64,
}

/// Packets of a train that came until some moment.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// In nanoseconds.
    at: u64,
    packets: usize,
    bytes: u64,
    /// When the last of them left.
    left: Duration,
}

/// The receiving end of a train.
///
/// Packets are numbered from zero by the sender. What arrives twice, or beyond the train, does not count.
#[derive(Clone, Debug)]
pub struct TrainReceiver {
    length: usize,
    seen: [u64; MAX_TRAIN / 64],
    arrivals: Vec<Arrival>,
    highest: usize,
}

impl TrainReceiver {
    /// Expects a train of this many packets, of which at most [`MAX_TRAIN`] count.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self {
            length: length.min(MAX_TRAIN),
            seen: [0; MAX_TRAIN / 64],
            arrivals: Vec::new(),
            highest: 0,
        }
    }

    /// A packet of the train arrives, with so many bytes on the wire, and says how long after the first one it left.
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

    /// Returns how many packets arrived.
    #[must_use]
    pub fn received(&self) -> usize {
        self.arrivals.len()
    }

    /// Returns whether all have.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.arrivals.len() == self.length
    }

    /// Returns how many of the first packets were sent before the train overflowed a queue, and how many of them came: of the whole
    /// train if it did not. To be asked when no more of it is to come.
    ///
    /// A train is sent faster than the path carries it, and stands in the queue before the bottleneck. What the path loses by
    /// itself is spread evenly over the train; what an overflow loses begins when the queue is full, and is most of what follows.
    /// The point in between is the one that makes what was seen the likeliest, if two rates of loss make it much likelier than one.
    /// A train that was held up while it left may have overflowed the queue before.
    #[must_use]
    pub fn before_overflow(&self) -> (usize, usize) {
        let mut clear = (self.length, self.received());
        while let Some(earlier) = self.overflow_in(clear) {
            clear = earlier;
        }
        clear
    }

    /// Returns the same of the first `sent` packets, of which `received` came; nothing if they did not overflow a queue.
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
            let (behind, lost_behind) = (sent - before, lost - lost_before);
            let least = OVERFLOW_LOSS.max(2.0 * share(lost_before, before));
            if share(lost_behind, behind) < least {
                continue;
            }
            let split = likelihood(lost_before, before) + likelihood(lost_behind, behind) - even;
            if split > gain {
                (best, gain) = (Some((before, before - lost_before)), split);
            }
        }
        best
    }

    /// Returns what the arrivals tell, or `None` if they tell nothing: all at one moment, or too few.
    ///
    /// Lost packets take no time at a bottleneck that they never reached or that dropped them, so only those that arrived
    /// count, in the order of their arrival.
    ///
    /// A sender that was held up in between tells less: then what counts are stretches of the train that took twice as long to
    /// arrive as to leave. They stood in a queue, as all of a fast train does.
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
            // The first batch may have waited for as long as the batches are apart.
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
        // It may have been put to sleep once.
        let awake = sending - longest_pause(&points).min(sending);
        let overall = overall.limited_by_sender(rate_of(last.bytes - first.bytes, awake));
        let queued = queued_stretches(&points).map(|(rates, together)| {
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

    /// Moments of arrival, with what arrived until then. What arrived at the first moment only starts the clock: when the first byte
    /// of a batch would have arrived by itself is not known.
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

/// Returns the logarithm of how likely so many of so many packets are lost, one by one, at the rate that makes it likeliest.
fn likelihood(lost: usize, sent: usize) -> f64 {
    let of = |count: usize| match count {
        0 => 0.0,
        count => count as f64 * share(count, sent).ln(),
    };
    of(lost) + of(sent - lost)
}

/// Returns the slopes between points that are at least a third of the train's packets apart, in bytes per second.
///
/// The median of all slopes is the estimator of H. Theil (1950) and P. K. Sen (1968). Pairs of near points are left out: batched
/// arrivals and packets of other flows distort their slopes most. The minimum distance is a number of packets. If it were a time, then
/// after a pause in the train almost every pair would span the pause, and the rate would come out too low.
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

/// Returns the slopes of the stretches that arrived more slowly than they left, and that of all of them together, unless they
/// are too few to tell a queue from a pause on the way. What was held up for a moment comes the faster after it: that shows in single
/// stretches, and not in all of them together.
fn queued_stretches(points: &[Point]) -> Option<(Vec<u64>, u64)> {
    let mut count = 0;
    let mut slopes = Vec::new();
    let (mut bytes, mut time, mut counted) = (0, 0, 0);
    for (n, from) in points.iter().enumerate() {
        let far = points[n..].partition_point(|to| to.packets - from.packets < STRETCH);
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
    let is_enough = !slopes.is_empty() && slopes.len() >= count / STRETCHES_DIVISOR;
    is_enough.then(|| (slopes, rate_of(bytes, Duration::from_nanos(time))))
}

/// Returns the longest time in which nothing left.
fn longest_pause(points: &[Point]) -> Duration {
    let pauses = points
        .windows(2)
        .map(|pair| pair[1].left.saturating_sub(pair[0].left));
    pauses.max().unwrap_or_default()
}

/// Says whether something left at least twice as fast as it arrived.
fn is_faster(sending: Duration, arriving_ns: u64) -> bool {
    2 * sending.as_nanos() <= u128::from(arriving_ns)
}

fn slope(from: &Point, to: &Point) -> u64 {
    rate_of(to.bytes - from.bytes, Duration::from_nanos(to.at - from.at))
}

/// Returns what so many percent of the rates, which are sorted, are not above.
fn percentile(rates: &[u64], percent: usize) -> u64 {
    rates[(rates.len() - 1) * percent / 100]
}
