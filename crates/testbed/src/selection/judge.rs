//! Choosers, and what their choices cost.

use super::{Conditions, Contest, FAILED_MS, Part, Time, bootstrap::interval_of_mean};

/// Picks one of the transports of a cell.
pub trait Chooser {
    /// Returns its name in tables.
    fn name(&self) -> String;

    /// Picks one of the candidates, or a transport that was run beside them; nothing where it cannot.
    fn choose(&self, conditions: &Conditions<'_>, candidates: &[&str]) -> Option<Choice>;
}

/// What a chooser picks.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The transport.
    pub transport: String,
    /// What choosing takes in milliseconds, where the time of the transport does not include it:
    /// probing, for instance.
    pub extra_ms: f64,
    /// What the chooser says the transport will take, in milliseconds, if it predicts.
    pub predicted_ms: Option<f64>,
}

/// The same transport everywhere. For [`AUTO`](super::AUTO), what was measured of it.
#[derive(Clone, Debug)]
pub struct Always {
    transport: String,
}

impl Always {
    /// Chooses this one.
    #[must_use]
    pub fn new(transport: &str) -> Self {
        Self {
            transport: transport.to_owned(),
        }
    }
}

impl Chooser for Always {
    fn name(&self) -> String {
        if self.transport == super::AUTO {
            self.transport.clone()
        } else {
            format!("always {}", self.transport)
        }
    }

    fn choose(&self, _: &Conditions<'_>, _: &[&str]) -> Option<Choice> {
        Some(Choice {
            transport: self.transport.clone(),
            extra_ms: 0.0,
            predicted_ms: None,
        })
    }
}

/// What a choice cost in a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What was chosen, unless the chooser had no answer.
    pub chosen: Option<String>,
    /// What the chosen one took; a chooser without an answer, or with one that was not run, has failed.
    pub time: Time,
    /// Time of the choice over time of the best, 1 at least: the best of the candidates and the choice
    /// itself. A bound from below unless the choice was measured.
    pub regret: f64,
    /// By which fraction of the time measured the prediction was off; nothing where nothing was predicted or measured.
    pub error: Option<f64>,
}

/// What choices cost in all cells: for every contest a verdict on every chooser.
#[derive(Clone, Debug)]
pub struct Verdicts<'a> {
    /// The names of the choosers.
    pub choosers: Vec<String>,
    /// Contests in which at least one transport was measured, with the verdicts in the order of
    /// choosers.
    pub cells: Vec<(&'a Contest<'a>, Conditions<'a>, Vec<Verdict>)>,
}

/// Lets every chooser choose in every contest. Those in which nothing was measured are left out.
#[must_use]
pub fn judge<'a>(contests: &'a [Contest<'a>], choosers: &[&dyn Chooser]) -> Verdicts<'a> {
    let cells = (contests.iter())
        .filter_map(|contest| {
            let conditions = contest.conditions()?;
            contest.best(None)?;
            let verdicts = (choosers.iter())
                .map(|chooser| verdict(contest, &conditions, *chooser))
                .collect();
            Some((contest, conditions, verdicts))
        })
        .collect();
    Verdicts {
        choosers: choosers.iter().map(|chooser| chooser.name()).collect(),
        cells,
    }
}

fn verdict(contest: &Contest<'_>, conditions: &Conditions<'_>, chooser: &dyn Chooser) -> Verdict {
    let choice = chooser.choose(conditions, &contest.candidates());
    let chosen = choice.as_ref().map(|choice| choice.transport.as_str());
    let extra = choice.as_ref().map_or(0.0, |choice| choice.extra_ms);
    let time = match chosen.and_then(|name| contest.time(name)) {
        Some(Time::Measured(ms)) => Time::Measured(ms + extra),
        Some(Time::AtLeast(ms)) => Time::AtLeast(ms + extra),
        Some(Time::Failed) | None => Time::Failed,
    };
    let predicted = choice.as_ref().and_then(|choice| choice.predicted_ms);
    let error = match (chosen.and_then(|name| contest.time(name)), predicted) {
        (Some(Time::Measured(ms)), Some(predicted)) => Some((predicted - ms).abs() / ms),
        _ => None,
    };
    let best = contest.best(chosen).map_or(FAILED_MS, |(_, ms)| ms);
    Verdict {
        regret: (time.counts_as_ms() / best).max(1.0),
        time,
        error,
        chosen: choice.map(|choice| choice.transport),
    }
}

/// The regret of a chooser over many cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many cells.
    pub cells: usize,
    /// In how many of them the choice was cut off. Regrets count with what they are at least.
    pub cut_off: usize,
    /// In how many of them the choice failed. They count as [`FAILED_MS`].
    pub failed: usize,
    /// The arithmetic mean.
    pub mean: f64,
    /// Its 95 % confidence interval over cells; nothing of a single cell.
    pub mean_interval: Option<(f64, f64)>,
    /// The median: the lower of two in the middle.
    pub median: f64,
    /// The regret that 95 % of the cells do not exceed.
    pub percentile_95: f64,
    /// The greatest.
    pub worst: f64,
    /// The share of cells in which the regret is at most [`Summary::CLOSE`].
    pub close: f64,
    /// By how much predictions were off in half and in nine tenths of the cells that have one.
    pub errors: Option<[f64; 2]>,
}

