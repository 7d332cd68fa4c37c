//! What a user wants to be run, and what that comes to.

use std::{collections::HashMap, path::Path, time::Duration};

use serde::{Deserialize, Serialize};
use transpute_netem::scenario::Scenario;
use transpute_testbed::runner::Cell;

use crate::{choose::ScenarioChoice, knowledge::Source, run::Predicted};

/// What a user asks for. What is absent is filled in before it is kept.
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

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    pub(crate) repetitions: u32,
    pub(crate) timeout: Duration,
    pub(crate) work: Work,
}

/// With what it is run.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Circuit {
        /// As users name it.
        circuit: String,
        /// As people call it.
        label: String,
        source: Source,
        scheme: String,
        batch: u64,
        encrypted: bool,
        transports: Vec<String>,
        /// What is predicted, by transport.
        predicted: HashMap<String, Predicted>,
        /// What would be picked of them.
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

    /// Returns how many runs there are.
    pub(super) fn total(&self) -> u64 {
        let cells = match &self.work {
            Work::Circuit { transports, .. } => transports.len() as u64,
            Work::Programs { .. } => 1,
        };
        cells * u64::from(self.repetitions)
    }

    /// Says what it is, for people.
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

    /// Returns the cells to run, of a circuit; `circuit` is what the program calls it.
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
