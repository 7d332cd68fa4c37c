//! Two parties on one machine, connected by an emulated internet path ([`transpute_netem`]).
//!
//! | module | content |
//! | --- | --- |
//! | [`emulated`] | the path estimate of an emulated path |
//! | [`link`] | measurement of an emulated path |
//! | [`runner`], [`measure`] | matrices of runs of two processes each |
//! | [`live`] | the state of a run in progress |
//! | [`pair`] | any two programs on a path |
//! | [`programs`] | matrices of two programs, from a file |
//! | [`record`] | the record of a run |
//! | [`report`] | tables and charts of records |
//! | [`selection`] | the evaluation of transport selection |

#![deny(unsafe_code)]

pub mod emulated;
mod flow;
pub mod link;
pub mod live;
pub mod measure;
pub mod pair;
mod perf;
pub mod programs;
pub mod record;
pub mod report;
pub mod runner;
pub mod selection;
