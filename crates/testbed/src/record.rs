//! The record of one run: a line of JSON.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use thiserror::Error;
use transpute_netem::{lab::Timeline, model::PathCounters, scenario::Scenario};
use transpute_units::Bandwidth;

/// Version of the record format. It changes when a field changes its meaning.
pub const RECORD_FORMAT: u32 = 2;

/// Maximum length of a line of JSON in a file of records, in bytes. No real record is that long.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// One run of the two parties: its conditions and its result.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RunRecord {
    /// The format version of this record: [`RECORD_FORMAT`].
    pub format: u32,
    /// The conditions of the path.
    pub scenario: Scenario,
    /// The circuit, as given to `transpute run`.
    pub circuit: String,
    /// The garbling scheme, as given to `transpute run`.
    pub scheme: String,
    /// The transport that the command line named. If it is `auto`, the parties' choice is in
    /// [`PartyRecord::transport`].
    pub transport: String,
    /// Number of evaluations in the run.
    pub batch: u64,
    /// True if the parties used encryption and authentication.
    pub encrypted: bool,
    /// Number of the run in its cell, from 0. The fields above define the cell.
    pub repetition: u32,
    /// The seed of the path's randomness. It differs between repetitions.
    pub path_seed: u64,
    /// Start of the run, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The machine of the run and its settings.
    pub environment: Environment,
    /// The error of a failed run, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time from the parties' first packet until the run was cut off, in milliseconds. This is a
    /// lower bound of the total time. [`error`](Self::error) then also describes the cut-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_off_ms: Option<f64>,
    /// The measurements of a successful run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// The machine and its settings.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Environment {
    /// Version of the testbed crate.
    pub testbed: String,
    /// Output of `transpute --version`.
    pub transpute: String,
    /// The name and kind of the path emulator. Empty for a real host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub emulator: String,
    /// Operating system and release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub cpu: String,
    /// Number of logical processors available to the testbed, shared by both parties and the
    /// emulator.
    pub cpus: u32,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// The congestion control of TCP over the path, as read from an open connection.
    pub congestion_control: String,
    /// The sysctl `tcp_rmem`: minimum, default and maximum receive buffer in bytes.
    pub tcp_rmem: String,
    /// The sysctl `tcp_wmem`: minimum, default and maximum send buffer in bytes.
    pub tcp_wmem: String,
    /// The processor modes in which [`PartyRecord::cycles`] and [`PartyRecord::instructions`] are
    /// counted: `user and kernel`, `user only`, or `none: ` with the reason for missing counts.
    #[serde(default)]
    pub hardware_counters: String,
}

/// The measurements of a successful run. Times are in milliseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Measured {
    /// Time from both parties being connected to the evaluator's last output, measured by the
    /// evaluator. Transputation (2020) calls it the run time.
    pub runtime_ms: f64,
    /// Time from the parties' first packet to the evaluator's last output. It is the sum of the
    /// evaluator's [`connected_at_ms`](PartyRecord::connected_at_ms) and
    /// [`runtime_ms`](Self::runtime_ms). Without `connected_at_ms`, it is the sum of the
    /// evaluator's `connect_ms`, `handshake_ms` and `runtime_ms`, without the gaps between them.
    pub total_ms: f64,
    /// The garbler, which is party A.
    pub garbler: PartyRecord,
    /// The evaluator, which is party B.
    pub evaluator: PartyRecord,
    /// The emulator's counters of packets from garbler to evaluator, from the start of the parties
    /// to the end of both. They include headers, retransmissions and cross traffic.
    pub up: PathCounters,
    /// The emulator's counters of packets from evaluator to garbler.
    pub down: PathCounters,
    /// Bytes that the garbler put on the wire, with headers and retransmissions, without cross
    /// traffic.
    pub wire_up_bytes: u64,
    /// Bytes that the evaluator put on the wire, with headers and retransmissions, without cross
    /// traffic.
    pub wire_down_bytes: u64,
    /// Number of packets from the garbler and from the evaluator that the emulator dropped because
    /// it was too slow. If one is above 0, the run did not have the conditions of its scenario.
    pub overruns: [u64; 2],
    /// Number of bytes that arrived in each interval of the run. By default, only the first
    /// repetition of a cell has a timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// AND gates of one evaluation. None in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub and_gates: Option<u64>,
    /// The transport, with its settings, that the connecting evaluator chose. None if the command
    /// line named a transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// How the evaluator chose the transport. None if the command line named a transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionRecord>,
    /// Bytes of protocol messages from garbler to evaluator, without overhead of transport and
    /// encryption and without retransmissions.
    pub payload_up_bytes: u64,
    /// Bytes of protocol messages from evaluator to garbler.
    pub payload_down_bytes: u64,
    /// [`payload_up_bytes`](Self::payload_up_bytes) divided by [`runtime_ms`](Self::runtime_ms), in
    /// Mbit/s. It is comparable with `up.rate_mbit` of the scenario.
    pub achieved_mbit: f64,
    /// The minimum run time that the round trips and the rate of the path allow.
    pub limit: PathLimit,
}

