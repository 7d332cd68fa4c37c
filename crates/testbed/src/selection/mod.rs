//! The evaluation of transport selection: cells in which every transport is run, and the cost of
//! choices.
//!
//! | item | content |
//! | --- | --- |
//! | [`draw`] | makes the [`Case`]s: workloads under path conditions, drawn by strata |
//! | [`Case::runs`] | every transport in a case, for [`run_cells`](crate::runner::run_cells) |
//! | [`contests`] | the times of each transport in each cell, from rows |
//! | [`Judged`] | choosers, which pick one of the transports of a contest |
//! | [`samples()`] | rows as samples for the model of `transpute_select` |
//! | [`judge`], [`Summary`] | the regret of choosers: time of their choice divided by the time of the best |
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
mod choosers;
mod contest;
mod draw;
mod judge;
mod probing;
mod regime;
mod samples;
pub mod tables;

pub use case::{Case, DEFAULT_CUT_OFF, MAX_LINE_SECONDS, Part};
pub use choosers::Judged;
pub use contest::{Conditions, Contest, FAILED_MS, Time, complete, contests};
pub use draw::draw;
pub use judge::{Summary, Verdict, Verdicts, judge};
pub use probing::probing;
pub use regime::{Regime, regimes};
pub use samples::{Workloads, samples};

pub use crate::runner::AUTO;
