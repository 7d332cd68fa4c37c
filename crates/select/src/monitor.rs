//! Whether the path of a connection that stays open has become worse since its transport was chosen.

use std::{fmt, time::Duration};

use transpute_transport::PathSample;

use crate::Loss;

/// A rate at most this fraction of the one that the transport was chosen by is worse: "halves" in the requirement.
pub const WORSE_RATE: f64 = 0.5;

/// What was measured of a path. `None` is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredPath {
    /// Smallest round-trip time.
    pub rtt: Option<Duration>,
    /// Rate of the direction in which this side sends, bytes per second.
    pub rate: Option<f64>,
    /// Loss of that direction.
    pub loss: Option<Loss>,
}

/// In which way a path is worse than when its transport was chosen. [`Display`](fmt::Display) is for people.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worse {
    /// The rate then and now, bytes per second.
    pub rate: Option<[f64; 2]>,
    /// The loss then and now.
    pub loss: Option<[Loss; 2]>,
}

/// Watches the path of a connection: fed with the link's figures during runs and when they end, it keeps what was measured last.
#[derive(Clone, Debug, Default)]
pub struct PathMonitor {
    chosen_by: MeasuredPath,
    last: MeasuredPath,
    /// The highest rate of the run under way.
    run_rate: Option<f64>,
    /// Counters of the link at the end of the last run: bytes sent once, packets sent and lost.
    carried: u64,
    counted: [u64; 2],
}

impl PathMonitor {
    /// Starts with the path that the transport was chosen by. What was not known then is what is measured first.
    #[must_use]
    pub fn new(chosen_by: MeasuredPath) -> Self {
        Self {
            chosen_by,
            ..Self::default()
        }
    }

    /// Takes the link's figures during a run: round-trip time and rate. At the end of a run the program limits the rate as a rule.
    ///
    /// A rate counts only if the path was its limit, and not the program.
    pub fn look_at_rate(&mut self, sample: &PathSample) {
        self.last.rtt = sample.least_rtt().or(self.last.rtt);
        if let (Some(rate), Some(false)) = (sample.delivery_rate, sample.delivery_rate_app_limited)
        {
            let rate = rate as f64;
            self.run_rate = Some(self.run_rate.map_or(rate, |highest| highest.max(rate)));
        }
    }

    /// Takes the link's figures at the end of a run, `elapsed` after the end of the run before.
    ///
    /// The rate of the run is the highest in it, as in BBR: a single sample, such as that of a retransmission, may be far below the
    /// path's rate. It is at least what the link carried. Packets count since the end before.
    pub fn look(&mut self, sample: &PathSample, elapsed: Duration) {
        self.look_at_rate(sample);
        let carried = (sample.wire_bytes_sent)
            .map(|sent| sent.saturating_sub(sample.wire_bytes_retransmitted.unwrap_or(0)));
        if let Some(rate) = self.run_rate.take() {
            let new = carried.map_or(0, |carried| carried.saturating_sub(self.carried));
            let goodput = match elapsed.is_zero() {
                true => 0.0,
                false => new as f64 / elapsed.as_secs_f64(),
            };
            self.last.rate = Some(rate.max(goodput));
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
                self.last.loss = Loss::new(lost.saturating_sub(lost_before).min(new), new).ok();
            }
            self.counted = [sent, lost];
        }
        let chosen_by = &mut self.chosen_by;
        chosen_by.rtt = chosen_by.rtt.or(self.last.rtt);
        chosen_by.rate = chosen_by.rate.or(self.last.rate);
        chosen_by.loss = chosen_by.loss.or(self.last.loss);
    }

    /// Returns the path that the transport was chosen by.
    #[must_use]
    pub fn chosen_by(&self) -> MeasuredPath {
        self.chosen_by
    }

    /// Returns the path as it is now: what was measured last, else what the transport was chosen by.
    #[must_use]
    pub fn estimate(&self) -> MeasuredPath {
        MeasuredPath {
            rtt: self.last.rtt.or(self.chosen_by.rtt),
            rate: self.last.rate.or(self.chosen_by.rate),
            loss: self.last.loss.or(self.chosen_by.loss),
        }
    }

    /// Says in which way the path is worse than the one that the transport was chosen by; `None` if it is not.
    #[must_use]
    pub fn worse(&self) -> Option<Worse> {
        let (then, now) = (self.chosen_by, self.last);
        let rates = then.rate.zip(now.rate);
        let losses = then.loss.zip(now.loss);
        let worse = Worse {
            rate: (rates.filter(|(then, now)| *now <= WORSE_RATE * then)).map(|(a, b)| [a, b]),
            loss: (losses.filter(|(then, now)| now.is_worse_than(*then))).map(|(a, b)| [a, b]),
        };
        (worse.rate.is_some() || worse.loss.is_some()).then_some(worse)
    }

    /// Returns the transport that would now be chosen, if the path is worse and that is another one than `current`. `choose` is the
    /// chooser; it returns `None` if it cannot tell.
    pub fn better<T: PartialEq>(
        &self,
        current: &T,
        choose: impl FnOnce(&MeasuredPath) -> Option<T>,
    ) -> Option<T> {
        self.worse()?;
        choose(&self.estimate()).filter(|chosen| chosen != current)
    }
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some([then, now]) = self.rate {
            let mbit = |rate: f64| rate * 8e-6;
            write!(f, "rate {:.1} Mbit/s, was {:.1}", mbit(now), mbit(then))?;
        }
        if self.rate.is_some() && self.loss.is_some() {
            f.write_str("; ")?;
        }
        if let Some([then, now]) = self.loss {
            let percent = |loss: Loss| loss.fraction() * 100.0;
            write!(f, "loss {:.2} %, was {:.2} %", percent(now), percent(then))?;
        }
        Ok(())
    }
}
