//! The choosers of transpute-select, judged by rows of the testbed: as if they had been told the path.

use transpute_select::{Candidate, ModelChooser, PaperRules};
use transpute_testbed::selection::{Choice, Chooser, Conditions};

use crate::model::rows::{Workloads, path_of};

/// What the tables have to say of them.
pub(super) const NOTE: &str = "`model` and `paper's rules` are told the path as it is: rate, loss, round-trip time and queue, and with \
other flows a fair share. What probing takes is not in their times, unlike those of `auto`.";

/// Chooses knowing the path, which takes no time.
struct Knowing<'a, C> {
    name: &'static str,
    chooser: C,
    workloads: &'a Workloads,
}

/// The chooser by model.
pub(super) fn model(chooser: ModelChooser, workloads: &Workloads) -> Box<dyn Chooser + '_> {
    Box::new(Knowing {
        name: "model",
        chooser,
        workloads,
    })
}

/// The rules of the paper.
pub(super) fn paper(workloads: &Workloads) -> Box<dyn Chooser + '_> {
    Box::new(Knowing {
        name: "paper's rules",
        chooser: PaperRules,
        workloads,
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
        })
    }
}

#[cfg(test)]
mod tests {
    use transpute_select::Model;
    use transpute_testbed::{
        row::{Environment, Row},
        scenario::Scenario,
        selection::{contests, judge},
    };

    use super::*;

    /// A row in a cell of which only these conditions matter.
    fn row(scenario: &Scenario, transport: &str, total_ms: f64) -> Row {
        let party = |sent: u64, received: u64| {
            serde_json::json!({
                "transport": transport, "cipher": null, "ot": "iknp", "connect_ms": 1.0, "handshake_ms": 1.0,
                "session_ms": total_ms, "sent_bytes": sent, "received_bytes": received, "table_bytes": 30_000_000,
                "ot_bytes": 60_000, "rtt_ms": null, "process_ms": total_ms, "user_s": 0.1, "system_s": 0.1,
                "peak_rss_bytes": 1,
            })
        };
        let counters = serde_json::json!({
            "packets_in": 0, "bytes_in": 0, "packets_out": 0, "bytes_out": 0, "lost_packets": 0, "lost_bytes": 0,
            "overflowed_packets": 0, "overflowed_bytes": 0, "duplicated_packets": 0, "duplicated_bytes": 0,
            "reordered_packets": 0, "queue_peak_bytes": 0,
        });
        let measured = serde_json::json!({
            "runtime_ms": total_ms - 1.0, "total_ms": total_ms, "garbler": party(30_060_000, 20_000),
            "evaluator": party(20_000, 30_060_000), "up": counters, "down": counters, "wire_up_bytes": 0,
            "wire_down_bytes": 0, "overruns": [0, 0], "and_gates": 900_000, "payload_up_bytes": 30_060_000,
            "payload_down_bytes": 20_000, "achieved_mbit": 1.0, "limit": {
                "round_trips": 1.5, "rtt_ms": 1.0, "transfer_ms": 1.0, "limit_ms": 1.0, "floor_ms": 1.0,
            },
        });
        Row {
            format: transpute_testbed::row::ROW_FORMAT,
            scenario: scenario.clone(),
            circuit: "c".to_owned(),
            scheme: "half-gates".to_owned(),
            transport: transport.to_owned(),
            batch: 1,
            encrypted: true,
            repetition: 0,
            path_seed: 0,
            started_unix_ms: 0,
            environment: Environment::default(),
            error: None,
            cut_off_ms: None,
            measured: Some(serde_json::from_value(measured).unwrap()),
        }
    }

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
            model(ModelChooser::new(Model::theory()), &workloads),
            paper(&workloads),
        ];
        let choosers: Vec<&dyn Chooser> = choosers.iter().map(|chooser| &**chooser).collect();
        let contests = contests(&rows);
        let verdicts = judge(&contests, &choosers);
        assert_eq!(verdicts.choosers, ["model", "paper's rules"]);
        let chosen: Vec<Vec<_>> = (verdicts.cells.iter())
            .map(|(.., verdicts)| verdicts.iter().map(|v| v.chosen.as_deref()).collect())
            .collect();
        assert_eq!(
            chosen,
            [
                [Some("rudp"); 2].to_vec(),
                [Some("tcp:cc=cubic"); 2].to_vec()
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
