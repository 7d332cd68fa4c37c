//! Computes the time of each transport in each cell from records.

use transpute_netem::scenario::Scenario;

use super::{AUTO, Part};
use crate::record::{Environment, Measured, RunRecord};

/// The time that comparisons use for a failed run, in milliseconds: one minute.
pub const FAILED_MS: f64 = 60_000.0;

/// The time of a transport in a cell: the median of its repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunTime {
    /// Milliseconds from the first packet to the evaluator's last output, with choosing, probing
    /// and connecting.
    Measured(f64),
    /// The run was cut off after this number of milliseconds.
    AtLeast(f64),
    /// The run failed.
    Failed,
}

impl RunTime {
    /// Returns the time for comparisons, in milliseconds. It is a lower bound for a run that was
    /// cut off, and [`FAILED_MS`] for a failed run.
    #[must_use]
    pub fn counts_as_ms(self) -> f64 {
        match self {
            Self::Measured(ms) | Self::AtLeast(ms) => ms,
            Self::Failed => FAILED_MS,
        }
    }

    fn of(record: &RunRecord) -> Self {
        match (&record.measured, record.cut_off_ms) {
            (Some(measured), _) => Self::Measured(measured.total_ms),
            (None, Some(ms)) => Self::AtLeast(ms),
            (None, None) => Self::Failed,
        }
    }

    /// Returns the median of the times. None for no times. For an even number of times, it is the
    /// mean of the two middle times if both were measured, otherwise the worse one.
    fn median(mut times: Vec<Self>) -> Option<Self> {
        // All measured runs come first, then the runs that were cut off, then the failures.
        let rank = |time: &Self| match time {
            Self::Measured(ms) => (0, *ms),
            Self::AtLeast(ms) => (1, *ms),
            Self::Failed => (2, 0.0),
        };
        times.sort_by(|one, other| {
            let (one, other) = (rank(one), rank(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        let upper = *times.get(times.len() / 2)?;
        if times.len() % 2 == 1 {
            return Some(upper);
        }
        let lower = *times.get((times.len() / 2).checked_sub(1)?)?;
        Some(match (lower, upper) {
            (Self::Measured(lower), Self::Measured(upper)) => {
                Self::Measured(f64::midpoint(lower, upper))
            }
            _ => upper,
        })
    }
}

/// The properties of a cell that a chooser may know before a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions<'a> {
    /// The conditions of the path.
    pub scenario: &'a Scenario,
    /// The machine and settings of the runs.
    pub environment: &'a Environment,
    /// The circuit.
    pub circuit: &'a str,
    /// The garbling scheme.
    pub scheme: &'a str,
    /// Number of evaluations in a run.
    pub batch: u64,
    /// Number of AND gates of all evaluations together.
    pub and_gates: u64,
    /// Bytes of protocol messages from garbler to evaluator.
    pub payload_up_bytes: u64,
    /// Bytes of protocol messages from evaluator to garbler.
    pub payload_down_bytes: u64,
    /// Number of round trips of the protocol from both parties being connected to the output.
    pub round_trips: f64,
}

/// A cell with the times of its transports.
#[derive(Clone, Debug)]
pub struct CellTimes<'a> {
    records: Vec<&'a RunRecord>,
    times: Vec<(&'a str, RunTime)>,
}

/// Groups records into cells by conditions, in order of first appearance. Computes the time of each
/// transport in each cell. If a run failed or was cut off and was later measured, only the
/// measurement is used.
#[must_use]
pub fn contests(records: &[RunRecord]) -> Vec<CellTimes<'_>> {
    let mut groups: Vec<CellTimes<'_>> = Vec::new();
    for record in records {
        match (groups.iter_mut()).find(|contest| is_same_cell(contest.records[0], record)) {
            Some(contest) => contest.records.push(record),
            None => groups.push(CellTimes {
                records: vec![record],
                times: Vec::new(),
            }),
        }
    }
    for contest in &mut groups {
        let mut names: Vec<&str> = Vec::new();
        for record in &contest.records {
            if !names.contains(&record.transport.as_str()) {
                names.push(&record.transport);
            }
        }
        let time = |name: &str| RunTime::median(final_tries(&contest.records, name));
        contest.times = (names.into_iter())
            .filter_map(|name| Some((name, time(name)?)))
            .collect();
    }
    groups
}

/// Returns the times of a transport, one per repetition. If a repetition has several records, the
/// last measured one is used, or the last record if none was measured.
fn final_tries(records: &[&RunRecord], transport: &str) -> Vec<RunTime> {
    let mut tries: Vec<(u32, RunTime)> = Vec::new();
    for record in records
        .iter()
        .filter(|record| record.transport == transport)
    {
        let time = RunTime::of(record);
        match tries
            .iter_mut()
            .find(|(number, _)| *number == record.repetition)
        {
            Some((_, RunTime::Measured(_))) if !matches!(time, RunTime::Measured(_)) => {}
            Some((_, known)) => *known = time,
            None => tries.push((record.repetition, time)),
        }
    }
    tries.into_iter().map(|(_, time)| time).collect()
}

fn is_same_cell(one: &RunRecord, other: &RunRecord) -> bool {
    one.circuit == other.circuit
        && one.batch == other.batch
        && one.scheme == other.scheme
        && one.encrypted == other.encrypted
        && one.scenario == other.scenario
}

/// Returns the contests (cells) in which all of these transports were run and at least one was
/// measured.
#[must_use]
pub fn complete<'a>(contests: Vec<CellTimes<'a>>, transports: &[&str]) -> Vec<CellTimes<'a>> {
    (contests.into_iter())
        .filter(|contest| {
            transports.iter().all(|name| contest.time(name).is_some())
                && contest.best(None).is_some()
        })
        .collect()
}

