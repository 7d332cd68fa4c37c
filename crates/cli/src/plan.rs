//! `transpute plan`: what many runs take and cost.

use std::path::PathBuf;

use serde::Serialize;
use transpute_select::{
    Chooser, End, Loss, Model, ModelChooser, PathEstimate, Plan, Prices, Spec, Workload,
};

use crate::{
    failure::Failure,
    model::{DEFAULT_TRANSPORTS, candidates, failure, load, path},
    output,
    workload::{self, Asked},
};

#[derive(clap::Args)]
#[command(after_help = "\
Each party rents a machine by the hour and pays for the gigabytes (10^9 bytes) that it sends; arriving ones are free. docs/selection.md \
works an example.")]
pub(crate) struct Args {
    /// The circuit, as for `transpute run`
    #[arg(long, value_name = "NAME|FILE", required_unless_present = "workload")]
    circuit: Option<String>,
    /// A workload in JSON instead of a circuit, as `transpute model predict --json` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "circuit")]
    workload: Option<PathBuf>,
    /// The path: a preset (`transpute testbed scenarios`), a scenario (.toml), or an estimate (.json)
    #[arg(long, value_name = "NAME|FILE")]
    path: String,
    /// How many runs, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    runs: u64,
    /// What a gigabyte that leaves a machine costs
    #[arg(long, value_name = "PRICE", default_value_t = 0.0)]
    price_per_gb: f64,
    /// What a machine costs for an hour
    #[arg(long, value_name = "PRICE", default_value_t = 0.0)]
    price_per_hour: f64,
    /// Transports to choose from; a `+` stands between settings
    #[arg(long, value_name = "TRANSPORT,...", default_value = DEFAULT_TRANSPORTS, value_delimiter = ',')]
    transports: Vec<String>,
    /// The model. Default: the one that comes with this program
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    #[command(flatten)]
    asked: Asked,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
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

pub(crate) fn plan(args: &Args) -> Result<(), Failure> {
    let path = path(&args.path)?;
    let workload = workload(args)?;
    let prices = Prices::new(args.price_per_gb, args.price_per_hour).map_err(failure)?;
    let model: Model = load(args.model.as_deref())?;
    let choice = ModelChooser::new(model)
        .choose(&path, &workload, &candidates(&args.transports)?)
        .map_err(failure)?;
    let lost = |loss: Option<Loss>| loss.map_or(0.0, Loss::fraction);
    let (up, down) = (lost(path.up.loss), lost(path.down.loss));
    // Towards the evaluator, and towards the garbler.
    let loss = match workload.parts().garbler {
        End::Connector => (up, down),
        End::Listener => (down, up),
    };
    let plan = Plan::new(&choice, &workload, loss, args.runs, prices).map_err(failure)?;
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

fn workload(args: &Args) -> Result<Workload, Failure> {
    match (&args.circuit, &args.workload) {
        (Some(circuit), _) => workload::of("--circuit", circuit, &args.asked),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::file(file, "cannot be read").because(error))?;
            serde_json::from_str(&text)
                .map_err(|error| Failure::file(file, error.to_string()).because(error))
        }
        // The parser asks for one of them.
        (None, None) => Err(Failure::usage("--circuit: what is to be computed?")),
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
