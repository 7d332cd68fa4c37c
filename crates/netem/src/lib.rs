//! Emulated internet paths, in virtual time and between two network namespaces of one machine.
//!
//! | module | contents |
//! | --- | --- |
//! | [`model`] | a one-way path as a state machine with a virtual clock |
//! | [`scenario`] | network conditions, as files and presets |
//! | [`lab`] | two network namespaces, joined by two models in real time |
//! | [`config_file`] | reading hand-written configuration files |
//! | [`testing`] | skipping tests that cannot run on this machine |

#![deny(unsafe_code)]

pub mod config_file;
pub mod lab;
pub mod model;
pub mod scenario;
pub mod testing;
