//! What is known when a candidate has come up.

use std::time::Duration;

use transpute_rudp::TrainResult;

use crate::{LinkInfo, PathSample};

/// The report of the TCP connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControlReport {
    /// Who the peer is, as a link of transport `tcp` would say.
    pub info: LinkInfo,
    /// What the kernel knows about the path: the round-trip times of the handshakes above all.
    pub path: PathSample,
    /// From the start of connecting until it was there.
    pub after: Duration,
}

impl ControlReport {
    /// Returns the round-trip time: the least that was seen.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        // Where the kernel tells nothing: opening the connection took one, and the name's resolution.
        (self.path.least_rtt()).unwrap_or(self.info.timings.connect)
    }
}

/// The report of the QUIC connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuicReport {
    /// Who the peer is, as a link of transport `quic` would say.
    pub info: LinkInfo,
    /// What the QUIC library knows about the path.
    pub path: PathSample,
    /// From the start of connecting until it was there.
    pub after: Duration,
}

/// The report of reliable UDP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RudpReport {
    /// The round-trip time of the first answer.
    pub rtt: Option<Duration>,
    /// The train from here to the listener; `None` if no report on it came in time.
    pub up: Option<TrainReport>,
    /// The train from the listener; `None` as long as it is not over, and if it did not come.
    pub down: Option<TrainReport>,
    /// The largest UDP payload that is known to pass, in bytes.
    pub datagram: u16,
    /// What else is known.
    pub path: PathSample,
    /// From the start of connecting until it was there.
    pub after: Duration,
    /// Whether nothing more will be learnt from the trains of the set-up.
    pub is_complete: bool,
}

/// What a train of packets in one direction told about the path.
///
/// What the listener says about the train to it is believed up to 1 Tbit/s, but it is its word.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TrainReport {
    /// Packets that were sent.
    pub sent: u32,
    /// How many of them came.
    pub received: u32,
    /// How many of the first ones tell what the path loses: all, unless those behind them overflowed a queue; zero if it is too
    /// early to tell.
    pub clear: u32,
    /// How many of these came.
    pub clear_received: u32,
    /// What stood in the queue that the train overflowed, in bytes on the wire; `None` if it overflowed none.
    pub queue: Option<u64>,
    /// The rate of the bottleneck in bytes on the wire per second; `None` if it could not be told.
    pub rate: Option<u64>,
    /// Half the width of the band in which the rate lies, as a part of it: 0 to 1.
    pub error: f64,
    /// The path is at least this fast; how fast could not be told.
    pub at_least: bool,
}

impl From<TrainResult> for TrainReport {
    fn from(train: TrainResult) -> Self {
        Self {
            sent: train.sent.into(),
            received: train.received.into(),
            clear: train.clear.into(),
            clear_received: train.clear_received.into(),
            queue: train.queue_bytes(),
            rate: train.rate,
            error: f64::from(train.error_permille) / 1000.0,
            at_least: train.at_least,
        }
    }
}
