//! Reliable, encrypted delivery of a byte stream over UDP, as a state machine without sockets or clocks.
//!
//! | module | idea |
//! | --- | --- |
//! | `time` | moments, passed in by the caller |
//! | [`rate`] | how fast to send |
//! | [`fec`] | parity, so that what is lost need not be asked for |
//! | [`estimate`] | the rate of a path from how a train of packets arrives |
#![forbid(unsafe_code)]

pub mod estimate;
pub mod fec;
pub mod rate;
mod time;

pub use time::Time;
