//! `transpute model fit`: fits the model to measured runs.

use std::path::PathBuf;

use serde::Serialize;
use transpute_cli::{Failure, FailureKind, model_failure, output, print_model};
use transpute_select::{Model, Sample};

#[derive(clap::Args)]
#[command(after_help = "\
Runs are records of `transpute testbed run` and `transpute testbed selection run`. About half of the cells (a path and a workload, \
whatever the transport) are held out, by a hash. `transpute testbed selection score` calls them unseen. They show how well the \
model predicts cells that it was not fitted to. The same records always give the same model.

Example:
  transpute model fit results.jsonl --out model.json")]
pub(crate) struct Args {
    /// Files of records
    #[arg(value_name = "RECORDS", required = true)]
    records: Vec<PathBuf>,
    /// Write the model to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the runs in the model [default: the names of the files]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Also list the measured and predicted seconds of each run, tab-separated
    #[arg(long)]
    residuals: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A run with its prediction.
#[derive(Serialize)]
struct Residual<'a> {
    cell: &'a str,
    transport: &'a str,
    is_held_out: bool,
    /// True if the run was cut off after `measured_s`.
    is_cut: bool,
    measured_s: f64,
    predicted_s: f64,
}

fn samples(files: &[PathBuf]) -> Result<(Vec<Sample>, usize), Failure> {
    let mut records = Vec::new();
    for file in files {
        let read = transpute_testbed::record::read_run_records(file)
            .map_err(|error| Failure::new(FailureKind::File, error.to_string()).because(error))?;
        records.extend(read);
    }
    transpute_testbed::selection::samples(&records).map_err(model_failure)
}

pub(crate) fn fit(args: &Args) -> Result<(), Failure> {
    let (samples, left_out) = samples(&args.records)?;
    let name = args.name.clone().unwrap_or_else(|| {
        let stem = |file: &PathBuf| file.file_stem().unwrap_or_default().display().to_string();
        args.records.iter().map(stem).collect::<Vec<_>>().join(", ")
    });
    let model = transpute_select::fit(&name, &samples).map_err(model_failure)?;
    if left_out > 0 {
        output::note(format!(
            "{left_out} records ignored: failed, plaintext, overrun, auto, UDP behind a firewall, shared or changing path"
        ));
    }
    if args.json {
        output::print(|out| write!(out, "{}", model.to_json()))?;
    } else {
        print_model(&model)?;
    }
    if args.residuals {
        residuals(&model, &samples, args.json)?;
    }
    if let Some(out) = &args.out {
        model.save(out).map_err(model_failure)?;
        output::note(format!("model written to {}", out.display()));
    }
    Ok(())
}

fn residuals(model: &Model, samples: &[Sample], json: bool) -> Result<(), Failure> {
    for sample in samples {
        let predicted = model
            .predict(&sample.transport, &sample.path, &sample.workload)
            .map_err(model_failure)?;
        let residual = Residual {
            cell: &sample.cell,
            transport: sample.transport.as_str(),
            is_held_out: sample.is_held_out,
            is_cut: sample.is_cut,
            measured_s: sample.seconds,
            predicted_s: predicted.seconds,
        };
        if json {
            output::print_json(&residual)?;
        } else {
            output::print(|out| {
                let Residual {
                    cell,
                    transport,
                    is_held_out,
                    is_cut,
                    measured_s,
                    predicted_s,
                } = residual;
                writeln!(
                    out,
                    "{}{measured_s:.4}\t{predicted_s:.4}\t{transport}\t{}\t{cell}",
                    if is_cut { ">" } else { "" },
                    if is_held_out { "unseen" } else { "fit" }
                )
            })?;
        }
    }
    Ok(())
}
