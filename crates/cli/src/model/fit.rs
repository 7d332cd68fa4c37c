//! `transpute model fit`.

use std::path::PathBuf;

use serde::Serialize;
use transpute_select::{Model, Sample};

use super::{failure, show};
use crate::{
    failure::{Failure, Kind},
    output,
};

#[derive(clap::Args)]
#[command(after_help = "\
Runs are rows of `transpute testbed run`. About a quarter of the cells (a path and a workload, whatever the transport) is held \
out, by a hash of the cell, and tells how well the model does on what it has not seen. The same rows give the same model.")]
pub(crate) struct Args {
    /// Files of rows
    #[arg(value_name = "ROWS", required = true)]
    rows: Vec<PathBuf>,
    /// Write the model into this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What the runs are called in the model. Default: the names of the files
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Also list each run: measured and predicted seconds, tab-separated
    #[arg(long)]
    residuals: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One run beside its prediction.
#[derive(Serialize)]
struct Residual<'a> {
    cell: &'a str,
    transport: &'a str,
    is_held_out: bool,
    measured_s: f64,
    predicted_s: f64,
}

fn samples(files: &[PathBuf]) -> Result<(Vec<Sample>, usize), Failure> {
    let mut samples = Vec::new();
    let mut left_out = 0;
    for file in files {
        let rows = transpute_testbed::row::read_rows(file)
            .map_err(|error| Failure::new(Kind::File, error.to_string()).because(error))?;
        for row in &rows {
            match super::rows::sample(row).map_err(failure)? {
                Some(sample) => samples.push(sample),
                None => left_out += 1,
            }
        }
    }
    Ok((samples, left_out))
}

pub(crate) fn fit(args: &Args) -> Result<(), Failure> {
    let (samples, left_out) = samples(&args.rows)?;
    let name = args.name.clone().unwrap_or_else(|| {
        let stem = |file: &PathBuf| file.file_stem().unwrap_or_default().display().to_string();
        args.rows.iter().map(stem).collect::<Vec<_>>().join(", ")
    });
    let model = transpute_select::fit(&name, &samples).map_err(failure)?;
    if left_out > 0 {
        output::note(format!(
            "{left_out} rows left out: failed, plaintext, overrun, shared or changing path"
        ));
    }
    if args.json {
        output::print(|out| write!(out, "{}", model.to_json()))?;
    } else {
        show::print(&model)?;
    }
    if args.residuals {
        residuals(&model, &samples, args.json)?;
    }
    if let Some(out) = &args.out {
        model.save(out).map_err(failure)?;
        output::note(format!("written: {}", out.display()));
    }
    Ok(())
}

fn residuals(model: &Model, samples: &[Sample], json: bool) -> Result<(), Failure> {
    for sample in samples {
        let predicted = model
            .predict(&sample.transport, &sample.path, &sample.workload)
            .map_err(failure)?;
        let residual = Residual {
            cell: &sample.cell,
            transport: sample.transport.as_str(),
            is_held_out: sample.is_held_out(),
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
                    measured_s,
                    predicted_s,
                } = residual;
                writeln!(
                    out,
                    "{measured_s:.4}\t{predicted_s:.4}\t{transport}\t{}\t{cell}",
                    if is_held_out { "unseen" } else { "fit" }
                )
            })?;
        }
    }
    Ok(())
}
