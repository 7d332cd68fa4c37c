//! Makes tables and charts of records.
//!
//! [`tables`] and [`figures`] make all tables and charts for which the records have data.
//! [`write()`] writes all of them into a folder. A chart varies one condition and combines only
//! measurements whose other conditions are equal.

mod cells;
pub mod chart;
mod figures;
pub mod fixture;
mod folder;
mod hosts;
mod phases;
pub mod published;
mod samples;
mod sweep;
mod table;
mod tables;
mod timeline;

pub use cells::CellRecords;
pub use figures::figures;
pub use folder::{ReportError, write};
pub use hosts::{hosts_summary, hosts_tables};
pub use samples::Samples;
pub use table::{Table, number};
pub use tables::{summary, tables};
