//! `transpute testbed selection`: measures the regret of choosers over randomly drawn cells.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Subcommand;
use indicatif::HumanDuration;
use serde::Serialize;
use transpute_cli::{Failure, FailureKind, load_model, model_failure, output};
use transpute_select::ModelChooser;
use transpute_testbed::{
    record::{RunRecord, read_run_records},
    runner::{self, MatrixOptions, Timelines},
    selection::{
        self, AUTO, DEFAULT_CUT_OFF, Judged, Part, SelectionCase, Verdicts, Workloads, contests,
        judge, tables,
    },
};

use super::{
    common::{note, own_program, stoppable},
    progress::ProgressReporter,
    run::transports,
};

/// Number of cells in the published sweep.
const CELLS: usize = 204;

/// Seed of the published sweep.
const SEED: u64 = 1;

/// The note below the tables.
const NOTE: &str = "`rule`, `model` and `paper` (the paper's rules) know the exact path: rate, loss, round-trip time and queue, and \
with other flows the rate that these leave. Unlike `auto`, they spend no time on measuring. Intervals are from a bootstrap over cells.";

/// The name of the default chooser. The tables compare all other choosers with it.
const RULE: &str = "rule";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the drawn cells with their estimated times
    Cells(CellsArgs),
    /// Run every transport in every cell, or resume an interrupted sweep
    Run(RunArgs),
    /// Compute the regret of choosers: time of the chosen transport over that of the best
    Score(ScoreArgs),
}

/// The cells and runs of a sweep.
#[derive(clap::Args)]
struct Sweep {
    /// Number of cells to draw; a smaller number draws a prefix of a larger one
    #[arg(long, value_name = "N", default_value_t = CELLS, value_parser = cells)]
    cells: usize,
    /// Seed of the draw
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Use only the first of these cells
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Use only cells that take less than this at the link rate, in seconds. This allows more
    /// repetitions of short cells, which vary more
    #[arg(long, value_name = "SECS")]
    shorter_than: Option<f64>,
    /// Use only the cells that the model is fitted to, or only the unseen ones
    #[arg(long, value_name = "PART", value_parser = part)]
    part: Option<Part>,
    /// Transports; `auto` is scored as a chooser and is not a candidate
    #[arg(
        long,
        alias = "transport",
        value_name = "TRANSPORT,...",
        default_value = "tcp:cc=cubic,tcp:cc=bbr,tcp-striped:cc=cubic,tcp-striped:cc=bbr,quic,rudp",
        value_delimiter = ','
    )]
    transports: Vec<String>,
    /// Number of runs of each transport in each cell
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Maximum time of a run, in seconds. A run is cut off earlier after six times what the link
    /// rate allows, but not within the first 8 s
    #[arg(long, value_name = "SECS", default_value_t = DEFAULT_CUT_OFF.as_secs(), value_parser = clap::value_parser!(u64).range(1..=3600))]
    cut_off: u64,
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute testbed selection cells --limit 20")]
struct CellsArgs {
    #[command(flatten)]
    sweep: Sweep,
    /// Print one JSON object per line and cell
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "\
Cells are in random order, so that any part of a sweep is a sample of all. Runs that --results already \
contains are skipped. On an interrupt, the current run is finished first; a second interrupt aborts it.

Example:
  transpute testbed selection run --limit 20 --results selection.jsonl")]
struct RunArgs {
    #[command(flatten)]
    sweep: Sweep,
    /// File to which results are appended
    #[arg(long, value_name = "FILE", default_value = "selection.jsonl")]
    results: PathBuf,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute testbed selection score selection.jsonl --out score")]
struct ScoreArgs {
    /// Files of results from `transpute testbed selection run`
    #[arg(value_name = "FILE", default_value = "selection.jsonl")]
    results: Vec<PathBuf>,
    /// Write score.md, regrets.csv and cells.csv to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The model to score [default: the model included in this program]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Print the tables as Markdown
    #[arg(long)]
    markdown: bool,
}

/// A cell, as JSON.
#[derive(Serialize)]
struct CellView<'a> {
    part: Part,
    line_seconds: f64,
    cut_off_seconds: u64,
    estimated_seconds: f64,
    #[serde(flatten)]
    case: &'a SelectionCase,
}

pub(crate) fn selection(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Cells(args) => show(&args),
        Command::Run(args) => run(&args),
        Command::Score(args) => score(&args),
    }
}

