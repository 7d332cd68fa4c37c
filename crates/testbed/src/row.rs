//! What is recorded of one run: a line of JSON.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;
use transpute_netem::{lab::Timeline, model::PathCounters, scenario::Scenario};
use transpute_units::Bandwidth;

/// The number of this format. It changes when a field changes its meaning.
pub const ROW_FORMAT: u32 = 2;

/// The longest line that is read, in bytes: far beyond what any scenario makes.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// One run of the two parties, under what conditions, and what came of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// [`ROW_FORMAT`].
    pub format: u32,
    /// The conditions of the path.
    pub scenario: Scenario,
    /// The circuit, as given to `transpute run`.
    pub circuit: String,
    /// The garbling scheme, as given to `transpute run`.
    pub scheme: String,
    /// The transport asked for. Which one it became if that was `auto` is in [`PartyRow::transport`].
    pub transport: String,
    /// Evaluations in the run.
    pub batch: u64,
    /// Whether the parties encrypted and authenticated.
    pub encrypted: bool,
    /// Which run of its cell this is, from 0. A cell is all of the above.
    pub repetition: u32,
    /// What the randomness of the path came from, other than in other repetitions.
    pub path_seed: u64,
    /// When it started, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// What it ran on.
    pub environment: Environment,
    /// Why there are no measurements: one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long the run had been going since the parties' first packet when it was cut off, in
    /// milliseconds, if it was: its total time is at least that. [`error`](Self::error) says so too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_off_ms: Option<f64>,
    /// What was measured, unless it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// What a run ran on.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Environment {
    /// Version of the testbed.
    pub testbed: String,
    /// What `transpute --version` prints.
    pub transpute: String,
    /// What emulated the path.
    pub emulator: String,
    /// Operating system and release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub cpu: String,
    /// Logical processors that the testbed may use, shared by both parties and the emulator.
    pub cpus: u32,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// The congestion control of TCP connections over the path, read back from one.
    pub congestion_control: String,
    /// `tcp_rmem` in force: least, initial and greatest receive buffer in bytes.
    pub tcp_rmem: String,
    /// `tcp_wmem` in force: least, initial and greatest send buffer in bytes.
    pub tcp_wmem: String,
    /// What [`PartyRow::cycles`] and [`PartyRow::instructions`] count: `user and kernel`,
    /// `user only`, or `none: ` and a line on why there are no counts.
    #[serde(default)]
    pub hardware_counters: String,
}

/// What was measured of a run that worked. Times are in milliseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Measured {
    /// From both parties being connected to the evaluator's last output: what transputation-2020
    /// calls the run time. By the evaluator's clock.
    pub runtime_ms: f64,
    /// From the parties' first packet to the evaluator's last output, by the clock of the machine:
    /// [`connected_at_ms`](PartyRow::connected_at_ms) of the evaluator and
    /// [`runtime_ms`](Self::runtime_ms). Of a `transpute` that does not tell when it was connected,
    /// the evaluator's time to connect, its handshake and the run time, which leaves out what is
    /// between them.
    pub total_ms: f64,
    /// The garbler, which is party A.
    pub garbler: PartyRow,
    /// The evaluator, which is party B.
    pub evaluator: PartyRow,
    /// What went from garbler to evaluator, counted by the emulator: headers, retransmissions and
    /// any cross traffic included, from the start of the parties until both have ended.
    pub up: PathCounters,
    /// What went from evaluator to garbler.
    pub down: PathCounters,
    /// Bytes that the garbler put on the wire, with headers and retransmissions, without cross
    /// traffic.
    pub wire_up_bytes: u64,
    /// Bytes that the evaluator put on the wire, with headers and retransmissions, without cross
    /// traffic.
    pub wire_down_bytes: u64,
    /// Packets from garbler and from evaluator that the emulator was too slow to take. They were lost,
    /// but not by the path: with any, the run was not under the conditions of its scenario.
    pub overruns: [u64; 2],
    /// Bytes that arrived, by time. Of the first repetition of a cell only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// AND gates of the circuit, for one evaluation; nothing in rows of before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub and_gates: Option<u64>,
    /// The transport with its settings that the evaluator, which connects, chose; nothing if it was asked for by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// How it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionRow>,
    /// Bytes of protocol messages from garbler to evaluator: without transport, encryption and
    /// retransmissions.
    pub payload_up_bytes: u64,
    /// Bytes of protocol messages from evaluator to garbler.
    pub payload_down_bytes: u64,
    /// Payload up per [`runtime_ms`](Self::runtime_ms), in Mbit/s. To compare with the scenario's
    /// `up.rate_mbit`.
    pub achieved_mbit: f64,
    /// What no implementation can beat under these conditions.
    pub limit: Limit,
}

