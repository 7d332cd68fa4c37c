//! Reliable, encrypted delivery of a byte stream over UDP, as a state machine without sockets or clocks.
//!
//! | module | idea |
//! | --- | --- |
//! | `time` | moments, passed in by the caller |
//! | [`rate`] | how fast to send |
#![forbid(unsafe_code)]

pub mod rate;
mod time;

pub use time::Time;
