//! Records with plausible figures, for tests of code that reads records.

use transpute_netem::{model::PathCounters, scenario::Scenario};

use crate::{
    record::{Environment, Measured, PartyRecord, PathLimit, RECORD_FORMAT, RunRecord},
    runner::hosts::{HostRecord, HostsMeasured, HostsPath, HostsRecord},
};

/// Returns a record of a run with half-gates over TCP. `scenario` is the name of a preset. The run
/// time is given in milliseconds.
///
/// # Panics
/// Panics if there is no preset of this name.
#[must_use]
pub fn record(circuit: &str, scenario: &str, runtime_ms: f64) -> RunRecord {
    let scenario = Scenario::named(scenario).unwrap_or_else(|error| panic!("{error}"));
    let party = PartyRecord {
        transport: "tcp".to_owned(),
        cipher: Some("TLS13_AES_128_GCM_SHA256".to_owned()),
        ot: "direct".to_owned(),
        connect_ms: 10.0,
        handshake_ms: 20.0,
        connected_at_ms: Some(30.0),
        agreed_ms: Some(1.0),
        first_labels_ms: Some(2.0),
        first_table_ms: Some(3.0),
        last_table_ms: Some(runtime_ms - 1.0),
        output_ms: Some(runtime_ms),
        session_ms: runtime_ms + 1.0,
        sent_bytes: 1_000_000,
        received_bytes: 1000,
        table_bytes: 900_000,
        ot_bytes: 50_000,
        rtt_ms: Some(scenario.rtt_ms()),
        process_ms: runtime_ms + 100.0,
        user_s: 0.2,
        system_s: 0.1,
        peak_rss_bytes: 20 << 20,
        peak_heap_bytes: Some(5 << 20),
        cycles: None,
        instructions: None,
    };
    let counters = PathCounters {
        bytes_in: 1_100_000,
        ..PathCounters::default()
    };
    RunRecord {
        format: RECORD_FORMAT,
        circuit: circuit.to_owned(),
        scheme: "half-gates".to_owned(),
        transport: "tcp".to_owned(),
        batch: 1,
        encrypted: true,
        repetition: 0,
        path_seed: 1,
        started_unix_ms: 0,
        environment: Environment {
            congestion_control: "cubic".to_owned(),
            ..Environment::default()
        },
        error: None,
        cut_off_ms: None,
        measured: Some(Measured {
            runtime_ms,
            total_ms: runtime_ms + 30.0,
            garbler: party.clone(),
            evaluator: party,
            up: counters,
            down: counters,
            wire_up_bytes: 1_100_000,
            wire_down_bytes: 1_100_000,
            overruns: [0, 0],
            chosen: None,
            selection: None,
            timeline: None,
            and_gates: Some(6400),
            payload_up_bytes: 1_000_000,
            payload_down_bytes: 1000,
            achieved_mbit: 8000.0 / runtime_ms,
            limit: PathLimit::of(&scenario, 1.0, 1_000_000, 1000, runtime_ms),
        }),
        scenario,
    }
}

/// Returns a record of a run with half-gates over TCP between the hosts `a` and `b`. The run time
/// is given in milliseconds.
///
/// # Panics
/// Never, because the record that it is made from has measurements.
#[must_use]
pub fn hosts_record(circuit: &str, runtime_ms: f64) -> HostsRecord {
    let emulated = record(circuit, "lan", runtime_ms);
    let Some(measured) = emulated.measured else {
        panic!("the record of the fixture has measurements");
    };
    let host = |destination: &str| HostRecord {
        destination: destination.to_owned(),
        clock_offset_ms: 1.5,
        clock_uncertainty_ms: 0.25,
        environment: emulated.environment.clone(),
    };
    HostsRecord {
        format: RECORD_FORMAT,
        hosts: HostsPath {
            garbler: host("a"),
            evaluator: host("b"),
            address: "a:7700".to_owned(),
            rtt_ms: 12.0,
        },
        circuit: emulated.circuit,
        scheme: emulated.scheme,
        transport: emulated.transport,
        batch: emulated.batch,
        encrypted: emulated.encrypted,
        repetition: 0,
        started_unix_ms: 0,
        error: None,
        measured: Some(HostsMeasured {
            runtime_ms,
            total_ms: runtime_ms + 30.0,
            garbler: measured.garbler,
            evaluator: measured.evaluator,
            and_gates: 6400,
            round_trips: 1.0,
            chosen: None,
            selection: None,
            payload_up_bytes: measured.payload_up_bytes,
            payload_down_bytes: measured.payload_down_bytes,
            achieved_mbit: measured.achieved_mbit,
        }),
    }
}
