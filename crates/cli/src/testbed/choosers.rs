//! The choosers of transpute-select, judged by rows of the testbed: as if they had been told the path.

use transpute_select::{Candidate, ModelChooser, PaperRules, Rule};
use transpute_testbed::selection::{Choice, Chooser, Conditions};

use crate::model::rows::{Workloads, path_of};

/// What the tables have to say of them.
pub(super) const NOTE: &str = "`rule`, `model` and `paper's rules` know the path as it is: rate, loss, round-trip time and queue, and \
with other flows what they leave. Measuring takes no time for them, unlike for `auto`. Intervals are of a bootstrap over cells.";

/// The name of the default chooser, with which the others are compared.
pub(super) const RULE: &str = "rule";

/// Chooses knowing the path, which takes no time.
struct Knowing<'a, C> {
    name: &'static str,
    chooser: C,
    workloads: &'a Workloads,
    /// Whether it chooses by what is predicted.
    predicts: bool,
}

/// The default chooser.
pub(super) fn rule(workloads: &Workloads) -> Box<dyn Chooser + '_> {
    Box::new(Knowing {
        name: RULE,
        chooser: Rule,
        workloads,
        predicts: true,
    })
}

/// The chooser by model.
pub(super) fn model(chooser: ModelChooser, workloads: &Workloads) -> Box<dyn Chooser + '_> {
    Box::new(Knowing {
        name: "model",
        chooser,
        workloads,
        predicts: true,
    })
}

/// The rules of the paper.
pub(super) fn paper(workloads: &Workloads) -> Box<dyn Chooser + '_> {
    Box::new(Knowing {
        name: "paper's rules",
        chooser: PaperRules,
        workloads,
        predicts: false,
    })
}

impl<C: transpute_select::Chooser> Chooser for Knowing<'_, C> {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn choose(&self, conditions: &Conditions<'_>, candidates: &[&str]) -> Option<Choice> {
        let path = path_of(conditions.scenario, Some(conditions.environment)).ok()?;
        let workload =
            self.workloads
                .get(conditions.circuit, conditions.scheme, conditions.batch)?;
        let known: Vec<(&str, Candidate)> = (candidates.iter())
            .filter_map(|&name| Some((name, Candidate::new(name).ok()?)))
            .collect();
        let (names, candidates): (Vec<&str>, Vec<Candidate>) = known.into_iter().unzip();
        let choice = self.chooser.choose(&path, &workload, &candidates).ok()?;
        // Names in rows may have their settings in another order.
        let place = (candidates.iter()).position(|known| known.spec == *choice.winner())?;
        Some(Choice {
            transport: (*names.get(place)?).to_owned(),
            extra_ms: 0.0,
            predicted_ms: self.predicts.then(|| choice.prediction().seconds * 1e3),
        })
    }
}

#[cfg(test)]
mod tests {
    use transpute_select::Model;
    use transpute_testbed::{
        scenario::Scenario,
        selection::{contests, judge},
    };

    use super::*;
    use crate::model::rows::tests::row;

    #[test]
    fn both_choose_by_path_and_workload_among_what_was_run() {
        let lossy = (Scenario::named("eu-us").unwrap())
            .with_rtt_ms(110.0)
            .with_loss(0.02)
            .with_rate_mbit(500.0);
        let blocked = lossy.clone().with_udp_blocked(true);
        let mut rows = Vec::new();
        for scenario in [&lossy, &blocked] {
            for (transport, ms) in [
                ("tcp:cc=cubic", 30_000.0),
                ("quic", 3000.0),
                ("rudp", 1500.0),
            ] {
                rows.push(row(scenario, transport, ms));
            }
        }
        for row in &mut rows[4..] {
            row.measured = None;
        }
        let workloads = Workloads::of(&rows).unwrap();
        let choosers = [
            rule(&workloads),
            model(ModelChooser::new(Model::theory()), &workloads),
            paper(&workloads),
        ];
        let choosers: Vec<&dyn Chooser> = choosers.iter().map(|chooser| &**chooser).collect();
        let contests = contests(&rows);
        let verdicts = judge(&contests, &choosers);
        assert_eq!(verdicts.choosers, ["rule", "model", "paper's rules"]);
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
        let rows = [row(&scenario, "rudp", 100.0)];
        let nothing = Workloads::default();
        let contests = contests(&rows);
        let chooser = paper(&nothing);
        let verdicts = judge(&contests, &[&*chooser]);
        assert_eq!(verdicts.cells[0].2[0].chosen, None);
    }
}
