//! Makes tables of the regrets of choosers.

use super::{
    CellTimes, Part, RegretSummary, RunTime, Verdict, Verdicts, bootstrap::interval_of_mean,
    cell_kind::queue, cell_kinds,
};
use crate::report::{Table, number};

/// Makes the table of the regret of every chooser over the cells of `part`, or over all cells.
#[must_use]
pub fn overall(verdicts: &Verdicts<'_>, part: Option<Part>) -> Table {
    let which = part.map_or("all", Part::name);
    let mut table = Table::new(
        &format!("Regret over {which} cells: time of the choice over time of the best"),
        [
            "chooser",
            "cells",
            "cut off",
            "failed",
            "mean",
            "its 95 % interval",
            "median",
            "95 %",
            "worst",
            "≤ 1.15",
            "predictions off, median",
            "90 %",
        ],
    );
    for (index, name) in verdicts.choosers.iter().enumerate() {
        let cells = verdicts.of_part(part);
        let Some(summary) = RegretSummary::of(cells.map(|(.., verdicts)| &verdicts[index])) else {
            continue;
        };
        let at_least = |value| marked(value, &summary);
        let [error, error_90] = match summary.errors {
            Some(errors) => errors.map(share),
            None => [String::new(), String::new()],
        };
        table.push([
            name.clone(),
            summary.cells.to_string(),
            summary.cut_off.to_string(),
            summary.failed.to_string(),
            at_least(summary.mean),
            interval(summary.mean_interval),
            decimals(summary.median),
            at_least(summary.percentile_95),
            at_least(summary.worst),
            share(summary.close),
            error,
            error_90,
        ]);
    }
    table
}

/// Makes the table of the mean difference, over cells, between the regret of every chooser and the
/// regret of one reference chooser.
#[must_use]
pub fn differences(verdicts: &Verdicts<'_>, part: Option<Part>, baseline: &str) -> Table {
    let which = part.map_or("all", Part::name);
    let title = format!("Regret minus that of {baseline}, {which} cells");
    let mut table = Table::new(&title, ["chooser", "cells", "mean", "its 95 % interval"]);
    let Some(place) = (verdicts.choosers.iter()).position(|name| name == baseline) else {
        return table;
    };
    for (index, name) in verdicts.choosers.iter().enumerate() {
        let differences: Vec<f64> = (verdicts.of_part(part))
            .map(|(.., verdicts)| verdicts[index].regret - verdicts[place].regret)
            .collect();
        if index == place || differences.is_empty() {
            continue;
        }
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        table.push([
            name.clone(),
            differences.len().to_string(),
            format!("{mean:+.3}"),
            interval(interval_of_mean(&differences)),
        ]);
    }
    table
}

/// Makes the table of the mean regret and the 95th percentile of every chooser, by kind of cell.
#[must_use]
pub fn by_cell_kind(verdicts: &Verdicts<'_>, part: Option<Part>) -> Table {
    let which = part.map_or("all", Part::name);
    let headers = ["kind of cell", "cells"]
        .into_iter()
        .chain(verdicts.choosers.iter().map(String::as_str));
    let mut table = Table::new(
        &format!("Regret by kind of cell, {which} cells: mean, and what 95 % do not exceed"),
        headers,
    );
    for kind in cell_kinds() {
        let summaries: Vec<_> = (0..verdicts.choosers.len())
            .map(|index| {
                let cells = verdicts.of_part(part);
                let held = cells.filter(|(_, conditions, _)| kind.holds(conditions));
                RegretSummary::of(held.map(|(.., verdicts)| &verdicts[index]))
            })
            .collect();
        let Some(Some(first)) = summaries.first() else {
            continue;
        };
        let lead = [kind.name.to_owned(), first.cells.to_string()];
        let regrets = summaries.iter().map(|summary| match summary {
            Some(summary) => format!(
                "{}, {}",
                marked(summary.mean, summary),
                decimals(summary.percentile_95)
            ),
            None => String::new(),
        });
        table.push(lead.into_iter().chain(regrets));
    }
    table
}

