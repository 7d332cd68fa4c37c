//! Computes the regret of choosers: the time of the chosen transport divided by the time of the
//! best transport.

use super::{
    CellTimes, Conditions, FAILED_MS, Judged, Part, RunTime, Workloads,
    bootstrap::interval_of_mean, choosers::Picked,
};

/// The time and the regret of a choice in a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The chosen transport. `None` if the chooser chose none.
    pub chosen: Option<String>,
    /// The time of the chosen transport. It is [`RunTime::Failed`] if the chooser chose none or
    /// the chosen transport was not run.
    pub time: RunTime,
    /// Time of the choice divided by the time of the best candidate. It is 1 if the choice was
    /// faster than all candidates. It is a lower bound if the choice was cut off.
    pub regret: f64,
    /// Absolute difference of predicted and measured time, divided by the measured time. None
    /// without a prediction or a measurement.
    pub error: Option<f64>,
}

/// The verdicts on every chooser, for every contest (a cell with the times of its transports).
#[derive(Clone, Debug)]
pub struct Verdicts<'a> {
    /// The names of the choosers.
    pub choosers: Vec<String>,
    /// Contests in which at least one transport was measured, with the verdicts in the order of
    /// choosers.
    pub cells: Vec<(&'a CellTimes<'a>, Conditions<'a>, Vec<Verdict>)>,
}

/// Lets every chooser choose in every contest, and judges the choices. Contests without a
/// measurement are left out. `workloads` has the traffic and computing time of each circuit. For a
/// circuit without an entry, only [`Judged::Always`] chooses a transport.
#[must_use]
pub fn judge<'a>(
    contests: &'a [CellTimes<'a>],
    choosers: &[Judged],
    workloads: &Workloads,
) -> Verdicts<'a> {
    let cells = (contests.iter())
        .filter_map(|contest| {
            let conditions = contest.conditions()?;
            contest.best(None)?;
            let verdicts = (choosers.iter())
                .map(|chooser| {
                    let picked = chooser.pick(&conditions, &contest.candidates(), workloads);
                    verdict(contest, picked)
                })
                .collect();
            Some((contest, conditions, verdicts))
        })
        .collect();
    Verdicts {
        choosers: choosers.iter().map(|chooser| chooser.name()).collect(),
        cells,
    }
}

fn verdict(contest: &CellTimes<'_>, picked: Option<Picked>) -> Verdict {
    let chosen = picked.as_ref().map(|picked| picked.transport.as_str());
    let time = chosen
        .and_then(|name| contest.time(name))
        .unwrap_or(RunTime::Failed);
    let predicted = picked.as_ref().and_then(|picked| picked.predicted_ms);
    let error = match (time, predicted) {
        (RunTime::Measured(ms), Some(predicted)) => Some((predicted - ms).abs() / ms),
        _ => None,
    };
    let best = contest.best(chosen).map_or(FAILED_MS, |(_, ms)| ms);
    Verdict {
        regret: (time.counts_as_ms() / best).max(1.0),
        time,
        error,
        chosen: picked.map(|picked| picked.transport),
    }
}

/// Statistics of the regret of a chooser over many cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegretSummary {
    /// Number of cells.
    pub cells: usize,
    /// Number of cells in which the choice was cut off. Their regrets are lower bounds.
    pub cut_off: usize,
    /// Number of cells in which the choice failed. The time of a failure counts as [`FAILED_MS`].
    pub failed: usize,
    /// The arithmetic mean of the regrets.
    pub mean: f64,
    /// The 95 % confidence interval of `mean` over cells. None for a single cell.
    pub mean_interval: Option<(f64, f64)>,
    /// The median of the regrets. For an even number of cells, the lower of the two middle values.
    pub median: f64,
    /// The regret that 95 % of the cells do not exceed.
    pub percentile_95: f64,
    /// The maximum of the regrets.
    pub worst: f64,
    /// The share of cells in which the choice was measured and its regret is at most
    /// [`RegretSummary::CLOSE`].
    pub close: f64,
    /// Median and 90th percentile of the prediction errors ([`Verdict::error`]). None without
    /// predictions.
    pub errors: Option<[f64; 2]>,
}

impl RegretSummary {
    /// Maximum regret of a choice that counts as close to the best transport.
    pub const CLOSE: f64 = 1.15;

