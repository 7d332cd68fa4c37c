//! Charts of a quantity against one condition of the path, with all other conditions equal.

use super::{
    CellRecords,
    cells::key,
    chart::{Axis, Figure, Panel, Point, Scale, Series, SeriesStyle},
    tables::{MIB, cpu},
};
use crate::record::{Measured, RunRecord};

/// A condition that a sweep varies.
#[derive(Clone, Copy)]
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    label: &'static str,
    value: fn(&RunRecord) -> Option<f64>,
    /// Resets the varied condition in a record. Records that differ only in this condition become
    /// equal.
    without: fn(&mut RunRecord),
    /// The names of the properties ([`CellRecords::facets`]) that show the varied condition.
    shown_by: &'static [&'static str],
}

/// The conditions that are known to affect run time: Transputation (2020), section 6.1, and von
/// Maltitz and Carle, section V-B.
pub(super) const VARIABLES: [Variable; 5] = [
    Variable {
        name: "rtt",
        title: "round-trip time",
        label: "round-trip time (ms)",
        value: |record| Some(record.scenario.rtt_ms()),
        without: |record| {
            record.scenario.up.delay_ms = 0.0;
            record.scenario.down.delay_ms = 0.0;
        },
        // The default queue limit depends on the round-trip time.
        shown_by: &["rtt", "queue"],
    },
    Variable {
        name: "loss",
        title: "packet loss",
        label: "probability of loss, each way",
        value: |record| Some(record.scenario.up.loss),
        without: |record| {
            record.scenario.up.loss = 0.0;
            record.scenario.down.loss = 0.0;
        },
        shown_by: &["loss"],
    },
    Variable {
        name: "rate",
        title: "bottleneck rate",
        label: "bottleneck rate (Mbit/s)",
        value: |record| record.scenario.up.rate_mbit,
        without: |record| {
            record.scenario.up.rate_mbit = None;
            record.scenario.down.rate_mbit = None;
        },
        shown_by: &["rate", "queue"],
    },
    Variable {
        name: "batch",
        title: "batch size",
        label: "evaluations in a run",
        value: |record| Some(record.batch as f64),
        without: |record| record.batch = 0,
        shown_by: &["batch"],
    },
    Variable {
        name: "size",
        title: "circuit size",
        label: "AND gates",
        // Circuits of one family differ only in size: `min-of-candidates:25x20` and `...:250x20`.
        value: |record| {
            let parameterised = record.circuit.contains(':');
            let gates = record.measured.as_ref()?.and_gates?;
            parameterised.then_some(gates as f64)
        },
        without: |record| record.circuit = family(&record.circuit).to_owned(),
        shown_by: &["size"],
    },
];

/// Returns the name of a built-in circuit without its parameters.
fn family(circuit: &str) -> &str {
    circuit.split(':').next().unwrap_or(circuit)
}

/// A measured quantity on the vertical axis of a chart.
#[derive(Clone, Copy)]
struct Quantity {
    title: &'static str,
    label: &'static str,
    of: fn(&Measured, u64) -> Option<f64>,
}

/// The resources that charts show. Duration, cycles, heap and bytes are those of Figures 1 to 13 of
/// von Maltitz and Carle. Every machine also reports processor time and resident memory.
const RESOURCES: [Quantity; 6] = [
    Quantity {
        title: "Duration",
        label: "run time per evaluation (ms)",
        of: |measured, batch| Some(measured.runtime_ms / batch as f64),
    },
    Quantity {
        title: "Processor time",
        label: "processor time of both parties (s)",
        of: |measured, _| Some(cpu(&measured.garbler) + cpu(&measured.evaluator)),
    },
    Quantity {
        title: CYCLES,
        label: "cycles of both parties (10^9)",
        of: |measured, _| {
            let [garbler, evaluator] = [measured.garbler.cycles?, measured.evaluator.cycles?];
            Some((garbler as f64 + evaluator as f64) / 1e9)
        },
    },
    Quantity {
        title: "Heap",
        label: "peak heap, larger party (MiB)",
        of: |measured, _| {
            let [garbler, evaluator] = [&measured.garbler, &measured.evaluator];
            let most = garbler.peak_heap_bytes?.max(evaluator.peak_heap_bytes?);
            Some(most as f64 / MIB)
        },
    },
    Quantity {
        title: "Resident memory",
        label: "peak resident memory, larger party (MiB)",
        of: |measured, _| {
            let [garbler, evaluator] = [&measured.garbler, &measured.evaluator];
            Some(garbler.peak_rss_bytes.max(evaluator.peak_rss_bytes) as f64 / MIB)
        },
    },
    Quantity {
        title: "Traffic",
        label: "bytes on the wire, both ways (MB)",
        of: |measured, _| Some((measured.wire_up_bytes + measured.wire_down_bytes) as f64 / 1e6),
    },
];

