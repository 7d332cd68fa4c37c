//! Tests of `transpute testbed`.

use std::{
    fs,
    process::Command,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use transpute_netem::testing::skip;

use crate::process::{Finished, Process, transpute, write};

/// Runs a matrix. Returns `None` if this machine cannot emulate paths.
fn run(args: &[&str]) -> Option<Finished> {
    unless_impossible(transpute([&["testbed", "run", "--quiet"], args].concat()))
}

/// Returns the outcome of a command, or `None` if this machine cannot emulate paths.
pub(crate) fn unless_impossible(finished: Finished) -> Option<Finished> {
    let lacks = [
        "cannot create network namespaces",
        "cannot open /dev/net/tun",
    ];
    if lacks.iter().any(|text| finished.stderr.contains(text)) {
        skip(format_args!(
            "this machine cannot emulate paths: {}",
            finished.stderr
        ));
        return None;
    }
    Some(finished)
}

pub(crate) fn records(path: &str) -> Vec<Value> {
    (fs::read_to_string(path).unwrap().lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_matrix_is_measured_once() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("rows.jsonl");
    let results = results.to_str().unwrap();
    let scenario = write(folder.path(), "near.toml", "rtt_ms = 20\nrate_mbit = 100");
    let args = [
        "--scenario",
        &scenario,
        "--circuits",
        "add:8,aes128",
        "--results",
        results,
    ];
    let once = [&args[..], &["--repetitions", "1"]].concat();
    let Some(finished) = run(&once) else { return };
    finished.expect(0);
    let measured = records(results);
    assert_eq!(measured.len(), 2);
    for record in &measured {
        assert_eq!(record["scenario"]["name"], "near");
        let measured = &record["measured"];
        // A run takes at least one round trip of 20 ms. What one party sent, the other received.
        assert!(measured["runtime_ms"].as_f64().unwrap() >= 20.0, "{record}");
        assert_eq!(measured["limit"]["rtt_ms"], 20.0);
        assert!(measured["total_ms"].as_f64() >= measured["runtime_ms"].as_f64());
        let payload = measured["payload_up_bytes"].as_u64().unwrap();
        assert_eq!(measured["evaluator"]["received_bytes"], payload);
        assert!(measured["up"]["bytes_in"].as_u64().unwrap() > payload);
        assert!(measured["garbler"]["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
    }

    // Only the runs without a record are executed, and cells alternate.
    run(&[&args[..], &["--repetitions", "2"]].concat())
        .unwrap()
        .expect(0);
    let all = records(results);
    assert_eq!(all[..2], measured);
    let order: Vec<_> = (all.iter())
        .map(|record| {
            (
                record["repetition"].as_u64().unwrap(),
                record["circuit"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        order,
        [(0, "add:8"), (0, "aes128"), (1, "add:8"), (1, "aes128")]
    );
    // Temporary keys and inputs were deleted.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

    // A complete matrix prints its table again.
    let args = [&["testbed", "run"], &args[..], &["--repetitions", "2"]].concat();
    let summary = transpute(args).expect(0).stdout;
    for text in [
        "Median times: total from the first packet",
        "total ms",
        "limit ms",
        "aes128, tcp, half-gates, near",
        "add:8, tcp, half-gates, near",
    ] {
        assert!(summary.contains(text), "{text}: {summary}");
    }
    let report = transpute(["testbed", "report", results]).expect(0).stdout;
    assert!(report.starts_with("Times: total from the first packet"));
    assert!(
        report.contains("aes128") && report.contains("near"),
        "{report}"
    );
}

#[test]
fn the_chosen_transport_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("rows.jsonl");
    let results = results.to_str().unwrap();
    let scenario = write(folder.path(), "near.toml", "rtt_ms = 20\nrate_mbit = 100");
    let args = [
        "--scenario",
        &scenario,
        "--repetitions",
        "1",
        "--results",
        results,
    ];
    let Some(finished) = run(&[&args[..], &["--transports", "auto,tcp"]].concat()) else {
        return;
    };
    finished.expect(0);
    for record in records(results) {
        let measured = &record["measured"];
        if record["transport"] == "tcp" {
            assert!(measured["chosen"].is_null() && measured["selection"].is_null());
            continue;
        }
        let chosen = measured["chosen"].as_str().unwrap();
        let used = measured["evaluator"]["transport"].as_str().unwrap();
        assert!(chosen.starts_with(used), "{record}");
        let selection = &measured["selection"];
        assert_eq!(selection["chooser"], "rule");
        assert!(selection["predicted_s"].as_f64().unwrap() > 0.02);
        // QUIC is established after one round trip at the earliest.
        assert!(selection["decided_after_ms"].as_f64().unwrap() >= 20.0);
    }
    transpute(["testbed", "report", results]).expect(0);
}

#[test]
fn failed_runs_are_recorded_and_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("rows.jsonl");
    let results = results.to_str().unwrap();
    // All packets are lost.
    let scenario = write(folder.path(), "dark.toml", "loss = 1.0");
    let args = [
        "--scenario",
        &scenario,
        "--timeout",
        "1",
        "--repetitions",
        "1",
    ];
    let args = [&args[..], &["--results", results]].concat();
    for tries in 1..=2 {
        let Some(finished) = run(&args) else { return };
        finished.fails(6, "1 runs failed");
        let records = records(results);
        assert_eq!(records.len(), tries);
        assert_eq!(records[tries - 1]["error"], "evaluator: not done after 1 s");
        assert!(records[tries - 1].get("measured").is_none());
    }
}

/// Returns the command lines of processes that contain a text.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

/// Sends interrupts to a process until it ends. One may not be enough: if the tests run as a
/// background job of a shell, SIGINT is ignored until the process installs its handler.
fn interrupted(process: Process) -> Finished {
    let id = process.id().to_string();
    let (is_over, over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                let kill = Command::new("kill").args(["-INT", &id]).output();
                assert!(kill.is_ok());
                let waited = over.recv_timeout(Duration::from_secs(1));
                if waited != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        });
        let finished = process.finish();
        drop(is_over);
        finished
    })
}

/// Checks that no process of an interrupted run remains. Namespaces and TUN devices exist only
/// while a process holds them, so they do not remain either.
#[test]
fn a_hundred_runs_killed_at_random_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().to_str().unwrap();
    let results = folder.path().join("rows.jsonl");
    let results = results.to_str().unwrap();
    let scenario = write(folder.path(), "near.toml", "rtt_ms = 10");
    let args = ["--scenario", &scenario, "--results", results];
    let once = [&args[..], &["--repetitions", "1"]].concat();
    let Some(first) = run(&once) else { return };
    first.expect(0);
    let mut seen_parties = 0;
    for round in 0..100u32 {
        let many = [&["testbed", "run"], &args[..], &["--repetitions", "9999"]].concat();
        let started = Process::start(many);
        // The time until the kill. Multiples of the golden ratio cover the first 400 ms evenly.
        let moment = (f64::from(round) * 0.618_033_988_7).fract() * 0.4;
        thread::sleep(Duration::from_secs_f64(moment));
        seen_parties += usize::from(processes_with(mark).len() > 1);
        if round % 4 == 0 {
            // Ctrl-C also removes the folder of keys.
            let finished = interrupted(started);
            // The exit code is absent if the signal came before the handler was installed.
            assert!(matches!(finished.code, Some(130) | None), "{finished:?}");
        } else {
            started.kill();
        }
    }
    assert!(seen_parties > 0, "no run was killed in the middle");
    let start = Instant::now();
    loop {
        let left = processes_with(mark);
        if left.is_empty() {
            break;
        }
        // The kernel needs a moment to end the last killed processes.
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "processes remain: {left:#?}"
        );
        thread::sleep(Duration::from_millis(50));
    }
    // The next start resumes the matrix, and removes the folder of keys that a killed process left.
    let done = records(results).len();
    let repetitions = (done + 1).to_string();
    run(&[&args[..], &["--repetitions", &repetitions]].concat())
        .unwrap()
        .expect(0);
    assert!(records(results).len() > done);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_firewall_stops_udp_and_lets_tcp_through() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("rows.jsonl");
    let results = results.to_str().unwrap();
    let args = [
        "--rtt",
        "2",
        "--block-udp",
        "--circuits",
        "add:8",
        "--transports",
        "tcp,rudp",
        "--repetitions",
        "1",
        "--no-timelines",
        "--results",
        results,
    ];
    let Some(finished) = run(&args) else { return };
    finished.fails(6, "1 runs failed");
    let records = records(results);
    assert_eq!(records[0]["scenario"]["up"]["udp_blocked"], true);
    assert!(records[0]["measured"]["timeline"].is_null());
    assert!(
        records[0]["measured"]["runtime_ms"].is_number(),
        "{}",
        records[0]
    );
    let error = records[1]["error"].as_str().unwrap();
    assert!(error.contains("UDP"), "{error}");
}