/// How a transport was chosen.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SelectionRow {
    /// What chose, such as `model`.
    pub chooser: String,
    /// Why, for people to read.
    pub reason: String,
    /// How sure it was, from 0 to 1.
    pub confidence: f64,
    /// What was predicted for the transport chosen from the moment of the choice on: what was left of its set-up, and the run, in
    /// seconds.
    pub predicted_s: f64,
    /// From the start of connecting to the choice, in milliseconds.
    pub decided_after_ms: f64,
    /// Transports that were chosen before and failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

/// What the conditions allow at best. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Limit {
    /// Round trips that the protocol needs from connected to output.
    pub round_trips: f64,
    /// Round-trip time of the scenario as it starts, without queues.
    pub rtt_ms: f64,
    /// Time that the payload of the busier direction takes at its rate; 0 without a bottleneck.
    pub transfer_ms: f64,
    /// Round trips and transfer, one after the other.
    pub limit_ms: f64,
    /// Round trips and transfer as far as they overlap: the greater of all round trips, and of the
    /// transfer and one way. Nothing is faster than this; `limit_ms` is beaten by a protocol that
    /// sends tables before it hears from the evaluator.
    pub floor_ms: f64,
    /// Run time as a multiple of `limit_ms`; nothing where that is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

impl Limit {
    /// Returns the limits of a scenario for a protocol that took `runtime_ms`.
    ///
    /// Changes over time are not considered: a path that gets faster has lower limits.
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

/// One party of a run. Times are in milliseconds; moments count from both parties being connected.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PartyRow {
    /// The transport that was used.
    pub transport: String,
    /// The cipher suite; nothing in plaintext.
    pub cipher: Option<String>,
    /// The oblivious transfer that was used.
    pub ot: String,
    /// How long establishing the connection took; for the listener, from the peer's first sign.
    pub connect_ms: f64,
    /// How long the handshake took.
    pub handshake_ms: f64,
    /// When the party was connected, since the parties' first packet: puts the moments of both on
    /// one clock. Nothing of a `transpute` that does not tell.
    #[serde(default)]
    pub connected_at_ms: Option<f64>,
    /// When the parties had agreed on what to compute.
    pub agreed_ms: Option<f64>,
    /// When the first labels from oblivious transfer were there.
    pub first_labels_ms: Option<f64>,
    /// When the first table was there.
    pub first_table_ms: Option<f64>,
    /// When the last table was there.
    pub last_table_ms: Option<f64>,
    /// When the last output was there.
    pub output_ms: Option<f64>,
    /// When the session was over.
    pub session_ms: f64,
    /// Bytes of protocol messages sent.
    pub sent_bytes: u64,
    /// Bytes of protocol messages received.
    pub received_bytes: u64,
    /// Of both directions: bytes of garbled tables.
    pub table_bytes: u64,
    /// Of both directions: bytes of oblivious transfer.
    pub ot_bytes: u64,
    /// Round-trip time that the transport saw.
    pub rtt_ms: Option<f64>,
    /// From the start of the process to its end.
    pub process_ms: f64,
    /// Processor seconds in user mode, of the whole process.
    pub user_s: f64,
    /// Processor seconds in the kernel, of the whole process.
    pub system_s: f64,
    /// The most memory that was resident, in bytes, of the whole process.
    pub peak_rss_bytes: u64,
    /// The most bytes that the process had allocated at once, by the count of its allocator. What C
    /// libraries allocate for themselves is not in it. Nothing where `transpute` does not tell.
    #[serde(default)]
    pub peak_heap_bytes: Option<u64>,
    /// Processor cycles of the whole process with its threads, from the moment at which it became
    /// the program; [`Environment::hardware_counters`] says in which modes, or why there are none.
    #[serde(default)]
    pub cycles: Option<u64>,
    /// Instructions, counted as [`cycles`](Self::cycles) are.
    #[serde(default)]
    pub instructions: Option<u64>,
}

