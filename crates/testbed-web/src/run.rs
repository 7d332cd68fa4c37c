//! A run in the history: the fields that lists, filters and comparisons use.

use serde::{Deserialize, Serialize};
use transpute_netem::{model::PathCounters, scenario::Scenario};
use transpute_testbed::{
    live::LiveState,
    pair::PairReport,
    record::{Measured, PathLimit, RunRecord},
};

/// The result of a run.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RunState {
    Ok,
    Failed,
    CutOff,
}

/// The kind of a run.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RunKind {
    /// A garbler and an evaluator run a circuit.
    Run,
    /// Two programs of a user run.
    Programs,
}

/// The predicted time of a run and its 80 % interval, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Predicted {
    pub(super) seconds: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A run. The order of the fields is the order of the columns in CSV exports.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Run {
    /// The number of the run. It is 0 until the history assigns one.
    #[serde(default)]
    pub(super) id: i64,
    pub(super) job: Option<i64>,
    pub(super) kind: RunKind,
    pub(super) started_unix_ms: u64,
    pub(super) state: RunState,
    pub(super) error: Option<String>,
    pub(super) circuit: String,
    pub(super) circuit_label: String,
    pub(super) scheme: String,
    pub(super) transport: String,
    pub(super) used_transport: Option<String>,
    pub(super) batch: u64,
    pub(super) encrypted: bool,
    pub(super) repetition: u32,
    pub(super) scenario: String,
    pub(super) rtt_ms: f64,
    pub(super) loss: f64,
    pub(super) rate_mbit: Option<f64>,
    pub(super) queue_bytes: Option<u64>,
    pub(super) jitter_ms: f64,
    pub(super) udp_blocked: bool,
    pub(super) runtime_ms: Option<f64>,
    pub(super) total_ms: Option<f64>,
    pub(super) round_trips: Option<f64>,
    pub(super) transfer_ms: Option<f64>,
    pub(super) limit_ms: Option<f64>,
    pub(super) floor_ms: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) predicted_s: Option<f64>,
    pub(super) predicted_low_s: Option<f64>,
    pub(super) predicted_high_s: Option<f64>,
    /// The transport of the job that the model predicts to be the fastest.
    #[serde(default)]
    pub(super) pick: Option<String>,
    pub(super) and_gates: Option<u64>,
    pub(super) payload_up_bytes: Option<u64>,
    pub(super) payload_down_bytes: Option<u64>,
    pub(super) wire_up_bytes: Option<u64>,
    pub(super) wire_down_bytes: Option<u64>,
    pub(super) lost_packets: Option<u64>,
    pub(super) overflowed_packets: Option<u64>,
    pub(super) retransmitted_segments: Option<u64>,
    pub(super) achieved_mbit: Option<f64>,
    pub(super) garbler_cpu_s: Option<f64>,
    pub(super) evaluator_cpu_s: Option<f64>,
    pub(super) overruns: Option<u64>,
    /// A digest of the scenario. Only runs with equal digests are compared.
    pub(super) conditions: String,
}

impl Run {
    /// Creates a run with the conditions of a scenario and no results.
    pub(super) fn under(scenario: &Scenario, kind: RunKind, started_unix_ms: u64) -> Self {
        Self {
            id: 0,
            job: None,
            kind,
            started_unix_ms,
            state: RunState::Ok,
            error: None,
            circuit: String::new(),
            circuit_label: String::new(),
            scheme: String::new(),
            transport: String::new(),
            used_transport: None,
            batch: 1,
            encrypted: true,
            repetition: 0,
            scenario: scenario.name.clone(),
            rtt_ms: scenario.rtt_ms(),
            loss: scenario.up.loss,
            rate_mbit: scenario.up.rate_mbit,
            queue_bytes: scenario.up.queue_limit_bytes(),
            jitter_ms: scenario.up.jitter_ms.max(scenario.down.jitter_ms),
            udp_blocked: scenario.blocks_udp(),
            runtime_ms: None,
            total_ms: None,
            round_trips: None,
            transfer_ms: None,
            limit_ms: None,
            floor_ms: None,
            ratio: None,
            predicted_s: None,
            predicted_low_s: None,
            predicted_high_s: None,
            pick: None,
            and_gates: None,
            payload_up_bytes: None,
            payload_down_bytes: None,
            wire_up_bytes: None,
            wire_down_bytes: None,
            lost_packets: None,
            overflowed_packets: None,
            retransmitted_segments: None,
            achieved_mbit: None,
            garbler_cpu_s: None,
            evaluator_cpu_s: None,
            overruns: None,
            conditions: conditions(scenario),
        }
    }

    /// Creates a run from a record. `label` is the name of the circuit that users see.
    pub(super) fn of_record(record: &RunRecord, label: &str) -> Self {
        let mut run = Self {
            circuit: record.circuit.clone(),
            circuit_label: label.to_owned(),
            scheme: record.scheme.clone(),
            transport: record.transport.clone(),
            batch: record.batch,
            encrypted: record.encrypted,
            repetition: record.repetition,
            error: record.error.clone(),
            state: match (&record.error, record.cut_off_ms) {
                (Some(_), Some(_)) => RunState::CutOff,
                (Some(_), None) => RunState::Failed,
                (None, _) => RunState::Ok,
            },
            ..Self::under(&record.scenario, RunKind::Run, record.started_unix_ms)
        };
        if let Some(measured) = &record.measured {
            run.take(measured);
        }
        run
    }

