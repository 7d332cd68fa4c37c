//! The evaluation of transport selection: cells to run every transport in, and what choosers cost.
//!
//! | | |
//! | --- | --- |
//! | [`draw`] | makes the [`Case`]s: workloads under path conditions, drawn by strata |
//! | [`Case::runs`] | every transport in a case, for [`run_cells`](crate::runner::run_cells) |
//! | [`contests`] | what rows say each transport took in each cell |
//! | [`Chooser`] | picks one of the transports of a contest |
//! | [`judge`], [`Summary`] | the regret of choosers: time of their choice over time of the best |
//!
//! ```
//! use transpute_testbed::selection::{Always, Chooser, Part, contests, judge, tables};
//!
//! # let rows = Vec::new();
//! let contests = contests(&rows);
//! let choosers: [&dyn Chooser; 2] = [&Always::new("tcp"), &Always::new("rudp")];
//! let verdicts = judge(&contests, &choosers);
//! println!("{}", tables::overall(&verdicts, Some(Part::Unseen)).markdown());
//! ```

mod bootstrap;
mod case;
mod contest;
mod draw;
mod judge;
mod probing;
mod regime;
pub mod tables;

pub use case::{Case, DEFAULT_CUT_OFF, MAX_LINE_SECONDS, Part};
pub use contest::{Conditions, Contest, FAILED_MS, Time, complete, contests};
pub use draw::draw;
pub use judge::{Always, Choice, Chooser, Summary, Verdict, Verdicts, judge};
pub use probing::probing;
pub use regime::{Regime, regimes};

/// The transport that chooses for itself: its rows are those of a chooser, not of a candidate.
pub const AUTO: &str = "auto";
