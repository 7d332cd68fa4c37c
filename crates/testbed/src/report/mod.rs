//! From rows of results to tables and charts.
//!
//! [`tables`] and [`figures`] make what the rows have data for; [`write()`] puts all of it into a
//! folder. Charts join only what was measured with all else equal.

mod cells;
pub mod chart;
mod figures;
pub mod fixture;
mod folder;
mod phases;
pub mod published;
mod samples;
mod sweep;
mod table;
mod tables;
mod timeline;

pub use cells::Cell;
pub use figures::figures;
pub use folder::{ReportError, write};
pub use samples::Samples;
pub use table::{Table, number};
pub use tables::{summary, tables};
