//! Measures the applications over emulated paths: `cargo run --bin measure`. Runs on Linux only,
//! like the testbed.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod applications;
#[cfg(target_os = "linux")]
mod benchmarking;
#[cfg(target_os = "linux")]
mod forecast;
#[cfg(target_os = "linux")]
mod records;
#[cfg(target_os = "linux")]
mod running_average;
#[cfg(target_os = "linux")]
mod survey;

use std::{env, error::Error, process::ExitCode};

const USAGE: &str = "\
usage: measure [--quick] [--render] [NAME...]

Measure the named applications, or all of them, and write docs/results/applications.

  --quick   fewer runs, in docs/results/applications/quick (takes minutes)
  --render  only render the pages from existing records
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
