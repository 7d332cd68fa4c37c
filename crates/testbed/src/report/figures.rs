//! Draws charts of records.

use super::{
    CellRecords,
    cells::{congestion_control, counterpart, place_name},
    chart::{Axis, Figure, Panel, Point, Scale, Series, SeriesStyle},
    phases,
    published::{SCHEMES, SETTINGS, TABLE_3},
    sweep::{self, VARIABLES},
    timeline::timelines,
};
use crate::record::RunRecord;

/// Draws all charts for which the records have data. Each has a name that is a valid file name.
#[must_use]
pub fn figures(records: &[RunRecord]) -> Vec<(String, Figure)> {
    let cells = CellRecords::group(records);
    let mut figures = Vec::new();
    for variable in &VARIABLES {
        let times = sweep::runtimes(&cells, variable);
        let costs = sweep::resources(&cells, variable);
        figures.extend(times.map(|figure| (format!("runtime-{}", variable.name), figure)));
        figures.extend(costs.map(|figure| (format!("resources-{}", variable.name), figure)));
    }
    figures.extend(side_by_side(&cells).map(|figure| ("transports".to_owned(), figure)));
    figures.extend(phases::figure(&cells).map(|figure| ("phases".to_owned(), figure)));
    figures.extend(timelines(&cells).map(|figure| ("timelines".to_owned(), figure)));
    figures.extend(paper_table_3(&cells).map(|figure| ("paper-table-3".to_owned(), figure)));
    figures
}

