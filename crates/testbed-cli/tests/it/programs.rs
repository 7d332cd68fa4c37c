//! Tests of `transpute testbed exec` and `transpute testbed programs`.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    process::{Process, write},
    testbed::{processes_with, records, unless_impossible},
};

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
    let quick = records(results);
    assert_eq!(quick.len(), 2);
    for (record, n) in quick.iter().zip(1..) {
        assert_eq!(record["variables"]["n"], n);
        let said = serde_json::json!({"n": n, "run": 0, "to": "10.77.0.1"});
        assert_eq!(record["said"]["b"], said);
        let peer = record["said"]["a"]["peer"].as_str().unwrap();
        assert!(peer.starts_with("sha256:"), "{record}");
        assert_eq!(record["codes"], serde_json::json!([0, 0]));
        assert_eq!(record["scenario"]["up"]["delay_ms"], 10.0);
        assert!(record.get("error").is_none() && record["seconds"].is_number());
    }

    // The full matrix includes the cells of the quick one. Failed runs are recorded too.
    programs(&["--quiet", "--only", "said"]).fails(6, "4 runs failed");
    let all = records(results);
    assert_eq!((all.len(), &all[..2]), (8, &quick[..]));
    let failed: Vec<_> = all
        .iter()
        .filter(|record| record["error"].is_string())
        .collect();
    assert_eq!(failed.len(), 4);
    for record in failed {
        let error = "the command on side B ended with code 3 (bad luck)";
        assert_eq!(record["error"], error);
        assert_eq!(record["codes"][1], 3);
        assert!(record["said"]["b"]["n"].is_number());
    }

    // A run that was cut off is a result and is not repeated. A failed run is repeated.
    for (tries, cut_off) in [(1, 3), (2, 0)] {
        let told = programs(&["--json", "--only", "silent"]).fails(6, "3 runs failed");
        let told = told.json();
        assert_eq!(
            (&told["cut_off"], &told["skipped"]),
            (&cut_off.into(), &(3 - cut_off).into())
        );
        let records = records(results);
        let errors: Vec<_> = (records[8..].iter())
            .map(|record| record["error"].as_str().unwrap())
            .collect();
        let with = |text: &str| errors.iter().filter(|error| error.contains(text)).count();
        assert_eq!(errors.len(), 3 + 3 * tries);
        assert_eq!(with("cut off after 0.2 s"), 3);
        assert_eq!(with("side B printed no JSON object"), 2 * tries);
        // The record of a run that was cut off contains this error too.
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
    let done = records(results);
    assert!(!done.is_empty() && done.len() < 4, "{done:?}");
    assert!(
        done.iter().all(|record| record.get("error").is_none()),
        "{done:?}"
    );
    start(&["--quiet"]).finish().expect(0);
    let all = records(results);
    assert_eq!((all.len(), &all[..done.len()]), (4, &done[..]));
}
