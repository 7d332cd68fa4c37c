//! What a path did to its packets.

use serde::{Deserialize, Serialize};

/// What went into one direction of a path, what came out, and what happened between.
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
    /// Packets taken by the loss of the path.
    pub lost_packets: u64,
    /// Bytes taken by the loss of the path.
    pub lost_bytes: u64,
    /// Packets too large to pass. Left out of files where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub oversized_packets: u64,
    /// Bytes of packets too large to pass.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub oversized_bytes: u64,
    /// Packets that found the queue full.
    pub overflowed_packets: u64,
    /// Bytes that found the queue full.
    pub overflowed_bytes: u64,
    /// Packets that a firewall took before the path: in none of the other counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub blocked_packets: u64,
    /// Packets that the path made a second time.
    pub duplicated_packets: u64,
    /// Bytes that the path made a second time.
    pub duplicated_bytes: u64,
    /// Packets that overtook others.
    pub reordered_packets: u64,
    /// The most bytes that waited for the bottleneck at once.
    pub queue_peak_bytes: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
