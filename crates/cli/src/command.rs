//! The command line.

use std::{env, ffi::OsString, process::ExitCode};

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::{
    circuit, demo, failure::Failure, id, link, log, manual, model, output, plan, probe, run, serve,
    testbed::Testbed, tunnel, usage,
};

const AFTER_HELP: &str = "\
Example:
  transpute demo                           # both parties on this machine
  transpute id new alice.key               # on each machine; exchange the fingerprints
  transpute run --role garbler --circuit aes128 --input 0=hex:000102030405060708090a0b0c0d0e0f \\
      --identity alice.key --peer sha256:BOB --listen 0.0.0.0:7700
  transpute run --role evaluator --circuit aes128 --input 1=hex:00112233445566778899aabbccddeeff \\
      --identity bob.key --peer sha256:ALICE --connect alice.example:7700

With --json, errors are a JSON object on standard output, too.

Exit codes:
  0    it worked
  1    any failure that is none of the others
  2    a flag or an input value is wrong; the message names it
  3    a file (circuit, values, batch, identity) is wrong; the message says where
  4    the peer cannot be reached or authenticated
  5    the parties do not agree on what to compute or how
  6    the protocol failed: the peer was lost, data was tampered with, or a check failed
  130  interrupted (143: terminated)";

/// Two parties compute a function of their private inputs.
#[derive(Parser)]
#[command(name = "transpute", version, after_help = AFTER_HELP)]
struct Cli<T: Args, F: Args> {
    /// More logging; repeat for more (-vv, -vvv). TRANSPUTE_LOG=LEVEL or TARGET=LEVEL,... overrides
    /// it
    #[arg(short, long, action = clap::ArgAction::Count, global = true, display_order = 900)]
    verbose: u8,
    #[command(subcommand)]
    command: Command<T, F>,
}

#[derive(Subcommand)]
enum Command<T: Args, F: Args> {
    /// Run both parties on this machine and check the answer
    Demo(demo::Args),
    /// Be one of the two parties of a computation
    Run(Box<run::Args>),
    /// Serve many peers at once, as one of the two parties of each run
    Serve(Box<serve::Args>),
    /// Show, generate, convert and evaluate circuits
    #[command(subcommand)]
    Circuit(circuit::Command),
    /// Generate and show identities
    #[command(subcommand)]
    Id(id::Command),
    /// Measure the throughput and latency of a transport between two machines
    #[command(subcommand)]
    Link(link::Command),
    /// Forward connections of any TCP program over one link
    #[command(subcommand)]
    Tunnel(tunnel::Command),
    /// Fit, show and use the model that predicts the time of each transport
    #[command(subcommand)]
    Model(model::Command<F>),
    /// Measure the path to a peer, and print which transport would be chosen and why
    Probe(Box<probe::Args>),
    /// Predict time, traffic and cost of many runs
    Plan(Box<plan::Args>),
    /// Run both parties over emulated internet paths, measure and compare
    Testbed(T),
    /// Print a completion script for a shell
    Completions(manual::CompletionsArgs),
    /// Print a manual page
    Man(manual::ManArgs),
}

/// Runs the command in the arguments of this process, and returns its exit code.
pub fn main<T: Testbed>() -> ExitCode {
    let args: Vec<OsString> = env::args_os().collect();
    // Arguments after `--` belong to another command.
    let is_json = (args.iter().take_while(|arg| *arg != "--")).any(|arg| arg == "--json");
    let cli = match Cli::<T::Args, T::FitArgs>::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => {
            let args: Vec<_> = (args.iter().skip(1))
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect();
            let error = usage::explain(error, &definition::<T>(), &args);
            if is_json && error.use_stderr() {
                output::print_failure(&usage::failure(&error));
            }
            error.exit()
        }
    };
    let ready = log::start(cli.verbose).and_then(|()| check_backend());
    let done = ready.and_then(|()| match cli.command {
        Command::Demo(args) => demo::demo(&args, cli.verbose),
        Command::Run(args) => run::run(*args),
        Command::Serve(args) => serve::serve(&args),
        Command::Circuit(command) => circuit::run(command),
        Command::Id(command) => id::run(command),
        Command::Link(command) => link::run(command),
        Command::Tunnel(command) => tunnel::run(command),
        Command::Model(command) => model::run::<T>(command),
        Command::Probe(args) => probe::run(&args),
        Command::Plan(args) => plan::plan(&args, T::path),
        Command::Completions(args) => manual::completions::<T>(&args, definition::<T>()),
        Command::Man(args) => manual::man::<T>(&args, definition::<T>()),
        Command::Testbed(args) => T::run(args),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if is_json && !output::has_json() {
                output::print_failure(&failure);
            }
            failure.print();
            ExitCode::from(failure.code())
        }
    }
}

/// Returns the definition of the command line.
fn definition<T: Testbed>() -> clap::Command {
    Cli::<T::Args, T::FitArgs>::command()
}

/// Rejects an AES back end in the environment that is unknown or not available.
fn check_backend() -> Result<(), Failure> {
    match transpute::garble::Backend::best() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage("cannot choose an AES implementation").because(error)),
    }
}