impl Summary {
    /// What counts as close to the best.
    pub const CLOSE: f64 = 1.15;

    /// Sums up; nothing of no cells.
    #[must_use]
    pub fn of<'v>(verdicts: impl IntoIterator<Item = &'v Verdict>) -> Option<Self> {
        let mut regrets = Vec::new();
        let mut errors = Vec::new();
        let (mut cut_off, mut failed, mut close) = (0, 0, 0);
        for verdict in verdicts {
            match verdict.time {
                Time::Measured(_) => {}
                Time::AtLeast(_) => cut_off += 1,
                Time::Failed => failed += 1,
            }
            // A choice that failed is never a good one, however slow the best was.
            let is_close = verdict.regret <= Self::CLOSE;
            close += usize::from(is_close && matches!(verdict.time, Time::Measured(_)));
            regrets.push(verdict.regret);
            errors.extend(verdict.error);
        }
        regrets.sort_by(f64::total_cmp);
        errors.sort_by(f64::total_cmp);
        let cells = regrets.len();
        let rank = |share| nearest_rank(&regrets, share);
        Some(Self {
            cells,
            cut_off,
            failed,
            mean: regrets.iter().sum::<f64>() / cells as f64,
            mean_interval: interval_of_mean(&regrets),
            median: rank(0.5)?,
            percentile_95: rank(0.95)?,
            worst: *regrets.last()?,
            close: close as f64 / cells as f64,
            errors: nearest_rank(&errors, 0.5)
                .zip(nearest_rank(&errors, 0.9))
                .map(Into::into),
        })
    }

    /// Tells whether regrets are in it that may be greater.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.cut_off + self.failed > 0
    }
}

