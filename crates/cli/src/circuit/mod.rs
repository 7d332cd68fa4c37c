//! `transpute circuit`: commands for circuits, without a peer.

mod compile;
mod convert;
mod eval;
mod file;
mod generate;
mod info;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the gates and the cost of a circuit
    Info(info::Args),
    /// Write a circuit in another format
    Convert(convert::Args),
    /// Write a built-in circuit to a file
    Generate(generate::Args),
    /// Compile a function in a small Rust-like language to a circuit
    Compile(compile::Args),
    /// Evaluate a circuit in the clear
    Eval(eval::Args),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Info(args) => info::info(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Generate(args) => generate::generate(&args),
        Command::Compile(args) => compile::compile(&args),
        Command::Eval(args) => eval::eval(&args),
    }
}
