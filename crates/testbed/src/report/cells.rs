//! Groups rows that were measured under the same conditions.

use transpute_netem::{lab::Timeline, scenario::Scenario};

use crate::row::{Measured, Row};

use super::{Samples, number};

/// All repetitions of one cell of a matrix: rows that differ only by chance.
#[derive(Clone, Debug)]
pub struct CellRecords<'a> {
    rows: Vec<&'a Row>,
}

impl<'a> CellRecords<'a> {
    /// Groups rows into cells, in order of first appearance. No cell is empty.
    #[must_use]
    pub fn group(rows: &'a [Row]) -> Vec<Self> {
        let mut cells: Vec<(String, Self)> = Vec::new();
        for row in rows {
            let key = key(row, &row.scenario);
            match cells.iter_mut().find(|(known, _)| *known == key) {
                Some((_, cell)) => cell.rows.push(row),
                None => cells.push((key, Self { rows: vec![row] })),
            }
        }
        cells.into_iter().map(|(_, cell)| cell).collect()
    }

    /// Returns one row of the cell. All its rows have the same conditions.
    #[must_use]
    pub fn conditions(&self) -> &'a Row {
        self.rows[0]
    }

    /// Returns the number of failed repetitions.
    #[must_use]
    pub fn failures(&self) -> usize {
        (self.rows.iter())
            .filter(|row| row.measured.is_none())
            .count()
    }

    /// Returns the samples of a quantity over the successful repetitions.
    #[must_use]
    pub fn samples(&self, quantity: impl Fn(&Measured) -> f64) -> Samples {
        self.measured().map(quantity).collect()
    }

    /// Returns the samples of an optional quantity over the runs that have it.
    #[must_use]
    pub fn some_samples(&self, quantity: impl Fn(&Measured) -> Option<f64>) -> Samples {
        self.measured().filter_map(quantity).collect()
    }

    /// Returns the first timeline, with the measurements of its run.
    pub(super) fn timeline(&self) -> Option<(&'a Measured, &'a Timeline)> {
        self.measured()
            .find_map(|measured| Some((measured, measured.timeline.as_ref()?)))
    }

    /// Returns the properties that distinguish cells, as pairs of a name and a value to display.
    /// The names and their order are the same for all cells. The scenario is the last one.
    pub(super) fn facets(&self) -> [(&'static str, String); 13] {
        let row = self.conditions();
        let scenario = &row.scenario;
        let rate = scenario.up.rate_mbit.map_or("no limit".to_owned(), mbit);
        let buffer = (scenario.socket_buffer).map_or("default buffers".to_owned(), buffer_text);
        let queue = (scenario.up.queue_limit_bytes()).map_or("no queue".to_owned(), |bytes| {
            format!("queue {} kB", bytes / 1000)
        });
        let batch = format!("batch {}", row.batch);
        let protection = if row.encrypted { "TLS" } else { "plaintext" };
        [
            ("circuit", row.circuit.clone()),
            ("transport", row.transport.clone()),
            ("scheme", row.scheme.clone()),
            ("congestion control", congestion_control(row).to_owned()),
            ("buffers", buffer),
            ("protection", protection.to_owned()),
            ("batch", batch),
            ("rtt", format!("{} ms", number(scenario.rtt_ms()))),
            ("loss", format!("loss {}", percent(scenario.up.loss))),
            ("rate", rate),
            ("queue", queue),
            ("udp", udp_text(scenario).to_owned()),
            ("scenario", place_name(scenario)),
        ]
    }

    fn measured(&self) -> impl Iterator<Item = &'a Measured> {
        self.rows.iter().filter_map(|row| row.measured.as_ref())
    }
}

/// Returns a text that is equal for all rows of a cell. `scenario` replaces the scenario of the
/// row.
pub(super) fn key(row: &Row, scenario: &Scenario) -> String {
    let scenario = Scenario {
        seed: 0,
        name: place_name(scenario),
        description: String::new(),
        // The key has the congestion control in use as a separate part.
        congestion_control: None,
        ..scenario.clone()
    };
    format!(
        "{}\n{}\n{}\n{}\n{}\n{}\n{scenario:?}",
        row.circuit,
        row.scheme,
        row.transport,
        row.batch,
        row.encrypted,
        congestion_control(row),
    )
}

/// Returns the congestion control in use: the one that the scenario sets, or the one in the record.
/// A scenario may set it for the route only. The record then has the kernel's default.
pub(super) fn congestion_control(row: &Row) -> &str {
    let own = row.scenario.congestion_control.as_deref();
    own.unwrap_or(&row.environment.congestion_control)
}

/// Returns the name of a scenario without the congestion control that a sweep appended, such as
/// `eu-us` for `eu-us,cc=bbr`. Tables have a separate column for the congestion control.
pub(super) fn place_name(scenario: &Scenario) -> String {
    let parts = scenario
        .name
        .split(',')
        .filter(|part| !part.starts_with("cc="));
    parts.collect::<Vec<_>>().join(",")
}