fn cells(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=100_000) => Ok(count),
        _ => Err("expected a number from 1 to 100000".to_owned()),
    }
}

fn part(text: &str) -> Result<Part, String> {
    match [Part::Fit, Part::Unseen]
        .into_iter()
        .find(|part| part.name() == text)
    {
        Some(part) => Ok(part),
        None => Err("expected fit or unseen".to_owned()),
    }
}

impl Sweep {
    fn cases(&self) -> Vec<SelectionCase> {
        let mut cases = selection::draw(self.cells, self.seed);
        cases.truncate(self.limit.unwrap_or(usize::MAX));
        if let Some(part) = self.part {
            cases.retain(|case| case.part() == part);
        }
        if let Some(seconds) = self.shorter_than {
            cases.retain(|case| case.line_seconds() < seconds);
        }
        cases
    }

    fn max_run_time(&self) -> Duration {
        Duration::from_secs(self.cut_off)
    }

    /// Estimates the total time of all runs of a case.
    fn estimate(&self, case: &SelectionCase) -> Duration {
        let once: Duration = (self.transports.iter())
            .map(|transport| case.estimate(transport, self.max_run_time()))
            .sum();
        once * self.repetitions
    }
}

fn show(args: &CellsArgs) -> Result<(), Failure> {
    let sweep = &args.sweep;
    let cases = sweep.cases();
    output::print(|out| {
        for case in &cases {
            let shown = CellView {
                part: case.part(),
                line_seconds: case.line_seconds(),
                cut_off_seconds: case.cut_off(sweep.max_run_time()).as_secs(),
                estimated_seconds: sweep.estimate(case).as_secs_f64(),
                case,
            };
            if args.json {
                serde_json::to_writer(&mut *out, &shown)?;
                writeln!(out)?;
                continue;
            }
            writeln!(
                out,
                "{}  {:6}  {:>10} AND  {:4.1} s at the link rate  {}, {} times",
                super::scenarios::describe(&case.scenario),
                case.part().name(),
                output::grouped(case.and_gates),
                shown.line_seconds,
                case.circuit,
                case.batch,
            )?;
        }
        Ok(())
    })?;
    let total = cases.iter().map(|case| sweep.estimate(case)).sum();
    let unseen = (cases.iter())
        .filter(|case| case.part() == Part::Unseen)
        .count();
    output::note(format!(
        "{} cells, {unseen} of them unseen; {} runs in about {}",
        cases.len(),
        cases.len() * sweep.transports.len() * sweep.repetitions as usize,
        HumanDuration(total)
    ));
    Ok(())
}

fn run(args: &RunArgs) -> Result<(), Failure> {
    let sweep = &args.sweep;
    let transports = transports(&sweep.transports)?;
    let cells: Vec<_> = (sweep.cases().iter())
        .flat_map(|case| case.runs(&transports, sweep.max_run_time()))
        .collect();
    // A run must be cut off before it reaches this time limit, which would be a failure.
    let timeout = sweep.max_run_time() + Duration::from_secs(30);
    let mut options = MatrixOptions::new(own_program()?, args.results.clone(), timeout);
    options.timelines = Timelines::None;
    let repetitions = sweep.repetitions;
    let reporter = ProgressReporter::new(args.quiet);
    let summary = stoppable(move |stop, cancel| {
        runner::run_cells(&cells, repetitions, &options, cancel, |progress| {
            reporter.report_until(stop, progress)
        })
    })?;
    if !args.quiet {
        note(&summary, &args.results);
    }
    // Failed runs are not an error of this command. They are expected in some cells, and `score`
    // includes them.
    Ok(())
}

