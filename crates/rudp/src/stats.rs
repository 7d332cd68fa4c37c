//! Numbers about a connection.

use std::time::Duration;

use crate::{
    frame::Report,
    rate::{HEADER_BYTES, Snapshot},
};

/// What happened on a connection so far. Packets and bytes are counted when they leave or when they
/// are accepted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes of UDP payload sent.
    pub sent_bytes: u64,
    /// Bytes of the stream sent, each time they were.
    pub sent_data_bytes: u64,
    /// Packets with data that had been sent before.
    pub retransmitted_packets: u64,
    /// Bytes of data that had been sent before.
    pub retransmitted_bytes: u64,
    /// Packets with a correction symbol.
    pub parity_packets: u64,
    /// Bytes of correction symbols.
    pub parity_bytes: u64,
    /// Packets of probe trains and those that try a packet size.
    pub probe_packets: u64,
    /// Packets found lost.
    pub lost_packets: u64,
    /// Packets that were taken for lost and had come.
    pub spurious_losses: u64,
    /// Times at which nothing was heard for a probe timeout.
    pub probe_timeouts: u64,
    /// Authentic, new packets received.
    pub received_packets: u64,
    /// Their bytes of UDP payload.
    pub received_bytes: u64,
    /// Bytes of the stream that came more than once.
    pub duplicated_bytes: u64,
    /// Segments that were lost and recovered by correction.
    pub recovered_segments: u64,
    /// Datagrams that were ignored: not ours by their header.
    pub ignored_foreign: u64,
    /// Datagrams that were ignored: not authentic.
    pub ignored_forged: u64,
    /// Datagrams that were ignored: seen before, or too old to tell.
    pub ignored_replayed: u64,
    /// Authentic datagrams whose data were dropped because of too many gaps.
    pub dropped_packets: u64,
    /// The smoothed round-trip time; zero: not known.
    pub rtt: Duration,
    /// The least round-trip time; zero: not known.
    pub min_rtt: Duration,
    /// Bytes on the wire that are under way.
    pub bytes_in_flight: u64,
    /// The size of full packets in bytes of UDP payload.
    pub datagram_size: u16,
    /// Times that the peer's address changed.
    pub moves: u64,
    /// How often full packets stopped passing.
    pub mtu_falls: u64,
    /// Bytes per second at which packets arrive at the other end, as it says; zero: not known.
    pub peer_arrival_rate: u64,
    /// Bytes per second at which packets arrive here; zero: not known.
    pub arrival_rate: u64,
    /// How many bytes the other end may send beyond what was read.
    pub receive_window: u64,
    /// What held the sender back when last there was something to say about it.
    pub limited_by: Limit,
    /// What the rate controller believes.
    pub controller: Snapshot,
}

/// What the train of one direction told about the path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TrainResult {
    /// Packets of the train.
    pub sent: u8,
    /// How many of them came.
    pub received: u8,
    /// How many of the first ones tell what the path loses: all, unless those behind them
    /// overflowed a queue; zero if it is too early to tell.
    pub clear: u8,
    /// How many of these came.
    pub clear_received: u8,
    /// The largest of them in bytes of UDP payload.
    pub largest: u16,
    /// The rate of the bottleneck in bytes on the wire per second; `None` if it could not be told.
    /// Of the outgoing train, it is what the other end says, but never more than
    /// [`MAX_CLAIM`](Self::MAX_CLAIM).
    pub rate: Option<u64>,
    /// Half the width of the band in which the rate lies, as parts per thousand of it; 1,000 at
    /// most.
    pub error_permille: u16,
    /// The path is at least this fast; how fast could not be told.
    pub at_least: bool,
}

impl TrainResult {
    /// The highest rate that is believed: 1 Tbit/s.
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

    /// Returns how much stood in the queue that the train overflowed, in bytes on the wire; `None`
    /// if it overflowed none. What left the queue while the train arrived counts too: it is the
    /// more, the less faster than the path the train was sent.
    #[must_use]
    pub fn queue_bytes(&self) -> Option<u64> {
        (0 < self.clear && self.clear < self.sent)
            .then(|| u64::from(self.clear) * (u64::from(self.largest) + HEADER_BYTES))
    }
}

impl Stats {
    /// Returns the bytes that repeat or correct data as a share of the data themselves, each byte
    /// of which counts once; zero while nothing was sent.
    ///
    /// What it costs to lose nothing: packets that were lost cost their repetition, correction
    /// costs its symbols whether they were needed or not.
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

/// What holds a sender back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Limit {
    /// Nothing was sent yet.
    #[default]
    Nothing,
    /// There is nothing to send.
    Application,
    /// The rate or the window of the rate controller.
    Path,
    /// The other end does not read fast enough, or its window is too small for the path.
    Receiver,
}

/// The counters that the connection keeps.
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
    pub(crate) moves: u64,
    /// Data packets among those received.
    pub(crate) received_data_packets: u64,
    pub(crate) peer_arrival_rate: u64,
    pub(crate) limited_by: Limit,
}
