//! `transpute testbed`: two parties on this machine, joined by an emulated internet path.

mod exec;
mod fit;
mod link;
mod programs;
mod report;
mod run;
mod scenarios;
mod selection;
mod serve;
mod teller;
mod work;

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
    /// Run circuits under network conditions and record what it takes
    Run(Box<run::Args>),
    /// Make tables and charts of what was recorded
    Report(report::Args),
    /// Show the network conditions there are, or check a file with one's own
    Scenarios(scenarios::Args),
    /// Run any two commands on an emulated path
    Exec(exec::Args),
    /// Run any two commands in a matrix of conditions and settings, as a file says
    Programs(programs::Args),
    /// Run every transport in many drawn cells, and tell what choosing costs
    Selection(selection::Args),
    /// Choose conditions, run, watch and compare in a browser
    Serve(serve::Args),
    /// Measure what an emulated path is really like on this machine
    Link(link::Args),
}

/// The testbed in the program itself.
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
