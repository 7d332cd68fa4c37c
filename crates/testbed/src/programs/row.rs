//! What is recorded of a run of two commands: a line of JSON.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use transpute_netem::{model::PathCounters, scenario::Scenario};

use super::{Cell, Setting};
use crate::row::{Environment, Record, RowError, read_records};

/// The number of this format. It changes when a field changes its meaning.
pub const PROGRAM_ROW_FORMAT: u32 = 1;

/// One run of two commands, under what conditions, and what came of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ProgramRow {
    /// [`PROGRAM_ROW_FORMAT`].
    pub format: u32,
    /// The experiment of the file.
    pub experiment: String,
    /// What the variables of the experiment were.
    pub variables: BTreeMap<String, Setting>,
    /// The conditions of the path.
    pub scenario: Scenario,
    /// The commands of side A and side B, as the shell got them.
    pub commands: [String; 2],
    /// Which run of its cell this is, from 0. A cell is all of the above.
    pub repetition: u32,
    /// What the randomness of the path came from, other than in other repetitions.
    pub path_seed: u64,
    /// When it started, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// What it ran on.
    pub environment: Environment,
    /// How long it had, in seconds.
    pub time_limit_s: f64,
    /// What went wrong, in one line: a command failed or said nothing, or the run was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the command on side B was ended because it had taken [`time_limit_s`](Self::time_limit_s).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// From the start of the command on side B to its end, in seconds.
    pub seconds: f64,
    /// Exit codes of the commands on side A and side B; nothing for one that a signal ended, as it
    /// does to a server on side A that does not end by itself.
    pub codes: [Option<i32>; 2],
    /// What the commands said of themselves.
    pub said: Said,
    /// What happened to packets from A to B.
    pub up: PathCounters,
    /// What happened to packets from B to A.
    pub down: PathCounters,
    /// Bytes on the wire from A and from B, headers included, of what has a port of
    /// [`PARTY_PORT`](transpute_netem::lab::PARTY_PORT).
    pub party_bytes: [u64; 2],
    /// Packets from A and from B that the emulator was too slow to take: lost, but not by the path.
    pub overruns: [u64; 2],
}

/// What commands said: of each the last line of standard output that is a JSON object, if there is one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Said {
    /// The command on side A.
    pub a: Option<Value>,
    /// The command on side B.
    pub b: Option<Value>,
}

impl Record for ProgramRow {
    const FORMAT: u32 = PROGRAM_ROW_FORMAT;

    fn format(&self) -> u32 {
        self.format
    }
}

impl ProgramRow {
    /// Returns whether this is a result of a cell: of the same commands under the same conditions, and it
    /// either worked or was cut off after no less time than it would have now.
    pub(super) fn is_result_of(&self, cell: &Cell, repetition: u32) -> bool {
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

/// Reads the rows of a file. Of runs that were made more than once, because they failed or because a command
/// was changed, the last row stands in the place of the first.
///
/// # Errors
/// [`RowError`], which names the line.
pub fn read(path: &Path) -> Result<Vec<ProgramRow>, RowError> {
    let mut rows: Vec<ProgramRow> = Vec::new();
    // By what is cheap to hash; few rows have both in common.
    let mut places: HashMap<(String, u32), Vec<usize>> = HashMap::new();
    for row in read_records::<ProgramRow>(path)? {
        let alike = (places.entry((row.experiment.clone(), row.repetition))).or_default();
        let known = alike.iter().copied().find(|&place| {
            rows[place].variables == row.variables && rows[place].scenario == row.scenario
        });
        match known {
            Some(place) => rows[place] = row,
            None => {
                alike.push(rows.len());
                rows.push(row);
            }
        }
    }
    Ok(rows)
}