    fn take(&mut self, measured: &Measured) {
        let PathLimit {
            round_trips,
            transfer_ms,
            limit_ms,
            floor_ms,
            ratio,
            ..
        } = measured.limit;
        self.used_transport = Some(measured.evaluator.transport.clone());
        self.runtime_ms = Some(measured.runtime_ms);
        self.total_ms = Some(measured.total_ms);
        self.round_trips = Some(round_trips);
        self.transfer_ms = Some(transfer_ms);
        self.limit_ms = Some(limit_ms);
        self.floor_ms = Some(floor_ms);
        self.ratio = ratio;
        self.and_gates = measured.and_gates;
        self.payload_up_bytes = Some(measured.payload_up_bytes);
        self.payload_down_bytes = Some(measured.payload_down_bytes);
        self.wire_up_bytes = Some(measured.wire_up_bytes);
        self.wire_down_bytes = Some(measured.wire_down_bytes);
        self.achieved_mbit = Some(measured.achieved_mbit);
        self.garbler_cpu_s = Some(measured.garbler.user_s + measured.garbler.system_s);
        self.evaluator_cpu_s = Some(measured.evaluator.user_s + measured.evaluator.system_s);
        self.count([&measured.up, &measured.down], measured.overruns);
    }

    /// Adds the measurements of users' programs.
    pub(super) fn take_programs(&mut self, report: &PairReport) {
        self.total_ms = Some(report.seconds * 1e3);
        let [up, down] = report.party_bytes;
        self.wire_up_bytes = Some(up);
        self.wire_down_bytes = Some(down);
        let seconds = report.seconds.max(1e-6);
        self.achieved_mbit = Some(up as f64 * 8.0 / 1e6 / seconds);
        self.count([&report.up, &report.down], report.overruns);
        let code = |side, code: Option<i32>| match code {
            Some(0) => None,
            Some(code) => Some(format!(
                "the program on side {side} exited with code {code}"
            )),
            None => Some(format!("the program on side {side} was ended by a signal")),
        };
        // The program on side A gets SIGTERM when the one on side B has ended, so exit code 143 is
        // not a failure.
        self.error = code("B", report.b_code).or_else(|| {
            let by_itself = report.a_code.filter(|&code| code != 143)?;
            code("A", Some(by_itself))
        });
        if self.error.is_some() {
            self.state = RunState::Failed;
        }
    }

    fn count(&mut self, paths: [&PathCounters; 2], overruns: [u64; 2]) {
        self.lost_packets = Some(paths.iter().map(|path| path.lost_packets).sum());
        self.overflowed_packets = Some(paths.iter().map(|path| path.overflowed_packets).sum());
        self.overruns = Some(overruns.iter().sum());
    }

    /// Adds the number of retransmitted segments from the last state of the run.
    pub(super) fn take_last_look(&mut self, look: &LiveState) {
        self.retransmitted_segments = look.retransmitted_segments;
    }

    pub(super) fn take_prediction(&mut self, predicted: Predicted) {
        self.predicted_s = Some(predicted.seconds);
        self.predicted_low_s = Some(predicted.low);
        self.predicted_high_s = Some(predicted.high);
    }

    /// Returns the lower bounds of the run time that the path sets. None if they are unknown.
    pub(super) fn limit(&self) -> Option<PathLimit> {
        Some(PathLimit {
            round_trips: self.round_trips?,
            rtt_ms: self.rtt_ms,
            transfer_ms: self.transfer_ms?,
            limit_ms: self.limit_ms?,
            floor_ms: self.floor_ms?,
            ratio: None,
        })
    }
}

/// Returns a digest that is equal for scenarios that differ only in name, description and seed.
fn conditions(scenario: &Scenario) -> String {
    use sha2::{Digest, Sha256};

    let same = Scenario {
        name: String::new(),
        description: String::new(),
        seed: 0,
        ..scenario.clone()
    };
    let digest = Sha256::digest(format!("{same:?}"));
    transpute::circuit::hex(&digest[..8])
}

#[cfg(test)]
mod tests {
    use transpute_testbed::report::fixture::record;

    use super::*;

    #[test]
    fn a_run_has_the_values_of_its_record() {
        let record = record("aes128", "eu-us", 230.0);
        let run = Run::of_record(&record, "AES");
        assert_eq!((run.state, run.kind), (RunState::Ok, RunKind::Run));
        assert_eq!((run.runtime_ms, run.total_ms), (Some(230.0), Some(260.0)));
        assert_eq!(
            (run.rtt_ms, run.loss, run.rate_mbit),
            (110.0, 0.0, Some(1000.0))
        );
        let limit = record.measured.as_ref().unwrap().limit;
        assert_eq!(
            run.limit(),
            Some(PathLimit {
                ratio: None,
                ..limit
            })
        );
        assert_eq!(run.circuit_label, "AES");
        let json = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&json).unwrap(), run);
    }

    #[test]
    fn a_record_with_an_error_is_a_failed_run() {
        let mut record = record("aes128", "lan", 1.0);
        record.measured = None;
        record.error = Some("it broke".to_owned());
        assert_eq!(Run::of_record(&record, "").state, RunState::Failed);
        record.cut_off_ms = Some(2e3);
        let run = Run::of_record(&record, "");
        assert_eq!((run.state, run.limit()), (RunState::CutOff, None));
    }

    #[test]
    fn conditions_do_not_depend_on_name_and_seed() {
        let scenario = Scenario::named("eu-us").unwrap();
        let mut same = scenario.clone();
        (same.name, same.seed) = ("mine".to_owned(), 7);
        assert_eq!(conditions(&scenario), conditions(&same));
        assert_ne!(conditions(&scenario), conditions(&same.with_loss(0.1)));
    }
}
