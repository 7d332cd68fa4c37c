//! The record of one run between two real hosts: a line of JSON.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::matrix::HostsCell;
use crate::record::{
    Environment, PartyRecord, RECORD_FORMAT, Record, RecordError, SelectionRecord, read_records,
};

/// One run between two real hosts: its conditions and its result.
///
/// Its fields are those of [`RunRecord`](crate::record::RunRecord), without those of the emulator.
/// [`hosts`](Self::hosts) takes the place of the scenario.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct HostsRecord {
    /// The format version of this record: [`RECORD_FORMAT`].
    pub format: u32,
    /// The hosts and the path between them.
    pub hosts: HostsPath,
    /// The circuit, as given to `transpute testbed run`.
    pub circuit: String,
    /// The garbling scheme, as given to `transpute run`.
    pub scheme: String,
    /// The transport that the command line named.
    pub transport: String,
    /// Number of evaluations in the run.
    pub batch: u64,
    /// True if the parties used encryption and authentication.
    pub encrypted: bool,
    /// Number of the run in its cell, from 0.
    pub repetition: u32,
    /// Start of the run, in milliseconds since 1970 by the clock of the controlling machine.
    pub started_unix_ms: u64,
    /// The error of a failed run, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The measurements of a successful run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<HostsMeasured>,
}

/// Two real hosts and the path between them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct HostsPath {
    /// The host of the garbler.
    pub garbler: HostRecord,
    /// The host of the evaluator.
    pub evaluator: HostRecord,
    /// The address to which the evaluator connected.
    pub address: String,
    /// Smallest round-trip time in milliseconds that `transpute probe` measured before the first
    /// run.
    pub rtt_ms: f64,
}

/// A real host.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct HostRecord {
    /// The ssh destination.
    pub destination: String,
    /// Time by the clock of the host minus time by the clock of the controlling machine, in
    /// milliseconds, before the run.
    pub clock_offset_ms: f64,
    /// Maximum error of [`clock_offset_ms`](Self::clock_offset_ms), in milliseconds.
    pub clock_uncertainty_ms: f64,
    /// The machine and its settings.
    pub environment: Environment,
}

/// The measurements of a successful run between two real hosts. Times are in milliseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct HostsMeasured {
    /// Time from both parties being connected to the evaluator's last output, measured by the
    /// evaluator.
    pub runtime_ms: f64,
    /// Total time of the run: the evaluator's [`connect_ms`](PartyRecord::connect_ms) and
    /// [`handshake_ms`](PartyRecord::handshake_ms) plus [`runtime_ms`](Self::runtime_ms), without
    /// the gaps between them.
    pub total_ms: f64,
    /// The garbler.
    pub garbler: PartyRecord,
    /// The evaluator.
    pub evaluator: PartyRecord,
    /// AND gates of one evaluation.
    pub and_gates: u64,
    /// Number of round trips of the protocol from both parties being connected to the output.
    pub round_trips: f64,
    /// The transport, with its settings, that the evaluator chose. None if the command line named a
    /// transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// How the evaluator chose the transport. None if the command line named a transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionRecord>,
    /// Bytes of protocol messages from garbler to evaluator.
    pub payload_up_bytes: u64,
    /// Bytes of protocol messages from evaluator to garbler.
    pub payload_down_bytes: u64,
    /// [`payload_up_bytes`](Self::payload_up_bytes) divided by [`runtime_ms`](Self::runtime_ms), in
    /// Mbit/s.
    pub achieved_mbit: f64,
}

impl Record for HostsRecord {
    const FORMAT: u32 = RECORD_FORMAT;

    const HAS_HOSTS: bool = true;

    fn format(&self) -> u32 {
        self.format
    }
}

impl HostsRecord {
    /// Returns whether this record belongs to a run of this cell.
    pub(super) fn is_of(&self, cell: &HostsCell) -> bool {
        self.circuit == cell.circuit
            && self.scheme == cell.scheme
            && self.transport == cell.transport
            && self.batch == cell.batch
            && self.encrypted == cell.encrypted
            && self.hosts.garbler.destination == cell.hosts.garbler
            && self.hosts.evaluator.destination == cell.hosts.evaluator
    }
}

/// Reads the records of runs between two real hosts from a file, in order. Ignores an incomplete
/// last line, and records of runs over emulated paths.
///
/// # Errors
/// Returns [`RecordError`] if the file cannot be read or a line is invalid.
pub fn read_hosts_records(path: &Path) -> Result<Vec<HostsRecord>, RecordError> {
    read_records(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::read_run_records, report::fixture};

    #[test]
    fn both_kinds_of_records_share_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let emulated = fixture::record("aes128", "eu-us", 200.0);
        let real = fixture::hosts_record("aes128", 150.0);
        let lines = [
            serde_json::to_string(&emulated).unwrap(),
            serde_json::to_string(&real).unwrap(),
        ];
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        assert_eq!(read_run_records(&path).unwrap(), [emulated]);
        assert_eq!(read_hosts_records(&path).unwrap(), [real]);
        // Nothing of the emulator is in the record.
        for field in [
            "scenario",
            "path_seed",
            "emulator",
            "overruns",
            "wire_up_bytes",
        ] {
            assert!(!lines[1].contains(field), "{field}: {}", lines[1]);
        }
    }
}
