//! The file that says what to run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de};
use thiserror::Error;

use super::{Setting, cell::placeholders};
use crate::{
    runner::Sweep,
    scenario::{Scenario, ScenarioError},
};

/// A plan is a page or two; this many bytes are a mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The longest name of an experiment or a variable, in bytes.
const MAX_NAME: usize = 64;

/// The longest command, in bytes.
const MAX_COMMAND: usize = 64 << 10;

/// More repetitions than anybody has time for.
const MAX_REPETITIONS: u32 = 100_000;

/// The most cells of a plan: each is held in memory with its scenario.
pub(super) const MAX_CELLS: usize = 20_000;

/// Seconds of a day.
const MAX_LIMIT_S: f64 = 86_400.0;

/// How long a run has where the file does not say, in seconds.
const DEFAULT_LIMIT_S: f64 = 300.0;

const DEFAULT_REPETITIONS: u32 = 5;

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
    /// The file cannot be read.
    #[error("{}: cannot read the plan", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The text is not TOML, or has a field that plans do not have.
    #[error("{origin}:{line}: {problem}")]
    Syntax {
        /// The file.
        origin: String,
        /// Line number, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A field has a value that makes no sense.
    #[error("{origin}: {field}: {problem}")]
    Field {
        /// The file.
        origin: String,
        /// The field with the experiment it is in, such as `width: variables.n`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
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

impl Plan {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`PlanError`], which names the file and the line or the field.
    pub fn open(path: &Path) -> Result<Self, PlanError> {
        let cannot = |source| PlanError::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(cannot)?;
        let mut text = String::new();
        (file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)).map_err(cannot)?;
        let origin = path.display().to_string();
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(PlanError::Syntax {
                origin,
                line: 1,
                problem: format!("a plan has at most {MAX_FILE_BYTES} bytes"),
            });
        }
        // Absolute: commands may be told of it, and run in it.
        let path = std::path::absolute(path).map_err(cannot)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        Self::parse(&text, &origin, folder)
    }

    /// Reads and checks the text of a file, which errors call `origin`. Scenario files are looked for in
    /// `folder`.
    ///
    /// A `title` comes first, then any number of `[[experiment]]` tables:
    ///
    /// | field | |
    /// | --- | --- |
    /// | `name` | letters, digits and `-._`; rows are grouped by it |
    /// | `scenario` | the name of a preset or a file, or a list of them |
    /// | `rtt_ms`, `loss`, `rate_mbit`, `congestion_control` | lists that replace what the scenario says, both ways; may be left out |
    /// | `variables` | a table of lists: numbers, texts, true and false |
    /// | `a`, `b` | the commands, for `/bin/sh`; `{name}` is the value of a variable, `{repetition}` counts from 0. Braces after `$`, and around anything that is no name, are the shell's |
    /// | `repetitions` | runs of each combination; 5 unless given |
    /// | `time_limit_s` | how long a run may take, in seconds; 300 unless given |
    /// | `quick` | a table with any of the above but `name`, `a` and `b`, to be taken instead for a quick look; variables that it leaves out keep their lists |
    ///
    /// # Examples
    /// ```
    /// use std::path::Path;
    /// use transpute_testbed::programs::{Form, Plan};
    ///
    /// let text = r#"
    ///     title = "Sums"
    ///     [[experiment]]
    ///     name = "width"
    ///     scenario = "eu-us"
    ///     rtt_ms = [10, 100]
    ///     a = "sums --width {width} --listen $TRANSPUTE_A:7700 --identity $TRANSPUTE_KEY --peer $TRANSPUTE_PEER"
    ///     b = "sums --width {width} --connect $TRANSPUTE_A:7700 --identity $TRANSPUTE_KEY --peer $TRANSPUTE_PEER"
    ///     [experiment.variables]
    ///     width = [8, 16, 32]
    ///     [experiment.quick]
    ///     repetitions = 1
    ///     variables = { width = [8] }
    /// "#;
    /// let plan = Plan::parse(text, "sums.toml", Path::new("."))?;
    /// assert_eq!(plan.cells(Form::Full).len(), 6);
    /// assert_eq!(plan.cells(Form::Quick)[1].name(), "width/eu-us,rtt=100/width=8");
    /// # Ok::<(), transpute_testbed::programs::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// [`PlanError`], which names the line or the field.
    pub fn parse(text: &str, origin: &str, folder: &Path) -> Result<Self, PlanError> {
        let file: PlanFile = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.bytes().take(start);
            PlanError::Syntax {
                origin: origin.to_owned(),
                line: 1 + before.filter(|&byte| byte == b'\n').count(),
                problem: error.message().replace('\n', " "),
            }
        })?;
        let context = Context { origin, folder };
        if file.experiments.is_empty() {
            return Err(context.wrong("experiment", "there is none"));
        }
        let mut names = BTreeSet::new();
        let mut experiments = Vec::new();
        for experiment in file.experiments {
            let experiment = experiment.check(&context)?;
            if !names.insert(experiment.name.clone()) {
                return Err(context.wrong(
                    &format!("{}: name", experiment.name),
                    "two experiments have it",
                ));
            }
            experiments.push(experiment);
        }
        let cells = (experiments.iter()).fold(0_usize, |sum, experiment| {
            let most = experiment.full.cells().max(experiment.quick.cells());
            sum.saturating_add(most)
        });
        if cells > MAX_CELLS {
            return Err(context.wrong(
                "experiment",
                &format!("{cells} combinations in all, more than {MAX_CELLS}"),
            ));
        }
        Ok(Self {
            title: file.title,
            experiments,
            folder: folder.to_owned(),
        })
    }
}

