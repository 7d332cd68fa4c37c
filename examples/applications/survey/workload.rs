//! The command that prints the workload of the histograms, before any answers exist.

use std::error::Error;

use clap::Args;
use transpute::{Role, select::End};

use crate::{
    table::{MAX_CELLS, width_of},
    tally::{Counted, party, program},
};

/// Describes the computation of a survey's histograms
#[derive(Args, Debug)]
pub(crate) struct WorkloadArgs {
    /// Number of respondents
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=MAX_CELLS as u64))]
    rows: u64,
    /// Number of questions
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=4096))]
    columns: u64,
    /// Upper bound of answers, exclusive
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = crate::values())]
    values: u64,
    #[command(flatten)]
    counted: Counted,
    /// Let the garbler connect and the evaluator listen
    #[arg(long)]
    garbler_connects: bool,
}

/// Prints the workload as JSON.
pub(crate) fn print(args: &WorkloadArgs) -> Result<(), Box<dyn Error>> {
    let bins = args.counted.bins(width_of(args.values))?;
    // The casts are lossless, because the argument parser limits both numbers.
    let program = program(&bins, args.rows as usize)?;
    let end = match args.garbler_connects {
        true => End::Connector,
        false => End::Listener,
    };
    let workload = party(Role::Garbler, program, args.columns as usize).workload(end)?;
    println!("{}", serde_json::to_string(&workload)?);
    Ok(())
}
