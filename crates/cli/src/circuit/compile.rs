//! `transpute circuit compile`.

use std::path::PathBuf;

use transpute_language::{CompileOptions, Panics};

use super::file::{self, FileFormat};
use crate::{
    failure::Failure,
    language::{self, Bounds},
    output,
};

#[derive(clap::Args)]
#[command(after_help = "\
The language is Garble (https://sine-fdn.github.io/garble-lang), a small part of Rust: functions of numbers, arrays, structs and enums, \
with loops over arrays. Each parameter of the function is an input value: the first is the garbler's, unless \
`transpute run --garbler-inputs` says otherwise. For example, with this in average.garble.rs:

  pub fn main(alice: [u16; 4], bob: [u16; 4]) -> u16 {
      let mut sum = 0u32;
      for i in 0usize..4usize {
          sum = sum + (alice[i] as u32) + (bob[i] as u32);
      }
      (sum >> 3u8) as u16
  }

Example:
  transpute circuit compile average.garble.rs --output average.txt
  transpute circuit eval average.garble.rs -i 0=hex:0004000300020001 -i 1=hex:0008000700060005
  transpute run --circuit average.garble.rs ...

Overflow, division by zero and indices beyond arrays make a last output value of one bit 1, where they are possible. \
docs/circuits.md tells more.")]
pub(crate) struct Args {
    /// The source file
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// The file to write the circuit to; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: String,
    /// The format to write
    #[arg(long, value_enum, default_value_t)]
    to: FileFormat,
    /// The function
    #[arg(long, value_name = "NAME", default_value = "main")]
    function: String,
    /// The value of a constant that the source leaves open
    #[arg(long = "const", value_name = "PARTY::NAME=VALUE", value_parser = constant)]
    constants: Vec<(String, String)>,
    /// Wrap on overflow, and leave the result of invalid divisions and indices undefined, without
    /// an output that reports them
    #[arg(long)]
    ignore_panics: bool,
    #[command(flatten)]
    bounds: Bounds,
    /// Compile in this process; the parent process uses this to limit memory and time
    #[arg(long, hide = true)]
    contained: bool,
}

fn constant(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err("PARTY::NAME=VALUE is wanted".to_owned()),
    }
}

pub(crate) fn compile(args: &Args) -> Result<(), Failure> {
    let mut options = CompileOptions::default();
    options.function = args.function.clone();
    options.constants = args.constants.clone();
    options.panics = if args.ignore_panics {
        Panics::Ignore
    } else {
        Panics::Output
    };
    if args.contained {
        let circuit = language::contained(&args.source, &options, args.bounds)?;
        return file::write(&circuit, "-", FileFormat::Fashion);
    }
    let read = language::read(&args.source, &options, args.bounds)?;
    file::write(&read.circuit, &args.output, args.to)?;
    for note in &read.notes {
        output::note(note);
    }
    Ok(())
}
