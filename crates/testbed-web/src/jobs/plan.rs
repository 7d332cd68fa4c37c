//! The request of a job and the plan of its runs.

use std::{collections::HashMap, path::Path, time::Duration};

use serde::{Deserialize, Serialize};
use transpute_netem::scenario::Scenario;
use transpute_testbed::runner::Cell;

use crate::{predictor::Source, run::Predicted, scenario_choice::ScenarioChoice};

/// The request for a job. Absent fields get their defaults before the request is stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    pub(crate) scenario: ScenarioChoice,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) circuit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheme: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) encrypted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transports: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repetitions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) a: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) b: Option<String>,
}

/// A checked request: the runs of a job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    pub(crate) repetitions: u32,
    pub(crate) timeout: Duration,
    pub(crate) work: Work,
}

/// The circuit or the programs that a job runs.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Circuit {
        /// The name of the circuit in the request.
        circuit: String,
        /// The label of the circuit that users see.
        label: String,
        source: Source,
        scheme: String,
        batch: u64,
        encrypted: bool,
        transports: Vec<String>,
        /// The predicted times by transport.
        predicted: HashMap<String, Predicted>,
        /// The transport of the job that the model predicts to be the fastest.
        pick: Option<String>,
    },
    Programs {
        label: String,
        a: String,
        b: String,
    },
}

impl Plan {
    pub(super) fn kind(&self) -> &'static str {
        match self.work {
            Work::Circuit { .. } => "runs",
            Work::Programs { .. } => "programs",
        }
    }

    /// Returns the number of runs.
    pub(super) fn total(&self) -> u64 {
        let cells = match &self.work {
            Work::Circuit { transports, .. } => transports.len() as u64,
            Work::Programs { .. } => 1,
        };
        cells * u64::from(self.repetitions)
    }

    /// Returns the title of the job.
    pub(super) fn label(&self) -> String {
        let each = match self.repetitions {
            1 => "1 run each".to_owned(),
            several => format!("{several} runs each"),
        };
        match &self.work {
            Work::Circuit {
                label,
                scheme,
                transports,
                batch,
                ..
            } => {
                let batch = match batch {
                    1 => String::new(),
                    batch => format!(", batch of {batch}"),
                };
                let transports = match &transports[..] {
                    [one] => one.clone(),
                    several => format!("{} transports", several.len()),
                };
                let scenario = &self.scenario.name;
                format!("{label} {scheme}{batch} on {scenario}, {transports}, {each}")
            }
            Work::Programs { label, .. } => format!("{label} on {}, {each}", self.scenario.name),
        }
    }

    /// Returns the cells of the matrix to run. There are none for users' programs. The name of an
    /// uploaded circuit in a cell is the path of its file.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let Work::Circuit {
            source,
            scheme,
            batch,
            encrypted,
            transports,
            ..
        } = &self.work
        else {
            return Vec::new();
        };
        let circuit = match source {
            Source::BuiltIn(name) => name.clone(),
            Source::Upload(path) => path_text(path),
        };
        let cell = |transport: &String| Cell {
            scenario: self.scenario.clone(),
            circuit: circuit.clone(),
            scheme: scheme.clone(),
            transport: transport.clone(),
            batch: *batch,
            encrypted: *encrypted,
            cut_off: None,
            may_fail: true,
        };
        transports.iter().map(cell).collect()
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
