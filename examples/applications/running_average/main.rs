//! A device tells a statistics server how far it has come since the last time, again and again; the server
//! keeps the running average. README.md says who learns what.
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

/// A device and a statistics server keep a running average of distances.
#[derive(Debug, Parser)]
#[command(name = "running_average")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Contribute a distance in each round
    Device(DeviceArgs),
    /// Keep the running sum, and know the average
    Server(ServerArgs),
    /// Both of them in this program, over an encrypted connection of this machine
    Demo(DemoArgs),
}

/// What both parties have to say alike.
#[derive(Args, Clone, Debug)]
struct RoundArgs {
    /// Rounds; the same on both sides
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=MAX_ROUNDS))]
    rounds: u64,
    /// Rounds that are computed together; the same on both sides
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MAX_BATCH))]
    batch: u64,
    /// Whether the server learns the sum after each round or after each batch; the same on both sides
    #[arg(long, value_name = "WHEN", default_value = "round")]
    open: Opened,
    /// Print one JSON object in a line
    #[arg(long)]
    json: bool,
}

/// The most rounds at a time: half a million gates.
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
    /// Check the sums against the distances that a device makes up with this seed: for trials
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

/// Where distances come from.
#[derive(Args, Clone, Debug)]
struct Source {
    /// Distances in metres, one in each line
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    distances: Option<PathBuf>,
    /// What distances are made up from if there is no file
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Source {
    fn distances(&self, count: usize) -> Result<Vec<u32>, DistanceError> {
        match &self.distances {
            Some(file) => distances::read(file, count),
            None => Ok(distances::made_up(self.seed, count)),
        }
    }
}

impl RoundArgs {
    fn prepare(&self) -> Result<Rounds, Box<dyn Error>> {
        // Both are bounded above.
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
                .map(|seed| distances::made_up(seed, args.rounds.rounds as usize));
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

/// Compares what the server has seen with what it should have.
fn checked(mut outcome: Outcome, rounds: &Rounds, expected: Option<&[u32]>) -> Outcome {
    outcome.correct = expected.map(|distances| rounds.plain(distances) == outcome.sums);
    outcome
}