/// Returns the smallest of sorted values that this share of all does not exceed.
pub(super) fn nearest_rank(sorted: &[f64], share: f64) -> Option<f64> {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

impl<'a> Verdicts<'a> {
    /// Returns the cells of a part, or all.
    pub fn of_part(
        &self,
        part: Option<Part>,
    ) -> impl Iterator<Item = &(&'a Contest<'a>, Conditions<'a>, Vec<Verdict>)> {
        (self.cells.iter())
            .filter(move |(contest, ..)| part.is_none_or(|part| contest.part() == part))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{contest::tests::row, contests};
    use super::*;

    /// Goes by the round-trip time.
    struct Rule;

    impl Chooser for Rule {
        fn name(&self) -> String {
            "rule".to_owned()
        }

        fn choose(&self, conditions: &Conditions<'_>, candidates: &[&str]) -> Option<Choice> {
            assert_eq!(candidates, ["tcp", "rudp"]);
            let near = conditions.scenario.rtt_ms() < 15.0;
            Some(Choice {
                transport: if near { "tcp" } else { "rudp" }.to_owned(),
                extra_ms: 5.0,
                predicted_ms: Some(if near { 100.0 } else { 50.0 }),
            })
        }
    }

    #[test]
    fn regret_is_the_time_over_the_best() {
        let rows = [
            row(10.0, "tcp", 0, Time::Measured(100.0)),
            row(10.0, "rudp", 0, Time::Measured(50.0)),
            row(10.0, "auto", 0, Time::Measured(40.0)),
            row(20.0, "tcp", 0, Time::AtLeast(10_000.0)),
            row(20.0, "rudp", 0, Time::Measured(100.0)),
            row(20.0, "auto", 0, Time::Measured(110.0)),
            row(30.0, "tcp", 0, Time::Measured(200.0)),
            row(30.0, "rudp", 0, Time::Failed),
            row(30.0, "auto", 0, Time::Measured(210.0)),
            // Nothing to compare with.
            row(40.0, "tcp", 0, Time::Failed),
            row(40.0, "rudp", 0, Time::Failed),
        ];
        let contests = contests(&rows);
        let (tcp, rudp, auto) = (Always::new("tcp"), Always::new("rudp"), Always::new("auto"));
        let verdicts = judge(&contests, &[&tcp, &rudp, &auto, &Rule]);
        assert_eq!(
            verdicts.choosers,
            ["always tcp", "always rudp", "auto", "rule"]
        );
        assert_eq!(verdicts.cells.len(), 3);
        let regrets = |chooser: usize| -> Vec<f64> {
            (verdicts.cells.iter())
                .map(|(.., verdicts)| verdicts[chooser].regret)
                .collect()
        };
        assert_eq!(regrets(0), [2.0, 100.0, 1.0]);
        assert_eq!(regrets(1), [1.0, 1.0, 300.0]);
        // Quicker than all candidates is no less than 1.
        assert_eq!(regrets(2), [1.0, 1.1, 1.05]);
        // Choosing takes time too.
        assert_eq!(regrets(3), [2.1, 1.05, 300.0]);
        let errors: Vec<_> = (verdicts.cells.iter())
            .map(|(.., verdicts)| verdicts[3].error)
            .collect();
        assert_eq!(errors, [Some(0.0), Some(0.5), None]);

        let summary = |chooser: usize| {
            Summary::of(
                verdicts
                    .cells
                    .iter()
                    .map(|(.., verdicts)| &verdicts[chooser]),
            )
            .unwrap()
        };
        let tcp = summary(0);
        assert_eq!((tcp.cells, tcp.cut_off, tcp.failed), (3, 1, 0));
        assert_eq!(
            (tcp.median, tcp.percentile_95, tcp.worst),
            (2.0, 100.0, 100.0)
        );
        assert!((tcp.mean - 103.0 / 3.0).abs() < 1e-9 && tcp.is_bound());
        assert!((tcp.close - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!((summary(1).failed, summary(2).is_bound()), (1, false));
        assert_eq!((tcp.errors, summary(3).errors), (None, Some([0.0, 0.5])));
    }

    #[test]
    fn ranks_are_the_nearest() {
        let verdicts: Vec<_> = (1..=20)
            .map(|regret| Verdict {
                chosen: Some("tcp".to_owned()),
                time: Time::Measured(1.0),
                regret: f64::from(regret),
                error: None,
            })
            .collect();
        let summary = Summary::of(&verdicts).unwrap();
        assert_eq!((summary.median, summary.percentile_95), (10.0, 19.0));
        assert_eq!((summary.mean, summary.worst), (10.5, 20.0));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn no_answer_is_a_failure() {
        struct Silent;
        impl Chooser for Silent {
            fn name(&self) -> String {
                "silent".to_owned()
            }
            fn choose(&self, _: &Conditions<'_>, _: &[&str]) -> Option<Choice> {
                None
            }
        }
        let rows = [row(10.0, "tcp", 0, Time::Measured(120_000.0))];
        let contests = contests(&rows);
        let verdicts = judge(&contests, &[&Silent, &Always::new("quic")]);
        let summary = Summary::of(&verdicts.cells[0].2).unwrap();
        // Two minutes were the best: still none of the two is close to it.
        assert_eq!(
            (summary.failed, summary.close, summary.worst),
            (2, 0.0, 1.0)
        );
    }
}
