//! Code that several of the applications share: results, errors, files of text, use of the machine.
#![forbid(unsafe_code)]

mod answer;
mod ending;
mod lines;
mod usage;

pub use answer::{Answer, tell};
pub use ending::{causes, end, part};
pub use lines::{LineError, Lines};
pub use usage::Usage;
