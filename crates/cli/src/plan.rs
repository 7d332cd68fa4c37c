//! `transpute plan`: predicted time, traffic and cost of many runs.

use std::path::PathBuf;

use serde::Serialize;
use transpute::auto::{Probed, registry};
use transpute_select::{
    Candidate, Chooser, End, Loss, Model, ModelChooser, PathEstimate, Spec, Workload,
};

use crate::{
    cost::{Plan, Prices},
    failure::Failure,
    flags::{parse_address, warn_unused},
    model::{Scenarios, candidates, failure, load, path},
    output, probe,
    protection::Protection,
    workload::{Asked, Named},
};

/// The value of `--path` that requests a measurement of the path before the prediction.
const MEASURED: &str = "measured";

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  transpute plan --circuit aes128 --path eu-us

Each party rents a machine by the hour and pays for the gigabytes (10^9 bytes) that it sends; arriving ones are free. Both machines \
are assumed to be typical ones. docs/selection.md works an example.")]
pub(crate) struct Args {
    /// The circuit, as for `transpute run`
    #[arg(long, value_name = "NAME|FILE", required_unless_present = "workload")]
    circuit: Option<String>,
    /// A workload in JSON instead of a circuit, as `transpute model predict --json` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "circuit")]
    workload: Option<PathBuf>,
    /// The path: a preset (`transpute testbed scenarios`), a scenario (.toml), an estimate or the
    /// output of `transpute probe --json` (.json), or measured: the path to the peer in --connect
    #[arg(long, value_name = "NAME|FILE|measured")]
    path: String,
    /// The peer for the measurement of the path (host:port), which listens as for `transpute probe`
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    connect: Option<String>,
    #[command(flatten)]
    protection: Protection,
    /// Number of runs in sequence, each over a new connection. Batches and --repeat of `transpute
    /// run` take less time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    runs: u64,
    /// Price of a gigabyte of outgoing traffic
    #[arg(long, value_name = "PRICE", default_value_t = 0.0)]
    price_per_gb: f64,
    /// Price of an hour of one machine
    #[arg(long, value_name = "PRICE", default_value_t = 0.0)]
    price_per_hour: f64,
    /// Transports to choose from; settings are separated by `+` [default:
    /// tcp,tcp-striped,quic,rudp, or those that reach a measured peer]
    #[arg(long, value_name = "TRANSPORT,...", value_delimiter = ',')]
    transports: Option<Vec<String>>,
    /// The model file [default: the built-in model]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    #[command(flatten)]
    asked: Asked,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The JSON output of `transpute plan`.
#[derive(Serialize)]
struct Answer {
    transport: Spec,
    reason: String,
    seconds_per_run: f64,
    #[serde(flatten)]
    plan: Plan,
    cost: f64,
    path: PathEstimate,
    workload: Workload,
}

pub(crate) fn plan(args: &Args, scenarios: Scenarios) -> Result<(), Failure> {
    let peer = peer(args)?;
    // Errors of the arguments are reported before the path is measured.
    let prices = Prices::new(args.price_per_gb, args.price_per_hour)?;
    let model: Model = load(args.model.as_deref())?;
    let named = args.transports.as_deref().map(candidates).transpose()?;
    let known = match peer {
        Some(_) => None,
        None => Some(path(&args.path, scenarios)?),
    };
    // The warning is printed after the path is known. For a preset, the testbed's program runs the
    // whole command instead of this one and prints the warning itself.
    if known.is_some()
        && let Some(flag) = args.protection.given()
    {
        warn_unused(flag, true, "--path measured");
    }
    let task = Task::new(args)?;
    let (path, candidates) = match (known, peer) {
        (Some(path), _) => {
            let candidates = match named {
                Some(named) => named,
                None => Candidate::all(&registry()),
            };
            (path, candidates)
        }
        (None, Some(address)) => {
            let probed = probe::measure(address, &args.protection.security()?)?;
            let candidates = reachable(named, &probed);
            (probed.path, candidates)
        }
        // The lines above ensure that one of them is set.
        (None, None) => return Err(no_peer()),
    };
    let workload = task.workload(&path)?;
    let choice = ModelChooser::new(model)
        .choose(&path, &workload, &candidates)
        .map_err(failure)?;
    let lost = |loss: Option<Loss>| loss.map_or(0.0, Loss::fraction);
    let (up, down) = (lost(path.up.known.loss), lost(path.down.known.loss));
    // The loss towards the evaluator, then towards the garbler.
    let loss = match workload.garbler {
        End::Connector => (up, down),
        End::Listener => (down, up),
    };
    let plan = Plan::new(&choice, &workload, loss, args.runs, prices);
    let answer = Answer {
        transport: choice.winner().clone(),
        reason: choice.reason.clone(),
        seconds_per_run: choice.prediction().seconds,
        cost: plan.cost(),
        plan,
        path,
        workload,
    };
    match args.json {
        true => output::print_json(&answer),
        false => print(&answer),
    }
}

/// Returns the address of the peer with which the path is measured. None if it is not measured.
fn peer(args: &Args) -> Result<Option<&str>, Failure> {
    match (&*args.path, &args.connect) {
        (MEASURED, Some(address)) => {
            args.protection.check()?;
            Ok(Some(address))
        }
        (MEASURED, None) => Err(no_peer()),
        (path, Some(_)) => Err(Failure::usage(format!(
            "--connect contradicts --path {path}: to measure the path to a peer, give --path measured"
        ))),
        (_, None) => Ok(None),
    }
}

fn no_peer() -> Failure {
    Failure::usage("--path measured needs --connect ADDR: the peer to measure the path to")
}

/// Returns the transports in the command line, or all transports if none is given. A transport that
/// did not reach the peer has the reason.
fn reachable(named: Option<Vec<Candidate>>, probed: &Probed) -> Vec<Candidate> {
    let Some(named) = named else {
        return probed.candidates.clone();
    };
    let obstacle = |candidate: &Candidate| {
        let of_name = |other: &&Candidate| other.spec.name() == candidate.spec.name();
        let tried = probed.candidates.iter().find(of_name)?;
        tried.unavailable.clone()
    };
    (named.into_iter())
        .map(|candidate| match obstacle(&candidate) {
            None => candidate,
            unavailable => Candidate {
                unavailable,
                ..candidate
            },
        })
        .collect()
}

/// The run to plan.
enum Task {
    /// A run of this circuit.
    Circuit(Box<Named>),
    /// A run with the workload in the file of `--workload`.
    Workload(Workload),
}

impl Task {
    fn new(args: &Args) -> Result<Self, Failure> {
        match (&args.circuit, &args.workload) {
            (Some(circuit), _) => {
                let is_encrypted = !args.protection.plaintext;
                let named = Named::load("--circuit", circuit, &args.asked, is_encrypted)?;
                Ok(Self::Circuit(Box::new(named)))
            }
            (None, Some(file)) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| Failure::file(file, "cannot be read").because(error))?;
                let workload: Workload = serde_json::from_str(&text)
                    .map_err(|error| Failure::file(file, error.to_string()).because(error))?;
                (workload.validate())
                    .map_err(|error| Failure::file(file, error.to_string()).because(error))?;
                Ok(Self::Workload(workload))
            }
            // The parser requires `--circuit` or `--workload`.
            (None, None) => Err(Failure::usage("--circuit: what is to be computed?")),
        }
    }

    /// Returns the workload of a run over this path.
    fn workload(&self, path: &PathEstimate) -> Result<Workload, Failure> {
        match self {
            Self::Circuit(named) => named.workload(path),
            Self::Workload(workload) => Ok(*workload),
        }
    }
}

fn print(answer: &Answer) -> Result<(), Failure> {
    let Plan {
        runs,
        seconds,
        interval_s: (low, high),
        garbler_bytes,
        evaluator_bytes,
        traffic_cost,
        machine_cost,
    } = answer.plan;
    output::print(|out| {
        writeln!(out, "path:      {}", answer.path)?;
        writeln!(out, "transport: {} ({})", answer.transport, answer.reason)?;
        writeln!(
            out,
            "time:      {} for {} runs (80 %: {} to {})",
            duration(seconds),
            output::grouped(runs),
            duration(low),
            duration(high)
        )?;
        writeln!(
            out,
            "traffic:   {:.3} GB from the garbler, {:.3} GB from the evaluator",
            garbler_bytes / 1e9,
            evaluator_bytes / 1e9
        )?;
        writeln!(
            out,
            "cost:      {:.4} (traffic {traffic_cost:.4}, two machines {machine_cost:.4})",
            answer.cost
        )
    })
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}
