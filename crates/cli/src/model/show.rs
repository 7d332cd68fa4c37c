//! `transpute model show`.

use std::path::PathBuf;

use transpute_select::{Estimate, FitErrors, Model};

use super::load;
use crate::{failure::Failure, output};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute model show --json")]
pub(crate) struct Args {
    /// The model file [default: the built-in model]
    #[arg(value_name = "FILE")]
    model: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn show(args: &Args) -> Result<(), Failure> {
    let model = load(args.model.as_deref())?;
    if args.json {
        return output::print(|out| write!(out, "{}", model.to_json()));
    }
    print(&model)
}

/// Prints the parameters of a model and its errors.
///
/// # Errors
/// Returns an error if standard output cannot be written to.
pub fn print(model: &Model) -> Result<(), Failure> {
    output::print(|out| {
        let runs = &model.fitted_to;
        writeln!(
            out,
            "fitted to: {} ({} runs, {} cells, {} of them held out)\n",
            runs.name, runs.runs, runs.cells, runs.held_out_cells
        )?;
        writeln!(
            out,
            "{:20} {:7} {:>5} {:>8} {:>7} {:>6}",
            "transport", "part", "cells", "R2 (log)", "median", "90 %"
        )?;
        for (spec, fitted) in &model.transports {
            let lines = [("fitted", Some(fitted.fit)), ("unseen", fitted.held_out)];
            for (part, goodness) in lines {
                let Some(goodness) = goodness else { continue };
                let FitErrors {
                    cells,
                    r2_log,
                    median_error,
                    p90_error,
                } = goodness;
                let percent = |error: f64| format!("{:.0} %", error * 100.0);
                writeln!(
                    out,
                    "{:20} {part:7} {cells:>5} {r2_log:>8.3} {:>7} {:>6}",
                    spec.to_string(),
                    percent(median_error),
                    percent(p90_error),
                )?;
            }
        }
        writeln!(
            out,
            "\n{:20} {:20} {:>10}  95 % interval",
            "transport", "parameter", "value"
        )?;
        for (spec, fitted) in &model.transports {
            for (name, Estimate { value, low, high }) in fitted.parameters.named() {
                writeln!(
                    out,
                    "{spec:20} {name:20} {value:>10.4e}  {low:.3e} to {high:.3e}"
                )?;
            }
            writeln!(out, "{spec:20} {:20} {:>10.4}", "sigma", fitted.sigma)?;
        }
        Ok(())
    })
}
