//! Shared code of the applications: results, errors, text files, resources.
#![forbid(unsafe_code)]

mod answer;
mod ending;
mod lines;
mod usage;

pub use answer::{Answer, tell};
pub use ending::{causes, end, part};
pub use lines::{LineError, Lines};
pub use usage::Usage;
