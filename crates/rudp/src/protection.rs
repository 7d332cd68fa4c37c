//! The number of parity symbols of the blocks of a connection.

use std::time::Duration;

use crate::fec::{BLOCK_SEGMENTS, BlockPlan, LossEstimate};

/// The maximum share of lost packets at which a train is used. Chosen: a higher loss may be an
/// overflowed queue, which shows nothing about random loss.
const MAX_TRAIN_LOSS: f64 = 0.1;

/// The weight of the prior with which the loss of a train is combined, in packets. With it, a train
/// of 32 packets without loss gives a loss of 0.5 %. Then a block of 200 segments gets 7 or 8
/// symbols during the first round trip. Simulated: over a path that loses 1 %, one in fifty
/// transfers waits for a retransmission; with a prior of 256 packets one in ten does. Over a path
/// without loss, the additional symbols cost at most 0.5 % of the time.
const TRAIN_PRIOR_PACKETS: f64 = 64.0;

/// The minimum number of segments of a block that is shortened to end early. Chosen: in a shorter
/// block, one symbol would cost more than 1.6 %.
const MIN_BLOCK_SEGMENTS: usize = 64;

/// The number of packets with a known outcome after which trains are ignored.
const MIN_OBSERVED_PACKETS: u64 = 500;

/// The loss estimate of the path, and the block parameters that follow from it.
#[derive(Debug)]
pub(crate) struct Protection {
    loss: LossEstimate,
    /// The number of packets whose outcome is known.
    observed: u64,
    /// The maximum of the loss rates estimated from trains.
    train_loss: f64,
}

impl Protection {
    pub(crate) fn new(prior: Option<f64>) -> Self {
        Self {
            loss: prior.map_or_else(LossEstimate::default, LossEstimate::with_prior),
            observed: if prior.is_some() {
                MIN_OBSERVED_PACKETS
            } else {
                0
            },
            train_loss: 0.0,
        }
    }

    /// Takes the loss of a train as a prior. A train has few packets, but it is the only
    /// measurement during the first round trip. For the same reason the train of the other
    /// direction is used, too: most paths that lose packets in one direction lose them in both.
    pub(crate) fn on_train(&mut self, received: u8, sent: u8) {
        let lost = f64::from(sent.saturating_sub(received));
        if lost > MAX_TRAIN_LOSS * f64::from(sent) {
            return;
        }
        // The train is combined with TRAIN_PRIOR_PACKETS packets, of which half a packet was lost.
        // Without the prior, a few packets without loss would understate the loss of the path, and
        // a few packets with loss would overstate it.
        let loss = (lost + 0.5) / (f64::from(sent) + TRAIN_PRIOR_PACKETS);
        if self.observed < MIN_OBSERVED_PACKETS && loss > self.train_loss {
            self.train_loss = loss;
            self.loss = LossEstimate::with_prior(loss);
        }
    }

    pub(crate) fn on_feedback(&mut self, acked: u64, lost: u64) {
        if acked + lost > 0 {
            self.observed += acked + lost;
            self.loss.observe(lost, acked + lost);
        }
    }

    /// Returns the maximum number of segments of a block: the packets of a quarter of a round trip,
    /// because a block is repaired only after its end.
    pub(crate) fn block_segments(&self, rate: u64, rtt: Duration, packet: u64) -> usize {
        let bytes = u128::from(rate) * rtt.as_nanos() / 4 / 1_000_000_000;
        let packets = usize::try_from(bytes / u128::from(packet.max(1))).unwrap_or(usize::MAX);
        packets.clamp(MIN_BLOCK_SEGMENTS, BLOCK_SEGMENTS)
    }

    /// Returns the number of parity symbols of a block. `left` is the number of bytes after the
    /// block, and `busy` the time for which the application has been sending.
    pub(crate) fn parity(
        &self,
        segments: usize,
        left: u64,
        busy: Duration,
        rate: u64,
        rtt: Duration,
    ) -> usize {
        BlockPlan {
            loss: self.loss,
            segments,
            bytes_left: Some(left),
            busy,
            rate,
            rtt,
        }
        .parity_count()
    }
}
