//! Snapshots of every controller in several scenarios: a change to an algorithm shows as a change
//! to these files.
//!
//! The simulator has its own clock and a seeded random generator, and the controllers use no
//! function whose result depends on the machine. So the files are compared exactly.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use transpute_netem::scenario::{Change, PathConfig};
use transpute_rudp::rate::ControllerKind;

use super::sim::Sim;
use super::{MBIT, flow, path, seeded, unknown};

/// The rate of the path, in Mbit/s. The fixed controller gets it as its setting, and SABUL derives
/// it from packet pairs.
const RATE_MBIT: f64 = 100.0;
const RTT_MS: f64 = 50.0;

const STEPS: u32 = 30;
const STEPS_PER_SECOND: f64 = 5.0;

fn scenarios() -> [(&'static str, PathConfig); 4] {
    let mut changing = path(RATE_MBIT, RTT_MS, 0.0, 1.0);
    changing.changes = [(2.0, 20.0), (4.0, RATE_MBIT)]
        .map(|(at_s, rate)| Change {
            at_s,
            rate_mbit: Some(rate),
            ..Change::default()
        })
        .to_vec();
    [
        ("clean", path(RATE_MBIT, RTT_MS, 0.0, 1.0)),
        ("random_loss", path(RATE_MBIT, RTT_MS, 0.01, 1.0)),
        ("shallow_queue", path(RATE_MBIT, RTT_MS, 0.0, 0.1)),
        ("rate_change", changing),
    ]
}

fn curve(kind: ControllerKind, config: &PathConfig) -> String {
    let controller = match kind {
        ControllerKind::Fixed => seeded(kind, RATE_MBIT, RTT_MS),
        _ => unknown(kind),
    };
    let mut sim = Sim::new(config, 7, vec![flow(controller)]);
    sim.link_capacity = (kind.name() == "sabul").then_some(RATE_MBIT as u64 * MBIT);
    let mut text =
        "  time s  rate Mbit/s  window kB  queue kB  delivered kB  lost packets  state\n"
            .to_owned();
    for step in 1..=STEPS {
        let time = f64::from(step) / STEPS_PER_SECOND;
        sim.run(time);
        let flow = &sim.flows[0];
        let state = flow.controller.snapshot();
        let _ = writeln!(
            text,
            "{time:8.1} {:12.1} {:10} {:9} {:13} {:13}  {}",
            state.pacing_rate as f64 / MBIT as f64,
            state.window / 1000,
            sim.queued() / 1000,
            flow.delivered / 1000,
            flow.lost,
            state.state
        );
    }
    text
}

/// Compares a table with the file of this name.
fn compare(name: &str, actual: &str) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/rate/snapshots")
        .join(format!("{name}.txt"));
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        return fs::write(&file, actual).map_err(|error| format!("{}: {error}", file.display()));
    }
    let expected =
        fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let line = |text: &str, index| {
        text.lines()
            .nth(index)
            .unwrap_or("(no such line)")
            .to_owned()
    };
    let count = expected.lines().count().max(actual.lines().count());
    match (0..count).find(|&index| line(&expected, index) != line(actual, index)) {
        None => Ok(()),
        Some(index) => Err(format!(
            "snapshot {name}, line {}\n          {}\nexpected: {}\nfound:    {}",
            index + 1,
            line(&expected, 0),
            line(&expected, index),
            line(actual, index)
        )),
    }
}

#[test]
fn controllers_follow_their_snapshots() {
    let mut differences = Vec::new();
    for &kind in ControllerKind::ALL {
        for (scenario, config) in scenarios() {
            differences.extend(compare(&format!("{kind}_{scenario}"), &curve(kind, &config)).err());
        }
    }
    assert!(
        differences.is_empty(),
        "{}\nif the change is intended: UPDATE_SNAPSHOTS=1 cargo test -p transpute-rudp --test rate snapshots",
        differences.join("\n")
    );
}
