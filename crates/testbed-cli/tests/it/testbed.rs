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

fn rows(path: &str) -> Vec<Value> {
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
    let measured = rows(results);
    assert_eq!(measured.len(), 2);
    for row in &measured {
        assert_eq!(row["scenario"]["name"], "near");
        let measured = &row["measured"];
        // At least one round trip of 20 ms, and the parties agree about the bytes.
        assert!(measured["runtime_ms"].as_f64().unwrap() >= 20.0, "{row}");
        assert_eq!(measured["limit"]["rtt_ms"], 20.0);
        assert!(measured["total_ms"].as_f64() >= measured["runtime_ms"].as_f64());
        let payload = measured["payload_up_bytes"].as_u64().unwrap();
        assert_eq!(measured["evaluator"]["received_bytes"], payload);
        assert!(measured["up"]["bytes_in"].as_u64().unwrap() > payload);
        assert!(measured["garbler"]["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
    }

    // Only missing runs are measured, and cells alternate.
    run(&[&args[..], &["--repetitions", "2"]].concat())
        .unwrap()
        .expect(0);
    let all = rows(results);
    assert_eq!(all[..2], measured);
    let order: Vec<_> = (all.iter())
        .map(|row| {
            (
                row["repetition"].as_u64().unwrap(),
                row["circuit"].as_str().unwrap(),
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
    for row in rows(results) {
        let measured = &row["measured"];
        if row["transport"] == "tcp" {
            assert!(measured["chosen"].is_null() && measured["selection"].is_null());
            continue;
        }
        let chosen = measured["chosen"].as_str().unwrap();
        let used = measured["evaluator"]["transport"].as_str().unwrap();
        assert!(chosen.starts_with(used), "{row}");
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
        let rows = rows(results);
        assert_eq!(rows.len(), tries);
        assert_eq!(rows[tries - 1]["error"], "evaluator: not done after 1 s");
        assert!(rows[tries - 1].get("measured").is_none());
    }
}

/// Returns the command lines of processes that contain a text.
fn processes_with(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

/// Interrupts a process until it ends. A shell starts background jobs with SIGINT ignored, so the
/// signal has no effect until the process installs its handler.
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

/// Namespaces and TUN devices have no names and exist as long as a process holds them. So if no
/// process of a run remains, they are gone too.
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
        // Multiples of the golden ratio cover the first 400 ms evenly.
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
    // The next start resumes and removes the folder of keys that a killed one left.
    let done = rows(results).len();
    let repetitions = (done + 1).to_string();
    run(&[&args[..], &["--repetitions", &repetitions]].concat())
        .unwrap()
        .expect(0);
    assert!(rows(results).len() > done);
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
    let rows = rows(results);
    assert_eq!(rows[0]["scenario"]["up"]["udp_blocked"], true);
    assert!(rows[0]["measured"]["timeline"].is_null());
    assert!(rows[0]["measured"]["runtime_ms"].is_number(), "{}", rows[0]);
    let error = rows[1]["error"].as_str().unwrap();
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
    // By then the keys exist and a run has started or is about to.
    started.line("0/4 ");
    let kill = Command::new("kill")
        .args(["-INT", &started.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let Some(finished) = unless_impossible(started.finish()) else {
        return;
    };
    finished.expect(130);
    let done = rows(results);
    assert!(
        !done.is_empty() && done.len() < 4 && done[0]["measured"].is_object(),
        "{done:?}"
    );
    sweep("run", &["--results", results, "--quiet"])
        .finish()
        .expect(0);
    let all = rows(results);
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
fn two_commands_run_on_a_path() {
    let exec = |a: &str, b: &str| {
        let args = [
            "testbed", "exec", "--rtt", "20", "--json", "--a", a, "--b", b,
        ];
        Process::start(args).finish()
    };
    let binary = crate::BINARY;
    let finished = exec(
        &format!("{binary} link serve --unpinned --listen $TRANSPUTE_A:7700"),
        &format!("{binary} link send --unpinned --connect $TRANSPUTE_A:7700 --bytes 100000 --json"),
    );
    let Some(finished) = unless_impossible(finished) else {
        return;
    };
    let finished = finished.expect(0);
    // The server prints JSON too.
    let object = |printed: &str| -> Value {
        let line = printed.lines().find(|line| line.starts_with('{'));
        serde_json::from_str(line.unwrap_or_default()).unwrap()
    };
    let transfer = object(&finished.stdout);
    assert_eq!(transfer["clock"], "shared", "{transfer}");
    let path = object(&finished.stderr);
    assert!(
        path["down"]["bytes_in"].as_u64().unwrap() > 100_000,
        "{path}"
    );
    assert!(path["seconds"].as_f64().unwrap() > 0.04, "{path}");

    // A failed command is reported, and remaining processes are terminated.
    let mark = "98764.123";
    exec(&format!("sleep {mark}"), "exit 7").fails(6, "side B ended with code 7");
    assert_eq!(processes_with(mark), [""; 0]);
    exec("false", "true").fails(6, "side A ended with code 1");
    exec("kill -9 $$", "exit 3").fails(
        6,
        "side A was ended by a signal; the command on side B ended",
    );
    // A server that is terminated has not failed.
    exec("trap 'exit 5' TERM; while :; do sleep 0.1; done", "true").expect(0);
}

/// Waits until no process has this text in its command line.
fn wait_for_end_of(text: &str) {
    let start = Instant::now();
    while !processes_with(text).is_empty() {
        let left = processes_with(text);
        assert!(start.elapsed() < Duration::from_secs(60), "{left:#?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_testbed_leaves_no_commands() {
    let folder = tempfile::tempdir().unwrap();
    // Each side has a child and a process that left its process group and lost its parent.
    let mark = format!("{}.375", 900_000 + std::process::id());
    let command = format!("(setsid sleep {mark} &); sleep {mark}; echo {{}}");
    let plan = format!(
        "title = 'x'\n[[experiment]]\nname = 'e'\nscenario = 'loopback'\na = '{command}'\nb = '{command}'"
    );
    let plan = write(folder.path(), "plan.toml", &plan);
    let results = folder.path().join("rows.jsonl");
    let exec = ["testbed", "exec", "--a", &command, "--b", &command];
    let programs = ["testbed", "programs", &plan, "--results"];
    let programs = [&programs[..], &[results.to_str().unwrap()]].concat();
    let sleeps = format!("sleep {mark} ");
    let running = || {
        let lines = processes_with(&sleeps);
        lines
            .iter()
            .filter(|line| line.starts_with("sleep"))
            .count()
    };
    for args in [&exec[..], &programs] {
        let mut started = Process::start(args);
        let start = Instant::now();
        while running() < 4 {
            if started.child.try_wait().unwrap().is_some() {
                let Some(finished) = unless_impossible(started.finish()) else {
                    return;
                };
                panic!("{finished:?}");
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{args:?}");
            thread::sleep(Duration::from_millis(5));
        }
        started.kill();
        wait_for_end_of(&mark);
    }
}

#[test]
fn programs_run_in_a_matrix_that_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("rows.jsonl");
    let results = results.to_str().unwrap();
    write(folder.path(), "near.toml", "rtt_ms = 20");
    write(folder.path(), "beside.txt", "kept beside the plan\n");
    let plan = r#"
        title = "What programs say"
        [[experiment]]
        name = "said"
        scenario = "near.toml"
        repetitions = 2
        time_limit_s = 60
        a = '''test -s "$TRANSPUTE_KEY" && cat beside.txt && echo "{\"peer\": \"$TRANSPUTE_PEER\"}"'''
        b = '''echo; echo "{\"n\": {n}, \"run\": {repetition}, \"to\": \"$TRANSPUTE_A\"}"; echo noise; {then}'''
        [experiment.variables]
        n = [1, 2]
        then = ["true", "echo bad luck >&2; exit 3"]
        [experiment.quick]
        repetitions = 1
        variables = { then = ["true"] }
        [[experiment]]
        name = "silent"
        scenario = "near.toml"
        repetitions = 1
        time_limit_s = 0.2
        a = "{a}"
        b = "{b}"
        [experiment.variables]
        a = ["true", "exit 9", "sleep 98765.4"]
        b = ["echo none", "sleep 98765.4"]
    "#;
    let plan = write(folder.path(), "plan.toml", plan);
    let programs = |more: &[&str]| {
        let args = ["testbed", "programs", &plan, "--results", results];
        Process::start([&args[..], more].concat()).finish()
    };
    let shown = programs(&["--dry-run", "--quick"]).expect(0);
    let line = "said/near/n=2,then=true  1 times";
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
    assert!(shown.stderr.contains("8 cells, 8 runs"), "{}", shown.stderr);
    assert!(!fs::exists(results).unwrap());
    programs(&["--only", "sai"]).fails(2, "--only: no cell");

    let Some(finished) = unless_impossible(programs(&["--quick", "--only", "said"])) else {
        return;
    };
    finished.expect(0);
    let quick = rows(results);
    assert_eq!(quick.len(), 2);
    for (row, n) in quick.iter().zip(1..) {
        assert_eq!(row["variables"]["n"], n);
        let said = serde_json::json!({"n": n, "run": 0, "to": "10.77.0.1"});
        assert_eq!(row["said"]["b"], said);
        let peer = row["said"]["a"]["peer"].as_str().unwrap();
        assert!(peer.starts_with("sha256:"), "{row}");
        assert_eq!(row["codes"], serde_json::json!([0, 0]));
        assert_eq!(row["scenario"]["up"]["delay_ms"], 10.0);
        assert!(row.get("error").is_none() && row["seconds"].is_number());
    }

    // The full matrix includes the quick runs. Failures are recorded.
    programs(&["--quiet", "--only", "said"]).fails(6, "4 runs failed");
    let all = rows(results);
    assert_eq!((all.len(), &all[..2]), (8, &quick[..]));
    let failed: Vec<_> = all.iter().filter(|row| row["error"].is_string()).collect();
    assert_eq!(failed.len(), 4);
    for row in failed {
        let error = "the command on side B ended with code 3 (bad luck)";
        assert_eq!(row["error"], error);
        assert_eq!(row["codes"][1], 3);
        assert!(row["said"]["b"]["n"].is_number());
    }

    // A run that is cut off is a result; a failed run is repeated.
    for (tries, cut_off) in [(1, 3), (2, 0)] {
        let told = programs(&["--json", "--only", "silent"]).fails(6, "3 runs failed");
        let told = told.json();
        assert_eq!(
            (&told["cut_off"], &told["skipped"]),
            (&cut_off.into(), &(3 - cut_off).into())
        );
        let rows = rows(results);
        let errors: Vec<_> = (rows[8..].iter())
            .map(|row| row["error"].as_str().unwrap())
            .collect();
        let with = |text: &str| errors.iter().filter(|error| error.contains(text)).count();
        assert_eq!(errors.len(), 3 + 3 * tries);
        assert_eq!(with("cut off after 0.2 s"), 3);
        assert_eq!(with("side B printed no JSON object"), 2 * tries);
        // Runs that were cut off report this too.
        assert_eq!(
            with("side A ended with code 9 (it said nothing)"),
            1 + tries
        );
    }
    assert_eq!(processes_with("98765.4"), [""; 0]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn programs_stop_after_a_run_when_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("rows.jsonl");
    let results = results.to_str().unwrap();
    let plan = "title = 'x'\n[[experiment]]\nname = 'e'\nscenario = 'loopback'\na = 'true'\n\
                b = 'sleep 0.3; echo {}'\nrepetitions = 4";
    let plan = write(folder.path(), "plan.toml", plan);
    let start = |more: &[&str]| {
        let args = ["testbed", "programs", &plan, "--results", results];
        Process::start([&args[..], more].concat())
    };
    let mut started = start(&[]);
    started.line("0/4 ");
    let Some(finished) = unless_impossible(started.interrupt().finish()) else {
        return;
    };
    // The current run is finished and recorded.
    finished.expect(143);
    let done = rows(results);
    assert!(!done.is_empty() && done.len() < 4, "{done:?}");
    assert!(
        done.iter().all(|row| row.get("error").is_none()),
        "{done:?}"
    );
    start(&["--quiet"]).finish().expect(0);
    let all = rows(results);
    assert_eq!((all.len(), &all[..done.len()]), (4, &done[..]));
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