/// How a party chose the transport.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SelectionRecord {
    /// The name of the chooser, such as `model`.
    pub chooser: String,
    /// The reason for the choice, as text.
    pub reason: String,
    /// The predicted probability, from 0 to 1, that no other transport is more than 5 % faster.
    pub confidence: f64,
    /// Predicted duration of the rest of the set-up and of the run, in seconds, from the choice on.
    pub predicted_s: f64,
    /// Time from the start of connecting to the choice, in milliseconds.
    pub decided_after_ms: f64,
    /// Transports that were chosen earlier in this run and failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

/// Lower bounds of the run time from the round trips and the rate of the path. Times are in
/// milliseconds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct PathLimit {
    /// Number of round trips of the protocol from both parties being connected to the output.
    pub round_trips: f64,
    /// Initial round-trip time of the scenario, without queueing.
    pub rtt_ms: f64,
    /// Time to transfer the payload at the rate of the path, for the direction that takes longer. 0
    /// without a bottleneck.
    pub transfer_ms: f64,
    /// Time of all round trips plus `transfer_ms`, without overlap.
    pub limit_ms: f64,
    /// Lower bound with the largest possible overlap: the maximum of the time of all round trips,
    /// and of each direction's transfer time plus its delay. No protocol is faster. A protocol in
    /// which the garbler sends tables before it receives a message can be faster than `limit_ms`.
    pub floor_ms: f64,
    /// Run time divided by `limit_ms`. None if `limit_ms` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

impl PathLimit {
    /// Computes the limits from the initial conditions of a scenario. `runtime_ms` is used for the
    /// ratio only. Later changes of the path are ignored, so a run over a path that becomes faster
    /// can take less time than `floor_ms`.
    #[must_use]
    pub fn of(
        scenario: &Scenario,
        round_trips: f64,
        payload_up_bytes: u64,
        payload_down_bytes: u64,
        runtime_ms: f64,
    ) -> Self {
        let transfer = |bytes: u64, rate: Option<f64>| {
            rate.map_or(0.0, |mbit| {
                1e3 * Bandwidth::from_megabits_per_second(mbit).seconds_to_send(bytes as f64)
            })
        };
        let up_ms = transfer(payload_up_bytes, scenario.up.rate_mbit);
        let down_ms = transfer(payload_down_bytes, scenario.down.rate_mbit);
        let rtt_ms = scenario.rtt_ms();
        let transfer_ms = up_ms.max(down_ms);
        let limit_ms = round_trips * rtt_ms + transfer_ms;
        let floor_ms = (round_trips * rtt_ms)
            .max(up_ms + scenario.up.delay_ms)
            .max(down_ms + scenario.down.delay_ms);
        Self {
            round_trips,
            rtt_ms,
            transfer_ms,
            limit_ms,
            floor_ms,
            ratio: (limit_ms > 0.0).then(|| runtime_ms / limit_ms),
        }
    }
}

