//! `transpute testbed programs`: runs two commands in a matrix of conditions and settings.

use std::path::PathBuf;

use serde::Serialize;
use transpute_cli::{Failure, FailureKind, output};
use transpute_netem::{config_file::ConfigFileError, scenario::ScenarioError};
use transpute_testbed::programs::{self, Form, Plan, PlanError, ProgramCell, ProgramOptions};

use super::{
    common::{check_failed, note, own_program, stoppable},
    progress::ProgressReporter,
};

#[derive(clap::Args)]
#[command(after_help = "\
FILE is TOML, for example:

  title = \"Transfer time by path\"
  [[experiment]]
  name = \"size\"
  scenario = \"eu-us\"
  rtt_ms = [10, 100]
  a = \"transpute link serve --unpinned --listen $TRANSPUTE_A:7700\"
  b = \"transpute link send --unpinned --connect $TRANSPUTE_A:7700 --bytes {bytes} --json\"
  [experiment.variables]
  bytes = [1000000, 10000000]
  [experiment.quick]
  repetitions = 1

The last JSON object that each command prints is part of the run's record. Runs that --results already \
contains are skipped. On an interrupt, the current run is finished first; a second interrupt aborts it. \
docs/testbed.md has all fields, under \"Programs of your own in a matrix\".

Example:
  transpute testbed programs my-programs.toml --quick --results quick.jsonl")]
pub(crate) struct Args {
    /// The plan file
    #[arg(value_name = "FILE")]
    plan: PathBuf,
    /// Use the quick tables of the plan
    #[arg(long)]
    quick: bool,
    /// File to which results are appended
    #[arg(long, value_name = "FILE", default_value = "programs.jsonl")]
    results: PathBuf,
    /// Run only these cells, by name or by its beginning up to a / or a comma
    #[arg(long, value_name = "CELL", num_args = 1..)]
    only: Vec<String>,
    /// Print the names and commands of the cells without running them
    #[arg(long)]
    dry_run: bool,
    /// Print a summary as a JSON object
    #[arg(long)]
    json: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

/// The summary, as JSON.
#[derive(Serialize)]
struct ProgramsSummary {
    results: PathBuf,
    measured: u64,
    cut_off: u64,
    failed: u64,
    skipped: u64,
}

pub(crate) fn programs(args: Args) -> Result<(), Failure> {
    let plan = Plan::open(&args.plan).map_err(plan_failure)?;
    let form = if args.quick { Form::Quick } else { Form::Full };
    let cells = chosen(plan.cells(form), &args.only)?;
    if args.dry_run {
        return show(&plan, &cells);
    }
    let options = ProgramOptions::new(own_program()?, plan.folder, args.results.clone());
    let reporter = ProgressReporter::new(args.quiet || args.json);
    let summary = stoppable(move |stop, cancel| {
        programs::run(&cells, &options, cancel, |progress| {
            reporter.report_until(stop, progress)
        })
    })?;
    if args.json {
        output::print_json(&ProgramsSummary {
            results: args.results.clone(),
            measured: summary.measured,
            cut_off: summary.cut_off,
            failed: summary.failed,
            skipped: summary.skipped,
        })?;
    } else if !args.quiet {
        note(&summary, &args.results);
    }
    check_failed(summary.failed, &args.results)
}

/// Returns the cells that one of these names or prefixes of names selects. Returns all cells if
/// `names` is empty.
fn chosen(cells: Vec<ProgramCell>, names: &[String]) -> Result<Vec<ProgramCell>, Failure> {
    for name in names {
        if !cells.iter().any(|cell| cell.is_named(name)) {
            return Err(Failure::usage(format!(
                "--only: no cell is named {name:?} or begins with it up to a / or a comma; \
                 --dry-run lists all"
            )));
        }
    }
    let is_chosen =
        |cell: &ProgramCell| names.is_empty() || names.iter().any(|name| cell.is_named(name));
    Ok(cells.into_iter().filter(is_chosen).collect())
}

fn show(plan: &Plan, cells: &[ProgramCell]) -> Result<(), Failure> {
    output::print(|out| {
        writeln!(out, "{}", plan.title)?;
        for cell in cells {
            let [a, b] = cell.commands_of(0);
            writeln!(out, "\n{cell}  {} times", cell.repetitions)?;
            writeln!(out, "  a: {a}\n  b: {b}")?;
        }
        Ok(())
    })?;
    let runs: u64 = cells.iter().map(|cell| u64::from(cell.repetitions)).sum();
    output::note(format!("{} cells, {runs} runs", cells.len()));
    Ok(())
}

fn plan_failure(error: PlanError) -> Failure {
    let failure = Failure::new(FailureKind::File, error.to_string());
    let file_error = match &error {
        PlanError::File(error)
        | PlanError::Scenario {
            source: ScenarioError::File(error),
            ..
        } => Some(error),
        _ => None,
    };
    // The messages of all other errors include their causes.
    if matches!(file_error, Some(ConfigFileError::Read { .. })) {
        return failure.because(error);
    }
    failure
}
