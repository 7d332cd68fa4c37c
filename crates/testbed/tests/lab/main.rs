//! The emulator on this machine's kernel. Needs root or user namespaces, and `/dev/net/tun`. Its throughput is measured with
//! `transpute testbed link`.

mod accuracy;
mod behaviour;
mod kill;
#[path = "../common/skip.rs"]
mod skip;

use std::sync::{Mutex, MutexGuard, PoisonError};

use transpute_testbed::lab::{Lab, LabError};
use transpute_testbed::scenario::Scenario;

use skip::skip;

/// A lab, and the right to the machine: tests that measure must not run at the same time.
struct Bench {
    lab: Lab,
    _turn: MutexGuard<'static, ()>,
}

/// Starts the scenario, or skips the test where this machine cannot.
fn bench(scenario: &Scenario) -> Option<Bench> {
    let turn = turn();
    match Lab::start(scenario) {
        Ok(lab) => Some(Bench { lab, _turn: turn }),
        Err(error @ (LabError::Privileges { .. } | LabError::NoTun { .. })) => {
            skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scenario(toml: &str) -> Scenario {
    Scenario::parse(&format!("name = \"test\"\n{toml}"), "test").unwrap()
}