/// The measurements of one party. Times are in milliseconds. Points in time are relative to the
/// time at which both parties were connected.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PartyRecord {
    /// The name of the transport in use.
    pub transport: String,
    /// The cipher suite. None in plaintext.
    pub cipher: Option<String>,
    /// The name of the oblivious transfer in use.
    pub ot: String,
    /// Time to connect. At the listener, it starts with the peer's first packet.
    pub connect_ms: f64,
    /// Duration of the handshake of the link.
    pub handshake_ms: f64,
    /// Time from the first packet of either party until this party was connected. It relates the
    /// times of both parties to each other. None if `transpute` does not report it.
    #[serde(default)]
    pub connected_at_ms: Option<f64>,
    /// Time at which the parties agreed on the computation.
    pub agreed_ms: Option<f64>,
    /// Time at which the labels of the evaluator's inputs of the first evaluation were sent or
    /// received.
    pub first_labels_ms: Option<f64>,
    /// Time at which the first chunk of tables was sent or received.
    pub first_table_ms: Option<f64>,
    /// Time at which the last table was sent or received.
    pub last_table_ms: Option<f64>,
    /// Time at which the last output was known.
    pub output_ms: Option<f64>,
    /// Time at which the session ended.
    pub session_ms: f64,
    /// Bytes of protocol messages sent.
    pub sent_bytes: u64,
    /// Bytes of protocol messages received.
    pub received_bytes: u64,
    /// Bytes of garbled tables sent and received.
    pub table_bytes: u64,
    /// Bytes of oblivious transfer sent and received.
    pub ot_bytes: u64,
    /// Round-trip time that the transport measured. None if it measures none.
    pub rtt_ms: Option<f64>,
    /// Time from the start of the process until it closed its output.
    pub process_ms: f64,
    /// Processor seconds in user mode, of the whole process.
    pub user_s: f64,
    /// Processor seconds in the kernel, of the whole process.
    pub system_s: f64,
    /// Peak of resident memory of the whole process, in bytes.
    pub peak_rss_bytes: u64,
    /// Largest number of bytes that the process had allocated at once, counted by its allocator. It
    /// excludes allocations of C libraries. None if `transpute` does not report it.
    #[serde(default)]
    pub peak_heap_bytes: Option<u64>,
    /// Processor cycles of all threads of the process, counted from the execution of its program.
    /// None without hardware counters. [`Environment::hardware_counters`] has the counted processor
    /// modes, or the reason for a missing count.
    #[serde(default)]
    pub cycles: Option<u64>,
    /// Executed instructions, counted like [`cycles`](Self::cycles).
    #[serde(default)]
    pub instructions: Option<u64>,
}

/// The error of reading records.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be read.
    #[error("{}: cannot read the results", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A line of the file is not valid JSON for a record.
    #[error("{}:{line}: not a record of a run: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A record has an unsupported format version.
    #[error("{}:{line}: a record of format {found}; expected {expected}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The supported version.
        expected: u32,
        /// The format version of the record.
        found: u32,
    },
}

/// A record that is stored as a line of JSON in a file of results.
pub(crate) trait Record: DeserializeOwned + Serialize {
    /// The supported version of the format.
    const FORMAT: u32;

    /// True if records of this kind have the field `hosts`, which describes a path between two real
    /// hosts.
    const HAS_HOSTS: bool = false;

    /// Returns the version of this record.
    fn format(&self) -> u32;
}

impl Record for RunRecord {
    const FORMAT: u32 = RECORD_FORMAT;

    fn format(&self) -> u32 {
        self.format
    }
}

/// Reads the records of runs over emulated paths from a file, in order. Ignores an incomplete last
/// line, which a runner leaves if it is killed while it writes. Also ignores records of runs
/// between two real hosts, which [`read_hosts_records`](crate::runner::hosts::read_hosts_records)
/// returns.
///
/// # Errors
/// Returns [`RecordError`] if the file cannot be read or a line is invalid.
pub fn read_run_records(path: &Path) -> Result<Vec<RunRecord>, RecordError> {
    read_records(path)
}

