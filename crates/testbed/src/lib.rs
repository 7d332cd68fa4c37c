//! Two parties on one machine, joined by an emulated internet path.

#![deny(unsafe_code)]

pub mod lab;
pub mod model;
pub mod report;
pub mod scenario;
pub mod row;
