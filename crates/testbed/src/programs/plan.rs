//! What a plan file asks for, checked.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use thiserror::Error;
use transpute_netem::{
    config_file::ConfigFileError,
    scenario::{Scenario, ScenarioError},
};

use super::Setting;

/// The most cells of a plan: each is held in memory with its scenario.
pub(super) const MAX_CELLS: usize = 20_000;

/// What commands may name beside the variables of their experiment.
pub(super) const REPETITION: &str = "repetition";

/// Matrices of commands, as a file asks for them: see [`Plan::parse`].
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it is about.
    pub title: String,
    /// What to run, in this order.
    pub experiments: Vec<Experiment>,
    /// The folder that paths in it are relative to, commands' too: that of the file.
    pub folder: PathBuf,
}

/// One matrix of a [`Plan`], in its full form and in its quick one.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The name, which rows are grouped by.
    pub name: String,
    /// The command on side A, which starts first.
    pub a: String,
    /// The command on side B.
    pub b: String,
    pub(super) full: Axes,
    pub(super) quick: Axes,
}

/// What an experiment is multiplied out of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axes {
    pub(super) scenarios: Vec<Scenario>,
    pub(super) variables: BTreeMap<String, Vec<Setting>>,
    pub(super) repetitions: u32,
    pub(super) time_limit: Duration,
}

/// Why there is no such plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] ConfigFileError),
    /// A path of an experiment cannot be emulated.
    #[error("{origin}: {experiment}: {source}")]
    Scenario {
        /// The file.
        origin: String,
        /// The experiment.
        experiment: String,
        /// What is wrong with its scenario.
        source: ScenarioError,
    },
}
