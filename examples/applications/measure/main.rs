//! Measures the applications over emulated paths: `cargo run --bin measure`. Linux only, as the testbed.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod applications;
#[cfg(target_os = "linux")]
mod benchmarking;
#[cfg(target_os = "linux")]
mod forecast;
#[cfg(target_os = "linux")]
mod rows;
#[cfg(target_os = "linux")]
mod running_average;
#[cfg(target_os = "linux")]
mod survey;

use std::{env, error::Error, process::ExitCode};

const USAGE: &str = "\
usage: measure [--quick] [--render] [NAME...]

Measures the applications of these names, or all of them, into docs/results/applications.

  --quick   fewer runs, into docs/results/applications/quick (minutes)
  --render  only write the pages of the rows that are there
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    applications::run(arguments)
}

#[cfg(not(target_os = "linux"))]
fn run(_arguments: &[String]) -> Result<(), Box<dyn Error>> {
    Err("the testbed needs Linux".into())
}
