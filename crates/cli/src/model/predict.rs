//! `transpute model predict`.

use std::path::PathBuf;

use transpute_select::{Candidate, End, Workload};

use super::{Scenarios, candidates, failure, load, path, usual_transports};
use crate::{
    explanation::Explanation,
    failure::Failure,
    output,
    selection::By,
    workload::{Asked, Named},
};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute model predict --circuit aes128 --path eu-us")]
pub(crate) struct Args {
    /// Circuits, as for `transpute run`
    #[arg(
        long,
        alias = "circuits",
        value_name = "NAME|FILE,...",
        default_value = "aes128,sha256,mincut",
        value_delimiter = ','
    )]
    circuit: Vec<String>,
    /// Also predict one-way transfers of this many bytes to the connecting side
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    bytes: Vec<u64>,
    /// The path: a preset (`transpute testbed scenarios`), a scenario (.toml), or an estimate
    /// (.json)
    #[arg(long, value_name = "NAME|FILE", default_value = "eu-us")]
    path: String,
    /// Transports to compare; settings are separated by `+`
    #[arg(long, value_name = "TRANSPORT,...", default_values_t = usual_transports(), value_delimiter = ',')]
    transports: Vec<String>,
    /// The model file [default: the built-in model]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The method of the choice
    #[arg(long, value_name = "BY", default_value = "model")]
    chooser: By,
    /// Choose by the rules of the paper, like --chooser paper
    #[arg(long, conflicts_with = "chooser")]
    paper: bool,
    #[command(flatten)]
    asked: Asked,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn predict(args: &Args, scenarios: Scenarios) -> Result<(), Failure> {
    let path = path(&args.path, scenarios)?;
    let candidates: Vec<Candidate> = candidates(&args.transports)?;
    let by = match args.paper {
        true => By::Paper,
        false => args.chooser,
    };
    let chooser = by.chooser(Some(load(args.model.as_deref())?));
    let mut workloads = Vec::new();
    for name in &args.circuit {
        let named = Named::load("--circuit", name, &args.asked, true)?;
        workloads.push((name.clone(), named.workload(&path)?));
    }
    for &bytes in &args.bytes {
        let transfer = Workload::transfer(End::Listener, bytes);
        workloads.push((format!("{} B", output::grouped(bytes)), transfer));
    }
    let explanation =
        Explanation::new(&*chooser, &path, workloads, &candidates).map_err(failure)?;
    if args.json {
        output::print_json(&explanation)
    } else {
        output::print(|out| write!(out, "{explanation}"))
    }
}
