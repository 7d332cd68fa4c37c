//! `transpute circuit convert`.

use std::fs;

use super::file::{self, FileFormat};
use crate::{
    failure::Failure,
    source::{self, Origin},
};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute circuit convert add:32 add32.txt")]
pub(crate) struct Args {
    /// The circuit: a file, or the name of a built-in one
    input: String,
    /// The file to write; `-` is standard output
    output: String,
    /// The format to write
    #[arg(long, value_enum, default_value_t)]
    to: FileFormat,
    /// Write even where the output is the input file
    #[arg(long)]
    force: bool,
}

pub(crate) fn convert(args: &Args) -> Result<(), Failure> {
    let loaded = source::load("INPUT", &args.input)?;
    let is_same = loaded.format != Origin::BuiltIn
        && args.output != "-"
        && match (
            fs::canonicalize(&args.input),
            fs::canonicalize(&args.output),
        ) {
            (Ok(input), Ok(output)) => input == output,
            _ => false,
        };
    if is_same && !args.force {
        return Err(Failure::usage(format!(
            "OUTPUT {} is the input file: give --force to replace it",
            args.output
        )));
    }
    file::write(&loaded.circuit, &args.output, args.to)
}
