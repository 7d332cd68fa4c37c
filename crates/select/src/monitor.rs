//! Detection of a worse path on a connection that stays open.

use std::time::Duration;

use transpute_transport::PathSample;
use transpute_units::{Bandwidth, KnownPath, Loss};

/// The path counts as worse if its rate is at most this fraction of the rate for which the
/// transport was chosen.
const WORSE_RATE: f64 = 0.5;

/// Detects when the path of a connection becomes worse. The caller passes samples of the link
/// during runs and at their end; the monitor keeps the last measurement.
#[derive(Clone, Debug, Default)]
pub struct PathMonitor {
    chosen_by: KnownPath,
    last: KnownPath,
    /// The highest rate measured in the current run.
    run_rate: Option<Bandwidth>,
    /// Counters of the link at the end of the last run: bytes without retransmissions, packets sent
    /// and lost.
    carried: u64,
    counted: [u64; 2],
}

impl PathMonitor {
    /// Returns a monitor that compares with `chosen_by`, the path for which the transport was
    /// chosen. For properties that `chosen_by` lacks, it compares with the first measurement.
    #[must_use]
    pub fn new(chosen_by: KnownPath) -> Self {
        Self {
            chosen_by,
            ..Self::default()
        }
    }

    /// Records the round-trip time and the rate from a sample taken during a run. A rate counts
    /// only if the path limited it, and not the application. At the end of a run, the application
    /// usually limits it.
    pub fn look_at_rate(&mut self, sample: &PathSample) {
        self.last.rtt = sample.least_rtt().or(self.last.rtt);
        if let (Some(rate), Some(false)) = (sample.delivery_rate, sample.delivery_rate_app_limited)
        {
            let rate = Bandwidth::from_bytes_per_second(rate as f64);
            self.run_rate = self.run_rate.max(Some(rate));
        }
    }

    /// Records a sample taken at the end of a run, `elapsed` after the end of the previous run.
    ///
    /// The rate of a run is the highest of its samples, as in BBR. A single sample, such as that of
    /// a retransmission, may be far below the path's rate. The average rate of the transferred
    /// bytes is used if it is higher. Lost packets are counted from the end of the previous run.
    pub fn look(&mut self, sample: &PathSample, elapsed: Duration) {
        self.look_at_rate(sample);
        let carried = (sample.wire_bytes_sent)
            .map(|sent| sent.saturating_sub(sample.wire_bytes_retransmitted.unwrap_or(0)));
        if let Some(rate) = self.run_rate.take() {
            let new = carried.map_or(0, |carried| carried.saturating_sub(self.carried));
            let goodput = Bandwidth::of_transfer(new, elapsed);
            self.last.to_peer.rate = Some(rate.max(goodput));
        }
        self.carried = carried.unwrap_or(0);
        // For TCP, the sample has retransmissions instead of losses.
        let lost = match (sample.packets_lost, sample.retransmits) {
            (Some(lost), _) => Some(lost.saturating_sub(sample.spurious_losses.unwrap_or(0))),
            (None, retransmits) => retransmits,
        };
        if let (Some(sent), Some(lost)) = (sample.packets_sent, lost) {
            let [sent_before, lost_before] = self.counted;
            let new = sent.saturating_sub(sent_before);
            if new > 0 {
                self.last.to_peer.loss = Loss::new(lost.saturating_sub(lost_before).min(new), new);
            }
            self.counted = [sent, lost];
        }
        self.chosen_by = self.chosen_by.or(self.last);
    }

    /// Returns the path for which the transport was chosen.
    #[must_use]
    pub fn chosen_by(&self) -> KnownPath {
        self.chosen_by
    }

    /// Returns the present path: the last measurement, or the path for which the transport was
    /// chosen.
    #[must_use]
    pub fn estimate(&self) -> KnownPath {
        self.last.or(self.chosen_by)
    }

    /// Returns a text that describes how the path has become worse, or `None` if it has not.
    #[must_use]
    pub fn worse(&self) -> Option<String> {
        let (then, now) = (self.chosen_by.to_peer, self.last.to_peer);
        let rates = (then.rate.zip(now.rate)).filter(|(then, now)| *now <= *then * WORSE_RATE);
        let losses = (then.loss.zip(now.loss)).filter(|(then, now)| now.is_worse_than(*then));
        let rate = rates
            .map(|(then, now)| format!("rate {now:.1}, was {:.1}", then.megabits_per_second()));
        let percent = |loss: Loss| loss.fraction() * 100.0;
        let loss = losses
            .map(|(then, now)| format!("loss {:.2} %, was {:.2} %", percent(now), percent(then)));
        let all: Vec<String> = rate.into_iter().chain(loss).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
