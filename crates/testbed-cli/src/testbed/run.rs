//! `transpute testbed run`: a matrix of runs.

use std::{ops::ControlFlow, path::PathBuf, str::FromStr, time::Duration};

use serde::Serialize;
use transpute::{
    Scheme,
    auto::{Auto, registry},
};
use transpute_cli::{Failure, Kind, output};
use transpute_testbed::{
    report,
    row::read_rows,
    runner::{self, Matrix, Options, Summary, Sweep, Timelines},
};

use super::{
    teller::Teller,
    work::{all_went_well, cancellable, load, own_program, scenario_failure},
};

/// What stands for all schemes or transports.
const ALL: &str = "all";

/// What lets the evaluator choose.
const AUTO: &str = Auto::NAME;

#[derive(clap::Args)]
#[command(after_help = "\
Lists have commas between. Every combination is run, as two processes of this program for each \
repetition. What --results has already is not run again. A circuit whose name has a comma in it \
goes by a file (see `transpute circuit generate`).

Party A is the garbler, which listens; the evaluator connects.")]
pub(crate) struct Args {
    /// Network conditions: names (see `transpute testbed scenarios`) or files
    #[arg(
        long = "scenario",
        alias = "scenarios",
        value_name = "NAME|FILE,...",
        default_value = "eu-us",
        value_delimiter = ','
    )]
    scenarios: Vec<String>,
    /// Circuits, as for `transpute run`
    #[arg(
        long,
        alias = "circuit",
        value_name = "NAME|FILE,...",
        default_value = "aes128",
        value_delimiter = ','
    )]
    circuits: Vec<String>,
    /// Garbling schemes, or all; auto for the one that the parties choose
    #[arg(
        long,
        alias = "scheme",
        value_name = "SCHEME,...",
        default_value = "half-gates",
        value_delimiter = ','
    )]
    schemes: Vec<String>,
    /// Transports; auto, which the evaluator chooses by the path; or all, auto included
    #[arg(
        long,
        alias = "transport",
        value_name = "TRANSPORT,...",
        default_value = "tcp",
        value_delimiter = ','
    )]
    transports: Vec<String>,
    /// How many times each run evaluates its circuit
    #[arg(long, value_name = "K,...", default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    batch: Vec<u64>,
    /// Runs of each combination
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repetitions: u32,
    /// Round-trip times in milliseconds instead of those of the scenarios
    #[arg(long, value_name = "MS,...", value_delimiter = ',')]
    rtt: Vec<f64>,
    /// Probabilities of loss, both ways, instead of those of the scenarios
    #[arg(long, value_name = "P,...", value_delimiter = ',')]
    loss: Vec<f64>,
    /// Rates in Mbit/s, both ways, instead of those of the scenarios
    #[arg(long, value_name = "MBIT,...", value_delimiter = ',')]
    rate: Vec<f64>,
    /// A firewall that drops every UDP packet, both ways
    #[arg(long)]
    block_udp: bool,
    /// TCP congestion controls
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    congestion_control: Vec<String>,
    /// Largest socket buffers in bytes
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    socket_buffer: Vec<u64>,
    /// Neither encrypt nor authenticate
    #[arg(long)]
    plaintext: bool,
    /// The file that results are appended to
    #[arg(long, value_name = "FILE", default_value = "results.jsonl")]
    results: PathBuf,
    /// Leave out of the results what arrived when
    #[arg(long)]
    no_timelines: bool,
    /// How long a run may take, in seconds, before it counts as failed
    #[arg(long, value_name = "SECS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print one JSON object about what was run
    #[arg(long)]
    json: bool,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
}

/// What was run, as JSON.
#[derive(Serialize)]
struct Outcome {
    results: PathBuf,
    measured: u64,
    failed: u64,
    skipped: u64,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let matrix = matrix(&args)?;
    let options = Options {
        binary: own_program()?,
        results: args.results.clone(),
        timeout: Duration::from_secs(args.timeout),
        timelines: match args.no_timelines {
            true => Timelines::None,
            false => Timelines::First,
        },
        live: None,
    };
    let teller = Teller::new(args.quiet || args.json);
    let running = matrix.clone();
    let summary = cancellable(move |cancel| {
        runner::run(&running, &options, cancel, |progress| {
            teller.tell(progress);
            ControlFlow::Continue(())
        })
    })?;
    let Summary {
        measured,
        failed,
        skipped,
        ..
    } = summary;
    if args.json {
        output::print_json(&Outcome {
            results: args.results.clone(),
            measured,
            failed,
            skipped,
        })?;
    } else if !args.quiet {
        let rows = read_rows(&args.results)
            .map_err(|error| Failure::new(Kind::File, error.to_string()).because(error))?;
        let table = report::summary(&runner::rows_of(&matrix, rows));
        output::print(|out| writeln!(out, "{}\n{}", table.title(), table.terminal()))?;
        output::note(format!(
            "{measured} measured, {failed} failed, {skipped} measured before: {}",
            args.results.display()
        ));
    }
    all_went_well(failed, &args.results)
}

fn matrix(args: &Args) -> Result<Matrix, Failure> {
    let base = (args.scenarios.iter())
        .map(|name| load(name))
        .collect::<Result<Vec<_>, _>>()?;
    let sweep = Sweep {
        rtt_ms: args.rtt.clone(),
        loss: args.loss.clone(),
        rate_mbit: args.rate.clone(),
        block_udp: args.block_udp,
        congestion_control: args.congestion_control.clone(),
        socket_buffer: args.socket_buffer.clone(),
    };
    Ok(Matrix {
        scenarios: sweep.apply(&base).map_err(scenario_failure)?,
        circuits: args.circuits.clone(),
        schemes: names(
            "--schemes",
            &args.schemes,
            Scheme::ALL.map(|scheme| scheme.to_string()),
            |name| {
                match name {
                    // The parties choose, as they do with transports.
                    AUTO => Ok(name.to_owned()),
                    _ => Ok(Scheme::from_str(name)?.to_string()),
                }
            },
        )?,
        transports: with_auto(&args.transports)?,
        batches: args.batch.clone(),
        encrypted: !args.plaintext,
        repetitions: args.repetitions,
    })
}

/// Checks the names of transports.
pub(super) fn transports(given: &[String]) -> Result<Vec<String>, Failure> {
    Matrix::transports(given, &registry())
        .map_err(|error| Failure::usage(format!("--transports: {error}")))
}

/// Checks transports as `transports` does; "all" is auto too.
fn with_auto(given: &[String]) -> Result<Vec<String>, Failure> {
    let mut names = transports(given)?;
    if given.iter().any(|name| name == ALL) {
        names.push(AUTO.to_owned());
    }
    Ok(names)
}

/// Checks names, and puts all there are in the place of "all".
fn names<T: ToString>(
    flag: &str,
    given: &[String],
    all: impl IntoIterator<Item = T>,
    check: impl Fn(&str) -> Result<T, Box<dyn std::error::Error + Send + Sync>>,
) -> Result<Vec<String>, Failure> {
    if given.iter().any(|name| name == ALL) {
        return Ok(all.into_iter().map(|name| name.to_string()).collect());
    }
    (given.iter())
        .map(|name| match check(name) {
            Ok(known) => Ok(known.to_string()),
            Err(error) => Err(Failure::usage(format!("{flag}: {error}"))),
        })
        .collect()
}
