//! Experiments with any two commands on emulated paths. A plan file describes them.
//!
//! | item | content |
//! | --- | --- |
//! | [`Plan`] | the checked content of a file |
//! | [`Plan::cells`] | the combinations of its experiments |
//! | [`run()`] | executes the runs that have no results yet, and appends their records to a file |
//! | [`ProgramRecord`], [`read`] | the record of a run |

mod cell;
mod file;
mod plan;
mod record;
mod run;
mod setting;
mod table;
#[cfg(test)]
mod tests;

pub use cell::{Form, ProgramCell};
pub use plan::{Experiment, Plan, PlanError};
pub use record::{PROGRAM_RECORD_FORMAT, ProgramRecord, Said, read};
pub use run::{ProgramOptions, run};
pub use setting::Setting;
