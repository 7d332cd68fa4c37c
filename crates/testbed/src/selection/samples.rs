//! Converts records to workloads for choosers and to samples for the model.

use std::collections::HashMap;

use transpute_netem::scenario::PathConfig;
use transpute_select::{End, Machine, Sample, SelectError, Spec, Workload};

use super::{AUTO, Part};
use crate::{
    emulated::path_of,
    record::{Measured, RunRecord},
};

/// Number of base OTs of an OT extension.
const BASE_TRANSFERS: f64 = 128.0;

/// Workloads computed from measured runs, by circuit, scheme and batch. They do not depend on path
/// and transport.
#[derive(Debug, Default)]
pub struct Workloads(HashMap<(String, String, u64), Workload>);

impl Workloads {
    /// Computes a workload from the first measured run of each circuit, scheme and batch.
    ///
    /// # Errors
    /// Returns [`SelectError::Number`] if a figure of a record is outside the range of a workload.
    pub fn of(records: &[RunRecord]) -> Result<Self, SelectError> {
        let mut known = HashMap::new();
        for record in records.iter().filter(|record| record.encrypted) {
            let Some(measured) = &record.measured else {
                continue;
            };
            let key = (record.circuit.clone(), record.scheme.clone(), record.batch);
            if let std::collections::hash_map::Entry::Vacant(entry) = known.entry(key) {
                entry.insert(workload(record, measured)?);
            }
        }
        Ok(Self(known))
    }

    /// Returns the workload of a circuit, scheme and batch. None if no such run was measured.
    #[must_use]
    pub fn get(&self, circuit: &str, scheme: &str, batch: u64) -> Option<Workload> {
        let key = (circuit.to_owned(), scheme.to_owned(), batch);
        self.0.get(&key).copied()
    }
}

/// Returns the samples of records, and the number of unusable records. A record is unusable if the
/// run failed or did not have the conditions of its scenario. It is also unusable if the path
/// changed or had cross traffic, because a path estimate cannot express this. Records of
/// [`Part::Unseen`] are marked as held out.
///
/// # Errors
/// Returns [`SelectError::Number`] if a figure of a record is outside the range of the model.
pub fn samples(records: &[RunRecord]) -> Result<(Vec<Sample>, usize), SelectError> {
    let workloads = Workloads::of(records)?;
    let mut samples = Vec::new();
    for record in records {
        samples.extend(sample(record, &workloads)?);
    }
    let left_out = records.len() - samples.len();
    Ok((samples, left_out))
}

