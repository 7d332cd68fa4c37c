//! Draws the rate on the path over the time of a run.

use transpute_netem::lab::Timeline;
use transpute_units::Bandwidth;

use super::{
    CellRecords,
    cells::{congestion_control, place_name},
    chart::{Axis, Figure, Panel, Point, Scale, Series, SeriesStyle},
};

/// Maximum number of points per direction. It is about the width of a chart in pixels.
const MAX_POINTS: usize = 400;

/// Maximum number of drawn runs.
const MAX_PANELS: usize = 6;

/// Draws the rate of arriving bytes over the time of a run. Each combination of transport,
/// congestion control and scenario has a panel, which shows the run with the most payload. None if
/// no record has a timeline.
pub(super) fn timelines(cells: &[CellRecords<'_>]) -> Option<Figure> {
    let mut chosen: Vec<(String, u64, Panel)> = Vec::new();
    for cell in cells {
        let record = cell.conditions();
        let Some((measured, timeline)) = cell.timeline() else {
            continue;
        };
        let path = format!(
            "{}, {}, {}",
            place_name(&record.scenario),
            record.transport,
            congestion_control(record)
        );
        let bytes = measured.payload_up_bytes;
        let mut panel = panel(timeline, record.scenario.up.rate_mbit);
        panel.title = format!("{path}: {} {}", record.circuit, record.scheme);
        match chosen.iter_mut().find(|(known, ..)| *known == path) {
            Some(best) if best.1 < bytes => *best = (path, bytes, panel),
            Some(_) => {}
            None => chosen.push((path, bytes, panel)),
        }
    }
    // At most `MAX_PANELS` runs are drawn: those with the most payload, in their original order.
    let mut sizes: Vec<u64> = chosen.iter().map(|(_, bytes, _)| *bytes).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let least = sizes.get(MAX_PANELS - 1).copied().unwrap_or(0);
    let largest = chosen.into_iter().filter(|(_, bytes, _)| *bytes >= least);
    let figure = Figure {
        title: "Use of the path in the course of a run".to_owned(),
        note: "bytes that arrived, with headers and retransmissions; the run with most payload of \
               each path"
            .to_owned(),
        panels: largest.map(|(.., panel)| panel).take(MAX_PANELS).collect(),
    };
    (!figure.is_empty()).then_some(figure)
}

/// Draws a timeline. Intervals of a long run are merged, so that there are at most [`MAX_POINTS`].
fn panel(timeline: &Timeline, rate_mbit: Option<f64>) -> Panel {
    let length = timeline.up.len().max(timeline.down.len());
    let merged = length.div_ceil(MAX_POINTS).max(1);
    let step = Timeline::INTERVAL.as_secs_f64() * merged as f64;
    let trace = |name: &str, bytes: &[u64]| Series {
        name: name.to_owned(),
        look: SeriesStyle::Trace,
        points: (bytes.chunks(merged).enumerate())
            .map(|(number, chunk)| {
                let bytes = chunk.iter().map(|bytes| *bytes as f64).sum::<f64>();
                // The last interval may be shorter, but its rate is computed for a full interval.
                let rate = Bandwidth::from_bytes_per_second(bytes / step);
                Point::at((number as f64 + 0.5) * step, rate.megabits_per_second())
            })
            .collect(),
    };
    let mut series = vec![
        trace("garbler to evaluator", &timeline.up),
        trace("evaluator to garbler", &timeline.down),
    ];
    series.extend(rate_mbit.map(|rate| Series {
        name: "bottleneck".to_owned(),
        look: SeriesStyle::Dashed,
        points: vec![
            Point::at(0.0, rate),
            Point::at(length.div_ceil(merged) as f64 * step, rate),
        ],
    }));
    Panel {
        title: String::new(),
        x: Axis::new("time since the first packet (s)", Scale::Linear),
        y: Axis::new(
            format!("Mbit/s, mean of {:.0} ms", step * 1e3),
            Scale::Linear,
        ),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    #[test]
    fn bytes_become_rates() {
        // A rate of 1.25 MB per 10 ms is 1 Gbit/s.
        let timeline = Timeline {
            up: vec![0, 1_250_000],
            down: vec![125],
        };
        let panel = panel(&timeline, Some(1000.0));
        let [up, down, rate] = &panel.series[..] else {
            panic!("three series")
        };
        assert_eq!(up.points, [Point::at(0.005, 0.0), Point::at(0.015, 1000.0)]);
        assert_eq!(down.points, [Point::at(0.005, 0.1)]);
        assert_eq!(
            rate.points,
            [Point::at(0.0, 1000.0), Point::at(0.02, 1000.0)]
        );
    }

    #[test]
    fn long_runs_keep_their_bytes_in_fewer_points() {
        let timeline = Timeline {
            up: vec![1000; 360_000],
            down: vec![],
        };
        let points = &panel(&timeline, None).series[0].points;
        assert_eq!(points.len(), MAX_POINTS);
        assert!(points.iter().all(|point| (point.y - 0.8).abs() < 1e-9));
    }

    #[test]
    fn the_run_with_most_payload_stands_for_its_path() {
        let mut records = vec![
            record("aes128", "eu-us", 1.0),
            record("mincut", "eu-us", 1.0),
            record("sha256", "eu-us", 1.0),
            record("aes128", "eu-aus", 1.0),
            record("mincut", "lan", 1.0),
        ];
        for (record, bytes) in records.iter_mut().zip([1, 30, 2, 1, 9]) {
            let measured = record.measured.as_mut().unwrap();
            measured.payload_up_bytes = bytes;
            measured.timeline = Some(Timeline {
                up: vec![1],
                down: vec![1],
            });
        }
        records[4].measured.as_mut().unwrap().timeline = None;
        let figure = timelines(&CellRecords::group(&records)).unwrap();
        let titles: Vec<_> = figure
            .panels
            .iter()
            .map(|panel| panel.title.as_str())
            .collect();
        assert_eq!(
            titles,
            [
                "eu-us, tcp, cubic: mincut half-gates",
                "eu-aus, tcp, cubic: aes128 half-gates"
            ]
        );
        assert_eq!(timelines(&CellRecords::group(&records[4..])), None);
    }
}
