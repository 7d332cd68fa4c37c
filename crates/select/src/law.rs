//! How long a transport takes to carry bytes one way: the physics of the model.
//!
//! Times are from the first byte being sent to the last one being sent, so that the one-way delay is the caller's.
//!
//! # Growing
//!
//! A transport that does not know the path sends an initial window `I` and doubles what it sends each round trip until
//! the window is `W`: the bandwidth-delay product, or what buffers allow. After `S` bytes, `log2((S + I) / 2I)` round trips
//! have passed, plus the time that the last window takes at the rate of the bottleneck. Real windows come in whole round
//! trips; the formula goes through the middle, so that predictions are continuous. A first flight that depends on the
//! round-trip time ([`crate::FirstFlight`]) replaces `I` where it is larger, and leaves at a pace of its own.
//!
//! # Losses
//!
//! - A *window* (cubic, reno) is cut by each loss. Until the first one, which comes after `1 / p` packets on average, all
//!   goes as without. Then the window approaches what the response function of RFC 9438 (section 5) yields, the
//!   larger of cubic's `1.054 (RTT / p)^0.75` and, in the region friendly to Reno, `1.225 / sqrt(p)` (Mathis et al., 1997, with
//!   cubic's factor of decrease), in packets. Where that is a few packets, losses wait for a timer.
//! - A *model* (BBR) ignores losses up to a knee, behind which its rate falls.
//! - A *rate* with correction spends bytes on symbols, and a round trip where more is lost than they make up for.
//! - For all, with the probability that something of the last window is lost, the end takes a round trip more.

use serde::{Deserialize, Serialize};

use crate::{Family, Law, SelectError, error::checked};

/// Payload of a full packet.
const PACKET: f64 = 1448.0;

/// Payload per byte of IP packets.
const PAYLOAD: f64 = 0.96;

/// What cubic multiplies its window by after a loss (RFC 9438, section 4.6).
const BETA: f64 = 0.7;

/// Utilization of a bottleneck with no queue at all by a window that goes between `BETA` and 1 times what fits.
const SAW: f64 = (1.0 + BETA) / 2.0;

/// What a sender puts out at a time: a segment that the network card cuts, or what is due in a tick of a pacer.
const MAX_BURST: f64 = 65_536.0;
const BURST_S: f64 = 2e-3;

/// Least time beyond a round trip after which TCP sends again what nothing behind it gives away as lost, in seconds: what our
/// transports ask of kernels. Those before Linux 6.15 take 0.2.
pub(crate) const TIMEOUT_S: f64 = 0.05;

/// Packets in flight that are too few to do without that.
const FEW_PACKETS: f64 = 3.0;

/// Data packets in a block of error correction, and symbols that a block has when some loss is seen
/// (docs/rudp.md).
const BLOCK: f64 = 200.0;
const SYMBOLS: f64 = 6.0;

/// What of a law is found by fitting although it is no factor: bounds of the search are in [`crate::fit`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Payload bytes in the first window of a connection.
    pub initial_window: f64,
    /// The part of the kernel's ceiling that is there for payload.
    pub window_fill: f64,
    /// Of a window: the factor on the response function. Of a model or a rate: the loss at which the rate has halved.
    pub loss: f64,
    /// Bits per second that the processors carry at most.
    pub processor_rate: f64,
}

/// A direction of a path as a law sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// Round-trip time in seconds.
    pub(crate) rtt: f64,
    /// Rate of IP packets in bits per second.
    pub(crate) rate: f64,
    /// Probability of loss.
    pub(crate) loss: f64,
    /// Queue in bytes.
    pub(crate) queue: f64,
    /// What the kernel lets a TCP connection have in flight, in bytes.
    pub(crate) kernel_window: f64,
}

/// What bounds the rate of a transfer that has come to its rate.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The bottleneck of the path.
    Path,
    /// The kernel's buffers.
    KernelWindow,
    /// Losses, which keep the window small.
    Loss,
    /// The processors.
    Processor,
}

impl Conditions {
    /// Returns the rate in payload bytes per second that bursts leave of the line: senders put out up to 64 KiB, or 2 ms, at a
    /// time, and a queue that does not hold that loses the rest. Those that pace for themselves send half of it in smaller ones.
    fn line(&self, law: &Law) -> f64 {
        let rate = self.rate / 8.0;
        let burst = MAX_BURST.min(rate * BURST_S).max(PACKET);
        let fits = (self.queue / burst).clamp(1e-3, 1.0);
        let left = if law.needs_udp { fits.sqrt() } else { fits };
        rate * PAYLOAD * left
    }
}

/// How long bytes take one way, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Carriage {
    /// The bytes at the rate that is reached in the end.
    pub(crate) transfer: f64,
    /// What getting to that rate adds.
    pub(crate) growth: f64,
    /// What losses add.
    pub(crate) loss: f64,
    pub(crate) bound: Bound,
}

