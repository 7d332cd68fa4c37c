//! Whether the path of a connection that stays open has become worse since its transport was chosen.

use std::{fmt, time::Duration};

use transpute_transport::PathSample;

/// A rate at most this fraction of the one that the transport was chosen by is worse: "halves" in the requirement.
pub const WORSE_RATE: f64 = 0.5;

/// Loss at least this many times that which the transport was chosen by is worse, unless it is noise: "doubles" in the requirement.
pub const WORSE_LOSS: f64 = 2.0;

/// Standard deviations of the difference of two counts that are noise. By the normal approximation, counts of the same path differ
/// by more in 1 of 740 comparisons.
pub const NOISE_DEVIATIONS: f64 = 3.0;

/// What was measured of a path. `None` is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredPath {
    /// Smallest round-trip time.
    pub rtt: Option<Duration>,
    /// Rate of the direction in which this side sends, bytes per second.
    pub rate: Option<f64>,
    /// Loss of that direction.
    pub loss: Option<LossCount>,
}

/// Packets sent, and those of them that were lost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LossCount {
    /// Packets sent.
    pub sent: u64,
    /// Packets lost; at most `sent`.
    pub lost: u64,
}

impl LossCount {
    /// Returns lost over sent; 0 if nothing was sent.
    #[must_use]
    pub fn fraction(self) -> f64 {
        match self.sent {
            0 => 0.0,
            sent => self.lost as f64 / sent as f64,
        }
    }

    /// Says whether this is at least [`WORSE_LOSS`] times as much as `before`, and more than two counts of one path differ by: the
    /// two-proportion z-test with the pooled proportion.
    #[must_use]
    pub fn is_worse_than(self, before: Self) -> bool {
        let (now, then) = (self.fraction(), before.fraction());
        if self.sent == 0 || before.sent == 0 || now <= then || now < WORSE_LOSS * then {
            return false;
        }
        let [sent, sent_before] = [self.sent, before.sent].map(|count| count as f64);
        let pooled = (self.lost as f64 + before.lost as f64) / (sent + sent_before);
        let variance = pooled * (1.0 - pooled) * (1.0 / sent + 1.0 / sent_before);
        now - then > NOISE_DEVIATIONS * variance.sqrt()
    }
}

/// In which way a path is worse than when its transport was chosen. [`Display`](fmt::Display) is for people.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worse {
    /// The rate then and now, bytes per second.
    pub rate: Option<[f64; 2]>,
    /// The loss then and now.
    pub loss: Option<[LossCount; 2]>,
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
    counted: Option<LossCount>,
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
            let before = self.counted.unwrap_or_default();
            let new = sent.saturating_sub(before.sent);
            if new > 0 {
                self.last.loss = Some(LossCount {
                    sent: new,
                    lost: lost.saturating_sub(before.lost).min(new),
                });
            }
            self.counted = Some(LossCount { sent, lost });
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
            let percent = |loss: LossCount| loss.fraction() * 100.0;
            write!(f, "loss {:.2} %, was {:.2} %", percent(now), percent(then))?;
        }
        Ok(())
    }
}
