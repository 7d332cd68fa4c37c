//! The program `transpute`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use transpute_cli::Separate;

fn main() -> ExitCode {
    transpute_cli::main::<Separate>()
}
