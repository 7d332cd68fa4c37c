//! The `transpute` command: two-party computation from a shell.
//!
//! The library implements all commands except those of the testbed. A program passes an
//! implementation of these, a [`Testbed`], to [`main`]. The program `transpute` passes
//! [`Separate`], which executes the program `transpute-testbed`. That program, of the package
//! `transpute-testbed-cli`, uses this library too and contains the testbed.
#![forbid(unsafe_code)]

mod batch;
mod circuit;
mod command;
mod cost;
mod demo;
mod explanation;
mod failure;
mod file_limit;
mod flags;
mod heap;
mod id;
mod inputs;
mod interrupt;
mod language;
mod link;
mod log;
mod manual;
mod model;
pub mod output;
mod plan;
mod probe;
mod progress;
mod protection;
mod run;
mod runtime;
mod scheme;
mod selection;
mod serve;
mod source;
mod suggest;
mod terms;
mod testbed;
mod tunnel;
mod usage;
mod value;
mod workload;

use heap::HEAP;
use runtime::block_on_threads;

pub use command::main;
pub use failure::{Failure, FailureKind};
pub use interrupt::{interrupted, unless_interrupted};
pub use model::{failure as model_failure, load as load_model, print as print_model};
pub use runtime::block_on;
pub use testbed::{Separate, Testbed};
