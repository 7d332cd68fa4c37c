//! The choosers that [`judge()`](super::judge()) evaluates.

use transpute_select::{Candidate, ModelChooser, PaperRules, Rule};

use super::{AUTO, Conditions, Workloads};
use crate::emulated::path_of;

/// A chooser that is judged by the time of its choices.
#[derive(Debug)]
pub enum Judged {
    /// Chooses the same transport in every cell. For [`AUTO`], the measured runs of `auto` are
    /// judged.
    Always(String),
    /// A chooser that is given the true conditions of the path, so it does not measure them.
    Told(Box<dyn transpute_select::Chooser>),
}

/// The choice of a chooser in a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picked {
    pub(super) transport: String,
    /// The predicted time in milliseconds. None if the chooser makes no prediction.
    pub(super) predicted_ms: Option<f64>,
}

impl Judged {
    /// Returns a chooser that always chooses this transport.
    #[must_use]
    pub fn always(transport: &str) -> Self {
        Self::Always(transport.to_owned())
    }

    /// Returns the default chooser `rule`.
    #[must_use]
    pub fn rule() -> Self {
        Self::Told(Box::new(Rule))
    }

    /// Returns a chooser that uses a model.
    #[must_use]
    pub fn model(chooser: ModelChooser) -> Self {
        Self::Told(Box::new(chooser))
    }

    /// Returns the chooser `paper`, which follows the rules of transputation-2020.
    #[must_use]
    pub fn paper() -> Self {
        Self::Told(Box::new(PaperRules))
    }

    /// Returns the name of the chooser in tables.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Always(transport) if transport == AUTO => transport.clone(),
            Self::Always(transport) => format!("always {transport}"),
            Self::Told(chooser) => chooser.name().to_owned(),
        }
    }

    /// Picks one of the candidates. Returns `None` if the chooser cannot choose.
    pub(super) fn pick(
        &self,
        conditions: &Conditions<'_>,
        candidates: &[&str],
        workloads: &Workloads,
    ) -> Option<Picked> {
        let chooser = match self {
            Self::Always(transport) => {
                return Some(Picked {
                    transport: transport.clone(),
                    predicted_ms: None,
                });
            }
            Self::Told(chooser) => chooser,
        };
        let path = path_of(conditions.scenario, Some(conditions.environment)).ok()?;
        let workload = workloads.get(conditions.circuit, conditions.scheme, conditions.batch)?;
        let known: Vec<(&str, Candidate)> = (candidates.iter())
            .filter_map(|&name| Some((name, Candidate::new(name).ok()?)))
            .collect();
        let (names, candidates): (Vec<&str>, Vec<Candidate>) = known.into_iter().unzip();
        let choice = chooser.choose(&path, &workload, &candidates).ok()?;
        // A record may list the settings of the same transport in another order. So specs are
        // compared, not names.
        let place = (candidates.iter()).position(|known| known.spec == *choice.winner())?;
        Some(Picked {
            transport: (*names.get(place)?).to_owned(),
            predicted_ms: Some(choice.prediction().seconds * 1e3),
        })
    }
}

#[cfg(test)]
mod tests {
    use transpute_netem::scenario::Scenario;
    use transpute_select::Model;

    use super::super::{contests, judge, samples::tests::record};
    use super::*;

    #[test]
    fn both_choose_by_path_and_workload_among_what_was_run() {
        let lossy = (Scenario::named("eu-us").unwrap())
            .with_rtt_ms(110.0)
            .with_loss(0.02)
            .with_rate_mbit(500.0);
        let blocked = lossy.clone().with_udp_blocked(true);
        let mut records = Vec::new();
        for scenario in [&lossy, &blocked] {
            for (transport, ms) in [
                ("tcp:cc=cubic", 30_000.0),
                ("quic", 3000.0),
                ("rudp", 1500.0),
            ] {
                records.push(record(scenario, transport, ms));
            }
        }
        for record in &mut records[4..] {
            record.measured = None;
        }
        let workloads = Workloads::of(&records).unwrap();
        let choosers = [
            Judged::rule(),
            Judged::model(ModelChooser::new(Model::theory())),
            Judged::paper(),
        ];
        let contests = contests(&records);
        let verdicts = judge(&contests, &choosers, &workloads);
        assert_eq!(verdicts.choosers, ["rule", "model", "paper"]);
        let chosen: Vec<Vec<_>> = (verdicts.cells.iter())
            .map(|(.., verdicts)| verdicts.iter().map(|v| v.chosen.as_deref()).collect())
            .collect();
        assert_eq!(
            chosen,
            [
                [Some("rudp"); 3].to_vec(),
                [Some("tcp:cc=cubic"); 3].to_vec()
            ]
        );
    }

    #[test]
    fn a_workload_that_was_never_measured_has_no_answer() {
        let scenario = Scenario::named("eu-us").unwrap();
        let records = [record(&scenario, "rudp", 100.0)];
        let contests = contests(&records);
        let verdicts = judge(&contests, &[Judged::paper()], &Workloads::default());
        assert_eq!(verdicts.cells[0].2[0].chosen, None);
    }
}
