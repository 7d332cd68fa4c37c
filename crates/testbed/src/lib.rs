//! Two parties on one machine, joined by an emulated internet path ([`transpute_netem`]).
//!
//! | module | idea |
//! | --- | --- |
//! | [`emulated`] | what choosers are told of an emulated path |
//! | [`link`] | what a path is really like, measured over it |
//! | [`runner`], [`measure`] | matrices of runs of two processes each |
//! | [`live`] | looking at a run while it goes on |
//! | [`pair`] | any two programs on a path |
//! | [`programs`] | matrices of them, as files say |
//! | [`row`] | what is recorded of a run |
//! | [`report`] | tables and charts of rows |
//! | [`selection`] | what choosing a transport is judged by |

#![deny(unsafe_code)]

pub mod emulated;
mod flow;
pub mod link;
pub mod live;
pub mod measure;
pub mod pair;
mod perf;
pub mod programs;
pub mod report;
pub mod row;
pub mod runner;
pub mod selection;