/// The field by which the kinds of records in a file of results differ.
#[derive(Deserialize)]
struct Kind {
    hosts: Option<IgnoredAny>,
}

/// Reads the records of one kind from a file, in order, without an incomplete last line.
pub(crate) fn read_records<R: Record>(path: &Path) -> Result<Vec<R>, RecordError> {
    let cannot = |source| RecordError::Read {
        path: path.to_owned(),
        source,
    };
    let mut reader = BufReader::new(File::open(path).map_err(cannot)?);
    let mut records = Vec::new();
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let limited = &mut io::Read::take(&mut reader, MAX_LINE_BYTES);
        let read = limited.read_until(b'\n', &mut text).map_err(cannot)?;
        if read as u64 == MAX_LINE_BYTES {
            return Err(cannot(io::Error::other(format!(
                "line {line} has more than {MAX_LINE_BYTES} bytes"
            ))));
        }
        if !text.ends_with(b"\n") {
            break;
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let invalid = |source| RecordError::Line {
            path: path.to_owned(),
            line,
            source,
        };
        let record: R = match serde_json::from_slice(&text) {
            Ok(record) => record,
            Err(error) => match serde_json::from_slice::<Kind>(&text) {
                Ok(kind) if kind.hosts.is_some() != R::HAS_HOSTS => continue,
                _ => return Err(invalid(error)),
            },
        };
        if record.format() != R::FORMAT {
            return Err(RecordError::Format {
                path: path.to_owned(),
                line,
                expected: R::FORMAT,
                found: record.format(),
            });
        }
        records.push(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(repetition: u32) -> RunRecord {
        RunRecord {
            format: RECORD_FORMAT,
            scenario: Scenario::named("eu-us").unwrap(),
            circuit: "aes128".to_owned(),
            scheme: "half-gates".to_owned(),
            transport: "tcp".to_owned(),
            batch: 1,
            encrypted: true,
            repetition,
            path_seed: 1,
            started_unix_ms: 0,
            environment: Environment::default(),
            error: Some("the evaluator failed".to_owned()),
            cut_off_ms: None,
            measured: None,
        }
    }

    #[test]
    fn records_are_read_but_not_a_torn_last_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let lines: Vec<_> = (0..3)
            .map(|repetition| serde_json::to_string(&record(repetition)).unwrap())
            .collect();
        let torn = &lines[2][..lines[2].len() / 2];
        std::fs::write(&path, format!("{}\n\n{}\n{torn}", lines[0], lines[1])).unwrap();
        assert_eq!(read_run_records(&path).unwrap(), [record(0), record(1)]);

        std::fs::write(&path, format!("{}\n{torn}\n", lines[0])).unwrap();
        let error = read_run_records(&path).unwrap_err();
        assert!(
            matches!(error, RecordError::Line { line: 2, .. }),
            "{error}"
        );

        let other = lines[0].replace("\"format\":2", "\"format\":9");
        std::fs::write(&path, format!("{other}\n")).unwrap();
        let error = read_run_records(&path).unwrap_err();
        assert!(
            matches!(
                error,
                RecordError::Format {
                    line: 1,
                    found: 9,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn limits_add_round_trips_and_transfer() {
        let scenario = Scenario::named("eu-us").unwrap();
        // 12.5 MB at 1 Gbit/s take 100 ms to transfer.
        let limit = PathLimit::of(&scenario, 1.0, 12_500_000, 1000, 420.0);
        assert_eq!((limit.transfer_ms, limit.limit_ms), (100.0, 210.0));
        assert_eq!((limit.floor_ms, limit.ratio), (155.0, Some(2.0)));
        // With few bytes, only the round trips count.
        assert_eq!(PathLimit::of(&scenario, 2.0, 1, 1, 1.0).floor_ms, 220.0);
        let none = PathLimit::of(&Scenario::named("loopback").unwrap(), 1.0, 1 << 20, 9, 5.0);
        assert_eq!((none.limit_ms, none.ratio), (0.0, None));
    }
}
