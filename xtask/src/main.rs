//! Maintenance tasks of the repository: `cargo xtask <task>`.
#![forbid(unsafe_code)]

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
};

mod circuits;
mod command;
mod dependent;
mod docs;
mod fuzz;
mod ignored;
mod minimal;
mod outside;
mod package;
mod reproduce;
mod selection;
mod slow_tests;
mod targets;
mod tidy;

const USAGE: &str = "\
usage: cargo xtask <task>

  circuits          write all circuit files under circuits/
  circuits --check  fail unless these files are current
  dependent         build and run a program in a package outside the repository
  docs              check links and fields in documents, and build the book if mdbook is installed
  fuzz-check        fail unless the fuzz targets compile
  minimal           check with the oldest Rust and the minimal versions of dependencies
  package           package the published crates, and compile the packages outside the repository
  reproduce         run the published experiments again and write docs/results (hours)
  reproduce --quick the same with fewer runs, into docs/results/quick (minutes)
  selection run     run every transport in random cells, into docs/results/selection (an hour)
  selection fit     fit the selector's model to the recorded runs, and write the score
  selection score   write the cost of the selector's choices in the recorded runs
  slow-tests        run the tests that are ignored because they are slow, in the release profile
  slow-tests --ci   run the slow tests that take at most three minutes in total, in the dev profile
  slow-tests --list list the slow tests
  targets           check other targets, and run tests in an emulator of ARM64 and in Node
  tidy              fail unless the sources follow the rules of the repository
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["circuits"] => circuits::write(&root()),
        ["circuits", "--check"] => circuits::check(&root()).and_then(none_found),
        ["dependent"] => dependent::check(&root()),
        ["docs"] => docs::run(&root()).and_then(none_found),
        ["fuzz-check"] => fuzz::check(&root()),
        ["minimal"] => minimal::check(&root()),
        ["package"] => package::check(&root()),
        ["reproduce"] => reproduce::reproduce(&root(), false),
        ["reproduce", "--quick"] => reproduce::reproduce(&root(), true),
        ["selection", "fit", ref files @ ..] => selection::fit(&root(), files),
        ["selection", "run", ref flags @ ..] => selection::run(&root(), flags),
        ["selection", "score", ref arguments @ ..] => selection::score(&root(), arguments),
        ["slow-tests", ref flags @ ..] => slow_tests::run(&root(), flags),
        ["targets"] => targets::check(&root()),
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

/// Returns the root of the workspace. Prefers the environment of the running cargo to the path at
/// compile time, because clones of the repository that share a target directory share this program.
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
