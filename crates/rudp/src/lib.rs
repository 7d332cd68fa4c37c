//! Reliable, encrypted delivery of a byte stream over UDP, as a state machine without sockets or clocks.
//!
//! | module | idea |
//! | --- | --- |
//! | `time` | moments, passed in by the caller |
#![forbid(unsafe_code)]

mod time;

pub use time::Time;
