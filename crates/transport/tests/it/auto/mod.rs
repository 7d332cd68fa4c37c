//! Tests of `auto`: several transports at one address.

pub(crate) mod always;
mod choice;
mod conformance;
mod messages;
mod picked;
mod race;
mod replays;