#[test]
fn a_selection_sweep_is_interrupted_resumed_and_scored() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("rows.jsonl");
    let results = results.to_str().unwrap();
    let sweep = |command, more: &[&str]| {
        let args = ["testbed", "selection", command, "--limit", "2"];
        let transports = ["--transports", "tcp,tcp-striped:n=2"];
        Process::start([&args[..], &transports, more].concat())
    };
    let cells = sweep("cells", &["--json"]).finish().expect(0).stdout;
    let cells: Vec<Value> = (cells.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(cells.len(), 2);
    for cell in &cells {
        // The drawn cell has the number of gates of its circuit.
        let circuit = cell["circuit"].as_str().unwrap();
        let info = transpute(["circuit", "info", "--json", circuit])
            .expect(0)
            .json();
        let gates = info["gates"]["and"].as_u64().unwrap() * cell["batch"].as_u64().unwrap();
        assert_eq!(cell["and_gates"].as_u64().unwrap(), gates, "{cell}");
    }

    let mut started = sweep("run", &["--results", results]);
    // After this line, the keys exist, and the first run starts.
    started.line("0/4 ");
    let kill = Command::new("kill")
        .args(["-INT", &started.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let Some(finished) = unless_impossible(started.finish()) else {
        return;
    };
    finished.expect(130);
    let done = records(results);
    assert!(
        !done.is_empty() && done.len() < 4 && done[0]["measured"].is_object(),
        "{done:?}"
    );
    sweep("run", &["--results", results, "--quiet"])
        .finish()
        .expect(0);
    let all = records(results);
    assert_eq!((all.len(), &all[..done.len()]), (4, &done[..]));

    let out = folder.path().join("score");
    let score = [
        "testbed",
        "selection",
        "score",
        results,
        "--markdown",
        "--out",
    ];
    let score = transpute(score.into_iter().chain(out.to_str()))
        .expect(0)
        .stdout;
    assert!(score.contains("| always tcp | 2 | 0 | 0 | "), "{score}");
    assert_eq!(fs::read_to_string(out.join("score.md")).unwrap(), score);
    let cells = fs::read_to_string(out.join("cells.csv")).unwrap();
    assert!(
        cells.starts_with("cell,part,circuit,") && cells.contains("\ncell-001,"),
        "{cells}"
    );
    assert!(out.join("regrets.csv").exists());
}

#[test]
fn invalid_arguments_are_rejected_before_any_run() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = write(folder.path(), "bad.toml", "rtt_ms = 20\nloss = 2");
    let testbed = |args: &[&str]| Process::start([&["testbed"], args].concat()).finish();
    testbed(&["scenarios", &scenario]).fails(3, "bad.toml: up.loss: 2 is not between 0 and 1");
    testbed(&["run", "--scenario", "nowhere"]).fails(2, "\"nowhere\"");
    // A name that is no preset is read as a file, whatever its extension.
    write(
        folder.path(),
        "m8.txt",
        "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n",
    );
    Process::start_with(["testbed", "scenarios", "m8.txt"], |command| {
        command.current_dir(folder.path())
    })
    .finish()
    .fails(3, "m8.txt:1: ");
    testbed(&["run", "--rtt", "-1"]).expect(2);
    testbed(&["run", "--loss", "7"]).fails(2, "up.loss");
    testbed(&["run", "--schemes", "none"]).fails(2, "--schemes");
    testbed(&["run", "--transports", "smoke"]).fails(2, "--transports");
    let missing = folder.path().join("missing.jsonl");
    testbed(&["report", missing.to_str().unwrap()]).fails(3, "missing.jsonl");
    testbed(&["selection", "run", "--transports", "smoke"]).fails(2, "--transports");
    testbed(&["selection", "cells", "--cells", "0"]).expect(2);
    testbed(&["programs", missing.to_str().unwrap()])
        .fails(3, "missing.jsonl: cannot read the plan");
    let plan = "title = \"x\"\n[[experiment]]\nname = \"e\"\nscenario = \"bad.toml\"\na = \"true\"\nb = \"true\"";
    let plan = write(folder.path(), "plan.toml", plan);
    testbed(&["programs", &plan]).fails(3, "plan.toml: e: ");
    testbed(&["selection", "score", missing.to_str().unwrap()]).fails(3, "missing.jsonl");
    let list = testbed(&["scenarios"]).expect(0).stdout;
    assert!(
        list.contains("eu-aus") && list.contains("satellite"),
        "{list}"
    );
}
