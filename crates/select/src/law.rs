//! The time to transfer bytes in one direction: the throughput part of the cost model.
//!
//! The time of a transfer ends when the last byte is sent. It does not include the one-way delay.
//!
//! **Growth.** A transport that does not know the path sends a first flight of `I` bytes at once,
//! and then `I` bytes per round trip. This rate doubles each round trip, until it reaches that of
//! the bottleneck or the kernel's buffers are full. A transport that has measured the path starts
//! at the final rate.
//!
//! **Losses.** The first loss comes after `1 / p` packets on average. Until then, the time is the
//! same as without losses. Afterwards it depends on the congestion control:
//!
//! - The window of cubic or Reno approaches the response function of RFC 9438, section 5. This is
//!   the larger of cubic's `1.054 (RTT / p)^0.75` and the Reno-friendly `1.225 / sqrt(p)` (Mathis
//!   et al., 1997), in packets.
//! - A model-based control (BBR) or a measured rate keeps the share `(1 - p) / (1 + (p /
//!   p_half)^2)` of its rate.

#[cfg(feature = "serde")]
use serde::Serialize;

use transpute_transport::{Profile, Throughput};
use transpute_units::Bandwidth;

use crate::model::Values;

/// Payload bytes of a full packet.
const PACKET: f64 = 1448.0;

/// Factor by which cubic shrinks its window at a loss (RFC 9438, section 4.6).
const BETA: f64 = 0.7;

/// Average utilization of a bottleneck without a queue. The congestion window varies between `BETA`
/// and 1 times the bandwidth-delay product.
const CUBIC_UTILIZATION: f64 = (1.0 + BETA) / 2.0;

/// Share of the kernel's buffers that payload can use. Linux reserves the rest for its bookkeeping
/// (`tcp_adv_win_scale`).
const BUFFER_FILL: f64 = 0.7;

/// One direction of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// Round-trip time in seconds.
    pub(crate) rtt: f64,
    /// Rate of IP packets at the bottleneck.
    pub(crate) rate: Bandwidth,
    /// Probability that a packet is lost.
    pub(crate) loss: f64,
    /// Length of the bottleneck's queue in bytes.
    pub(crate) queue: f64,
    /// Maximum number of bytes in flight of one kernel TCP connection, because of its buffers.
    pub(crate) kernel_window: f64,
}

/// The component that limits the final rate of a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Bound {
    /// The rate of the path's bottleneck.
    Path,
    /// The buffers of the kernel's TCP connection.
    KernelWindow,
    /// Losses, which keep the window small.
    Loss,
    /// The processor time at the busier end.
    Processor,
}

/// The time to transfer bytes in one direction, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TransferTime {
    /// The time to send all bytes at the final rate.
    pub(crate) transfer: f64,
    /// The additional time until the final rate is reached.
    pub(crate) growth: f64,
    /// The additional time because of losses.
    pub(crate) loss: f64,
    pub(crate) bound: Bound,
}

/// Returns the time to transfer `bytes` in one direction, split into parts.
pub(crate) fn carry(
    profile: &Profile,
    values: &Values,
    path: &Conditions,
    bytes: f64,
) -> TransferTime {
    match profile.throughput {
        Throughput::MeasuredRate | Throughput::Model => by_model(profile, values, path, bytes),
        // An unknown congestion control is modelled as loss-based, the default of most systems.
        _ => by_window(profile, values, path, bytes),
    }
}

/// The growth of the rate at the start of a transfer, without losses.
struct Growing {
    rtt: f64,
    doubling: f64,
    initial: f64,
    window: f64,
    /// Final rate in bytes per second.
    speed: f64,
    /// Rate of the path's bottleneck in bytes per second.
    line: f64,
    bound: Bound,
}

impl Growing {
    fn new(profile: &Profile, values: &Values, path: &Conditions, line: f64) -> Self {
        let product = line * path.rtt;
        let kernel = match profile.needs_udp {
            true => f64::INFINITY,
            false => path.kernel_window * BUFFER_FILL * f64::from(profile.connections),
        };
        let (window, speed, bound) = match kernel < product {
            true => (kernel, kernel / path.rtt, Bound::KernelWindow),
            false => (product, line, Bound::Path),
        };
        Self {
            rtt: path.rtt,
            doubling: values.doubling_round_trips.unwrap_or(1.0),
            initial: profile.first_flight_bytes(path.rtt).min(window),
            window,
            speed,
            line,
            bound,
        }
    }

