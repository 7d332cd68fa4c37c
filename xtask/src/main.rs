//! Repository chores: `cargo xtask <chore>`.
#![forbid(unsafe_code)]

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
};

mod circuits;
mod docs;
mod fuzz;
mod ignored;
mod reproduce;
mod selection;
mod slow_tests;
mod tidy;

const USAGE: &str = "\
usage: cargo xtask <chore>

  circuits          write the circuit files under circuits/ anew
  circuits --check  fail unless they are what would be written
  docs              check the links of README.md and docs/, and build the book if mdbook is installed
  fuzz-check        fail unless the targets of the fuzzer compile
  reproduce         run the published experiments anew and write docs/results (hours)
  reproduce --quick the same with fewer runs, into docs/results/quick (minutes)
  selection run     run every transport in drawn cells, into docs/results/selection (an hour)
  selection fit     fit the model of the selector to their rows, and write the score
  selection score   write what choosing a transport costs in them beside their rows
  slow-tests        run the tests that are ignored because they are slow, in the release profile
  slow-tests --ci   run those that fit into three minutes, in the development profile
  slow-tests --list list them
  tidy              fail unless the sources keep the rules of the house
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["circuits"] => circuits::write(&root()),
        ["circuits", "--check"] => circuits::check(&root()).and_then(none_found),
        ["docs"] => docs::run(&root()).and_then(none_found),
        ["fuzz-check"] => fuzz::check(&root()),
        ["reproduce"] => reproduce::reproduce(&root(), false),
        ["reproduce", "--quick"] => reproduce::reproduce(&root(), true),
        ["selection", "fit", ref files @ ..] => selection::fit(&root(), files),
        ["selection", "run", ref flags @ ..] => selection::run(&root(), flags),
        ["selection", "score", ref arguments @ ..] => selection::score(&root(), arguments),
        ["slow-tests", ref flags @ ..] => slow_tests::run(&root(), flags),
        ["tidy"] => tidy::check(&root()).and_then(none_found),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace, wherever the command is called from. What cargo says when it runs this counts: clones that share a
/// target folder share this program.
fn root() -> PathBuf {
    let own = env::var_os("CARGO_MANIFEST_DIR");
    let own = own.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&own).join("..")
}

fn none_found(complaints: Vec<String>) -> Result<(), Box<dyn Error>> {
    if complaints.is_empty() {
        return Ok(());
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    Err(format!("{} complaints", complaints.len()).into())
}
