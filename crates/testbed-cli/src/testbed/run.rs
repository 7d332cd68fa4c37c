//! `transpute testbed run`: runs a matrix of circuits, transports and conditions.

mod hosts;

use std::{ops::ControlFlow, path::PathBuf, str::FromStr, time::Duration};

use serde::Serialize;
use transpute::{
    Scheme,
    auto::{Auto, registry},
};
use transpute_cli::{Failure, FailureKind, output};
use transpute_testbed::{
    record::{RecordError, read_run_records},
    report::{self, Table},
    runner::{self, Matrix, MatrixOptions, MatrixSummary, Sweep, Timelines},
};

use super::{
    common::{cancellable, check_failed, load, own_program, scenario_failure},
    progress::ProgressReporter,
};

/// The name that selects all schemes or transports.
const ALL: &str = "all";

/// The name of the transport or scheme with which the parties choose one of the others.
const AUTO: &str = Auto::NAME;

#[derive(clap::Args)]
#[command(after_help = "\
Lists are comma-separated. Every combination is run, with two processes of this program for each \
repetition. Runs that --results already contains are skipped. A circuit whose name contains a comma \
must be given as a file (see `transpute circuit generate`).

Party A is the garbler and listens; party B is the evaluator and connects.

With --hosts, the parties run on two machines that `ssh` reaches without a password. Each gets a copy of \
this program in a temporary directory. B must reach TCP and UDP port 7700 of A.

Example:
  transpute testbed run --scenario lan,eu-us --circuits aes128,sha256 --transports tcp,quic,auto --repetitions 5
  transpute testbed run --hosts alice@a.example,bob@b.example --circuits aes128 --transports tcp,rudp")]
pub(crate) struct Args {
    /// Network conditions: presets (see `transpute testbed scenarios`) or files
    #[arg(
        long = "scenario",
        alias = "scenarios",
        value_name = "NAME|FILE,...",
        default_value = "eu-us",
        value_delimiter = ','
    )]
    scenarios: Vec<String>,
    /// Run between two hosts instead of over emulated paths: ssh destinations of the garbler and
    /// the evaluator
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        conflicts_with_all = ["scenarios", "rtt", "loss", "rate", "block_udp", "congestion_control", "socket_buffer"],
    )]
    hosts: Vec<String>,
    /// Address at which host B reaches host A [default: A's host name in the configuration of ssh,
    /// port 7700]
    #[arg(long, value_name = "HOST[:PORT]", requires = "hosts")]
    address: Option<String>,
    /// Circuits: names or files, as for `transpute run`
    #[arg(
        long,
        alias = "circuit",
        value_name = "NAME|FILE,...",
        default_value = "aes128",
        value_delimiter = ','
    )]
    circuits: Vec<String>,
    /// Garbling schemes, or all; with auto, the parties choose one
    #[arg(
        long,
        alias = "scheme",
        value_name = "SCHEME,...",
        default_value = "half-gates",
        value_delimiter = ','
    )]
    schemes: Vec<String>,
    /// Transports, or all (including auto); with auto, the evaluator chooses one by the path
    #[arg(
        long,
        alias = "transport",
        value_name = "TRANSPORT,...",
        default_value = "tcp",
        value_delimiter = ','
    )]
    transports: Vec<String>,
    /// Number of evaluations in each run
    #[arg(long, value_name = "K,...", default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    batch: Vec<u64>,
    /// Number of runs of each combination
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repetitions: u32,
    /// Round-trip times in milliseconds [default: the scenarios']
    #[arg(long, value_name = "MS,...", value_delimiter = ',')]
    rtt: Vec<f64>,
    /// Loss probabilities in each direction [default: the scenarios']
    #[arg(long, value_name = "P,...", value_delimiter = ',')]
    loss: Vec<f64>,
    /// Rates in Mbit/s in each direction [default: the scenarios']
    #[arg(long, value_name = "MBIT,...", value_delimiter = ',')]
    rate: Vec<f64>,
    /// Drop every UDP packet in both directions, as a firewall does
    #[arg(long)]
    block_udp: bool,
    /// TCP congestion control algorithms
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    congestion_control: Vec<String>,
    /// Maximum sizes of socket buffers, in bytes
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    socket_buffer: Vec<u64>,
    /// Disable encryption and authentication
    #[arg(long)]
    plaintext: bool,
    /// File to which results are appended
    #[arg(long, value_name = "FILE", default_value = "results.jsonl")]
    results: PathBuf,
    /// Do not record the timelines of arriving bytes
    #[arg(long)]
    no_timelines: bool,
    /// Time limit of a run, in seconds; longer runs count as failed
    #[arg(long, value_name = "SECS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print a summary as a JSON object
    #[arg(long)]
    json: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

/// The summary, as JSON.
#[derive(Serialize)]
struct RunSummary {
    results: PathBuf,
    measured: u64,
    failed: u64,
    skipped: u64,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if !args.hosts.is_empty() {
        return hosts::run(&args);
    }
    let matrix = matrix(&args)?;
    let timeout = Duration::from_secs(args.timeout);
    let mut options = MatrixOptions::new(own_program()?, args.results.clone(), timeout);
    if args.no_timelines {
        options.timelines = Timelines::None;
    }
    let reporter = ProgressReporter::new(args.quiet || args.json);
    let running = matrix.clone();
    let summary = cancellable(move |cancel| {
        runner::run(&running, &options, cancel, |progress| {
            reporter.report(progress);
            ControlFlow::Continue(())
        })
    })?;
    print_summary(&args, summary, || {
        let records = read_run_records(&args.results)?;
        Ok(report::summary(&runner::records_of(&matrix, records)))
    })
}

/// Prints the summary of a matrix, with the table that `table` makes. Returns an error if runs
/// failed.
fn print_summary(
    args: &Args,
    summary: MatrixSummary,
    table: impl FnOnce() -> Result<Table, RecordError>,
) -> Result<(), Failure> {
    let MatrixSummary {
        measured,
        failed,
        skipped,
        ..
    } = summary;
    if args.json {
        output::print_json(&RunSummary {
            results: args.results.clone(),
            measured,
            failed,
            skipped,
        })?;
    } else if !args.quiet {
        let table = table()
            .map_err(|error| Failure::new(FailureKind::File, error.to_string()).because(error))?;
        output::print(|out| writeln!(out, "{}\n{}", table.title(), table.terminal()))?;
        output::note(format!(
            "{measured} measured, {failed} failed, {skipped} already in the results: {}",
            args.results.display()
        ));
    }
    check_failed(failed, &args.results)
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
                    // With this name, the parties choose the scheme, as they do for transports.
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

/// Checks the names of transports and expands "all".
pub(super) fn transports(given: &[String]) -> Result<Vec<String>, Failure> {
    Matrix::transports(given, &registry())
        .map_err(|error| Failure::usage(format!("--transports: {error}")))
}

/// Checks the names of transports and expands "all", which also includes `auto`.
fn with_auto(given: &[String]) -> Result<Vec<String>, Failure> {
    let mut names = transports(given)?;
    if given.iter().any(|name| name == ALL) {
        names.push(AUTO.to_owned());
    }
    Ok(names)
}

/// Checks the names that are given for `flag`, and expands "all".
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
