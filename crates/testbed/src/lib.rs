//! Two parties on one machine, joined by an emulated internet path.

#![deny(unsafe_code)]

mod flow;
pub mod lab;
pub mod link;
pub mod measure;
pub mod model;
pub mod report;
pub mod row;
pub mod runner;
pub mod scenario;
