//! Two parties on one machine, joined by an emulated internet path.
//!
//! | module | idea |
//! | --- | --- |
//! | [`model`] | a one-way path as a state machine with a virtual clock |
//! | [`scenario`] | network conditions, as files and presets |
//! | [`lab`] | two network namespaces, joined by two models in real time |
//! | [`link`] | what a path is really like, measured over it |
//! | [`runner`], [`measure`] | matrices of runs of two processes each |
//! | [`live`] | looking at a run while it goes on |
//! | [`pair`] | any two programs on a path |
//! | [`programs`] | matrices of them, as files say |
//! | [`row`] | what is recorded of a run |
//! | [`report`] | tables and charts of rows |
//! | [`selection`] | what choosing a transport is judged by |
//! | `web` | all of it as a page in a browser, with the feature `web` |

#![deny(unsafe_code)]

mod flow;
pub mod lab;
pub mod link;
pub mod live;
pub mod measure;
pub mod model;
mod page;
pub mod pair;
mod perf;
pub mod programs;
pub mod report;
pub mod row;
pub mod runner;
pub mod scenario;
pub mod selection;
#[cfg(test)]
#[path = "../tests/common/skip.rs"]
mod skip;
#[cfg(feature = "web")]
pub mod web;
