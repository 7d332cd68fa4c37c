//! Measures reliable UDP against its limits, on emulated paths between two processes with TLS and
//! pinned keys.
//!
//! The tests need root or user namespaces, and `/dev/net/tun`. Each prints a table, and checks only
//! that the bytes arrive as they were sent. docs/testing.md, "Figures of reliable UDP", has the
//! commands and the environment variables.
#![cfg(target_os = "linux")]

mod bulk;
mod figures;
mod narrow;
mod party;
mod share;
mod trains;

use std::sync::{Mutex, MutexGuard, PoisonError};

use transpute_netem::{lab::Lab, scenario::Scenario};

#[test]
#[ignore = "measures; run by hand: cargo test --release -p transpute-transport --test bars -- --ignored --nocapture bulk"]
fn bulk() {
    let _turn = turn();
    bulk::measure();
}

#[test]
#[ignore = "measures; run by hand: cargo test --release -p transpute-transport --test bars -- --ignored --nocapture narrow"]
fn narrow() {
    let _turn = turn();
    narrow::measure();
}

#[test]
#[ignore = "measures; run by hand: cargo test --release -p transpute-transport --test bars -- --ignored --nocapture share"]
fn share() {
    let _turn = turn();
    share::measure();
}

/// Runs one of the two processes. Does nothing unless the environment names a role.
#[test]
#[ignore = "child of bulk, narrow and share"]
fn party_process() {
    party::act();
}

/// Waits for the lock of measurements, because concurrent ones would disturb each other.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a path. `toml` is the scenario without its seed. Each repetition has its own seed, so
/// other packets are lost.
fn start(toml: &str, repetition: u32) -> Lab {
    let text = format!("seed = {}\n{toml}", repetition + 1);
    let scenario = Scenario::parse(&text, "bars").unwrap();
    Lab::start(&scenario).unwrap_or_else(|error| panic!("{error}"))
}
