//! `transpute testbed`: runs two parties on this machine over an emulated path, or on two hosts.

mod common;
mod exec;
mod fit;
mod link;
mod party;
mod programs;
mod progress;
mod report;
mod run;
mod scenarios;
mod selection;
mod serve;

use clap::Subcommand;
use transpute_cli::{Failure, Testbed};
use transpute_netem::scenario::Scenario;
use transpute_select::PathEstimate;
use transpute_testbed::emulated::path_of;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run circuits under network conditions and record the measurements
    Run(Box<run::Args>),
    /// Print tables and write charts of recorded runs
    Report(report::Args),
    /// List the presets of network conditions, or check a scenario file
    Scenarios(scenarios::Args),
    /// Run two commands on an emulated path
    Exec(exec::Args),
    /// Run two commands in a matrix of conditions and settings from a plan file
    Programs(programs::Args),
    /// Run every transport in randomly drawn cells, and compute the regret of choosers
    Selection(selection::Args),
    /// Serve the web UI: choose conditions, run, watch and compare in a browser
    Serve(serve::Args),
    /// Measure how an emulated path performs on this machine
    Link(link::Args),
    /// Run one party of a run between two hosts, or describe this host
    #[command(hide = true)]
    Party(party::Args),
}

/// The testbed, as the type parameter of [`transpute_cli::main`]. The program `transpute` does not
/// contain it.
pub(crate) enum Included {}

impl Testbed for Included {
    type Args = Args;
    type FitArgs = fit::Args;

    fn run(args: Args) -> Result<(), Failure> {
        match args.command {
            Command::Run(args) => run::run(*args),
            Command::Report(args) => report::report(&args),
            Command::Scenarios(args) => scenarios::scenarios(&args),
            Command::Exec(args) => exec::exec(args),
            Command::Programs(args) => programs::programs(args),
            Command::Selection(args) => selection::selection(args),
            Command::Serve(args) => serve::serve(args),
            Command::Link(args) => link::link(args),
            Command::Party(args) => party::party(&args),
        }
    }

    fn fit(args: fit::Args) -> Result<(), Failure> {
        fit::fit(&args)
    }

    fn path(scenario: &str) -> Result<PathEstimate, Failure> {
        let path = Scenario::load(scenario)
            .map_err(|error| Failure::usage(format!("--path: {error}")).because(error))?;
        path_of(&path, None).map_err(|error| Failure::usage(format!("--path {scenario}: {error}")))
    }

    fn describe(_: &[String]) -> Result<(), Failure> {
        Ok(())
    }
}
