//! Tests of the emulator on the kernel of this machine. They need root or user namespaces, and
//! `/dev/net/tun`. `transpute testbed link` measures its throughput.

mod accuracy;
mod behaviour;
mod kill;

use std::sync::{Mutex, MutexGuard, PoisonError};

use transpute_netem::{lab::Lab, scenario::Scenario, testing::unless_skipped};

/// A lab, and a lock. The lock keeps tests with measurements from running at the same time.
struct Bench {
    lab: Lab,
    _turn: MutexGuard<'static, ()>,
}

/// Starts the scenario, or skips the test if this machine cannot run it.
fn bench(scenario: &Scenario) -> Option<Bench> {
    let turn = turn();
    let lab = unless_skipped(Lab::start(scenario))?;
    Some(Bench { lab, _turn: turn })
}

/// Waits until no other test of this process uses the machine.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scenario(toml: &str) -> Scenario {
    Scenario::parse(&format!("name = \"test\"\n{toml}"), "test").unwrap()
}
