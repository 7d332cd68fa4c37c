//! Matrices of any two commands on emulated paths, as files say.
//!
//! | | |
//! | --- | --- |
//! | [`Plan`] | what a file asks for, checked |
//! | [`Plan::cells`] | its experiments, multiplied out |
//! | [`run()`] | runs what has no results yet, and records it |
//! | [`ProgramRow`], [`read`] | what is recorded of a run |

mod cell;
mod file;
mod plan;
mod row;
mod run;
mod setting;
mod table;
#[cfg(test)]
mod tests;

pub use cell::{Cell, Form};
pub use plan::{Experiment, Plan, PlanError};
pub use row::{PROGRAM_ROW_FORMAT, ProgramRow, Said, read};
pub use run::{Options, run};
pub use setting::Setting;
