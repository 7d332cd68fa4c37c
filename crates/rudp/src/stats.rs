//! Statistics of a connection.

use std::time::Duration;

use crate::{
    frame::Report,
    rate::{HEADER_BYTES, Snapshot},
};

/// Statistics of a connection. Packets and bytes are counted when they are sent or accepted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes of UDP payload sent.
    pub sent_bytes: u64,
    /// Bytes of stream data sent, including retransmissions.
    pub sent_data_bytes: u64,
    /// Packets with retransmitted data.
    pub retransmitted_packets: u64,
    /// Bytes of retransmitted data.
    pub retransmitted_bytes: u64,
    /// Packets with a parity symbol.
    pub parity_packets: u64,
    /// Bytes of parity symbols.
    pub parity_bytes: u64,
    /// Packets sent in probe trains, and packets sent to probe the path MTU.
    pub probe_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets declared lost that were acknowledged later, because they had arrived.
    pub spurious_losses: u64,
    /// Number of probe timeouts.
    pub probe_timeouts: u64,
    /// Packets received that were authentic and not duplicates.
    pub received_packets: u64,
    /// Bytes of UDP payload of the packets in [`received_packets`](Self::received_packets).
    pub received_bytes: u64,
    /// Bytes of stream data that arrived more than once.
    pub duplicated_bytes: u64,
    /// Lost segments that were recovered from parity.
    pub recovered_segments: u64,
    /// Datagrams ignored because their header belongs to no connection of this end.
    pub ignored_foreign: u64,
    /// Datagrams ignored because they were not authentic.
    pub ignored_forged: u64,
    /// Datagrams ignored because they were duplicates, or too old to check for duplication.
    pub ignored_replayed: u64,
    /// Authentic packets whose data were dropped because the stream had too many gaps.
    pub dropped_packets: u64,
    /// The smoothed round-trip time, or zero if it is not known.
    pub rtt: Duration,
    /// The minimum round-trip time, or zero if it is not known.
    pub min_rtt: Duration,
    /// Bytes in flight, counted on the wire (with IP and UDP headers).
    pub bytes_in_flight: u64,
    /// The current maximum packet size, in bytes of UDP payload.
    pub datagram_size: u16,
    /// Number of changes of the peer's address.
    pub migrations: u64,
    /// Number of times that the packet size was reduced because large packets did not pass any
    /// more.
    pub mtu_reductions: u64,
    /// The rate at which packets arrive at the peer, in bytes per second, as it reports; zero if it
    /// is not known.
    pub peer_arrival_rate: u64,
    /// The rate at which packets arrive here, in bytes per second; zero if it is not known.
    pub arrival_rate: u64,
    /// The flow-control window: the number of bytes that the peer may send beyond those that the
    /// application has read.
    pub receive_window: u64,
    /// The component that limited the sending rate last.
    pub limited_by: SendLimit,
    /// The state of the rate controller.
    pub controller: Snapshot,
}

/// The measurement of the path by a packet train in one direction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TrainResult {
    /// Number of packets of the train.
    pub sent: u8,
    /// Number of packets that arrived.
    pub received: u8,
    /// Number of packets sent before the train overflowed a queue. It is all packets if there was
    /// no overflow, and zero while it is not known. Losses among these packets are random losses of
    /// the path.
    pub clear: u8,
    /// Number of the packets in [`clear`](Self::clear) that arrived.
    pub clear_received: u8,
    /// The size of the largest packet that arrived, in bytes of UDP payload.
    pub largest: u16,
    /// The rate of the bottleneck in bytes on the wire per second, or `None` if it could not be
    /// measured. For the outgoing train it is the rate that the peer reported, limited to
    /// [`MAX_CLAIM`](Self::MAX_CLAIM).
    pub rate: Option<u64>,
    /// Half the width of the interval in which the rate lies, as parts per thousand of the rate; at
    /// most 1,000.
    pub error_permille: u16,
    /// `true` if the rate is only a lower bound.
    pub at_least: bool,
}

impl TrainResult {
    /// The maximum rate that a report may claim, in bytes per second: 1 Tbit/s.
    pub const MAX_CLAIM: u64 = 125_000_000_000;

    pub(crate) fn new(report: &Report, sent: u8) -> Self {
        let clear = report.clear.min(sent);
        Self {
            sent,
            received: report.received.min(sent),
            clear,
            clear_received: report.clear_received.min(clear),
            largest: report.largest,
            rate: (report.rate > 0).then_some(report.rate.min(Self::MAX_CLAIM)),
            error_permille: report.error.min(1000),
            at_least: report.at_least,
        }
    }

    /// Returns the number of bytes on the wire that the train had sent when it overflowed the
    /// queue, or `None` if there was no overflow. It exceeds the size of the queue, because some of
    /// these bytes had left the queue by then. The excess is larger the closer the sending rate was
    /// to the rate of the path.
    #[must_use]
    pub fn queue_bytes(&self) -> Option<u64> {
        (0 < self.clear && self.clear < self.sent)
            .then(|| u64::from(self.clear) * (u64::from(self.largest) + HEADER_BYTES))
    }
}

impl Stats {
    /// Returns the ratio of retransmitted and parity bytes to data bytes, where each data byte
    /// counts once. It is zero before any data was sent.
    ///
    /// Retransmissions cost bytes for each loss. Parity costs bytes even if nothing is lost.
    #[must_use]
    pub fn overhead(&self) -> f64 {
        let payload = self
            .sent_data_bytes
            .saturating_sub(self.retransmitted_bytes);
        let extra = self.retransmitted_bytes + self.parity_bytes;
        if payload == 0 {
            0.0
        } else {
            extra as f64 / payload as f64
        }
    }
}

/// The component that limits the sending rate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum SendLimit {
    /// Nothing has been sent yet.
    #[default]
    Nothing,
    /// The application: there is nothing to send.
    Application,
    /// The rate or the window of the rate controller.
    Path,
    /// The peer: it does not read fast enough, or its window is too small for the path.
    Receiver,
}

/// The counters that a connection maintains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) sent_data_bytes: u64,
    pub(crate) retransmitted_packets: u64,
    pub(crate) retransmitted_bytes: u64,
    pub(crate) parity_packets: u64,
    pub(crate) parity_bytes: u64,
    pub(crate) probe_packets: u64,
    pub(crate) lost_packets: u64,
    pub(crate) spurious_losses: u64,
    pub(crate) probe_timeouts: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) recovered_segments: u64,
    pub(crate) ignored_foreign: u64,
    pub(crate) ignored_forged: u64,
    pub(crate) ignored_replayed: u64,
    pub(crate) dropped_packets: u64,
    pub(crate) migrations: u64,
    /// Received data packets; a subset of `received_packets`.
    pub(crate) received_data_packets: u64,
    pub(crate) peer_arrival_rate: u64,
    pub(crate) limited_by: SendLimit,
}
