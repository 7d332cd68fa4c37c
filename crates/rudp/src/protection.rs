//! How much correction the blocks of this connection get.

use std::time::Duration;

use crate::fec::{BLOCK_SEGMENTS, LossEstimate, Plan};

/// The largest loss of a train that counts, as a share. Chosen: more may be an overflowed queue,
/// which shows nothing about random loss.
const MAX_TRAIN_LOSS: f64 = 0.1;

/// Packets of the prior that a train is weighed against. A train of 32 that lost none makes for a
/// loss of 0.5 %, and a block of 200 segments gets 7 or 8 symbols during the first round trip.
/// Simulated: over a path that loses 1 %, one in fifty transfers waits for a retransmission; with a
/// prior of 256 packets one in ten does. Over a path that loses nothing the additional symbols cost
/// at most 0.5 % of the time.
const TRAIN_PRIOR: f64 = 64.0;

/// The fewest segments of a block that is shortened to end early. Chosen: one symbol for fewer
/// would cost more than 2 %.
const MIN_BLOCK_SEGMENTS: usize = 64;

/// Once the fate of so many packets is known, trains have nothing to add.
const OBSERVED: u64 = 500;

/// The loss of the path, and what follows from it for blocks.
#[derive(Debug)]
pub(crate) struct Protection {
    loss: LossEstimate,
    /// Of how many packets the fate is known.
    observed: u64,
    /// The largest loss that a train showed.
    train_loss: f64,
}

impl Protection {
    pub(crate) fn new(prior: Option<f64>) -> Self {
        Self {
            loss: prior.map_or_else(LossEstimate::default, LossEstimate::with_prior),
            observed: if prior.is_some() { OBSERVED } else { 0 },
            train_loss: 0.0,
        }
    }

    /// Takes what a train showed, as a prior: its packets are few, but all there is for the first
    /// round trip. That is also why a train of the other direction counts: most paths that lose
    /// there lose here.
    pub(crate) fn on_train(&mut self, received: u8, sent: u8) {
        let lost = f64::from(sent.saturating_sub(received));
        if lost > MAX_TRAIN_LOSS * f64::from(sent) {
            return;
        }
        // The train counts as much as TRAIN_PRIOR packets, of which half a one was lost: few
        // packets show less than the path loses where they show nothing, and more where they show
        // losses.
        let loss = (lost + 0.5) / (f64::from(sent) + TRAIN_PRIOR);
        if self.observed < OBSERVED && loss > self.train_loss {
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

    /// Returns how many segments a block has at most: what is sent in a quarter of a round trip,
    /// since a block is repaired no earlier than it ends.
    pub(crate) fn block_segments(&self, rate: u64, rtt: Duration, packet: u64) -> usize {
        let bytes = u128::from(rate) * rtt.as_nanos() / 4 / 1_000_000_000;
        let packets = usize::try_from(bytes / u128::from(packet.max(1))).unwrap_or(usize::MAX);
        packets.clamp(MIN_BLOCK_SEGMENTS, BLOCK_SEGMENTS)
    }

    /// Returns how many symbols a block of so many segments gets, with so many bytes behind it and
    /// after so long a time of sending.
    pub(crate) fn parity(
        &self,
        segments: usize,
        left: u64,
        busy: Duration,
        rate: u64,
        rtt: Duration,
    ) -> usize {
        Plan {
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
