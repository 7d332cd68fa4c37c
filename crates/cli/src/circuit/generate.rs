//! `transpute circuit generate`.

use std::path::Path;

use transpute::circuit::catalogue;

use super::file::{self, FileFormat};
use crate::{failure::Failure, flags::warn_unused, output, source};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute circuit generate add:32 add32.txt")]
pub(crate) struct Args {
    /// The built-in circuit, with its parameters
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// The file to write; `-` is standard output
    #[arg(default_value = "-")]
    output: String,
    /// The format to write [default: fashion]
    #[arg(long, value_enum)]
    to: Option<FileFormat>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// List the built-in circuits
    #[arg(long, conflicts_with_all = ["name", "output"])]
    list: bool,
}

pub(crate) fn generate(args: &Args) -> Result<(), Failure> {
    match &args.name {
        Some(name) => {
            let circuit = source::named("NAME", name)?;
            if Path::new(&args.output).is_file() && !args.force {
                return Err(Failure::usage(format!(
                    "OUTPUT {} exists: give --force to replace it",
                    args.output
                )));
            }
            file::write(&circuit, &args.output, args.to.unwrap_or_default())
        }
        // The command-line parser requires NAME or --list, so --list was given.
        None => {
            warn_unused("--to", args.to.is_some(), "a command with NAME");
            warn_unused("--force", args.force, "a command with NAME");
            list()
        }
    }
}

fn list() -> Result<(), Failure> {
    output::print(|out| {
        for (number, entry) in catalogue::entries().iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            writeln!(out, "{}", entry.usage())?;
            writeln!(out, "    {}", entry.summary)?;
            for (kind, values) in [("input", entry.inputs), ("output", entry.outputs)] {
                for (index, value) in values.iter().enumerate() {
                    writeln!(out, "    {kind} {index}: {value}")?;
                }
            }
            let example = &entry.example;
            if !example.inputs.is_empty() {
                write!(out, "    transpute circuit eval {}", example.spec)?;
                for (index, value) in example.inputs.iter().enumerate() {
                    write!(out, " --input {index}=hex:{value}")?;
                }
                writeln!(out)?;
                for (index, value) in example.outputs.iter().enumerate() {
                    writeln!(out, "    gives output {index}: hex:{value}")?;
                }
            }
        }
        Ok(())
    })
}
