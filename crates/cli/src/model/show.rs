//! `transpute model show`.

use std::path::PathBuf;

use transpute_select::{Goodness, Model};

use super::load;
use crate::{failure::Failure, output};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model in a file. Default: the one that comes with this program
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

pub(super) fn print(model: &Model) -> Result<(), Failure> {
    output::print(|out| {
        let runs = model.runs();
        writeln!(
            out,
            "fitted to: {} ({} runs, {} cells, {} of them held out)\n",
            runs.name, runs.runs, runs.cells, runs.held_out_cells
        )?;
        writeln!(
            out,
            "{:16} {:8} {:>5} {:>7} {:>8} {:>7} {:>6} {:>6}",
            "transport", "cells", "runs", "R2", "R2 (log)", "median", "90 %", "95 %"
        )?;
        for (spec, fitted) in model.transports() {
            let lines = [("fitted", Some(fitted.fit)), ("unseen", fitted.held_out)];
            for (cells, goodness) in lines {
                let Some(goodness) = goodness else { continue };
                let Goodness {
                    runs,
                    r2,
                    r2_log,
                    median_error,
                    p90_error,
                    p95_error,
                } = goodness;
                let percent = |error: f64| format!("{:.0} %", error * 100.0);
                writeln!(
                    out,
                    "{:16} {cells:8} {runs:>5} {r2:>7.3} {r2_log:>8.3} {:>7} {:>6} {:>6}",
                    spec.to_string(),
                    percent(median_error),
                    percent(p90_error),
                    percent(p95_error)
                )?;
            }
        }
        writeln!(
            out,
            "\n{:16} {:>8} {:>6} {:>7} {:>9} {:>7} {:>7} {:>8} {:>8} {:>6} {:>7} {:>9} {:>12}",
            "transport",
            "fixed ms",
            "set-up",
            "rounds",
            "carriage",
            "growth",
            "losses",
            "compute",
            "window B",
            "fill",
            "knee",
            "Gbit/s",
            "sd quiet/lossy, excess near/far"
        )?;
        for (spec, fitted) in model.transports() {
            let (factors, shape) = (fitted.factors, fitted.shape);
            writeln!(
                out,
                "{:16} {:>8.2} {:>6.2} {:>7.2} {:>9.2} {:>7.2} {:>7.2} {:>8.2} {:>8.0} {:>6.2} {:>7.3} {:>9.2} {:>7.2} {:>6.2} {:>6.2} {:>6.2}",
                spec.to_string(),
                factors.fixed_s * 1e3,
                factors.setup,
                factors.rounds,
                factors.carriage,
                factors.growth,
                factors.loss,
                factors.compute,
                shape.initial_window,
                shape.window_fill,
                shape.loss,
                shape.processor_rate / 1e9,
                fitted.spread.quiet,
                fitted.spread.lossy,
                fitted.spread.excess.near,
                fitted.spread.excess.far
            )?;
        }
        Ok(())
    })
}
