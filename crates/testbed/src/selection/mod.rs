//! Evaluates transport selection. Every transport is run in every cell. Choosers are judged by the
//! time of their choice, compared with the best transport.
//!
//! * [`draw`] draws [`SelectionCase`]s, which are workloads under path conditions.
//! * [`SelectionCase::runs`] returns the runs of a case, one per transport, for
//!   [`run_cells`](crate::runner::run_cells).
//! * [`contests`] computes the time of each transport in each cell from records.
//! * [`Judged`] is a chooser, which picks one of the transports of a cell.
//! * [`samples()`] converts records to samples for the model of `transpute_select`.
//! * [`judge`] and [`RegretSummary`] compute the regret of choosers: the time of the choice divided
//!   by the time of the best transport.
//!
//! ```
//! use transpute_testbed::selection::{Judged, Part, Workloads, contests, judge, tables};
//!
//! # let records = Vec::new();
//! let contests = contests(&records);
//! let choosers = [Judged::rule(), Judged::always("tcp")];
//! let verdicts = judge(&contests, &choosers, &Workloads::of(&records)?);
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
