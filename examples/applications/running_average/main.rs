//! Running average. A device contributes the distance since its last report in each round, and a
//! statistics server keeps the average. README.md states what each party learns.
//!
//! `cargo run --release --bin running_average -- --help`
#![forbid(unsafe_code)]

mod circuit;
mod distances;
mod rounds;
#[cfg(test)]
mod tests;

use std::{error::Error, path::PathBuf, process::ExitCode, time::Instant};

use clap::{Args, Parser, Subcommand};
use transpute::Role;
use transpute_applications::{end, tell};
use transpute_examples::{Ends, neighbours};

use crate::{
    circuit::{MAX_ROUNDS, Opened},
    distances::DistanceError,
    rounds::{Outcome, Rounds, device, server},
};

/// A device and a statistics server compute a running average of distances.
#[derive(Debug, Parser)]
#[command(name = "running_average")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the device, which contributes a distance in each round
    Device(DeviceArgs),
    /// Run the server, which keeps the running sum and learns the average
    Server(ServerArgs),
    /// Run both in this process, over an encrypted connection of this machine
    Demo(DemoArgs),
}

/// Arguments that must be the same for both parties.
#[derive(Args, Clone, Debug)]
struct RoundArgs {
    /// Number of rounds; the same on both sides
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=MAX_ROUNDS))]
    rounds: u64,
    /// Number of rounds per batch; the same on both sides
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MAX_BATCH))]
    batch: u64,
    /// When the server learns the sum: after each round or each batch; the same on both sides
    #[arg(long, value_name = "WHEN", default_value = "round")]
    open: Opened,
    /// Print the results as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Maximum number of rounds in a batch. The circuit of such a batch has half a million AND gates.
const MAX_BATCH: u64 = 10_000;

#[derive(Args, Debug)]
struct DeviceArgs {
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    ends: Ends,
}

#[derive(Args, Debug)]
struct ServerArgs {
    #[command(flatten)]
    rounds: RoundArgs,
    /// Compare the sums with the random distances of this seed, for trials
    #[arg(long, value_name = "N")]
    expect_seed: Option<u64>,
    #[command(flatten)]
    ends: Ends,
}

#[derive(Args, Debug)]
struct DemoArgs {
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    source: Source,
}

/// The source of the distances.
#[derive(Args, Clone, Debug)]
struct Source {
    /// File of distances in metres, one per line
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    distances: Option<PathBuf>,
    /// Seed of random distances, if no file is given
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Source {
    fn distances(&self, count: usize) -> Result<Vec<u32>, DistanceError> {
        match &self.distances {
            Some(file) => distances::read(file, count),
            None => Ok(distances::random(self.seed, count)),
        }
    }
}

impl RoundArgs {
    fn prepare(&self) -> Result<Rounds, Box<dyn Error>> {
        // The casts are lossless, because the argument parser limits both numbers.
        Rounds::new(self.rounds as usize, self.batch as usize, self.open)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    end(run(Cli::parse()).await)
}

async fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    match &cli.command {
        Command::Device(args) => {
            let rounds = args.rounds.prepare()?;
            let distances = args.source.distances(args.rounds.rounds as usize)?;
            let connection = args.ends.open(rounds.party(Role::Garbler)).await?;
            tell(
                &device(connection, &rounds, &distances, started).await?,
                args.rounds.json,
            )
        }
        Command::Server(args) => {
            let rounds = args.rounds.prepare()?;
            let connection = args.ends.open(rounds.party(Role::Evaluator)).await?;
            let outcome = server(connection, &rounds, started).await?;
            let expected = args
                .expect_seed
                .map(|seed| distances::random(seed, args.rounds.rounds as usize));
            tell(
                &checked(outcome, &rounds, expected.as_deref()),
                args.rounds.json,
            )
        }
        Command::Demo(args) => {
            let rounds = args.rounds.prepare()?;
            let distances = args.source.distances(args.rounds.rounds as usize)?;
            let [garbler, evaluator] =
                [Role::Garbler, Role::Evaluator].map(|role| rounds.party(role));
            let (listening, connecting) = neighbours(evaluator, garbler).await?;
            let (one, other) = tokio::join!(listening.open(), connecting.open());
            let (one, other) = tokio::join!(
                server(one?, &rounds, started),
                device(other?, &rounds, &distances, started),
            );
            tell(&other?, args.rounds.json)?;
            tell(&checked(one?, &rounds, Some(&distances)), args.rounds.json)
        }
    }
}

/// Sets `outcome.correct` if `expected` has the distances of all rounds: whether the server has
/// learned their running sums.
fn checked(mut outcome: Outcome, rounds: &Rounds, expected: Option<&[u32]>) -> Outcome {
    outcome.correct = expected.map(|distances| rounds.expected_sums(distances) == outcome.sums);
    outcome
}