    /// Returns the time to transfer bytes without a loss.
    fn time(&self, bytes: f64) -> f64 {
        let burst = bytes.min(self.initial) / self.line;
        let rest = bytes - bytes.min(self.initial);
        if self.initial <= 0.0 {
            return bytes / self.line;
        }
        let start = self.initial / self.rtt;
        // Seconds in which the rate grows by a factor of e.
        let pace = self.doubling * self.rtt / std::f64::consts::LN_2;
        let grown = (self.speed - start).max(0.0) * pace;
        let growing = rest.min(grown);
        let growth = pace * (growing / (start * pace)).ln_1p();
        burst + growth + (rest - growing) / self.speed
    }

    fn carriage(&self, bytes: f64, without: f64, with: f64, bound: Bound) -> TransferTime {
        let transfer = (bytes / self.speed).min(without);
        TransferTime {
            transfer,
            growth: without - transfer,
            loss: (with - without).max(0.0),
            bound,
        }
    }
}

fn by_model(profile: &Profile, values: &Values, path: &Conditions, bytes: f64) -> TransferTime {
    let line = path.rate.bytes_per_second() * values.rate_share;
    let clean = Growing::new(profile, values, path, line);
    let lossy = Growing::new(
        profile,
        values,
        path,
        line * goodput(path.loss, values.loss),
    );
    let without = clean.time(bytes);
    let with = lossy.time(bytes).max(without);
    clean.carriage(bytes, without, with, clean.bound)
}

fn by_window(profile: &Profile, values: &Values, path: &Conditions, bytes: f64) -> TransferTime {
    let line = path.rate.bytes_per_second() * values.rate_share;
    // With a short queue, the bottleneck idles after each loss, until the window has grown again.
    let used = match path.rtt > 0.0 {
        true => line.min(CUBIC_UTILIZATION * (line + path.queue / path.rtt)),
        false => line,
    };
    let growing = Growing::new(profile, values, path, used);
    let without = growing.time(bytes);
    let p = path.loss;
    if p <= 0.0 || growing.window <= 0.0 {
        return growing.carriage(bytes, without, without, growing.bound);
    }
    // Losses on one connection do not affect the others, and the windows of all connections add up.
    let n = f64::from(profile.connections);
    let packets = bytes / PACKET / n;
    let before = -(-p * packets).exp_m1() / p;
    let after = (packets - before).max(0.0);
    let full = growing.window / PACKET / n;
    let settled = (values.loss * lossy_window(path.rtt, p)).max(1.0).min(full);
    // If the first loss comes early, the window grows quickly afterwards. If it comes late, the
    // window shrinks at each loss.
    let first = (BETA * (growing.initial / PACKET / n + before)).clamp(settled, full.max(settled));
    let tail = path.rtt * decay(after, first, settled, (1.0 - BETA) * p);
    let slow = growing.time(before * PACKET * n) + tail;
    let bound = match slow > without && settled < full {
        true => Bound::Loss,
        false => growing.bound,
    };
    growing.carriage(bytes, without, slow.max(without), bound)
}

/// Returns the average window of a cubic flow that only losses limit, in packets: the larger of RFC
/// 9438's figures 5 and 6. `rtt_s` is in seconds, `loss` a probability above 0.
#[must_use]
pub fn lossy_window(rtt_s: f64, loss: f64) -> f64 {
    (1.225 / loss.sqrt()).max(1.054 * (rtt_s / loss).powf(0.75))
}

/// Returns the number of round trips to send `packets`, while the window changes from `first` to
/// `settled`. The difference between window and `settled` shrinks by a factor of `e` every `1 /
/// per_packet` packets. The result is the integral of `1 / (settled + (first - settled)
/// e^(-per_packet n))` over `n`.
fn decay(packets: f64, first: f64, settled: f64, per_packet: f64) -> f64 {
    let x = packets * per_packet;
    // ln((settled + off e^-x) / first), without cancellation for small losses.
    let grown = ((first - settled) / first * (-x).exp_m1()).ln_1p();
    (x + grown).max(0.0) / (settled * per_packet)
}

/// Returns the share of the rate that remains with the loss probability `loss`, for a transport
/// that does not treat losses as congestion. `half` is the loss that halves the rate.
fn goodput(loss: f64, half: f64) -> f64 {
    ((1.0 - loss) / (1.0 + (loss / half).powi(2))).max(1e-6)
}
