//! `transpute model predict`.

use std::path::PathBuf;

use transpute_select::{Candidate, Chooser, End, Explanation, ModelChooser, PaperRules, Workload};

use super::{DEFAULT_TRANSPORTS, candidates, failure, load, path};
use crate::{
    failure::Failure,
    output,
    workload::{self, Asked},
};

#[derive(clap::Args)]
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
    /// Also one-way transfers of so many bytes to the connecting side
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    bytes: Vec<u64>,
    /// The path: a preset (`transpute testbed scenarios`), a scenario (.toml), or an estimate (.json)
    #[arg(long, value_name = "NAME|FILE", default_value = "eu-us")]
    path: String,
    /// Transports to compare; a `+` stands between settings
    #[arg(long, value_name = "TRANSPORT,...", default_value = DEFAULT_TRANSPORTS, value_delimiter = ',')]
    transports: Vec<String>,
    /// The model. Default: the one that comes with this program
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Choose by the rules of the paper instead
    #[arg(long)]
    paper: bool,
    #[command(flatten)]
    asked: Asked,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn predict(args: &Args) -> Result<(), Failure> {
    let path = path(&args.path)?;
    let candidates: Vec<Candidate> = candidates(&args.transports)?;
    let chooser: Box<dyn Chooser> = match args.paper {
        true => Box::new(PaperRules),
        false => Box::new(ModelChooser::new(load(args.model.as_deref())?)),
    };
    let mut workloads = Vec::new();
    for name in &args.circuit {
        let run = workload::of("--circuit", name, &args.asked)?;
        let typical = workload::between("--circuit", name, &run, None, None)?;
        workloads.push((name.clone(), typical));
    }
    for &bytes in &args.bytes {
        let transfer = Workload::transfer(End::Listener, bytes).map_err(failure)?;
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
