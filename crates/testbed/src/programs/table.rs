//! The TOML tables of a plan file, and their checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Deserializer, de};
use transpute_netem::{
    config_file::ConfigFileError,
    scenario::{Scenario, ScenarioError},
};

use super::{
    Experiment, PlanError, Setting,
    cell::placeholders,
    plan::{Axes, MAX_CELLS, REPETITION},
};
use crate::runner::Sweep;

/// Maximum length of the name of an experiment or a variable, in bytes.
const MAX_NAME: usize = 64;

/// Maximum length of a command, in bytes.
const MAX_COMMAND: usize = 64 << 10;

/// Maximum number of repetitions of a cell. It is far above any useful number.
const MAX_REPETITIONS: u32 = 100_000;

/// Maximum time limit of a run, in seconds: one day.
const MAX_LIMIT_S: f64 = 86_400.0;

/// Default time limit of a run, in seconds.
const DEFAULT_LIMIT_S: f64 = 300.0;

const DEFAULT_REPETITIONS: u32 = 5;
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentTable {
    name: String,
    a: String,
    b: String,
    scenario: Names,
    #[serde(default)]
    quick: AxesTable,

    // The following fields repeat those of `AxesTable`. `serde(flatten)` would avoid this, but
    // errors would lose their line numbers.
    rtt_ms: Option<Vec<f64>>,
    loss: Option<Vec<f64>>,
    rate_mbit: Option<Vec<f64>>,
    congestion_control: Option<Vec<String>>,
    #[serde(default)]
    variables: BTreeMap<String, Vec<Setting>>,
    repetitions: Option<u32>,
    time_limit_s: Option<f64>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AxesTable {
    scenario: Option<Names>,
    rtt_ms: Option<Vec<f64>>,
    loss: Option<Vec<f64>>,
    rate_mbit: Option<Vec<f64>>,
    congestion_control: Option<Vec<String>>,
    variables: BTreeMap<String, Vec<Setting>>,
    repetitions: Option<u32>,
    time_limit_s: Option<f64>,
}

/// The state that all checks need.
pub(super) struct Context<'a> {
    pub(super) origin: &'a str,
    pub(super) folder: &'a Path,
}

impl Context<'_> {
    pub(super) fn wrong(&self, field: &str, problem: &str) -> PlanError {
        let error = ConfigFileError::Field {
            origin: self.origin.to_owned(),
            field: field.to_owned(),
            problem: problem.to_owned(),
        };
        error.into()
    }

    /// Returns a preset scenario, or reads a scenario file.
    fn scenario(&self, experiment: &str, name: &str) -> Result<Scenario, PlanError> {
        let is_file = name.ends_with(".toml") || name.contains(std::path::is_separator);
        let loaded = if is_file {
            Scenario::open(&self.folder.join(name))
        } else {
            Scenario::named(name)
        };
        loaded.map_err(|source| self.no_scenario(experiment, source))
    }

    fn no_scenario(&self, experiment: &str, source: ScenarioError) -> PlanError {
        PlanError::Scenario {
            origin: self.origin.to_owned(),
            experiment: experiment.to_owned(),
            source,
        }
    }
}

impl ExperimentTable {
    pub(super) fn check(self, context: &Context<'_>) -> Result<Experiment, PlanError> {
        let name = &self.name;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
            return Err(context.wrong(
                &format!("experiment {name:?}: name"),
                "a name has letters, digits and -._ only, 64 of them at most",
            ));
        }
        let wrong =
            |field: &str, problem: &str| context.wrong(&format!("{name}: {field}"), problem);
        let own = AxesTable {
            scenario: Some(self.scenario),
            rtt_ms: self.rtt_ms,
            loss: self.loss,
            rate_mbit: self.rate_mbit,
            congestion_control: self.congestion_control,
            variables: self.variables,
            repetitions: self.repetitions,
            time_limit_s: self.time_limit_s,
        };
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for (side, command) in [("a", &self.a), ("b", &self.b)] {
            if command.trim().is_empty() || command.len() > MAX_COMMAND || command.contains('\0') {
                return Err(wrong(
                    side,
                    "a command of 1 to 65536 bytes without NUL is wanted",
                ));
            }
            for placeholder in placeholders(command) {
                if placeholder != REPETITION && !own.variables.contains_key(placeholder) {
                    let problem = format!("{{{placeholder}}} is none of its variables");
                    return Err(wrong(side, &problem));
                }
                named.insert(placeholder);
            }
        }
        for variable in own.variables.keys() {
            let field = format!("variables.{variable}");
            if variable.len() > MAX_NAME
                || placeholders(&format!("{{{variable}}}")).next().is_none()
            {
                return Err(wrong(
                    &field,
                    "the name of a variable has lower-case letters, digits and _ only, 64 of them at \
                     most, and starts with a letter",
                ));
            }
            if variable == REPETITION {
                return Err(wrong(&field, "{repetition} is the number of the run"));
            }
            if !named.contains(variable.as_str()) {
                return Err(wrong(&field, "no command has it"));
            }
        }
        if let Some(unknown) =
            (self.quick.variables.keys()).find(|name| !own.variables.contains_key(*name))
        {
            let field = format!("quick.variables.{unknown}");
            return Err(wrong(&field, "none of its variables"));
        }
        let quick = self.quick.over(&own);
        Ok(Experiment {
            full: own.check(name, "", context)?,
            quick: quick.check(name, "quick.", context)?,
            name: self.name,
            a: self.a,
            b: self.b,
        })
    }
}

