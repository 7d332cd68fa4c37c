//! Whether the path of a connection that stays open has become worse since its transport was
//! chosen.

use std::time::Duration;

use transpute_transport::PathSample;
use transpute_units::{Bandwidth, KnownPath, Loss};

/// The path has become worse if its rate is at most this fraction of the rate at the time of the
/// choice.
const WORSE_RATE: f64 = 0.5;

/// Watches the path of a connection: fed with the link's figures during runs and when they end, it
/// keeps what was measured last.
#[derive(Clone, Debug, Default)]
pub struct PathMonitor {
    chosen_by: KnownPath,
    last: KnownPath,
    /// The highest rate of the run under way.
    run_rate: Option<Bandwidth>,
    /// Counters of the link at the end of the last run: bytes sent once, packets sent and lost.
    carried: u64,
    counted: [u64; 2],
}

impl PathMonitor {
    /// Starts with the path that the transport was chosen by. Properties that were not known then
    /// are those that are measured first.
    #[must_use]
    pub fn new(chosen_by: KnownPath) -> Self {
        Self {
            chosen_by,
            ..Self::default()
        }
    }

    /// Takes the link's figures during a run: round-trip time and rate. At the end of a run the
    /// program limits the rate as a rule.
    ///
    /// A rate counts only if the path was its limit, and not the program.
    pub fn look_at_rate(&mut self, sample: &PathSample) {
        self.last.rtt = sample.least_rtt().or(self.last.rtt);
        if let (Some(rate), Some(false)) = (sample.delivery_rate, sample.delivery_rate_app_limited)
        {
            let rate = Bandwidth::from_bytes_per_second(rate as f64);
            self.run_rate = self.run_rate.max(Some(rate));
        }
    }

    /// Takes the link's figures at the end of a run, `elapsed` after the end of the run before.
    ///
    /// The rate of the run is the highest in it, as in BBR: a single sample, such as that of a
    /// retransmission, may be far below the path's rate. It is at least what the link carried.
    /// Packets count since the end before.
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
        // TCP does not count losses, but what it sent again.
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

    /// Returns the path that the transport was chosen by.
    #[must_use]
    pub fn chosen_by(&self) -> KnownPath {
        self.chosen_by
    }

    /// Returns the path as it is now: what was measured last, else what the transport was chosen
    /// by.
    #[must_use]
    pub fn estimate(&self) -> KnownPath {
        self.last.or(self.chosen_by)
    }

    /// Says for people in which way the path is worse than the one that the transport was chosen
    /// by; `None` if it is not.
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