/// Why rows cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RowError {
    /// The file cannot be read.
    #[error("{}: cannot read the results", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line is no row.
    #[error("{}:{line}: not a row of results: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A row is of another format.
    #[error("{}:{line}: a row of format {found}; expected {expected}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The format that is read.
        expected: u32,
        /// Its format.
        found: u32,
    },
}

/// What files of results have a line of JSON for.
pub(crate) trait Record: DeserializeOwned + Serialize {
    /// The number of the format that is read and written.
    const FORMAT: u32;

    /// Returns the number of its own format.
    fn format(&self) -> u32;
}

impl Record for Row {
    const FORMAT: u32 = ROW_FORMAT;

    fn format(&self) -> u32 {
        self.format
    }
}

/// Reads the rows of a file, in order.
///
/// A last line without its end is left out: a killed runner was about to write it.
///
/// # Errors
/// [`RowError`], which names the line.
pub fn read_rows(path: &Path) -> Result<Vec<Row>, RowError> {
    read_records(path)
}

/// Reads the records of a file, in order, without a last line that has no end.
pub(crate) fn read_records<R: Record>(path: &Path) -> Result<Vec<R>, RowError> {
    let cannot = |source| RowError::Read {
        path: path.to_owned(),
        source,
    };
    let mut reader = BufReader::new(File::open(path).map_err(cannot)?);
    let mut rows = Vec::new();
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
        let row: R = serde_json::from_slice(&text).map_err(|source| RowError::Line {
            path: path.to_owned(),
            line,
            source,
        })?;
        if row.format() != R::FORMAT {
            return Err(RowError::Format {
                path: path.to_owned(),
                line,
                expected: R::FORMAT,
                found: row.format(),
            });
        }
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(repetition: u32) -> Row {
        Row {
            format: ROW_FORMAT,
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
    fn rows_are_read_but_not_a_torn_last_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let lines: Vec<_> = (0..3)
            .map(|repetition| serde_json::to_string(&row(repetition)).unwrap())
            .collect();
        let torn = &lines[2][..lines[2].len() / 2];
        std::fs::write(&path, format!("{}\n\n{}\n{torn}", lines[0], lines[1])).unwrap();
        assert_eq!(read_rows(&path).unwrap(), [row(0), row(1)]);

        std::fs::write(&path, format!("{}\n{torn}\n", lines[0])).unwrap();
        let error = read_rows(&path).unwrap_err();
        assert!(matches!(error, RowError::Line { line: 2, .. }), "{error}");

        let other = lines[0].replace("\"format\":2", "\"format\":9");
        std::fs::write(&path, format!("{other}\n")).unwrap();
        let error = read_rows(&path).unwrap_err();
        assert!(
            matches!(
                error,
                RowError::Format {
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
        // 12.5 MB at 1 Gbit/s take 100 ms.
        let limit = Limit::of(&scenario, 1.0, 12_500_000, 1000, 420.0);
        assert_eq!((limit.transfer_ms, limit.limit_ms), (100.0, 210.0));
        assert_eq!((limit.floor_ms, limit.ratio), (155.0, Some(2.0)));
        // Few bytes: the round trips are all there is.
        assert_eq!(Limit::of(&scenario, 2.0, 1, 1, 1.0).floor_ms, 220.0);
        let none = Limit::of(&Scenario::named("loopback").unwrap(), 1.0, 1 << 20, 9, 5.0);
        assert_eq!((none.limit_ms, none.ratio), (0.0, None));
    }
}