/// Makes the table of the number of cells in which each candidate was the best, by kind of cell.
#[must_use]
pub fn winners(verdicts: &Verdicts<'_>, part: Option<Part>) -> Table {
    let which = part.map_or("all", Part::name);
    let candidates = candidates(verdicts);
    let headers = ["kind of cell", "cells"]
        .into_iter()
        .chain(candidates.iter().copied());
    let title = format!("Cells in which a transport was the quickest, {which} cells");
    let mut table = Table::new(&title, headers);
    let mut push = |name: &str, holds: &dyn Fn(&super::Conditions<'_>) -> bool| {
        let cells: Vec<_> = (verdicts.of_part(part))
            .filter(|(_, conditions, _)| holds(conditions))
            .filter_map(|(contest, ..)| contest.best(None))
            .collect();
        if cells.is_empty() {
            return;
        }
        let counts = candidates.iter().map(|&candidate| {
            let won = cells.iter().filter(|(name, _)| *name == candidate).count();
            won.to_string()
        });
        table.push(
            [name.to_owned(), cells.len().to_string()]
                .into_iter()
                .chain(counts),
        );
    };
    push("all", &|_| true);
    for kind in cell_kinds() {
        push(kind.name, &|conditions| kind.holds(conditions));
    }
    table
}

/// Makes the table of all regrets by kind of cell, part and chooser, for processing by programs.
#[must_use]
pub fn regrets(verdicts: &Verdicts<'_>) -> Table {
    let headers = [
        "part",
        "dimension",
        "kind",
        "chooser",
        "cells",
        "cut_off",
        "failed",
        "mean",
        "median",
        "p95",
        "worst",
        "share_close",
    ];
    let mut table = Table::new("Regret by part, kind of cell and chooser", headers);
    for part in [None, Some(Part::Fit), Some(Part::Unseen)] {
        for kind in std::iter::once(None).chain(cell_kinds().iter().map(Some)) {
            for (index, chooser) in verdicts.choosers.iter().enumerate() {
                let held = (verdicts.of_part(part))
                    .filter(|(_, conditions, _)| kind.is_none_or(|kind| kind.holds(conditions)));
                let Some(summary) = RegretSummary::of(held.map(|(.., verdicts)| &verdicts[index]))
                else {
                    continue;
                };
                table.push([
                    part.map_or("all", Part::name).to_owned(),
                    kind.map_or("all", |kind| kind.dimension).to_owned(),
                    kind.map_or("all", |kind| kind.name).to_owned(),
                    chooser.clone(),
                    summary.cells.to_string(),
                    summary.cut_off.to_string(),
                    summary.failed.to_string(),
                    format!("{:.4}", summary.mean),
                    format!("{:.4}", summary.median),
                    format!("{:.4}", summary.percentile_95),
                    format!("{:.4}", summary.worst),
                    format!("{:.4}", summary.close),
                ]);
            }
        }
    }
    table
}

/// Makes the table of every cell with its conditions, times and regrets, for processing by
/// programs.
#[must_use]
pub fn cells(verdicts: &Verdicts<'_>) -> Table {
    let candidates = candidates(verdicts);
    let mut headers: Vec<String> = [
        "cell",
        "part",
        "circuit",
        "batch",
        "and_gates",
        "payload_up_bytes",
        "payload_down_bytes",
        "rtt_ms",
        "loss",
        "rate_mbit",
        "queue_products",
        "udp_blocked",
        "cross_flows",
        "best",
        "best_ms",
    ]
    .map(str::to_owned)
    .into();
    headers.extend(candidates.iter().map(|name| format!("ms {name}")));
    headers.extend(
        verdicts
            .choosers
            .iter()
            .map(|name| format!("chosen by {name}")),
    );
    headers.extend(
        verdicts
            .choosers
            .iter()
            .map(|name| format!("regret of {name}")),
    );
    headers.extend(
        verdicts
            .choosers
            .iter()
            .map(|name| format!("prediction off of {name}")),
    );
    let mut table = Table::new("Cells", headers.iter().map(String::as_str));
    for (contest, conditions, verdicts) in &verdicts.cells {
        let scenario = conditions.scenario;
        let (best, best_ms) = contest.best(None).unwrap_or(("", f64::NAN));
        let cross = scenario.cross_traffic.as_ref();
        let mut record = vec![
            scenario.name.clone(),
            contest.part().name().to_owned(),
            conditions.circuit.to_owned(),
            conditions.batch.to_string(),
            conditions.and_gates.to_string(),
            conditions.payload_up_bytes.to_string(),
            conditions.payload_down_bytes.to_string(),
            scenario.rtt_ms().to_string(),
            scenario.up.loss.to_string(),
            (scenario.up.rate_mbit).map_or(String::new(), |rate| rate.to_string()),
            format!("{:.2}", queue(conditions)),
            scenario.blocks_udp().to_string(),
            cross.map_or(0, |cross| cross.flows).to_string(),
            best.to_owned(),
            format!("{best_ms:.1}"),
        ];
        record.extend(candidates.iter().map(|name| time(contest, name)));
        record.extend(
            verdicts
                .iter()
                .map(|verdict| verdict.chosen.clone().unwrap_or_default()),
        );
        record.extend(verdicts.iter().map(regret));
        record.extend(verdicts.iter().map(|verdict| {
            let error = verdict.error.map(|error| format!("{error:.4}"));
            error.unwrap_or_default()
        }));
        table.push(record);
    }
    table
}