fn score(args: &ScoreArgs) -> Result<(), Failure> {
    let records = read(&args.results)?;
    let mut transports: Vec<&str> = Vec::new();
    for record in &records {
        if !transports.contains(&record.transport.as_str()) {
            transports.push(&record.transport);
        }
    }
    let all = contests(&records);
    let seen = all.len();
    let contests = selection::complete(all, &transports);
    if contests.is_empty() {
        return Err(Failure::new(
            FailureKind::File,
            "no cell has results for all transports".to_owned(),
        ));
    }
    let workloads = Workloads::of(&records).map_err(model_failure)?;
    let by_model = ModelChooser::new(load_model(args.model.as_deref())?);
    let mut names = transports.clone();
    names.sort_by_key(|&name| name != AUTO);
    let mut choosers: Vec<_> = names.into_iter().map(Judged::always).collect();
    // `rule` comes after `auto`, if `auto` was run, and before the fixed transports.
    let place = usize::from(transports.contains(&AUTO));
    choosers.insert(place, Judged::rule());
    choosers.insert(place + 1, Judged::model(by_model));
    choosers.insert(place + 2, Judged::paper());
    let verdicts = judge(&contests, &choosers, &workloads);
    output::note(format!(
        "{} cells; {} more are ignored: a transport has no result, or all failed",
        contests.len(),
        seen - contests.len()
    ));
    output::print(|out| {
        if args.markdown {
            return write!(out, "{}", markdown(&verdicts));
        }
        for table in sections(&verdicts) {
            writeln!(out, "{}\n{}", table.title(), table.terminal())?;
        }
        writeln!(out, "{}", NOTE)
    })?;
    match &args.out {
        Some(folder) => write(folder, &verdicts),
        None => Ok(()),
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<RunRecord>, Failure> {
    let mut records = Vec::new();
    for path in paths {
        let read = read_run_records(path)
            .map_err(|error| Failure::new(FailureKind::File, error.to_string()).because(error))?;
        records.extend(read);
    }
    Ok(records)
}

fn sections(verdicts: &Verdicts<'_>) -> Vec<transpute_testbed::report::Table> {
    let (unseen, fit) = (Some(Part::Unseen), Some(Part::Fit));
    let all = vec![
        tables::overall(verdicts, unseen),
        tables::differences(verdicts, unseen, RULE),
        tables::by_cell_kind(verdicts, unseen),
        selection::probing(verdicts, unseen),
        tables::overall(verdicts, fit),
        tables::differences(verdicts, fit, RULE),
        tables::overall(verdicts, None),
        tables::by_cell_kind(verdicts, None),
        selection::probing(verdicts, None),
        tables::winners(verdicts, None),
    ];
    all.into_iter().filter(|table| !table.is_empty()).collect()
}

fn markdown(verdicts: &Verdicts<'_>) -> String {
    let tables: String = (sections(verdicts).iter())
        .map(|table| format!("\n## {}\n\n{}", table.title(), table.markdown()))
        .collect();
    format!("{}\n{tables}", NOTE)
}

fn write(folder: &Path, verdicts: &Verdicts<'_>) -> Result<(), Failure> {
    let files = [
        ("score.md", markdown(verdicts)),
        ("regrets.csv", tables::regrets(verdicts).csv()),
        ("cells.csv", tables::cells(verdicts).csv()),
    ];
    let written = fs::create_dir_all(folder).and_then(|()| {
        (files.iter()).try_for_each(|(name, text)| fs::write(folder.join(name), text))
    });
    written.map_err(|error| {
        let text = format!("{}: cannot write the score", folder.display());
        Failure::new(FailureKind::File, text).because(error)
    })
}
