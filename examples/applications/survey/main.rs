//! A survey with secret answers. Two servers hold shares of the answers and compute a histogram for
//! each question, or the sets of items that occur together. README.md describes how.
//!
//! `cargo run --release --bin survey -- --help`
#![forbid(unsafe_code)]

mod apriori;
mod error;
mod file;
mod generate;
mod histogram;
mod itemsets;
mod mining;
mod support;
mod table;
mod tally;
#[cfg(test)]
mod tests;
mod workload;

use std::{
    error::Error,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};
use transpute_examples::end;

use crate::{
    file::{read_answers, write_answers},
    itemsets::ItemsetsArgs,
    table::{MAX_WIDTH, width_of},
    tally::HistogramArgs,
    workload::WorkloadArgs,
};

/// Two servers hold shares of the answers to a survey and compute its results.
#[derive(Debug, Parser)]
#[command(name = "survey")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate random plain answers, for trials
    Generate(GenerateArgs),
    /// Split plain answers into shares for two servers, as respondents do
    Split(SplitArgs),
    /// Compute a histogram for each question, with the server that holds the other shares
    Histogram(HistogramArgs),
    /// Find sets of items that often occur together, with the server that holds the other shares
    Itemsets(ItemsetsArgs),
    /// Print the workload of the histograms, for `transpute plan --workload`
    Workload(WorkloadArgs),
}

#[derive(Args, Debug)]
struct GenerateArgs {
    /// File to write: comma-separated numbers, a line per respondent
    file: PathBuf,
    /// Number of respondents
    #[arg(long, value_name = "N", default_value_t = 5000)]
    rows: usize,
    /// Number of questions
    #[arg(long, value_name = "N", default_value_t = 20)]
    columns: usize,
    /// Upper bound of answers, exclusive
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = values())]
    values: u64,
    /// Generate transactions instead of answers: a row per transaction, with 1 for each of its
    /// items
    #[arg(long, conflicts_with = "values")]
    baskets: bool,
    /// Seed of the random answers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Args, Debug)]
struct SplitArgs {
    /// Plain answers: comma-separated, a line per respondent; a first line of names is ignored
    file: PathBuf,
    /// Upper bound of answers, exclusive; it determines the number of bits of a share
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = values())]
    values: u64,
    /// File of shares for one server [default: FILE.a]
    #[arg(long, value_name = "FILE")]
    one: Option<PathBuf>,
    /// File of shares for the other server [default: FILE.b]
    #[arg(long, value_name = "FILE")]
    other: Option<PathBuf>,
}

fn values() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(2..=1 << MAX_WIDTH)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    end(run(Cli::parse()).await)
}

async fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    match &cli.command {
        Command::Generate(args) => generate(args),
        Command::Split(args) => split(args),
        Command::Histogram(args) => tally::histogram(args).await,
        Command::Itemsets(args) => itemsets::itemsets(args).await,
        Command::Workload(args) => workload::print(args),
    }
}

fn generate(args: &GenerateArgs) -> Result<(), Box<dyn Error>> {
    let cells = args.rows.saturating_mul(args.columns);
    if cells > table::MAX_CELLS {
        return Err(format!("expected at most {} cells, found {cells}", table::MAX_CELLS).into());
    }
    let table = match args.baskets {
        true => generate::baskets(args.rows, args.columns, args.seed)?,
        false => generate::answers(args.rows, args.columns, args.values, args.seed)?,
    };
    Ok(write_answers(&args.file, &table)?)
}

fn split(args: &SplitArgs) -> Result<(), Box<dyn Error>> {
    let table = read_answers(&args.file, width_of(args.values), args.values)?;
    let [one, other] = generate::share(&table)?;
    one.save(&named(&args.one, &args.file, ".a"))?;
    other.save(&named(&args.other, &args.file, ".b"))?;
    Ok(())
}

/// Returns the given name, or the name of the plain answers with a suffix.
fn named(given: &Option<PathBuf>, plain: &Path, end: &str) -> PathBuf {
    given.clone().unwrap_or_else(|| {
        let mut name = OsString::from(plain);
        name.push(end);
        name.into()
    })
}