impl AxesTable {
    /// Returns the lists of this table. A missing list is taken from `other`.
    fn over(self, other: &Self) -> Self {
        let mut variables = other.variables.clone();
        variables.extend(self.variables);
        Self {
            scenario: self.scenario.or_else(|| other.scenario.clone()),
            rtt_ms: self.rtt_ms.or_else(|| other.rtt_ms.clone()),
            loss: self.loss.or_else(|| other.loss.clone()),
            rate_mbit: self.rate_mbit.or_else(|| other.rate_mbit.clone()),
            congestion_control: (self.congestion_control)
                .or_else(|| other.congestion_control.clone()),
            variables,
            repetitions: self.repetitions.or(other.repetitions),
            time_limit_s: self.time_limit_s.or(other.time_limit_s),
        }
    }

    fn check(
        self,
        experiment: &str,
        prefix: &str,
        context: &Context<'_>,
    ) -> Result<Axes, PlanError> {
        let wrong = |field: &str, problem: &str| {
            context.wrong(&format!("{experiment}: {prefix}{field}"), problem)
        };
        let names = self.scenario.map_or_else(Vec::new, |names| names.0);
        distinct(Some(&names)).map_err(|problem| wrong("scenario", problem))?;
        distinct(self.rtt_ms.as_ref()).map_err(|problem| wrong("rtt_ms", problem))?;
        distinct(self.loss.as_ref()).map_err(|problem| wrong("loss", problem))?;
        distinct(self.rate_mbit.as_ref()).map_err(|problem| wrong("rate_mbit", problem))?;
        distinct(self.congestion_control.as_ref())
            .map_err(|problem| wrong("congestion_control", problem))?;
        for (variable, values) in &self.variables {
            // Values are compared as text, because 1 and "1" give the same command and cell name.
            let printed: Vec<_> = values.iter().map(ToString::to_string).collect();
            distinct(Some(&printed))
                .map_err(|problem| wrong(&format!("variables.{variable}"), problem))?;
        }
        let lists = [
            names.len(),
            self.rtt_ms.as_ref().map_or(1, Vec::len),
            self.loss.as_ref().map_or(1, Vec::len),
            self.rate_mbit.as_ref().map_or(1, Vec::len),
            self.congestion_control.as_ref().map_or(1, Vec::len),
        ];
        let cells = (lists.into_iter())
            .chain(self.variables.values().map(Vec::len))
            .fold(1, usize::saturating_mul);
        // The number is checked before memory is used for the combinations.
        if cells > MAX_CELLS {
            let problem = format!("{cells} combinations, more than {MAX_CELLS}");
            return Err(wrong("variables", &problem));
        }
        let repetitions = self.repetitions.unwrap_or(DEFAULT_REPETITIONS);
        if !(1..=MAX_REPETITIONS).contains(&repetitions) {
            let problem = format!("{repetitions} is not between 1 and {MAX_REPETITIONS}");
            return Err(wrong("repetitions", &problem));
        }
        let limit = self.time_limit_s.unwrap_or(DEFAULT_LIMIT_S);
        if !(limit > 0.0 && limit <= MAX_LIMIT_S) {
            let problem = format!("{limit} is not between 0 and {MAX_LIMIT_S}");
            return Err(wrong("time_limit_s", &problem));
        }
        let scenarios = (names.iter())
            .map(|name| context.scenario(experiment, name))
            .collect::<Result<Vec<_>, _>>()?;
        let names: Vec<_> = scenarios.iter().map(|scenario| &scenario.name).collect();
        distinct(Some(&names)).map_err(|problem| wrong("scenario", problem))?;
        let sweep = Sweep {
            rtt_ms: self.rtt_ms.unwrap_or_default(),
            loss: self.loss.unwrap_or_default(),
            rate_mbit: self.rate_mbit.unwrap_or_default(),
            congestion_control: self.congestion_control.unwrap_or_default(),
            ..Sweep::default()
        };
        Ok(Axes {
            scenarios: (sweep.apply(&scenarios))
                .map_err(|error| context.no_scenario(experiment, error))?,
            variables: self.variables,
            repetitions,
            time_limit: Duration::from_secs_f64(limit),
        })
    }
}

/// Checks that a list, if present, is not empty and has no duplicates.
fn distinct<T: PartialEq>(list: Option<&Vec<T>>) -> Result<(), &'static str> {
    let Some(list) = list else { return Ok(()) };
    if list.is_empty() {
        return Err("the list is empty");
    }
    if list.len() > MAX_CELLS {
        return Err("the list is too long");
    }
    let is_new = |(index, value): (usize, &T)| !list[..index].contains(value);
    if !list.iter().enumerate().all(is_new) {
        return Err("the list has a value twice");
    }
    Ok(())
}

/// One name, or a list of names.
#[derive(Clone)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a list of names")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Names, E> {
                Ok(Names(vec![name.to_owned()]))
            }

            fn visit_seq<S: de::SeqAccess<'de>>(self, mut list: S) -> Result<Names, S::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
