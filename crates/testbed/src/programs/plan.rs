//! The checked content of a plan file.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use thiserror::Error;
use transpute_netem::{
    config_file::ConfigFileError,
    scenario::{Scenario, ScenarioError},
};

use super::Setting;

/// Maximum number of cells of a plan. It bounds memory, because each cell has a copy of its
/// scenario.
pub(super) const MAX_CELLS: usize = 20_000;

/// Name of the placeholder that every command may use for the number of the repetition.
pub(super) const REPETITION: &str = "repetition";

/// The experiments of a plan file. [`Plan::parse`] describes its format.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The title of the plan.
    pub title: String,
    /// The experiments, in order.
    pub experiments: Vec<Experiment>,
    /// The folder of the file. Relative paths in the file and in commands refer to it.
    pub folder: PathBuf,
}

/// One matrix of a [`Plan`], in its full and its quick form.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The name of the experiment. Records are grouped by it.
    pub name: String,
    /// The command on side A. It starts before the command on side B.
    pub a: String,
    /// The command on side B.
    pub b: String,
    pub(super) full: Axes,
    pub(super) quick: Axes,
}

/// The lists of values of an experiment. It has one cell for each combination of their elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axes {
    pub(super) scenarios: Vec<Scenario>,
    pub(super) variables: BTreeMap<String, Vec<Setting>>,
    pub(super) repetitions: u32,
    pub(super) time_limit: Duration,
}

/// The reason why a plan file is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The file cannot be read or parsed.
    #[error(transparent)]
    File(#[from] ConfigFileError),
    /// A path of an experiment cannot be emulated.
    #[error("{origin}: {experiment}: {source}")]
    Scenario {
        /// The name of the file.
        origin: String,
        /// The name of the experiment.
        experiment: String,
        /// The problem of the scenario.
        source: ScenarioError,
    },
}
