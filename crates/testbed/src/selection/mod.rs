//! The evaluation of transport selection: cells in which every transport is run, and the cost of
//! choices.
//!
//! * [`draw`]: makes the [`SelectionCase`]s: workloads under path conditions, drawn by strata
//! * [`SelectionCase::runs`]: every transport in a case, for
//!   [`run_cells`](crate::runner::run_cells)
//! * [`contests`]: the times of each transport in each cell, from rows
//! * [`Judged`]: choosers, which pick one of the transports of a contest
//! * [`samples()`]: rows as samples for the model of `transpute_select`
//! * [`judge`], [`RegretSummary`]: the regret of choosers: time of their choice divided by the time
//!   of the best
//!
//! ```
//! use transpute_testbed::selection::{Judged, Part, Workloads, contests, judge, tables};
//!
//! # let rows = Vec::new();
//! let contests = contests(&rows);
//! let choosers = [Judged::rule(), Judged::always("tcp")];
//! let verdicts = judge(&contests, &choosers, &Workloads::of(&rows)?);
//! println!("{}", tables::overall(&verdicts, Some(Part::Unseen)).markdown());
//! # Ok::<(), transpute_select::SelectError>(())
//! ```

mod bootstrap;
mod case;
mod cell_kind;
mod choosers;
mod contest;
mod draw;
mod judge;
mod probing;
mod samples;
pub mod tables;

pub use case::{DEFAULT_CUT_OFF, MAX_LINE_SECONDS, Part, SelectionCase};
pub use cell_kind::{CellKind, cell_kinds};
pub use choosers::Judged;
pub use contest::{CellTimes, Conditions, FAILED_MS, RunTime, complete, contests};
pub use draw::draw;
pub use judge::{RegretSummary, Verdict, Verdicts, judge};
pub use probing::probing;
pub use samples::{Workloads, samples};

pub use crate::runner::AUTO;
