//! From rows of results to tables and charts.

pub mod chart;
pub mod published;
mod samples;
mod table;

pub use samples::Samples;
pub use table::{Table, number};
