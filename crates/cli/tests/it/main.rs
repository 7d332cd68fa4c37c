//! Tests of the command as users run it: separate processes, real sockets, real files.

mod circuit;
mod demo;
mod failures;
mod harness;
mod id;
mod json;
mod link;
mod lost;
mod manual;
mod probe;
#[path = "../shared/process.rs"]
mod process;
mod refusals;
mod run;
#[cfg(target_os = "linux")]
mod scheme;
#[cfg(unix)]
mod separate;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(unix)]
mod tunnel;
mod tutorials;
mod usage;

/// The program under test.
const BINARY: &str = env!("CARGO_BIN_EXE_transpute");
