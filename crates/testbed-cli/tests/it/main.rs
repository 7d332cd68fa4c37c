//! Tests of the program as users run it: separate processes, real sockets and real files.
#![cfg(target_os = "linux")]

mod hosts;
mod model;
#[path = "../../../cli/tests/shared/process.rs"]
mod process;
mod programs;
mod reference;
mod scheme;
mod testbed;
mod web;

/// The program under test.
const BINARY: &str = env!("CARGO_BIN_EXE_transpute-testbed");