impl Shape {
    /// What the literature and the sources of the transports say, before any fit.
    #[must_use]
    pub fn theory(law: &Law) -> Self {
        Self {
            // RFC 6928: ten packets.
            initial_window: 10.0 * PACKET,
            // Linux counts its own bookkeeping against the buffers.
            window_fill: 0.7,
            loss: match law.family {
                Family::Window => 1.0,
                Family::Model => 0.05,
                Family::Rate => 0.2,
            },
            processor_rate: if law.needs_udp { 3e9 } else { 1.9e10 },
        }
    }

    /// Returns how far two shapes are apart: the sum of the squared logarithms of their ratios.
    pub(crate) fn distance(&self, other: &Self) -> f64 {
        [
            self.initial_window / other.initial_window,
            self.window_fill / other.window_fill,
            self.loss / other.loss,
            self.processor_rate / other.processor_rate,
        ]
        .iter()
        .map(|ratio| ratio.ln().powi(2))
        .sum()
    }

    pub(crate) fn validate(&self) -> Result<(), SelectError> {
        for (field, value, bounds) in [
            ("initial_window", self.initial_window, (1.0, 1e12)),
            ("window_fill", self.window_fill, (1e-3, 1e3)),
            ("loss", self.loss, (1e-6, 1e6)),
            ("processor_rate", self.processor_rate, (1e3, 1e15)),
        ] {
            checked(field, value, bounds, "a number that the law allows")?;
        }
        Ok(())
    }
}

/// Returns how long `bytes` take.
pub(crate) fn carry(law: &Law, shape: &Shape, path: &Conditions, bytes: f64) -> Carriage {
    match law.family {
        Family::Rate => at_rate(law, shape, path, bytes),
        Family::Model => by_model(law, shape, path, bytes),
        Family::Window => by_window(law, shape, path, bytes),
    }
}

/// A transport that grows to a window: all that does not depend on losses.
struct Growing {
    rtt: f64,
    /// Bytes of all connections in the first round trip.
    initial: f64,
    /// Bytes per second at which they leave.
    pace: f64,
    /// Bytes in flight in the end.
    window: f64,
    /// Bytes per second in the end.
    speed: f64,
    /// Bytes per second at which a window leaves.
    line: f64,
    bound: Bound,
}

impl Growing {
    /// `line` is in bytes per second.
    fn new(law: &Law, shape: &Shape, path: &Conditions, line: f64) -> Self {
        let processor = shape.processor_rate / 8.0;
        let kernel = match law.has_kernel_window {
            true => law.connections * path.kernel_window * shape.window_fill,
            false => f64::INFINITY,
        };
        let at_line = line.min(processor);
        let (window, bound) = if kernel < at_line * path.rtt {
            (kernel, Bound::KernelWindow)
        } else if processor < line {
            (at_line * path.rtt, Bound::Processor)
        } else {
            (at_line * path.rtt, Bound::Path)
        };
        let initial = law.connections * shape.initial_window;
        let first = (law.first_flight).filter(|first| first.bytes(path.rtt) > initial);
        Self {
            rtt: path.rtt,
            initial: first.map_or(initial, |first| first.bytes(path.rtt)),
            pace: first.map_or(at_line, |first| first.pace(path.rtt).min(at_line)),
            window,
            speed: match bound {
                // Not 0 / 0 where there is no round-trip time: the window is smaller than a product with it.
                Bound::KernelWindow => kernel / path.rtt,
                _ => at_line,
            },
            line: at_line,
            bound,
        }
    }

    /// Returns how long bytes take while nothing is lost.
    fn time(&self, bytes: f64) -> f64 {
        let initial = self.initial.min(self.window);
        if initial <= 0.0 {
            return bytes / self.line;
        }
        // Sent by the time that the window is what it stays.
        let grown = self.window - initial;
        let rounds = if bytes <= grown {
            ((bytes + initial) / (2.0 * initial)).log2()
        } else {
            (self.window / (2.0 * initial)).log2() + (bytes - grown) / self.window
        };
        // The last window is half of all there was and an initial window.
        let last = bytes.min((bytes + initial) / 2.0).min(self.window);
        let held_back = bytes.min(initial) * (1.0 / self.pace - 1.0 / self.line);
        self.rtt * rounds.max(0.0) + last / self.line + held_back
    }
}

fn by_model(law: &Law, shape: &Shape, path: &Conditions, bytes: f64) -> Carriage {
    let clean = Growing::new(law, shape, path, path.line(law));
    let lossy = Growing::new(
        law,
        shape,
        path,
        path.line(law) * goodput(path.loss, shape.loss),
    );
    let without = clean.time(bytes);
    let with = lossy.time(bytes).max(without) + last_loss(path, bytes, lossy.window);
    carriage(&clean, bytes, without, with, clean.bound)
}

