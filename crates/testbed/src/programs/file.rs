//! Reads plan files.

use std::{collections::BTreeSet, path::Path};

use serde::Deserialize;
use transpute_netem::config_file::{ConfigFileError, parse_config, read_config_file};

use super::{
    plan::{MAX_CELLS, Plan, PlanError},
    table::{Context, ExperimentTable},
};

impl Plan {
    /// Reads and checks a plan file.
    ///
    /// # Errors
    /// Returns [`PlanError`], which names the file and the line or the field.
    pub fn open(path: &Path) -> Result<Self, PlanError> {
        let text = read_config_file(path, "plan")?;
        let origin = path.display().to_string();
        // The path is made absolute, because commands may run in another folder.
        let path = std::path::absolute(path).map_err(|source| ConfigFileError::Read {
            path: path.to_owned(),
            kind: "plan",
            source,
        })?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        Self::parse(&text, &origin, folder)
    }

    /// Reads and checks the text of a file. Errors contain `origin` as its name. Scenario files are
    /// searched in `folder`.
    ///
    /// A `title` comes first, then any number of `[[experiment]]` tables:
    ///
    /// * `name`: letters, digits and `-._`; records are grouped by it
    /// * `scenario`: a preset or a file, or a list of them
    /// * `rtt_ms`, `loss`, `rate_mbit`, `congestion_control`: optional lists that replace values of
    ///   the scenario, in both directions
    /// * `variables`: a table of lists of numbers, texts, and booleans
    /// * `a`, `b`: the commands, for `/bin/sh`; `{name}` is the value of a variable, `{repetition}`
    ///   counts from 0; braces after `$`, and around text that is not a name, belong to the shell
    /// * `repetitions`: runs of each combination; default 5
    /// * `time_limit_s`: time limit of a run in seconds; default 300
    /// * `quick`: a table of the fields above except `name`, `a` and `b`, which replace them in a
    ///   quick run; other variables keep their lists
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
    ///     a = "sums --width {width} --listen $TRANSPUTE_A:7700 --peer $TRANSPUTE_PEER"
    ///     b = "sums --width {width} --connect $TRANSPUTE_A:7700 --peer $TRANSPUTE_PEER"
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
    /// Returns [`PlanError`], which names the line or the field.
    pub fn parse(text: &str, origin: &str, folder: &Path) -> Result<Self, PlanError> {
        let file: PlanFile = parse_config(text, origin)?;
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

/// The content of a plan file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    title: String,
    #[serde(default, rename = "experiment")]
    experiments: Vec<ExperimentTable>,
}
