//! The record of a run of two commands: a line of JSON.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use transpute_netem::{model::PathCounters, scenario::Scenario};

use super::{ProgramCell, Setting};
use crate::record::{Environment, Record, RecordError, read_records};

/// Version of the record format. It changes when a field changes its meaning.
pub const PROGRAM_RECORD_FORMAT: u32 = 1;

/// One run of two commands: its conditions and its result.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ProgramRecord {
    /// The format version of this record: [`PROGRAM_RECORD_FORMAT`].
    pub format: u32,
    /// The name of the experiment in the plan.
    pub experiment: String,
    /// The values of the experiment's variables.
    pub variables: BTreeMap<String, Setting>,
    /// The conditions of the path.
    pub scenario: Scenario,
    /// The commands of side A and side B, as the shell received them.
    pub commands: [String; 2],
    /// Number of the run in its cell, from 0. The fields above define the cell.
    pub repetition: u32,
    /// The seed of the path's randomness. It differs between repetitions.
    pub path_seed: u64,
    /// Start of the run, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The machine and its settings.
    pub environment: Environment,
    /// Time limit of the run, in seconds.
    pub time_limit_s: f64,
    /// The error in one line, if a command failed or printed no result, or the run was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// True if the command on side B was ended at [`time_limit_s`](Self::time_limit_s).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// Time from the start to the end of the command on side B, in seconds.
    pub seconds: f64,
    /// Exit codes of the commands on side A and side B. None if a signal ended the command. This is
    /// usual for a server on side A.
    pub codes: [Option<i32>; 2],
    /// The results that the commands printed as JSON.
    pub said: Said,
    /// Counters of packets from A to B.
    pub up: PathCounters,
    /// Counters of packets from B to A.
    pub down: PathCounters,
    /// Bytes on the wire from A and from B, with headers, of packets that have the port
    /// [`PARTY_PORT`](transpute_netem::lab::PARTY_PORT).
    pub party_bytes: [u64; 2],
    /// Number of packets from A and from B that the emulator dropped because it was too slow.
    pub overruns: [u64; 2],
}

/// The results that the commands printed. The result of a command is the last line of its standard
/// output that is a JSON object. None without such a line.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Said {
    /// The result of the command on side A.
    pub a: Option<Value>,
    /// The result of the command on side B.
    pub b: Option<Value>,
}

impl Record for ProgramRecord {
    const FORMAT: u32 = PROGRAM_RECORD_FORMAT;

    fn format(&self) -> u32 {
        self.format
    }
}

impl ProgramRecord {
    /// Returns whether this record is a result of the given repetition of a cell. It must have the
    /// same commands and conditions. The run must have succeeded, or have been cut off after at
    /// least the cell's time limit.
    pub(super) fn is_result_of(&self, cell: &ProgramCell, repetition: u32) -> bool {
        let came_to_an_end = if self.cut_off {
            self.time_limit_s >= cell.time_limit.as_secs_f64()
        } else {
            self.error.is_none()
        };
        came_to_an_end
            && self.repetition == repetition
            && self.experiment == cell.experiment
            && self.variables == cell.variables
            && self.scenario == cell.scenario
            && self.commands == cell.commands_of(repetition)
    }
}

/// Reads the records of a file. A run was repeated if it failed or a command changed. Only the last
/// record of such a run is returned, at the position of its first record.
///
/// # Errors
/// Returns [`RecordError`] if the file cannot be read or a line is invalid.
pub fn read(path: &Path) -> Result<Vec<ProgramRecord>, RecordError> {
    let mut records: Vec<ProgramRecord> = Vec::new();
    // The key has only two fields, which are cheap to hash. Few records have the same key. They are
    // distinguished by their variables and scenario.
    let mut places: HashMap<(String, u32), Vec<usize>> = HashMap::new();
    for record in read_records::<ProgramRecord>(path)? {
        let alike = (places.entry((record.experiment.clone(), record.repetition))).or_default();
        let known = alike.iter().copied().find(|&place| {
            records[place].variables == record.variables
                && records[place].scenario == record.scenario
        });
        match known {
            Some(place) => records[place] = record,
            None => {
                alike.push(records.len());
                records.push(record);
            }
        }
    }
    Ok(records)
}
