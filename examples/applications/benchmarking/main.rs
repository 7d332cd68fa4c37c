//! Private benchmarking. Companies learn average, variance, median, maximum and best in class of a
//! figure, but no other company's figure. Two servers compute these with garbled circuits from
//! shares. README.md states what each party holds and learns.
//!
//! ```text
//! cargo run --release --bin benchmarking -- demo
//! ```
#![forbid(unsafe_code)]

mod circuit;
mod columns;
mod commands;
mod company;
mod demo;
#[cfg(unix)]
mod descriptors;
mod failure;
mod keys;
mod packing;
mod round;
mod server;
mod simulation;
mod statistics;
#[cfg(test)]
mod tests;
mod transports;
mod uploads;
mod wire;

use std::process::ExitCode;

use clap::Parser;
use transpute_examples::causes;

use commands::Cli;
use failure::Failure;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Err(failure) = commands::run(Cli::parse()).await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {}", causes(&failure));
    match failure {
        Failure::Usage(_) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}
