//! The command, run as users run it: separate processes, real sockets, real files.

mod circuit;
mod demo;
mod failures;
mod harness;
mod id;
mod json;
mod link;
mod lost;
mod manual;
#[cfg(target_os = "linux")]
mod model;
mod probe;
mod refusals;
mod run;
#[cfg(target_os = "linux")]
mod scheme;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
#[cfg(target_os = "linux")]
mod testbed;
mod usage;
#[cfg(target_os = "linux")]
mod web;
