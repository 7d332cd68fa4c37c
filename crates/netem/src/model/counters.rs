//! Packet counters of a path.

use serde::{Deserialize, Serialize};

/// Packets and bytes that entered one direction of a path, left it, or were dropped in between.
///
/// Bytes are those of IP packets, headers included. At any time `packets_in + duplicated_packets`
/// is the sum of `packets_out`, `lost_packets`, `oversized_packets`, `overflowed_packets` and the
/// packets still under way, and likewise for bytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PathCounters {
    /// Packets that the sender put on the wire, retransmissions included.
    pub packets_in: u64,
    /// Bytes that the sender put on the wire, headers and retransmissions included.
    pub bytes_in: u64,
    /// Packets that came out at the other end.
    pub packets_out: u64,
    /// Bytes that came out at the other end.
    pub bytes_out: u64,
    /// Packets dropped by random loss.
    pub lost_packets: u64,
    /// Bytes dropped by random loss.
    pub lost_bytes: u64,
    /// Packets larger than the path MTU, which are dropped. Omitted from files if zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub oversized_packets: u64,
    /// Bytes of packets larger than the path MTU.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub oversized_bytes: u64,
    /// Packets dropped because the queue was full.
    pub overflowed_packets: u64,
    /// Bytes dropped because the queue was full.
    pub overflowed_bytes: u64,
    /// Packets that a firewall dropped before they entered the path. No other counter includes
    /// them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub blocked_packets: u64,
    /// Copies of packets that the path made.
    pub duplicated_packets: u64,
    /// Bytes of copies that the path made.
    pub duplicated_bytes: u64,
    /// Packets that overtook others.
    pub reordered_packets: u64,
    /// The maximum of the bytes that waited for the bottleneck at one time.
    pub queue_peak_bytes: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