/// Draws the run times of transports and congestion controls side by side, by scenario. Each
/// circuit has a panel, which shows the scheme with the most cells. None if all runs used the same
/// transport.
fn side_by_side(cells: &[CellRecords<'_>]) -> Option<Figure> {
    let scheme = most_frequent(cells.iter().map(|cell| cell.conditions().scheme.as_str()))?;
    let cells: Vec<&CellRecords<'_>> = (cells.iter())
        .filter(|cell| {
            let record = cell.conditions();
            record.scheme == scheme && record.batch == 1 && record.scenario.socket_buffer.is_none()
        })
        .collect();
    let name = |record: &RunRecord| {
        let protection = if record.encrypted { "" } else { ", plaintext" };
        format!(
            "{}, {}{protection}",
            record.transport,
            congestion_control(record)
        )
    };
    let names = distinct(cells.iter().map(|cell| name(cell.conditions())));
    let circuits = distinct(cells.iter().map(|cell| cell.conditions().circuit.clone()));
    if names.len() < 2 {
        return None;
    }
    let panels = circuits.iter().map(|circuit| {
        let of_circuit: Vec<_> = (cells.iter())
            .filter(|cell| cell.conditions().circuit == *circuit)
            .collect();
        let mut scenarios = distinct(
            of_circuit
                .iter()
                .map(|cell| place_name(&cell.conditions().scenario)),
        );
        // Scenarios with a single transport are left out.
        scenarios.retain(|scenario| {
            let there = of_circuit
                .iter()
                .filter(|cell| place_name(&cell.conditions().scenario) == *scenario);
            distinct(there.map(|cell| name(cell.conditions()))).len() > 1
        });
        let series = names.iter().map(|series| Series {
            name: series.clone(),
            look: SeriesStyle::Marks,
            points: (of_circuit.iter())
                .filter(|cell| name(cell.conditions()) == *series)
                .filter_map(|cell| {
                    let scenario = place_name(&cell.conditions().scenario);
                    let place = scenarios.iter().position(|known| *known == scenario)?;
                    let time = cell.samples(|measured| measured.runtime_ms);
                    Some(Point {
                        x: place as f64,
                        y: time.mean()?,
                        error: time.deviation().unwrap_or(0.0),
                    })
                })
                .collect(),
        });
        Panel {
            title: circuit.clone(),
            series: series.collect(),
            x: Axis::new("", Scale::Categories(scenarios.clone())),
            y: Axis::new("run time (ms)", Scale::Log),
        }
    });
    let figure = Figure {
        title: "Transports side by side".to_owned(),
        note: format!("{scheme}; from connected to output; mean and standard deviation"),
        panels: panels
            .filter(|panel| panel.series.iter().any(|series| !series.points.is_empty()))
            .collect(),
    };
    (!figure.is_empty()).then_some(figure)
}

/// Draws the times in the paper's Table 3 next to the measured ones. Each circuit has a panel. Each
/// combination of setting and scheme has a position on the horizontal axis.
fn paper_table_3(cells: &[CellRecords<'_>]) -> Option<Figure> {
    let circuits = distinct(TABLE_3.iter().map(|cell| cell.circuit));
    let places: Vec<(&str, &str, String)> = (SETTINGS.iter())
        .flat_map(|(scenario, setting, ..)| {
            SCHEMES
                .iter()
                .map(move |(scheme, shown)| (*scenario, *scheme, format!("{setting} {shown}")))
        })
        .collect();
    let panels = circuits.iter().map(|circuit| {
        let published = |time: fn(&super::published::Published) -> f64| -> Vec<Point> {
            (TABLE_3.iter())
                .filter(|cell| cell.circuit == *circuit)
                .filter_map(|cell| {
                    let place = places.iter().position(|(scenario, scheme, _)| {
                        (*scenario, *scheme) == (cell.scenario, cell.scheme)
                    })?;
                    Some(Point::at(place as f64, time(cell)))
                })
                .collect()
        };
        let ours = |limit: bool| -> Vec<Point> {
            (places.iter().enumerate())
                .filter_map(|(place, (scenario, scheme, _))| {
                    let cell = counterpart(cells, circuit, scenario, scheme)?;
                    let time = cell.samples(|measured| {
                        if limit {
                            measured.limit.limit_ms
                        } else {
                            measured.runtime_ms
                        }
                    });
                    Some(Point {
                        x: place as f64,
                        y: time.mean()?,
                        error: time.deviation().unwrap_or(0.0),
                    })
                })
                .collect()
        };
        let series = |name: &str, points| Series {
            name: name.to_owned(),
            look: SeriesStyle::Marks,
            points,
        };
        Panel {
            title: (*circuit).to_owned(),
            x: Axis::new(
                "",
                Scale::Categories(places.iter().map(|place| place.2.clone()).collect()),
            ),
            y: Axis::new("run time (ms)", Scale::Log),
            series: vec![
                series("ours, tcp", ours(false)),
                series("paper, TCP", published(|cell| cell.tcp_ms)),
                series("paper, SABUL", published(|cell| cell.sabul_ms)),
                series("physical limit for ours", ours(true)),
            ],
        }
    });
    let figure = Figure {
        title: "Table 3 of Transputation (2020) and this reproduction".to_owned(),
        note: "run time from connected to output; ours over an emulated path, theirs between \
               clouds; mean, ours with standard deviation"
            .to_owned(),
        panels: panels
            .filter(|panel| !panel.series[0].points.is_empty())
            .collect(),
    };
    (!figure.is_empty()).then_some(figure)
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut known, value| {
        if !known.contains(&value) {
            known.push(value);
        }
        known
    })
}

fn most_frequent<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    distinct(names.clone())
        .into_iter()
        // `max_by_key` returns the last of equal maxima. In reverse order, this is the name that
        // appears first.
        .rev()
        .max_by_key(|name| names.clone().filter(|other| other == name).count())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    fn figure(records: &[RunRecord], name: &str) -> Option<Figure> {
        figures(records)
            .into_iter()
            .find(|(known, _)| known == name)
            .map(|(_, figure)| figure)
    }

    #[test]
    fn congestion_controls_are_side_by_side() {
        let mut records = Vec::new();
        for congestion_control in ["cubic", "bbr", "reno"] {
            for scenario in ["lan", "eu-us"] {
                let mut record = record("aes128", scenario, 100.0);
                record.environment.congestion_control = congestion_control.to_owned();
                record.scenario.name = format!("{scenario},cc={congestion_control}");
                records.push(record);
            }
        }
        let drawn = figure(&records, "transports").unwrap();
        assert_eq!(drawn.panels.len(), 1);
        let series = &drawn.panels[0].series;
        let names: Vec<_> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["tcp, cubic", "tcp, bbr", "tcp, reno"]);
        assert_eq!(
            series[2].points,
            [Point::at(0.0, 100.0), Point::at(1.0, 100.0)]
        );
        assert_eq!(figure(&records[..2], "transports"), None);
        // The paper has no cell that corresponds to this one.
        records.push(record("aes128", "mobile", 9.0));
        assert_eq!(figure(&records, "transports").unwrap(), drawn);
    }

    #[test]
    fn the_paper_is_beside_ours_where_there_is_ours() {
        let records = [record("sha256", "eu-aus", 321.0)];
        let drawn = figure(&records, "paper-table-3").unwrap();
        assert_eq!(drawn.panels.len(), 1);
        let [ours, tcp, sabul, _] = &drawn.panels[0].series[..] else {
            panic!("four series")
        };
        // EU-AUS is setting 2 and half-gates is scheme 1, both counted from 0: 2 * 3 + 1 = 7.
        assert_eq!(ours.points, [Point::at(7.0, 321.0)]);
        assert_eq!(tcp.points[7], Point::at(7.0, 394.13));
        assert_eq!(sabul.points[7], Point::at(7.0, 587.03));
        assert_eq!(
            figure(&[record("sha256", "mobile", 1.0)], "paper-table-3"),
            None
        );
    }

    #[test]
    fn no_records_make_no_figures() {
        assert!(figures(&[]).is_empty());
    }

    #[test]
    fn the_most_frequent_is_the_first_of_equals() {
        assert_eq!(most_frequent(["a", "b", "b", "c"].into_iter()), Some("b"));
        assert_eq!(most_frequent(["a", "b"].into_iter()), Some("a"));
    }
}