/// The title of the panel of processor cycles, which not all machines can count.
const CYCLES: &str = "Cycles";

/// A line of a chart: cells that differ only in the varied condition, sorted by its value.
struct Line<'a> {
    cells: Vec<(f64, CellRecords<'a>)>,
    /// The circuit, or the family of circuits if the size of the circuit is varied.
    circuit: String,
    name: String,
}

/// Draws the run time against a varied condition. Each circuit has a panel. Each panel also shows
/// the limit ([`PathLimit`](crate::record::PathLimit)), which is the same for all transports. None
/// if no records vary the condition.
pub(super) fn runtimes(cells: &[CellRecords<'_>], variable: &Variable) -> Option<Figure> {
    let lines = lines(cells, variable);
    let mut circuits: Vec<&str> = Vec::new();
    for line in &lines {
        let circuit = line.circuit.as_str();
        if !circuits.contains(&circuit) {
            circuits.push(circuit);
        }
    }
    let panels = circuits.iter().map(|circuit| {
        let of_circuit: Vec<&Line<'_>> = (lines.iter())
            .filter(|line| line.circuit.as_str() == *circuit)
            .collect();
        let mut series: Vec<Series> = (of_circuit.iter())
            .map(|line| measured(line, &|measured, _| Some(measured.runtime_ms)))
            .collect();
        let mut limits: Vec<Series> = Vec::new();
        for line in &of_circuit {
            let name = format!("limit, {}", line.cells[0].1.conditions().scheme);
            let points: Vec<_> = (line.cells.iter())
                .filter_map(|(x, cell)| {
                    let limit = cell.samples(|measured| measured.limit.limit_ms).mean()?;
                    Some(Point::at(*x, limit))
                })
                .collect();
            // A scheme can have several limits if other conditions differ. Only the lowest one
            // is drawn.
            if !limits.iter().any(|limit| limit.name == name) {
                limits.push(Series {
                    name,
                    look: SeriesStyle::Dashed,
                    points,
                });
            }
        }
        series.extend(limits);
        Panel {
            title: (*circuit).to_owned(),
            x: Axis::new(variable.label, Scale::Log),
            y: Axis::new("run time (ms)", Scale::Log),
            series,
        }
    });
    let figure = Figure {
        title: format!("Run time against {}", variable.title),
        note: "from both parties being connected to the output; mean and standard deviation; \
               limit: round trips of the protocol and transfer at full rate"
            .to_owned(),
        panels: panels.collect(),
    };
    (!figure.is_empty()).then_some(figure)
}

/// Draws the resources of runs against a varied condition. Each resource has a panel. None if no
/// records vary the condition.
pub(super) fn resources(cells: &[CellRecords<'_>], variable: &Variable) -> Option<Figure> {
    let mut lines = lines(cells, variable);
    for line in &mut lines {
        line.name = format!("{}, {}", line.circuit, line.name);
    }
    let mut panels = RESOURCES
        .map(|quantity| Panel {
            title: quantity.title.to_owned(),
            x: Axis::new(variable.label, Scale::Log),
            y: Axis::new(quantity.label, Scale::Log),
            series: lines
                .iter()
                .map(|line| measured(line, &quantity.of))
                .collect(),
        })
        .to_vec();
    panels.retain(|panel| panel.series.iter().any(|series| !series.points.is_empty()));
    let mut note = "whole processes; bytes with headers and retransmissions; mean and standard \
                    deviation"
        .to_owned();
    if !panels.iter().any(|panel| panel.title == CYCLES) {
        note.push_str("; no cycles: no hardware counters");
    }
    let figure = Figure {
        title: format!("Resources against {}", variable.title),
        note,
        panels,
    };
    (!figure.is_empty()).then_some(figure)
}

fn measured(line: &Line<'_>, quantity: &dyn Fn(&Measured, u64) -> Option<f64>) -> Series {
    let points = line.cells.iter().filter_map(|(x, cell)| {
        let batch = cell.conditions().batch;
        let samples = cell.some_samples(|measured| quantity(measured, batch));
        Some(Point {
            x: *x,
            y: samples.mean()?,
            error: samples.deviation().unwrap_or(0.0),
        })
    });
    Series {
        name: line.name.clone(),
        look: SeriesStyle::Line,
        points: points.collect(),
    }
}

/// Groups cells into lines. The cells of a line differ only in the varied condition, of which it
/// has at least two values.
fn lines<'a>(cells: &[CellRecords<'a>], variable: &Variable) -> Vec<Line<'a>> {
    let mut groups: Vec<(String, Line<'a>)> = Vec::new();
    for cell in cells {
        let record = cell.conditions();
        let Some(value) = (variable.value)(record) else {
            continue;
        };
        if cell.samples(|measured| measured.runtime_ms).is_empty() {
            continue;
        }
        let mut record = record.clone();
        (variable.without)(&mut record);
        record.scenario.name.clear();
        let key = key(&record, &record.scenario);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            // Scenarios with different names may have the same conditions. Only the first is drawn.
            Some((_, line)) if line.cells.iter().any(|(known, _)| *known == value) => {}
            Some((_, line)) => line.cells.push((value, cell.clone())),
            None => {
                let line = Line {
                    cells: vec![(value, cell.clone())],
                    circuit: record.circuit,
                    name: String::new(),
                };
                groups.push((key, line));
            }
        }
    }
    let mut lines: Vec<Line<'a>> = (groups.into_iter())
        .map(|(_, line)| line)
        .filter(|line| line.cells.len() > 1)
        .collect();
    for line in &mut lines {
        (line.cells).sort_by(|(one, _), (other, _)| one.total_cmp(other));
    }
    let facets: Vec<_> = lines.iter().map(|line| line.cells[0].1.facets()).collect();
    for (line, own) in lines.iter_mut().zip(&facets) {
        let parts = own.iter().enumerate().filter(|(place, (name, value))| {
            let differs = facets.iter().any(|other| other[*place].1 != *value);
            *name == "transport"
                || (differs
                    && !["circuit", "scenario"].contains(name)
                    && !variable.shown_by.contains(name))
        });
        let texts: Vec<&str> = parts.map(|(_, (_, value))| value.as_str()).collect();
        line.name = texts.join(", ");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    fn variable(name: &str) -> &'static Variable {
        VARIABLES
            .iter()
            .find(|variable| variable.name == name)
            .unwrap()
    }

    #[test]
    fn lines_join_what_differs_in_the_variable_alone() {
        let mut records = vec![
            record("aes128", "eu-aus", 300.0),
            record("aes128", "eu-us", 110.0),
            record("aes128", "eu-us", 130.0),
            // This scenario has another rate, 10 Gbit/s, so it is not part of the line.
            record("aes128", "lan", 3.0),
            record("sha256", "eu-us", 150.0),
        ];
        records.push(record("aes128", "eu-aus", 5.0));
        records[5].transport = "quic".to_owned();
        let figure = runtimes(&CellRecords::group(&records), variable("rtt")).unwrap();
        assert_eq!(figure.panels.len(), 1);
        let panel = &figure.panels[0];
        let names: Vec<_> = panel
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(
            (panel.title.as_str(), names),
            ("aes128", vec!["tcp", "limit, half-gates"])
        );
        let points: Vec<_> = (panel.series[0].points.iter())
            .map(|point| (point.x, point.y))
            .collect();
        assert_eq!(points, [(110.0, 120.0), (300.0, 300.0)]);
        assert!((panel.series[0].points[0].error - 200f64.sqrt()).abs() < 1e-9);
        assert_eq!(panel.series[1].points[0], Point::at(110.0, 118.0));
    }

    #[test]
    fn loss_and_rate_and_batch_are_swept() {
        let base = || record("aes128", "eu-us", 100.0);
        let mut lossy = base();
        lossy.scenario = lossy.scenario.with_loss(0.01);
        let mut slow = base();
        slow.scenario = slow.scenario.with_rate_mbit(10.0);
        let mut batch = base();
        batch.batch = 100;
        for (name, other) in [("loss", lossy), ("rate", slow), ("batch", batch)] {
            let records = [base(), other];
            let cells = CellRecords::group(&records);
            for other in VARIABLES {
                let drawn = runtimes(&cells, &other).is_some();
                assert_eq!(
                    drawn,
                    other.name == name,
                    "{} in a sweep of {name}",
                    other.name
                );
            }
            let resources = resources(&cells, variable(name)).unwrap();
            assert_eq!(resources.panels.len(), 5);
            assert!((resources.panels.iter()).all(|panel| panel.series[0].points.len() == 2));
        }
    }

    #[test]
    fn circuits_of_one_family_are_a_sweep_of_size() {
        let sized = |parameters: &str, gates, runtime_ms| {
            let mut record = record(&format!("sort:{parameters}"), "eu-us", runtime_ms);
            record.measured.as_mut().unwrap().and_gates = Some(gates);
            record
        };
        let records = [
            sized("100", 9000, 90.0),
            sized("10", 300, 30.0),
            record("aes128", "eu-us", 110.0),
        ];
        let figure = runtimes(&CellRecords::group(&records), variable("size")).unwrap();
        let panel = &figure.panels[0];
        assert_eq!((figure.panels.len(), panel.title.as_str()), (1, "sort"));
        let points: Vec<_> = (panel.series[0].points.iter())
            .map(|point| (point.x, point.y))
            .collect();
        assert_eq!(points, [(300.0, 30.0), (9000.0, 90.0)]);
    }

    #[test]
    fn what_was_not_counted_has_no_panel() {
        let mut records = [
            record("aes128", "eu-us", 1.0),
            record("aes128", "eu-aus", 1.0),
        ];
        let draw = |records: &[RunRecord]| {
            resources(&CellRecords::group(records), variable("rtt")).unwrap()
        };
        let figure = draw(&records);
        assert!(
            figure.note.ends_with("no hardware counters"),
            "{}",
            figure.note
        );
        for record in &mut records {
            let measured = record.measured.as_mut().unwrap();
            measured.garbler.cycles = Some(2_000_000_000);
            measured.evaluator.cycles = Some(1_000_000_000);
            measured.garbler.peak_heap_bytes = None;
        }
        let figure = draw(&records);
        let titles: Vec<_> = (figure.panels.iter())
            .map(|panel| panel.title.as_str())
            .collect();
        assert_eq!(
            titles,
            [
                "Duration",
                "Processor time",
                "Cycles",
                "Resident memory",
                "Traffic"
            ]
        );
        assert_eq!(figure.panels[2].series[0].points[0].y, 3.0);
        assert!(!figure.note.contains("hardware"), "{}", figure.note);
    }

    #[test]
    fn lines_are_named_after_what_tells_them_apart() {
        let mut records = Vec::new();
        for congestion_control in ["cubic", "bbr"] {
            for scenario in ["eu-us", "eu-aus"] {
                let mut record = record("aes128", scenario, 100.0);
                record.environment.congestion_control = congestion_control.to_owned();
                records.push(record);
            }
        }
        let cells = CellRecords::group(&records);
        let names: Vec<_> = lines(&cells, variable("rtt"))
            .into_iter()
            .map(|line| line.name)
            .collect();
        assert_eq!(names, ["tcp, cubic", "tcp, bbr"]);
    }
}