/// Formats a rate that is given in Mbit/s.
pub(super) fn mbit(rate: f64) -> String {
    if rate >= 1000.0 {
        format!("{} Gbit/s", number(rate / 1000.0))
    } else {
        format!("{} Mbit/s", number(rate))
    }
}

/// Formats a probability in percent.
pub(super) fn percent(probability: f64) -> String {
    // Without rounding to a millionth of a percent, 0.0005 would be 0.049999999999999996 %.
    let percent = (probability * 1e8).round() / 1e6;
    format!("{percent} %")
}

/// Describes the directions in which the scenario lets UDP pass.
pub(super) fn udp_text(scenario: &Scenario) -> &'static str {
    match (scenario.up.udp_blocked, scenario.down.udp_blocked) {
        (false, false) => "UDP passes",
        (true, true) => "UDP blocked",
        (true, false) => "UDP blocked up",
        (false, true) => "UDP blocked down",
    }
}

fn buffer_text(bytes: u64) -> String {
    format!("buffers {} KiB", bytes >> 10)
}

/// Returns the cell over TCP that corresponds to a cell of the paper's Table 3, if there is one.
/// The paper used CUBIC, the default of Linux. So a cell with CUBIC and default buffers is
/// preferred.
pub(super) fn counterpart<'c, 'a>(
    cells: &'c [CellRecords<'a>],
    circuit: &str,
    scenario: &str,
    scheme: &str,
) -> Option<&'c CellRecords<'a>> {
    let repeats = |cell: &&CellRecords<'_>| {
        let row = cell.conditions();
        (
            row.circuit.as_str(),
            place_name(&row.scenario).as_str(),
            row.scheme.as_str(),
        ) == (circuit, scenario, scheme)
            && row.transport == "tcp"
            && row.batch == 1
    };
    cells.iter().filter(repeats).min_by_key(|cell| {
        let row = cell.conditions();
        (
            congestion_control(row) != "cubic",
            row.scenario.socket_buffer.is_some(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::row;
    use super::*;

    #[test]
    fn repetitions_are_together_and_failures_are_counted() {
        let mut rows = vec![
            row("aes128", "eu-us", 100.0),
            row("sha256", "eu-us", 1.0),
            row("aes128", "eu-us", 120.0),
            row("aes128", "eu-aus", 1.0),
            row("aes128", "eu-us", 0.0),
        ];
        rows[2].repetition = 1;
        rows[2].path_seed = 77;
        rows[2].scenario.seed = 5;
        // The scenario sets the congestion control that is the kernel's default anyway.
        rows[2].scenario.name = "eu-us,cc=cubic".to_owned();
        rows[2].scenario.congestion_control = Some("cubic".to_owned());
        rows[4].measured = None;
        let cells = CellRecords::group(&rows);
        assert_eq!(cells.len(), 3);
        assert_eq!(
            cells[0].samples(|measured| measured.runtime_ms).mean(),
            Some(110.0)
        );
        assert_eq!((cells[0].failures(), cells[1].failures()), (1, 0));
    }

    #[test]
    fn what_changes_the_outcome_makes_another_cell() {
        let base = row("aes128", "eu-us", 100.0);
        let changes: [fn(&mut Row); 9] = [
            |row| row.scheme = "prf".to_owned(),
            |row| row.transport = "quic".to_owned(),
            |row| row.batch = 10,
            |row| row.encrypted = false,
            |row| row.environment.congestion_control = "bbr".to_owned(),
            |row| row.scenario.congestion_control = Some("bbr".to_owned()),
            |row| row.scenario.up.loss = 0.01,
            |row| row.scenario.down.udp_blocked = true,
            |row| row.scenario.socket_buffer = Some(1 << 20),
        ];
        for change in changes {
            let mut other = base.clone();
            change(&mut other);
            assert_eq!(CellRecords::group(&[base.clone(), other]).len(), 2);
        }
    }

    #[test]
    fn percents_and_rates_read_well() {
        assert_eq!(percent(0.0005), "0.05 %");
        assert_eq!(percent(0.01), "1 %");
        assert_eq!(mbit(1000.0), "1.00 Gbit/s");
        assert_eq!(mbit(20.0), "20.0 Mbit/s");
    }

    #[test]
    fn a_firewall_shows() {
        let mut row = row("aes128", "eu-us", 100.0);
        let shown = |row: &Row| {
            let rows = [row.clone()];
            let facets = CellRecords::group(&rows)[0].facets();
            let udp = facets.into_iter().find(|(name, _)| *name == "udp");
            udp.unwrap().1
        };
        assert_eq!(shown(&row), "UDP passes");
        row.scenario.down.udp_blocked = true;
        assert_eq!(shown(&row), "UDP blocked down");
        row.scenario.up.udp_blocked = true;
        assert_eq!(shown(&row), "UDP blocked");
    }
}
