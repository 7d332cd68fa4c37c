//! Shows when both parties reached each phase, as times since the parties' first packet.

use super::{
    CellRecords, Table,
    cells::{congestion_control, place_name},
    chart::{Axis, Figure, Panel, Point, Scale, Series, SeriesStyle},
    number,
};
use crate::record::{Measured, PartyRecord};

/// Maximum number of cells that are drawn, each in one panel.
const MAX_PANELS: usize = 6;

/// A function that returns the time at which a party reached a phase, in milliseconds since both
/// parties were connected.
type Moment = fn(&PartyRecord) -> Option<f64>;

const MOMENTS: [(&str, Moment); 7] = [
    ("connected", |_| Some(0.0)),
    ("agreed", |party| party.agreed_ms),
    ("first labels", |party| party.first_labels_ms),
    ("first table", |party| party.first_table_ms),
    ("last table", |party| party.last_table_ms),
    ("output", |party| party.output_ms),
    ("end", |party| Some(party.session_ms)),
];

/// A function that selects one of the parties of a run.
type Party = fn(&Measured) -> &PartyRecord;

const PARTIES: [(&str, Party); 2] = [
    ("garbler", |measured| &measured.garbler),
    ("evaluator", |measured| &measured.evaluator),
];

/// Returns the median time at which `party` reached `moment`, in milliseconds since the parties'
/// first packet. None if no run of the cell reports it.
fn median(cell: &CellRecords<'_>, party: Party, moment: Moment) -> Option<f64> {
    let moments = cell.some_samples(|measured| {
        let party = party(measured);
        Some(party.connected_at_ms? + moment(party)?)
    });
    moments.median()
}

/// Makes the table of the phases of both parties. It lists only cells whose runs report phases.
pub(super) fn table(cells: &[CellRecords<'_>], labels: &[String]) -> Table {
    let headers = ["cell", "party"].into_iter();
    let mut table = Table::new(
        "Phases of both parties on one clock, medians in ms since their first packet",
        headers.chain(MOMENTS.map(|(name, _)| name)),
    );
    for (cell, label) in cells.iter().zip(labels) {
        for (name, party) in PARTIES {
            let moments = MOMENTS.map(|(_, moment)| median(cell, party, moment));
            if moments.iter().any(Option::is_some) {
                let texts = moments.map(|time| time.map_or_else(|| "-".to_owned(), number));
                table.push([label.clone(), name.to_owned()].into_iter().chain(texts));
            }
        }
    }
    table
}

/// Draws the phases of both parties. Each combination of path, transport and congestion control has
/// a panel, which shows the cell with the most payload. None if no record has phases.
pub(super) fn figure(cells: &[CellRecords<'_>]) -> Option<Figure> {
    let mut chosen: Vec<(String, f64, Panel)> = Vec::new();
    for cell in cells {
        let record = cell.conditions();
        let place = place_name(&record.scenario);
        let path = format!(
            "{place}, {}, {}",
            record.transport,
            congestion_control(record)
        );
        let payload = cell
            .samples(|measured| measured.payload_up_bytes as f64)
            .mean();
        let (Some(payload), Some(panel)) = (payload, panel(cell)) else {
            continue;
        };
        let title = format!("{path}: {} {}", record.circuit, record.scheme);
        let panel = Panel { title, ..panel };
        match chosen.iter_mut().find(|(known, ..)| *known == path) {
            Some(best) if best.1 < payload => *best = (path, payload, panel),
            Some(_) => {}
            None => chosen.push((path, payload, panel)),
        }
    }
    let figure = Figure {
        title: "Phases of both parties on one clock".to_owned(),
        note: "medians; the cell with most payload of each path".to_owned(),
        panels: chosen
            .into_iter()
            .map(|(.., panel)| panel)
            .take(MAX_PANELS)
            .collect(),
    };
    (!figure.is_empty()).then_some(figure)
}

fn panel(cell: &CellRecords<'_>) -> Option<Panel> {
    let series = PARTIES.map(|(name, party)| Series {
        name: name.to_owned(),
        look: SeriesStyle::Line,
        points: (MOMENTS.iter().enumerate())
            .filter_map(|(place, (_, moment))| {
                Some(Point::at(place as f64, median(cell, party, *moment)?))
            })
            .collect(),
    });
    let names = MOMENTS.map(|(name, _)| name.to_owned()).to_vec();
    series
        .iter()
        .any(|series| !series.points.is_empty())
        .then(|| Panel {
            title: String::new(),
            x: Axis::new("", Scale::Categories(names)),
            y: Axis::new("time since the first packet (ms)", Scale::Linear),
            series: series.into(),
        })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    #[test]
    fn moments_of_both_are_on_one_clock() {
        let mut records = vec![
            record("aes128", "eu-us", 100.0),
            record("aes128", "eu-us", 300.0),
        ];
        for record in &mut records {
            let measured = record.measured.as_mut().unwrap();
            measured.garbler.connected_at_ms = Some(85.0);
            measured.garbler.output_ms = None;
        }
        let cells = CellRecords::group(&records);
        let text = table(&cells, &["here".to_owned()]).csv();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "here,garbler,85.0,86.0,87.0,88.0,284,-,286");
        assert_eq!(lines[2], "here,evaluator,30.0,31.0,32.0,33.0,229,230,231");
        let figure = figure(&cells).unwrap();
        let [garbler, evaluator] = &figure.panels[0].series[..] else {
            panic!("two series")
        };
        assert_eq!((garbler.points.len(), evaluator.points.len()), (6, 7));
        // If one phase is missing, the other points keep their positions.
        assert_eq!(garbler.points[5], Point::at(6.0, 286.0));
        assert_eq!(evaluator.points[5], Point::at(5.0, 230.0));
    }

    #[test]
    fn what_does_not_tell_is_left_out() {
        let mut records = [record("aes128", "eu-us", 100.0)];
        let measured = records[0].measured.as_mut().unwrap();
        measured.garbler.connected_at_ms = None;
        measured.evaluator.connected_at_ms = None;
        let cells = CellRecords::group(&records);
        assert!(table(&cells, &["here".to_owned()]).is_empty());
        assert_eq!(figure(&cells), None);
    }

    #[test]
    fn the_cell_with_most_payload_stands_for_its_path() {
        let mut records = [
            record("aes128", "eu-us", 1.0),
            record("mincut", "eu-us", 1.0),
        ];
        records[1].measured.as_mut().unwrap().payload_up_bytes *= 2;
        let figure = figure(&CellRecords::group(&records)).unwrap();
        assert_eq!(figure.panels.len(), 1);
        assert_eq!(
            figure.panels[0].title,
            "eu-us, tcp, cubic: mincut half-gates"
        );
    }
}
