//! The command, run as users run it: separate processes, real sockets, real files.

mod circuit;
mod demo;
mod failures;
mod harness;
mod id;
mod link;
mod lost;
mod probe;
#[cfg(target_os = "linux")]
mod model;
mod refusals;
mod run;
#[cfg(target_os = "linux")]
mod testbed;