/// What a file holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    title: String,
    #[serde(default, rename = "experiment")]
    experiments: Vec<ExperimentTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentTable {
    name: String,
    a: String,
    b: String,
    scenario: Names,
    #[serde(default)]
    quick: AxesTable,

    // Those of `AxesTable`. Flattening it instead would lose the lines of errors.
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

/// What all checks need.
struct Context<'a> {
    origin: &'a str,
    folder: &'a Path,
}

impl Context<'_> {
    fn wrong(&self, field: &str, problem: &str) -> PlanError {
        PlanError::Field {
            origin: self.origin.to_owned(),
            field: field.to_owned(),
            problem: problem.to_owned(),
        }
    }

    /// Finds a scenario by name, or reads its file.
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
    fn check(self, context: &Context<'_>) -> Result<Experiment, PlanError> {
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
    /// Returns what this says, and else what `other` says.
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
            // Commands and names of cells see no difference between 1 and "1".
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
        // Before they are multiplied out.
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

/// Checks that a list, if there is one, has something in it, and nothing twice.
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

/// One name or several.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::programs::{Cell, Form};

    const PLAN: &str = r#"
        title = "Sums"

        [[experiment]]
        name = "width"
        scenario = ["eu-us", "near.toml"]
        rtt_ms = [10, 100.5]
        loss = [0, 0.01]
        a = "sums {width} {way} {repetition}"
        b = "echo '{\"x\":1}' ${width} {width}"
        time_limit_s = 1.5
        [experiment.variables]
        width = [8, 16, 32]
        way = ["circuit", "fast", true]
        [experiment.quick]
        scenario = "near.toml"
        repetitions = 1
        variables = { width = [8] }

        [[experiment]]
        name = "plain"
        scenario = "lan"
        rate_mbit = [10]
        congestion_control = ["cubic"]
        a = "true"
        b = "true"
    "#;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("near.toml"), "rtt_ms = 2").unwrap();
        folder
    }

    fn parse(text: &str) -> Result<Plan, PlanError> {
        Plan::parse(text, "sums.toml", folder().path())
    }

    #[test]
    fn experiments_multiply() {
        let plan = parse(PLAN).unwrap();
        assert_eq!(plan.title, "Sums");
        let cells = plan.cells(Form::Full);
        assert_eq!(cells.len(), 2 * 2 * 2 * 3 * 3 + 1);
        let names: Vec<_> = cells.iter().map(ToString::to_string).collect();
        assert_eq!(names[0], "width/eu-us,rtt=10,loss=0/way=circuit,width=8");
        assert_eq!(names[1], "width/eu-us,rtt=10,loss=0/way=circuit,width=16");
        assert_eq!(
            names[71],
            "width/near,rtt=100.5,loss=0.01/way=true,width=32"
        );
        assert_eq!(names[72], "plain/lan,rate=10,cc=cubic");
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        let last = &cells[71];
        assert_eq!(
            last.commands_of(4),
            ["sums 32 true 4", "echo '{\"x\":1}' ${width} 32"]
        );
        assert_eq!(
            (last.scenario.rtt_ms(), last.scenario.up.loss),
            (100.5, 0.01)
        );
        assert_eq!((last.repetitions, last.time_limit.as_millis()), (5, 1500));
        assert_eq!(cells[72].time_limit.as_secs(), 300);
        assert_eq!(cells[72].scenario.down.rate_mbit, Some(10.0));
    }

    #[test]
    fn the_quick_form_keeps_what_it_does_not_name() {
        let cells = parse(PLAN).unwrap().cells(Form::Quick);
        // Both round-trip times, both losses and all three ways are left.
        assert_eq!(cells.len(), 2 * 2 * 3 + 1);
        assert_eq!(
            cells[0].name(),
            "width/near,rtt=10,loss=0/way=circuit,width=8"
        );
        assert_eq!((cells[0].repetitions, cells[12].repetitions), (1, 5));
        assert_eq!(cells[0].time_limit.as_millis(), 1500);
    }

    #[test]
    fn cells_are_named_by_the_starts_of_their_names() {
        let cells = parse(PLAN).unwrap().cells(Form::Full);
        let named = |text: &str| cells.iter().filter(|cell| cell.is_named(text)).count();
        assert_eq!(named("width"), 72);
        assert_eq!(named("width/eu-us"), 36);
        assert_eq!(named("width/eu-us,rtt=10"), 18);
        assert_eq!(named("width/eu-us,rtt=10,loss=0/way=fast,width=8"), 1);
        assert_eq!(
            (named("wid"), named("width/eu-us,rtt=1"), named("")),
            (0, 0, 0)
        );
    }

    /// Returns a plan of one experiment with these fields in it too.
    fn experiment(fields: &str) -> String {
        format!(
            "title = \"x\"\n[[experiment]]\nname = \"e\"\nscenario = \"lan\"\na = \"true\"\n\
             b = \"echo {{n}}\"\nvariables = {{ n = [1] }}\n{fields}"
        )
    }

    fn refused(text: &str, fragment: &str) {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(fragment), "{text}\n{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn wrong_fields_are_told_with_their_place() {
        assert!(parse(&experiment("")).is_ok());
        for (fields, fragment) in [
            ("rtt = [1]", "sums.toml:8: unknown field `rtt`"),
            (
                "[experiment.quick]\na = \"x\"",
                "sums.toml:9: unknown field `a`",
            ),
            ("rtt_ms = 1", "sums.toml:8: invalid type"),
            ("rtt_ms = []", "sums.toml: e: rtt_ms: the list is empty"),
            ("loss = [0.1, 0.1]", "e: loss: the list has a value twice"),
            ("loss = [2]", "e: lan,loss=2: up.loss: 2 is not"),
            ("rtt_ms = [nan]", "lan,rtt=NaN"),
            ("quick = { loss = [] }", "e: quick.loss: the list is empty"),
            (
                "quick = { variables = { m = [1] } }",
                "e: quick.variables.m: none of",
            ),
            (
                "quick = { scenario = [] }",
                "e: quick.scenario: the list is empty",
            ),
            ("repetitions = 0", "e: repetitions: 0 is not between 1 and"),
            ("repetitions = -1", "sums.toml:8: invalid value"),
            ("time_limit_s = 0", "e: time_limit_s: 0 is not"),
            ("time_limit_s = inf", "e: time_limit_s: inf is not"),
            ("time_limit_s = nan", "e: time_limit_s: NaN is not"),
        ] {
            refused(&experiment(fields), fragment);
        }
        refused("", "sums.toml:1: missing field `title`");
        refused("title = \"x\"", "sums.toml: experiment: there is none");
        let again = experiment("").replace("title = \"x\"", "");
        refused(
            &(experiment("") + &again),
            "e: name: two experiments have it",
        );
    }

    #[test]
    fn wrong_values_are_told_with_their_place() {
        for (from, to, fragment) in [
            ("n = [1]", "n = [1], m = [2]", "e: variables.m: no command"),
            (
                "n = [1]",
                "n = [[1]]",
                "sums.toml:7: invalid type: sequence, expected a number",
            ),
            ("n = [1]", "n = [inf]", "sums.toml:7: a number that is"),
            ("n = [1]", "n = []", "e: variables.n: the list is empty"),
            (
                "n = [1]",
                "n = [1, '1']",
                "e: variables.n: the list has a value",
            ),
            (
                "\"lan\"",
                "['lan', 'lan']",
                "e: scenario: the list has a value",
            ),
            (
                "\"lan\"",
                "['near.toml', './near.toml']",
                "e: scenario: the list has a",
            ),
            ("n = [1]", "N = [1]", "e: b: {n} is none of its variables"),
            (
                "n = [1]",
                "n = [1], N = [1]",
                "e: variables.N: the name of a variable",
            ),
            (
                "n = [1]",
                "n = [1], repetition = [1]",
                "e: variables.repetition: {repetition} is",
            ),
            ("true", "true {way}", "e: a: {way} is none of its variables"),
            ("true", " ", "e: a: a command of 1 to"),
            ("\"e\"", "\"e/f\"", "experiment \"e/f\": name: "),
            (
                "\"lan\"",
                "\"nowhere\"",
                "sums.toml: e: there is no scenario \"nowhere\"",
            ),
            (
                "\"lan\"",
                "\"no.toml\"",
                "no.toml: cannot read the scenario",
            ),
            (
                "\"lan\"",
                "3",
                "sums.toml:4: invalid type: integer `3`, expected a name or a list",
            ),
        ] {
            refused(&experiment("").replace(from, to), fragment);
        }
    }

    #[test]
    fn what_is_too_much_is_refused_before_it_is_multiplied_out() {
        let list = (0..300).map(|n| n.to_string()).collect::<Vec<_>>();
        let list = list.join(",");
        let variables: String = ('a'..='z')
            .map(|name| format!("{name} = [{list}]\n"))
            .collect();
        let names: String = ('a'..='z').map(|name| format!("{{{name}}}")).collect();
        refused(
            &format!(
                "title = \"x\"\n[[experiment]]\nname = \"e\"\nscenario = \"lan\"\na = \"true\"\n\
                 b = \"echo {names}\"\n[experiment.variables]\n{variables}"
            ),
            "combinations, more than 20000",
        );
        let folder = folder();
        let path = folder.path().join("long.toml");
        std::fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
        assert!(matches!(
            Plan::open(&path),
            Err(PlanError::Syntax { line: 1, .. })
        ));
        let missing = Plan::open(&folder.path().join("missing.toml"));
        assert!(matches!(missing, Err(PlanError::Read { .. })));
        std::fs::write(&path, PLAN).unwrap();
        assert_eq!(Plan::open(&path).unwrap().folder, folder.path());
    }

    proptest! {
        #[test]
        fn a_spoiled_plan_is_read_or_refused(
            at in 0..PLAN.len(),
            length in 0_usize..40,
            text in "[ -~\n]{0,12}",
        ) {
            let end = (at + length).min(PLAN.len());
            let spoiled = format!("{}{text}{}", &PLAN[..at], &PLAN[end..]);
            match parse(&spoiled) {
                // Whatever is taken can be run, and no cell is there twice.
                Ok(plan) => {
                    let names: Vec<_> = plan.cells(Form::Full).iter().map(Cell::name).collect();
                    prop_assert!(!names.is_empty());
                    prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
                }
                Err(error) => prop_assert!(error.to_string().starts_with("sums.toml")),
            }
        }

        #[test]
        fn commands_hold_the_values_of_their_cell(
            width in any::<i64>(), way in "[a-z {}$]{0,12}", before in "[ -&(-z]{0,8}",
        ) {
            // What would make it another placeholder.
            prop_assume!(!before.contains(['$', '{']));
            let plan = experiment(&format!("[experiment.quick]\nvariables = {{ n = [{width}] }}"))
                .replace("n = [1]", &format!("n = [{width}], way = ['{way}']"))
                .replace("\"echo {n}\"", &format!("'''{before}{{n}} {{way}}'''"));
            let plan = parse(&plan).unwrap();
            let [_, command] = plan.cells(Form::Full)[0].commands_of(0);
            prop_assert_eq!(command, format!("{before}{width} {way}"));
        }
    }
}