    /// Summarizes the verdicts on a chooser. None if there are no verdicts.
    #[must_use]
    pub fn of<'v>(verdicts: impl IntoIterator<Item = &'v Verdict>) -> Option<Self> {
        let mut regrets = Vec::new();
        let mut errors = Vec::new();
        let (mut cut_off, mut failed, mut close) = (0, 0, 0);
        for verdict in verdicts {
            match verdict.time {
                RunTime::Measured(_) => {}
                RunTime::AtLeast(_) => cut_off += 1,
                RunTime::Failed => failed += 1,
            }
            // A failed choice is never close, however slow the best was.
            let is_close = verdict.regret <= Self::CLOSE;
            close += usize::from(is_close && matches!(verdict.time, RunTime::Measured(_)));
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

    /// Returns whether some regrets are lower bounds only.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.cut_off + self.failed > 0
    }
}

/// Returns the quantile `share` of sorted values by the nearest-rank method.
pub(super) fn nearest_rank(sorted: &[f64], share: f64) -> Option<f64> {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

impl<'a> Verdicts<'a> {
    /// Returns the cells of `part`, or all cells if it is `None`.
    pub fn of_part(
        &self,
        part: Option<Part>,
    ) -> impl Iterator<Item = &(&'a CellTimes<'a>, Conditions<'a>, Vec<Verdict>)> {
        (self.cells.iter())
            .filter(move |(contest, ..)| part.is_none_or(|part| contest.part() == part))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{contest::tests::record, contests};
    use super::*;

    #[test]
    fn regret_is_the_time_over_the_best() {
        let records = [
            record(10.0, "tcp", 0, RunTime::Measured(100.0)),
            record(10.0, "rudp", 0, RunTime::Measured(50.0)),
            record(10.0, "auto", 0, RunTime::Measured(40.0)),
            record(20.0, "tcp", 0, RunTime::AtLeast(10_000.0)),
            record(20.0, "rudp", 0, RunTime::Measured(100.0)),
            record(20.0, "auto", 0, RunTime::Measured(110.0)),
            record(30.0, "tcp", 0, RunTime::Measured(200.0)),
            record(30.0, "rudp", 0, RunTime::Failed),
            record(30.0, "auto", 0, RunTime::Measured(210.0)),
            // No transport of this cell was measured, so the cell is left out.
            record(40.0, "tcp", 0, RunTime::Failed),
            record(40.0, "rudp", 0, RunTime::Failed),
        ];
        let contests = contests(&records);
        let choosers = ["tcp", "rudp", "auto"].map(Judged::always);
        let verdicts = judge(&contests, &choosers, &Workloads::default());
        assert_eq!(verdicts.choosers, ["always tcp", "always rudp", "auto"]);
        assert_eq!(verdicts.cells.len(), 3);
        let regrets = |chooser: usize| -> Vec<f64> {
            (verdicts.cells.iter())
                .map(|(.., verdicts)| verdicts[chooser].regret)
                .collect()
        };
        assert_eq!(regrets(0), [2.0, 100.0, 1.0]);
        assert_eq!(regrets(1), [1.0, 1.0, 300.0]);
        // A choice that is faster than all candidates has a regret of 1.
        assert_eq!(regrets(2), [1.0, 1.1, 1.05]);
        // The error of a prediction is relative to the measured time.
        let predicting = |transport: &str| Picked {
            transport: transport.to_owned(),
            predicted_ms: Some(50.0),
        };
        let off = |place: usize, transport: &str| {
            verdict(&contests[place], Some(predicting(transport))).error
        };
        assert_eq!(off(0, "tcp"), Some(0.5));
        assert_eq!(off(1, "rudp"), Some(0.5));
        assert_eq!((off(1, "tcp"), off(2, "rudp")), (None, None));

        let summary = |chooser: usize| {
            RegretSummary::of(
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
        assert_eq!(tcp.errors, None);
    }

    #[test]
    fn ranks_are_the_nearest() {
        let verdicts: Vec<_> = (1..=20)
            .map(|regret| Verdict {
                chosen: Some("tcp".to_owned()),
                time: RunTime::Measured(1.0),
                regret: f64::from(regret),
                error: None,
            })
            .collect();
        let summary = RegretSummary::of(&verdicts).unwrap();
        assert_eq!((summary.median, summary.percentile_95), (10.0, 19.0));
        assert_eq!((summary.mean, summary.worst), (10.5, 20.0));
        assert_eq!(RegretSummary::of(&[]), None);
    }

    #[test]
    fn no_answer_is_a_failure() {
        let records = [record(10.0, "tcp", 0, RunTime::Measured(120_000.0))];
        let contests = contests(&records);
        let choosers = [Judged::rule(), Judged::always("quic")];
        let verdicts = judge(&contests, &choosers, &Workloads::default());
        let summary = RegretSummary::of(&verdicts.cells[0].2).unwrap();
        // The best transport took two minutes, longer than `FAILED_MS`. Still, a failed choice is
        // not close to it.
        assert_eq!(
            (summary.failed, summary.close, summary.worst),
            (2, 0.0, 1.0)
        );
    }
}
