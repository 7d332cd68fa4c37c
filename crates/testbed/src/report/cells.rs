//! Groups records that were measured under the same conditions.

use transpute_netem::{lab::Timeline, scenario::Scenario};

use crate::record::{Measured, RunRecord};

use super::{Samples, number};

/// The records of all repetitions of one cell of a matrix. They have the same conditions.
#[derive(Clone, Debug)]
pub struct CellRecords<'a> {
    records: Vec<&'a RunRecord>,
}

impl<'a> CellRecords<'a> {
    /// Groups records into cells, in order of first appearance. No cell is empty.
    #[must_use]
    pub fn group(records: &'a [RunRecord]) -> Vec<Self> {
        let mut cells: Vec<(String, Self)> = Vec::new();
        for record in records {
            let key = key(record, &record.scenario);
            match cells.iter_mut().find(|(known, _)| *known == key) {
                Some((_, cell)) => cell.records.push(record),
                None => cells.push((
                    key,
                    Self {
                        records: vec![record],
                    },
                )),
            }
        }
        cells.into_iter().map(|(_, cell)| cell).collect()
    }

    /// Returns one record of the cell. All its records have the same conditions.
    #[must_use]
    pub fn conditions(&self) -> &'a RunRecord {
        self.records[0]
    }

    /// Returns the number of failed repetitions.
    #[must_use]
    pub fn failures(&self) -> usize {
        (self.records.iter())
            .filter(|record| record.measured.is_none())
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

    /// Returns the timeline of the first run that has one, with the measurements of this run.
    pub(super) fn timeline(&self) -> Option<(&'a Measured, &'a Timeline)> {
        self.measured()
            .find_map(|measured| Some((measured, measured.timeline.as_ref()?)))
    }

    /// Returns the properties that distinguish cells, as pairs of a name and a value to display.
    /// The names and their order are the same for all cells. The scenario is the last one.
    pub(super) fn facets(&self) -> [(&'static str, String); 13] {
        let record = self.conditions();
        let scenario = &record.scenario;
        let rate = scenario.up.rate_mbit.map_or("no limit".to_owned(), mbit);
        let buffer = (scenario.socket_buffer).map_or("default buffers".to_owned(), buffer_text);
        let queue = (scenario.up.queue_limit_bytes()).map_or("no queue".to_owned(), |bytes| {
            format!("queue {} kB", bytes / 1000)
        });
        let batch = format!("batch {}", record.batch);
        let protection = if record.encrypted { "TLS" } else { "plaintext" };
        [
            ("circuit", record.circuit.clone()),
            ("transport", record.transport.clone()),
            ("scheme", record.scheme.clone()),
            ("congestion control", congestion_control(record).to_owned()),
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
        self.records
            .iter()
            .filter_map(|record| record.measured.as_ref())
    }
}

/// Returns a text that is equal for all records of a cell. `scenario` replaces the scenario of the
/// record.
pub(super) fn key(record: &RunRecord, scenario: &Scenario) -> String {
    let scenario = Scenario {
        seed: 0,
        name: place_name(scenario),
        description: String::new(),
        // `format!` below adds the congestion control in use, which the scenario may not set.
        congestion_control: None,
        ..scenario.clone()
    };
    format!(
        "{}\n{}\n{}\n{}\n{}\n{}\n{scenario:?}",
        record.circuit,
        record.scheme,
        record.transport,
        record.batch,
        record.encrypted,
        congestion_control(record),
    )
}

/// Returns the congestion control in use: the one that the scenario sets, or the one in the record.
/// A scenario may set it for the route only. The record then has the kernel's default.
pub(super) fn congestion_control(record: &RunRecord) -> &str {
    let own = record.scenario.congestion_control.as_deref();
    own.unwrap_or(&record.environment.congestion_control)
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

/// Returns the measured cell over TCP that corresponds to a cell of the paper's Table 3. None if
/// there is no such cell. The paper used CUBIC, the default of Linux. So a cell with CUBIC and
/// default buffers is preferred.
pub(super) fn counterpart<'c, 'a>(
    cells: &'c [CellRecords<'a>],
    circuit: &str,
    scenario: &str,
    scheme: &str,
) -> Option<&'c CellRecords<'a>> {
    let repeats = |cell: &&CellRecords<'_>| {
        let record = cell.conditions();
        (
            record.circuit.as_str(),
            place_name(&record.scenario).as_str(),
            record.scheme.as_str(),
        ) == (circuit, scenario, scheme)
            && record.transport == "tcp"
            && record.batch == 1
    };
    cells.iter().filter(repeats).min_by_key(|cell| {
        let record = cell.conditions();
        (
            congestion_control(record) != "cubic",
            record.scenario.socket_buffer.is_some(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    #[test]
    fn repetitions_are_together_and_failures_are_counted() {
        let mut records = vec![
            record("aes128", "eu-us", 100.0),
            record("sha256", "eu-us", 1.0),
            record("aes128", "eu-us", 120.0),
            record("aes128", "eu-aus", 1.0),
            record("aes128", "eu-us", 0.0),
        ];
        records[2].repetition = 1;
        records[2].path_seed = 77;
        records[2].scenario.seed = 5;
        // The scenario sets the congestion control that is the kernel's default anyway.
        records[2].scenario.name = "eu-us,cc=cubic".to_owned();
        records[2].scenario.congestion_control = Some("cubic".to_owned());
        records[4].measured = None;
        let cells = CellRecords::group(&records);
        assert_eq!(cells.len(), 3);
        assert_eq!(
            cells[0].samples(|measured| measured.runtime_ms).mean(),
            Some(110.0)
        );
        assert_eq!((cells[0].failures(), cells[1].failures()), (1, 0));
    }

    #[test]
    fn what_changes_the_outcome_makes_another_cell() {
        let base = record("aes128", "eu-us", 100.0);
        let changes: [fn(&mut RunRecord); 9] = [
            |record| record.scheme = "prf".to_owned(),
            |record| record.transport = "quic".to_owned(),
            |record| record.batch = 10,
            |record| record.encrypted = false,
            |record| record.environment.congestion_control = "bbr".to_owned(),
            |record| record.scenario.congestion_control = Some("bbr".to_owned()),
            |record| record.scenario.up.loss = 0.01,
            |record| record.scenario.down.udp_blocked = true,
            |record| record.scenario.socket_buffer = Some(1 << 20),
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
        let mut record = record("aes128", "eu-us", 100.0);
        let shown = |record: &RunRecord| {
            let records = [record.clone()];
            let facets = CellRecords::group(&records)[0].facets();
            let udp = facets.into_iter().find(|(name, _)| *name == "udp");
            udp.unwrap().1
        };
        assert_eq!(shown(&record), "UDP passes");
        record.scenario.down.udp_blocked = true;
        assert_eq!(shown(&record), "UDP blocked down");
        record.scenario.up.udp_blocked = true;
        assert_eq!(shown(&record), "UDP blocked");
    }
}
