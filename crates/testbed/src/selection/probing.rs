//! Computes the errors of the predictions of `auto`, and the time that it spends on measuring the
//! path.

use super::{AUTO, CellTimes, Part, RunTime, Verdicts, judge::nearest_rank};
use crate::{record::Measured, report::Table};
use transpute_select::Spec;

/// The prediction error and the costs of choosing in one run of `auto`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Probing {
    /// Absolute difference of predicted and measured total time, divided by the measured one.
    error: f64,
    /// Time until the choice minus the set-up time of the chosen transport, as a fraction of the
    /// total time.
    waited: f64,
    /// The same time as `waited`, as a multiple of the round-trip time.
    waited_round_trips: f64,
    /// Total time divided by the total time of runs whose command line named the same transport.
    /// None if there are no such runs.
    beside_named: Option<f64>,
}

/// Makes the table of the prediction errors of `auto` and of the cost of choosing, by number of AND
/// gates. It is empty without runs of `auto`.
#[must_use]
pub fn probing(verdicts: &Verdicts<'_>, part: Option<Part>) -> Table {
    let which = part.map_or("all", Part::name);
    let mut table = Table::new(
        &format!("Runs of auto in {which} cells: its predictions, and what choosing took"),
        [
            "work",
            "runs",
            "error, median",
            "90 %",
            "waited beyond the set-up, mean",
            "worst",
            "in round trips, worst",
            "over the same by name, median",
            "90 %",
        ],
    );
    for (name, sizes) in [
        ("all", 0..u64::MAX),
        ("AND below 10^4", 0..10_000),
        ("AND 10^4 to 10^5", 10_000..100_000),
        ("AND 10^5 to 10^6", 100_000..1_000_000),
        ("AND from 10^6", 1_000_000..u64::MAX),
    ] {
        let runs: Vec<Probing> = (verdicts.of_part(part))
            .filter(|(_, conditions, _)| sizes.contains(&conditions.and_gates))
            .flat_map(|(contest, conditions, _)| {
                let rtt_ms = conditions.scenario.rtt_ms();
                (contest.measured_runs(AUTO))
                    .filter_map(move |measured| Probing::of(contest, measured, rtt_ms))
            })
            .collect();
        if runs.is_empty() {
            continue;
        }
        let sorted = |value: &dyn Fn(&Probing) -> Option<f64>| {
            let mut values: Vec<f64> = runs.iter().filter_map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let percent =
            |value: Option<f64>| value.map_or(String::new(), |v| format!("{:.1} %", v * 100.0));
        let plain = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.2}"));
        let errors = sorted(&|run| Some(run.error));
        let waited = sorted(&|run| Some(run.waited));
        let round_trips = sorted(&|run| Some(run.waited_round_trips));
        let beside = sorted(&|run| run.beside_named);
        table.push([
            name.to_owned(),
            runs.len().to_string(),
            percent(nearest_rank(&errors, 0.5)),
            percent(nearest_rank(&errors, 0.9)),
            percent(Some(waited.iter().sum::<f64>() / waited.len() as f64)),
            percent(waited.last().copied()),
            plain(round_trips.last().copied()),
            plain(nearest_rank(&beside, 0.5)),
            plain(nearest_rank(&beside, 0.9)),
        ]);
    }
    table
}

impl Probing {
    fn of(contest: &CellTimes<'_>, measured: &Measured, rtt_ms: f64) -> Option<Self> {
        let (chosen, selection) = (measured.chosen.as_deref()?, measured.selection.as_ref()?);
        let total_ms = measured.total_ms;
        let predicted_ms = selection.predicted_s * 1e3;
        let waited_ms = (selection.decided_after_ms - set_up(chosen) * rtt_ms).max(0.0);
        // `auto` reports TCP with the kernel's default congestion control as `tcp`. Records of TCP
        // may name the congestion control.
        let named = match contest.time(chosen) {
            None => contest.time(&with_default(chosen, contest)),
            found => found,
        };
        Some(Self {
            error: (predicted_ms - total_ms).abs() / total_ms,
            waited: waited_ms / total_ms,
            waited_round_trips: waited_ms / rtt_ms,
            beside_named: match named {
                Some(RunTime::Measured(ms)) => Some(total_ms / ms),
                _ => None,
            },
        })
    }
}

/// Returns the number of round trips of the set-up of a transport (docs/protocol.md). A choice that
/// takes no longer than this set-up does not delay the run.
fn set_up(transport: &str) -> f64 {
    let spec = transport.parse::<Spec>().ok();
    let profile = spec.as_ref().and_then(Spec::profile);
    profile.map_or(2.0, |profile| f64::from(profile.setup_round_trips))
}

fn with_default(transport: &str, contest: &CellTimes<'_>) -> String {
    let default = (contest.conditions())
        .map(|conditions| conditions.environment.congestion_control.clone())
        .unwrap_or_default();
    format!("{transport}:cc={default}")
}

#[cfg(test)]
mod tests {
    use super::super::{Workloads, contest::tests::record, contests, judge};
    use super::*;
    use crate::record::SelectionRecord;

    #[test]
    fn predictions_and_waiting_are_told_apart_by_size() {
        let mut records = vec![
            record(100.0, "quic", 0, RunTime::Measured(400.0)),
            record(100.0, "rudp", 0, RunTime::Measured(500.0)),
            record(100.0, "auto", 0, RunTime::Measured(500.0)),
        ];
        assert!(
            probing(
                &judge(&contests(&records), &[], &Workloads::default()),
                None
            )
            .is_empty()
        );
        let measured = records[2].measured.as_mut().unwrap();
        measured.chosen = Some("quic".to_owned());
        measured.selection = Some(SelectionRecord {
            chooser: "model".to_owned(),
            reason: String::new(),
            confidence: 1.0,
            predicted_s: 0.4,
            decided_after_ms: 200.0,
            failed: Vec::new(),
        });
        let contests = contests(&records);
        // The prediction was 400 ms. The choice took 200 ms, of which QUIC's set-up needs 100 ms.
        assert_eq!(
            probing(&judge(&contests, &[], &Workloads::default()), None)
                .csv()
                .lines()
                .skip(1)
                .collect::<Vec<_>>(),
            [
                "all,1,20.0 %,20.0 %,20.0 %,20.0 %,1.00,1.25,1.25",
                "AND below 10^4,1,20.0 %,20.0 %,20.0 %,20.0 %,1.00,1.25,1.25"
            ]
        );
    }
}