/// Returns all candidates, in order of first appearance.
fn candidates<'a>(verdicts: &Verdicts<'a>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (contest, ..) in &verdicts.cells {
        for name in contest.candidates() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn time(contest: &CellTimes<'_>, transport: &str) -> String {
    match contest.time(transport) {
        Some(RunTime::Measured(ms)) => format!("{ms:.1}"),
        Some(RunTime::AtLeast(ms)) => format!(">{ms:.1}"),
        Some(RunTime::Failed) => "failed".to_owned(),
        None => String::new(),
    }
}

fn regret(verdict: &Verdict) -> String {
    let bound = if matches!(verdict.time, RunTime::Measured(_)) {
        ""
    } else {
        ">"
    };
    format!("{bound}{:.4}", verdict.regret)
}

/// Formats a regret with a fixed number of decimals, so that regrets are easy to compare.
fn decimals(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else {
        number(value)
    }
}

fn interval(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(String::new, |(low, high)| format!("{low:.3} to {high:.3}"))
}

/// Formats a regret, with a mark if it is a lower bound.
fn marked(value: f64, summary: &RegretSummary) -> String {
    let bound = if summary.is_bound() { "≥ " } else { "" };
    format!("{bound}{}", decimals(value))
}

fn share(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::{Judged, Workloads, contest::tests::record, contests, judge};
    use super::*;

    #[test]
    fn tables_have_what_was_judged() {
        let mut records = vec![
            record(10.0, "tcp", 0, RunTime::Measured(100.0)),
            record(10.0, "rudp", 0, RunTime::Measured(50.0)),
            record(200.0, "tcp", 0, RunTime::AtLeast(10_000.0)),
            record(200.0, "rudp", 0, RunTime::Measured(100.0)),
        ];
        for record in &mut records[2..] {
            record.scenario.up.loss = 0.02;
        }
        let contests = contests(&records);
        let verdicts = judge(
            &contests,
            &["tcp", "rudp"].map(Judged::always),
            &Workloads::default(),
        );
        assert_eq!(
            overall(&verdicts, None).csv(),
            "chooser,cells,cut off,failed,mean,its 95 % interval,median,95 %,worst,≤ 1.15,\"predictions off, median\",90 %\r\n\
             always tcp,2,1,0,≥ 51.0,2.000 to 100.000,2.00,≥ 100,≥ 100,0 %,,\r\n\
             always rudp,2,0,0,1.00,1.000 to 1.000,1.00,1.00,1.00,100 %,,\r\n"
        );
        assert_eq!(
            differences(&verdicts, None, "always rudp").csv(),
            "chooser,cells,mean,its 95 % interval\r\nalways tcp,2,+50.000,1.000 to 99.000\r\n"
        );
        assert!(differences(&verdicts, None, "nobody").is_empty());
        let cell_kinds = by_cell_kind(&verdicts, None).csv();
        assert!(
            cell_kinds.contains("loss from 1 %,1,\"≥ 100, 100\",\"1.00, 1.00\"\r\n"),
            "{cell_kinds}"
        );
        assert!(!cell_kinds.contains("UDP blocked"), "{cell_kinds}");
        let winners = winners(&verdicts, None).csv();
        assert!(
            winners.starts_with("kind of cell,cells,tcp,rudp\r\nall,2,0,2\r\n"),
            "{winners}"
        );
        let cells = cells(&verdicts).csv();
        assert_eq!(cells.lines().count(), 3);
        assert!(
            cells.contains(",rudp,100.0,>10000.0,100.0,tcp,rudp,>100.0000,1.0000,,"),
            "{cells}"
        );
        let regrets = regrets(&verdicts).csv();
        let line =
            "all,loss,loss from 1 %,always tcp,1,1,0,100.0000,100.0000,100.0000,100.0000,0.0000";
        assert!(regrets.contains(line), "{regrets}");
        // Every cell is in one part, and there are no other parts.
        let count = |part| verdicts.of_part(Some(part)).count();
        assert_eq!(count(Part::Fit) + count(Part::Unseen), 2);
    }
}
