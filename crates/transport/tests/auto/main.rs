//! Tests of `auto`: several transports at one address.

mod always;
mod choice;
mod conformance;
#[path = "../meeting/mod.rs"]
mod meeting;
mod messages;
mod picked;
mod race;
#[path = "../relay/mod.rs"]
mod relay;
mod replays;
