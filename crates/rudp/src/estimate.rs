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

/// Moments of arrival that an estimate needs.
const LEAST_BATCHES: usize = 4;

/// What is known about a path before the first packet of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathPrior {
    /// The rate at which to begin, in bytes on the wire per second. `None`: not known.
    pub rate: Option<u64>,
    /// The round-trip time, by which a lost packet of the set-up is sent again sooner. `None`: not known.
    pub rtt: Option<Duration>,
    /// The share of packets lost. `None`: not known.
    pub loss: Option<f64>,
}

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

    /// Takes into account how long sending the train took: if that is as long as arriving, then the sender was the
    /// bottleneck, and the estimate becomes a lower bound.
    ///
    /// `bytes` are those of all packets of the train but the first.
    #[must_use]
    pub fn limited_by_sender(mut self, bytes: u64, sending: Duration) -> Self {
        let sent = rate_of(bytes, sending);
        if u128::from(sent) * 100 < u128::from(self.rate) * 105 {
            self.high = None;
        }
        self
    }
}

/// The receiving end of a train.
///
/// Packets are numbered from zero by the sender. What arrives twice, or beyond the train, does not count.
#[derive(Clone, Debug)]
pub struct TrainReceiver {
    length: usize,
    seen: [u64; MAX_TRAIN / 64],
    arrivals: Vec<(Time, u64)>,
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

    /// A packet of the train arrives, with so many bytes on the wire.
    pub fn push(&mut self, index: usize, at: Time, bytes: u64) {
        if index >= self.length {
            return;
        }
        let (word, bit) = (index / 64, 1 << (index % 64));
        if self.seen[word] & bit != 0 {
            return;
        }
        self.seen[word] |= bit;
        self.highest = self.highest.max(index);
        self.arrivals.push((at, bytes));
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
    #[must_use]
    pub fn before_overflow(&self) -> (usize, usize) {
        let (sent, received) = (self.length, self.received());
        let lost = sent - received;
        let even = likelihood(lost, sent);
        let mut best = (sent, received);
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
                (best, gain) = ((before, before - lost_before), split);
            }
        }
        best
    }

    /// Returns what the arrivals tell, or `None` if they tell nothing: all at one moment, or too few.
    ///
    /// Lost packets take no time at a bottleneck that they never reached or that dropped them, so only those that arrived
    /// count, in the order of their arrival.
    #[must_use]
    pub fn estimate(&self) -> Option<RateEstimate> {
        let mut arrivals = self.arrivals.clone();
        arrivals.sort_by_key(|&(at, _)| at);
        // Moments, with the bytes that arrived until then. Those of the first moment only start the clock: when the first
        // byte of a batch would have arrived by itself is not known.
        let mut points: Vec<(u64, u64)> = Vec::new();
        let mut total = 0;
        for &(at, bytes) in &arrivals {
            total += bytes;
            match points.last_mut() {
                Some((last, until)) if *last == at.as_nanos() => *until = total,
                _ => points.push((at.as_nanos(), total)),
            }
        }
        let (first, last) = (points.first()?, points.last()?);
        let span = last.0 - first.0;
        if span == 0 {
            return None;
        }
        let packets = arrivals.len();
        let lost = (self.highest + 1).saturating_sub(packets);
        let overall = rate_of(last.1 - first.1, Duration::from_nanos(span));
        if points.len() < LEAST_BATCHES {
            // The first batch may have waited for as long as the batches are apart.
            let longest = points.windows(2).map(|pair| pair[1].0 - pair[0].0).max()?;
            let rate = rate_of(last.1 - first.1, Duration::from_nanos(span + longest));
            return Some(RateEstimate {
                rate,
                low: rate,
                high: None,
                packets,
                lost,
            });
        }
        let mut slopes = slopes(&points);
        if slopes.is_empty() {
            slopes.push(overall);
        }
        slopes.sort_unstable();
        let at = |percent: usize| slopes[(slopes.len() - 1) * percent / 100];
        Some(RateEstimate {
            rate: at(50),
            low: at(10),
            high: Some(at(90)),
            packets,
            lost,
        })
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

/// Returns the slopes between points that are at least a third of the train's time apart, in bytes per second.
///
/// Their median is the estimator of H. Theil (1950) and P. K. Sen (1968), without the short distances in which batches and
/// other flows' packets show most.
fn slopes(points: &[(u64, u64)]) -> Vec<u64> {
    let span = points[points.len() - 1].0 - points[0].0;
    let mut slopes = Vec::new();
    for (n, from) in points.iter().enumerate() {
        let far = points[n..].partition_point(|to| to.0 - from.0 < span / 3);
        for to in &points[n + far..] {
            slopes.push(rate_of(to.1 - from.1, Duration::from_nanos(to.0 - from.0)));
        }
    }
    slopes
}
