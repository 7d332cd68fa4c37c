//! Test of the choice of a garbling scheme on a path that changes.

use std::path::Path;

use serde_json::Value;

use crate::{
    BINARY,
    process::{KEY, PLAINTEXT, Process, write},
    testbed::unless_impossible,
};

/// Runs a batch of AES-128 many times over a path that changes after a second. The garbler, which
/// sends the tables, connects. Returns its output.
fn over_a_changing_path(folder: &Path, scenario: &str, more: &str) -> Option<String> {
    let scenario = write(folder, "path.toml", scenario);
    let binary = BINARY;
    let run = |role: &str, input: &str, more: &str| {
        format!(
            "{binary} run --role {role} --circuit aes128 --batch 5 --repeat 16 --plaintext \
             --scheme auto --input {input} {more}"
        )
    };
    let evaluator = run(
        "evaluator",
        &format!("1={PLAINTEXT}"),
        "--listen $TRANSPUTE_B:7700 -q",
    );
    let garbler = run(
        "garbler",
        &format!("0={KEY}"),
        &format!("--connect $TRANSPUTE_B:7700 {more}"),
    );
    // The path changes one second after the first packet. The garbler starts late, so that the
    // evaluator listens when the first packet arrives.
    let garbler = format!("sleep 0.3; {garbler}");
    let exec = ["testbed", "exec", "--scenario", &scenario];
    let finished =
        Process::start([&exec[..], &["--a", &garbler, "--b", &evaluator]].concat()).finish();
    let finished = unless_impossible(finished)?.expect(0);
    Some(format!("{}{}", finished.stdout, finished.stderr))
}

#[test]
fn a_path_that_becomes_slower_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    // The tables of a run are 788 kB. They take 63 ms before the change and 630 ms after it, so the
    // last runs are slow.
    let scenario = "rtt_ms = 10\nrate_mbit = 100\n[[changes]]\nat_s = 1\nrate_mbit = 10";
    let Some(told) = over_a_changing_path(folder.path(), scenario, "--json") else {
        return;
    };
    let line = told.lines().find(|line| line.starts_with('{'));
    let report: Value = serde_json::from_str(line.unwrap_or_default()).unwrap();
    let path = &report["path"];
    let rate = |of: &str| path[of]["rate_mbit"].as_f64().unwrap();
    assert_eq!(path["is_worse"], true, "{report}");
    // On a busy machine, the probe trains underestimate the rate.
    assert!(rate("chosen_by") > 20.0, "{report}");
    assert!((5.0..15.0).contains(&rate("now")), "{report}");
    assert!(
        path["predicted_run_ms"].as_f64().unwrap() > 400.0,
        "{report}"
    );
    assert_eq!(report["scheme"], "three-halves", "{report}");
    let warning = path["warning"].as_str().unwrap();
    assert!(
        warning.starts_with("the path is worse than when "),
        "{warning}"
    );
}