impl<'a> CellTimes<'a> {
    /// Returns the part of the data that the cell belongs to.
    #[must_use]
    pub fn part(&self) -> Part {
        let record = self.records[0];
        Part::of(&record.scenario, &record.circuit, record.batch)
    }

    /// Returns the conditions of the cell. None if no run of the cell was measured.
    #[must_use]
    pub fn conditions(&self) -> Option<Conditions<'a>> {
        let measured = self.measured()?;
        let record = self.records[0];
        Some(Conditions {
            scenario: &record.scenario,
            environment: &record.environment,
            circuit: &record.circuit,
            scheme: &record.scheme,
            batch: record.batch,
            and_gates: measured.and_gates.unwrap_or(0).saturating_mul(record.batch),
            payload_up_bytes: measured.payload_up_bytes,
            payload_down_bytes: measured.payload_down_bytes,
            round_trips: measured.limit.round_trips,
        })
    }

    /// Returns the candidates, which are all transports except [`AUTO`], in the order of the
    /// records.
    #[must_use]
    pub fn candidates(&self) -> Vec<&'a str> {
        let names = self.times.iter().map(|&(name, _)| name);
        names.filter(|&name| name != AUTO).collect()
    }

    /// Returns the time of a transport. None if it was not run in this cell.
    #[must_use]
    pub fn time(&self, transport: &str) -> Option<RunTime> {
        let found = self.times.iter().find(|(name, _)| *name == transport)?;
        Some(found.1)
    }

    /// Returns the fastest candidate and its time in milliseconds. [`AUTO`] is a candidate only if
    /// `besides` is [`AUTO`]. None if no candidate was measured.
    #[must_use]
    pub fn best(&self, besides: Option<&str>) -> Option<(&'a str, f64)> {
        (self.times.iter())
            .filter(|(name, _)| *name != AUTO || besides == Some(AUTO))
            .filter_map(|&(name, time)| match time {
                RunTime::Measured(ms) => Some((name, ms)),
                _ => None,
            })
            .min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Returns the measured runs of a transport.
    pub(super) fn measured_runs(&self, transport: &str) -> impl Iterator<Item = &'a Measured> {
        (self.records.iter())
            .filter(move |record| record.transport == transport)
            .filter_map(|record| record.measured.as_ref())
    }

    fn measured(&self) -> Option<&'a Measured> {
        self.records
            .iter()
            .find_map(|record| record.measured.as_ref())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::fixture;

    /// Returns a record of a transport in a cell that is identified by its round-trip time.
    pub(crate) fn record(
        rtt_ms: f64,
        transport: &str,
        repetition: u32,
        time: RunTime,
    ) -> RunRecord {
        let mut record = fixture::record("aes128", "eu-us", 1.0);
        record.scenario = record.scenario.with_rtt_ms(rtt_ms);
        record.transport = transport.to_owned();
        record.repetition = repetition;
        match time {
            RunTime::Measured(ms) => {
                if let Some(measured) = &mut record.measured {
                    measured.total_ms = ms;
                }
            }
            RunTime::AtLeast(ms) => {
                record.measured = None;
                record.cut_off_ms = Some(ms);
            }
            RunTime::Failed => record.measured = None,
        }
        record
    }

    #[test]
    fn repetitions_make_a_median() {
        use RunTime::{AtLeast, Failed, Measured};
        let median = |times: &[RunTime]| RunTime::median(times.to_vec());
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[Failed]), Some(Failed));
        assert_eq!(
            median(&[Measured(9.0), Measured(1.0), Measured(2.0)]),
            Some(Measured(2.0))
        );
        assert_eq!(median(&[Measured(1.0), Measured(2.0)]), Some(Measured(1.5)));
        // A measured run ranks as faster than a run that was cut off, even after a shorter time.
        assert_eq!(
            median(&[AtLeast(5.0), Measured(7.0), Failed]),
            Some(AtLeast(5.0))
        );
        assert_eq!(median(&[AtLeast(5.0), Measured(7.0)]), Some(AtLeast(5.0)));
        assert_eq!(median(&[Failed, AtLeast(5.0)]), Some(Failed));
    }

    #[test]
    fn cells_are_told_apart_and_tries_are_counted_once() {
        let records = [
            record(10.0, "tcp", 0, RunTime::Failed),
            record(20.0, "tcp", 0, RunTime::Measured(50.0)),
            record(10.0, "rudp", 0, RunTime::Measured(30.0)),
            record(10.0, "auto", 0, RunTime::Measured(20.0)),
            // The failed run was repeated, and the repetition succeeded.
            record(10.0, "tcp", 0, RunTime::Measured(40.0)),
            record(10.0, "tcp", 0, RunTime::Failed),
        ];
        let contests = contests(&records);
        assert_eq!(contests.len(), 2);
        let first = &contests[0];
        assert_eq!(first.candidates(), ["tcp", "rudp"]);
        assert_eq!(first.time("tcp"), Some(RunTime::Measured(40.0)));
        assert_eq!(first.time("quic"), None);
        assert_eq!(first.best(None), Some(("rudp", 30.0)));
        assert_eq!(first.best(Some(AUTO)), Some(("auto", 20.0)));
        let conditions = first.conditions().unwrap();
        assert_eq!((conditions.and_gates, conditions.batch), (6400, 1));
        assert_eq!(complete(contests, &["tcp", "rudp"]).len(), 1);
    }

    #[test]
    fn a_cell_in_which_nothing_works_is_not_complete() {
        let records = [
            record(10.0, "tcp", 0, RunTime::AtLeast(60_000.0)),
            record(10.0, "rudp", 0, RunTime::Failed),
        ];
        let contests = contests(&records);
        assert_eq!(contests[0].conditions(), None);
        assert!(complete(contests, &["tcp", "rudp"]).is_empty());
    }
}