fn sample(record: &RunRecord, workloads: &Workloads) -> Result<Option<Sample>, SelectError> {
    let scenario = &record.scenario;
    let changes = !scenario.up.changes.is_empty() || !scenario.down.changes.is_empty();
    if !record.encrypted || changes || scenario.cross_traffic.is_some() || record.transport == AUTO
    {
        return Ok(None);
    }
    let Ok(transport) = record.transport.parse::<Spec>() else {
        return Ok(None);
    };
    // A failure behind a firewall contains no information about the speed of a transport.
    if scenario.blocks_udp() && transport.profile().is_some_and(|profile| profile.needs_udp) {
        return Ok(None);
    }
    let (workload, total_ms) = match (&record.measured, record.cut_off_ms) {
        (Some(measured), _) if measured.overruns == [0, 0] => {
            (workload(record, measured)?, measured.total_ms)
        }
        (None, Some(cut_off_ms)) => {
            match workloads.get(&record.circuit, &record.scheme, record.batch) {
                Some(workload) => (workload, cut_off_ms),
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(Sample {
        path: path_of(scenario, Some(&record.environment))?,
        workload,
        transport,
        seconds: total_ms / 1e3,
        is_cut: record.measured.is_none(),
        cell: cell(record),
        is_held_out: Part::of(scenario, &record.circuit, record.batch) == Part::Unseen,
    }))
}

/// Returns a name that is equal for all records with the same path and workload, whatever their
/// transport. It includes all properties that [`Part`] depends on.
fn cell(record: &RunRecord) -> String {
    let path = |config: &PathConfig| {
        format!(
            "{} {} {} {:?} {:?} {}",
            config.delay_ms,
            config.jitter_ms,
            config.loss,
            config.rate_mbit,
            config.queue_limit_bytes(),
            config.udp_blocked
        )
    };
    format!(
        "{} | {} | {:?} | {} {} {}",
        path(&record.scenario.up),
        path(&record.scenario.down),
        record.scenario.socket_buffer,
        record.circuit,
        record.scheme,
        record.batch
    )
}

fn workload(record: &RunRecord, measured: &Measured) -> Result<Workload, SelectError> {
    let machine = match record.scheme.as_str() {
        "prf" => Machine::WITHOUT_FREE_XOR,
        "three-halves" => Machine::THREE_HALVES,
        _ => Machine::HALF_GATES,
    };
    let is_extended = !matches!(measured.garbler.ot.as_str(), "direct" | "none");
    let (up, down) = (measured.payload_up_bytes, measured.payload_down_bytes);
    // `ot_bytes` counts both directions of oblivious transfer. Nearly all bytes from the evaluator
    // belong to it, so the difference is about what the garbler sends for it.
    let answers = measured.garbler.ot_bytes.saturating_sub(down);
    let batch = record.batch as f64;
    let tables = measured.garbler.table_bytes as f64;
    let ands = match measured.and_gates {
        Some(gates) => batch * gates as f64,
        // Records without the number of gates are older than the other schemes, so their scheme is
        // half gates, which takes 32 bytes per AND gate.
        None => tables / 32.0,
    };
    let xors = match record.scheme.as_str() {
        // The scheme `prf` takes 32.5 bytes per AND gate and 16 bytes per XOR gate.
        "prf" => ((tables - 32.5 * ands) / 16.0).max(0.0),
        _ => 0.0,
    };
    // The evaluator sends 16 bytes for k transfers (k = 1 for IKNP), and little else.
    let transfers = match measured.garbler.ot.as_str() {
        "none" | "direct" => 0.0,
        "iknp" => down as f64 / 16.0,
        softspoken => {
            let k = softspoken.rsplit('-').next().and_then(|k| k.parse().ok());
            down as f64 * k.unwrap_or(4.0) / 16.0
        }
    };
    let base = match measured.garbler.ot.as_str() {
        "none" => 0.0,
        "direct" => (down as f64 - 300.0).max(0.0) / 64.0,
        _ => BASE_TRANSFERS,
    };
    let gates = |and_s: f64| ands * and_s + xors * machine.xor_s + transfers * machine.transfer_s;
    let workload = Workload {
        // The garbler is party A, which listens.
        garbler: End::Listener,
        garbler_bytes: up,
        garbler_late_bytes: answers.min(up),
        evaluator_bytes: down,
        // These are the flights from both parties being connected to the output.
        flights: if is_extended { 3 } else { 2 },
        serial_s: base * machine.base_transfer_s,
        garble_s: gates(machine.garble_and_s),
        evaluate_s: gates(machine.evaluate_and_s),
    };
    workload.validate()?;
    Ok(workload)
}

#[cfg(test)]
pub(crate) mod tests {
    use transpute_netem::scenario::Scenario;
    use transpute_select::UdpStatus;

    use super::*;
    use crate::record::Environment;

    /// Returns a record in a cell that is determined by these conditions.
    pub(crate) fn record(scenario: &Scenario, transport: &str, total_ms: f64) -> RunRecord {
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
        RunRecord {
            format: crate::record::RECORD_FORMAT,
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

    fn near() -> Scenario {
        Scenario::named("eu-us").unwrap().with_rtt_ms(20.0)
    }

    fn sampled(records: &[RunRecord]) -> Vec<(String, f64, bool)> {
        let (samples, left_out) = samples(records).unwrap();
        assert_eq!(samples.len() + left_out, records.len());
        (samples.iter())
            .map(|sample| (sample.transport.to_string(), sample.seconds, sample.is_cut))
            .collect()
    }

    #[test]
    fn a_run_that_was_cut_off_counts_with_the_workload_of_another() {
        let mut records = [record(&near(), "rudp", 500.0), record(&near(), "tcp", 0.0)];
        (records[1].measured, records[1].cut_off_ms) = (None, Some(8000.0));
        let (samples, _) = samples(&records).unwrap();
        assert_eq!(samples[1].workload, samples[0].workload);
        assert_eq!(samples[1].seconds, 8.0);
        assert!(samples[1].is_cut && !samples[0].is_cut);
        assert_eq!(samples[0].cell, samples[1].cell);
        // The computing time of other batches is unknown.
        records[1].batch = 2;
        assert_eq!(sampled(&records), [("rudp".to_owned(), 0.5, false)]);
    }

    #[test]
    fn behind_a_firewall_only_tcp_tells_something() {
        let blocked = near().with_udp_blocked(true);
        let mut records = [
            record(&blocked, "tcp", 500.0),
            record(&blocked, "quic", 0.0),
            record(&blocked, "rudp", 0.0),
        ];
        (records[1].measured, records[1].cut_off_ms) = (None, Some(8000.0));
        records[2].measured = None;
        assert_eq!(sampled(&records), [("tcp".to_owned(), 0.5, false)]);
        let path = path_of(&blocked, None).unwrap();
        assert_eq!(path.udp, UdpStatus::Blocked);
    }

    #[test]
    fn what_chooses_for_itself_or_shares_its_path_is_no_sample() {
        let mut records = [
            record(&near(), AUTO, 500.0),
            record(&near(), "tcp", 500.0),
            record(&near(), "tcp", 500.0),
            record(&near(), "tcp", 500.0),
        ];
        records[1].scenario.cross_traffic = Scenario::named("cross-traffic").unwrap().cross_traffic;
        records[2].encrypted = false;
        if let Some(measured) = &mut records[3].measured {
            measured.overruns = [0, 1];
        }
        assert!(sampled(&records).is_empty());
    }

    #[test]
    fn what_the_score_calls_unseen_is_not_fitted_to() {
        let mut parts = [0, 0];
        for rtt in 1..100 {
            let record = record(&near().with_rtt_ms(f64::from(rtt)), "tcp", 500.0);
            let contests = super::super::contests(std::slice::from_ref(&record));
            let is_unseen = contests[0].part() == Part::Unseen;
            let (samples, _) = samples(std::slice::from_ref(&record)).unwrap();
            assert_eq!(samples[0].is_held_out, is_unseen);
            parts[usize::from(is_unseen)] += 1;
        }
        assert!(parts.iter().all(|&count| count > 20), "{parts:?}");
    }
}
