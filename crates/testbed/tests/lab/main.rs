//! The emulator on this machine's kernel. Needs root or user namespaces, and `/dev/net/tun`; says so where it cannot run.
//!
//! What takes long or wants a quiet machine is ignored by default:
//!
//! ```text
//! cargo test --release -p transpute-testbed --test lab -- --ignored --nocapture
//! ```

mod accuracy;
mod behaviour;
mod kill;

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transpute_testbed::lab::{Lab, LabError};
use transpute_testbed::scenario::Scenario;

/// A lab, and the right to the machine: tests that measure must not run at the same time.
struct Bench {
    lab: Lab,
    _turn: MutexGuard<'static, ()>,
}

/// Starts the scenario, or says why this machine cannot.
///
/// In continuous integration as root it must be able to: a skipped test would look like a passed one.
fn bench(scenario: &Scenario) -> Option<Bench> {
    let turn = turn();
    match Lab::start(scenario) {
        Ok(lab) => Some(Bench { lab, _turn: turn }),
        Err(error @ (LabError::Privileges { .. } | LabError::NoTun { .. })) => {
            let must = std::env::var_os("CI").is_some_and(|ci| ci == "true")
                && rustix::process::geteuid().is_root();
            assert!(!must, "{error}");
            // Past the capture of the test harness.
            let _ = writeln!(std::io::stderr(), "SKIPPED, nothing was tested: {error}");
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
