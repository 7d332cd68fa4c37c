//! The program `transpute-testbed`: the `transpute` command with the testbed included.
//!
//! `transpute` runs it for `transpute testbed`, with the same arguments. The parties that the
//! testbed starts are processes of this program too.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod testbed;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    transpute_cli::main::<testbed::Included>()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("error: the testbed needs the network namespaces of Linux");
    ExitCode::FAILURE
}