fn by_window(law: &Law, shape: &Shape, path: &Conditions, bytes: f64) -> Carriage {
    let line = path.line(law);
    // A queue that takes less than the window gives up at a loss leaves the bottleneck idle afterwards.
    let used = if path.rtt > 0.0 {
        line.min(SAW * (line + path.queue / path.rtt))
    } else {
        line
    };
    let growing = Growing::new(law, shape, path, used);
    let without = growing.time(bytes);
    let p = path.loss;
    if p <= 0.0 || growing.window <= 0.0 {
        return carriage(&growing, bytes, without, without, growing.bound);
    }
    // Each connection loses for itself, and their windows add up.
    let n = law.connections;
    let packets = bytes / PACKET / n;
    let before = -(-p * packets).exp_m1() / p;
    let after = (packets - before).max(0.0);
    let full = growing.window / PACKET / n;
    let response = shape.loss * lossy_window(path.rtt, p);
    let settled = response.max(1.0).min(full);
    // A window that is cut early grows back fast; one that is cut late comes down loss by loss.
    let first = (BETA * (shape.initial_window / PACKET + before)).clamp(settled, full);
    let tail = path.rtt * decay(after, first, settled, (1.0 - BETA) * p);
    let slow = growing.time(before * PACKET * n) + tail;
    let bound = if slow > without && settled < full {
        Bound::Loss
    } else {
        growing.bound
    };
    let with = slow.max(without)
        + last_loss(path, bytes, growing.window.min(settled * PACKET * n))
        + timeouts(n, p * bytes / PACKET, shape.loss * friendly_window(p));
    carriage(&growing, bytes, without, with, bound)
}

/// Returns the packets that a flow of cubic has under way on average where losses are all that limits it: the larger of RFC 9438's
/// figures 5 (with its constants) and 6. `rtt_s` is in seconds, `loss` a share above 0.
pub fn lossy_window(rtt_s: f64, loss: f64) -> f64 {
    friendly_window(loss).max(1.054 * (rtt_s / loss).powf(0.75))
}

/// Returns what that is in the region friendly to Reno.
fn friendly_window(loss: f64) -> f64 {
    1.225 / loss.sqrt()
}

/// Returns how many round trips `packets` take while the window goes from `first` to `settled`, the difference shrinking
/// by `e` every `1 / per_packet` packets: the integral of `1 / (settled + (first - settled) e^(-per_packet n))`.
fn decay(packets: f64, first: f64, settled: f64, per_packet: f64) -> f64 {
    let x = packets * per_packet;
    // ln((settled + off e^-x) / first), without the cancellation of its numerator where hardly anything is lost.
    let grown = ((first - settled) / first * (-x).exp_m1()).ln_1p();
    (x + grown).max(0.0) / (settled * per_packet)
}

fn at_rate(law: &Law, shape: &Shape, path: &Conditions, bytes: f64) -> Carriage {
    let processor = shape.processor_rate / 8.0;
    let line = path.line(law);
    // Correction takes one part in a hundred, and by the loss seen up to one in twenty.
    let symbols = 0.01 + (4.0 * path.loss).min(0.04);
    let clean = bytes * 1.01 / line.min(processor);
    let slowed = line * goodput(path.loss, shape.loss) / (1.0 + symbols);
    // Binomial tail of more losses in a block than it has symbols, by its leading term.
    let block = (path.loss * BLOCK / (SYMBOLS + 1.0))
        .powf(SYMBOLS + 1.0)
        .min(1.0);
    let blocks = (bytes / PACKET / BLOCK).max(1.0);
    let short = -(blocks * (-block.min(1.0 - 1e-12)).ln_1p()).exp_m1();
    let with = (bytes / slowed.min(processor)).max(clean) + path.rtt * short;
    Carriage {
        transfer: clean,
        growth: 0.0,
        loss: with - clean,
        bound: if processor < line {
            Bound::Processor
        } else {
            Bound::Path
        },
    }
}

/// Returns the part of the rate that is left with a loss, for what does not take loss for a full queue.
fn goodput(loss: f64, knee: f64) -> f64 {
    ((1.0 - loss) / (1.0 + (loss / knee).powi(2))).max(1e-6)
}

/// Returns what losses in the last window cost: they are noticed with nothing behind them.
fn last_loss(path: &Conditions, bytes: f64, window: f64) -> f64 {
    let packets = bytes.min(window.max(PACKET)) / PACKET;
    path.rtt * -(-path.loss * packets).exp_m1()
}

/// Returns what losses cost that are only noticed by a timer: where few packets are in flight, no later ones tell of them. Connections
/// wait at the same time, and meanwhile the others carry on.
fn timeouts(connections: f64, losses: f64, in_flight: f64) -> f64 {
    let unnoticed = losses * (FEW_PACKETS / in_flight.max(FEW_PACKETS)).powi(3);
    // What is less likely than not should not be predicted.
    TIMEOUT_S * unnoticed * -(-unnoticed).exp_m1() / (connections * connections)
}

fn carriage(growing: &Growing, bytes: f64, without: f64, with: f64, bound: Bound) -> Carriage {
    let transfer = (bytes / growing.speed).min(without);
    Carriage {
        transfer,
        growth: without - transfer,
        loss: (with - without).max(0.0),
        bound,
    }
}
