//! The emulator on this machine's kernel. Needs root or user namespaces, and `/dev/net/tun`. Its
//! throughput is measured with `transpute testbed link`.

mod accuracy;
mod behaviour;
mod kill;

use std::sync::{Mutex, MutexGuard, PoisonError};

use transpute_netem::{lab::Lab, scenario::Scenario, testing::unless_skipped};

/// A lab, and the right to the machine: tests that measure must not run at the same time.
struct Bench {
    lab: Lab,
    _turn: MutexGuard<'static, ()>,
}

/// Starts the scenario, or skips the test where this machine cannot.
fn bench(scenario: &Scenario) -> Option<Bench> {
    let turn = turn();
    let lab = unless_skipped(Lab::start(scenario))?;
    Some(Bench { lab, _turn: turn })
}

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scenario(toml: &str) -> Scenario {
    Scenario::parse(&format!("name = \"test\"\n{toml}"), "test").unwrap()
}
