//! How fast the machine is: `--machine-cache`, what a peer says, and plans for a path that is measured.

use std::{fs, path::Path};

use serde_json::Value;

use crate::harness::{CIPHERTEXT, Finished, KEYS, Process, aes, meet, transpute, write};

/// The flags by which the evaluator reaches the garbler.
fn keys() -> Vec<&'static str> {
    let identity = KEYS.evaluator.path.to_str().unwrap();
    vec!["--identity", identity, "--peer", &KEYS.garbler.fingerprint]
}

/// A plan of a circuit that takes longer than 100 ms on a typical machine: 7,000 times 6,400 AND gates.
fn plan(more: &[&str]) -> Finished {
    let work = ["--circuit", "aes128", "--batch", "7000", "--path", "eu-us"];
    transpute([&["plan", "--json"], &work[..], more].concat()).expect(0)
}

fn computing(answer: &Value) -> (f64, f64) {
    let work = &answer["workload"];
    (
        work["garble_s"].as_f64().unwrap(),
        work["evaluate_s"].as_f64().unwrap(),
    )
}

#[test]
fn a_machine_is_measured_once_and_only_for_work_that_is_worth_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new/machine.json");
    let cache = ["--machine-cache", file.to_str().unwrap()];
    let small = ["plan", "--circuit", "aes128", "--path", "eu-us"];
    transpute([&small[..], &cache].concat()).expect(0);
    assert!(!file.exists());

    let typical = computing(&plan(&["--machine-cache", "none"]).json());
    // 13 ns for each of the AND gates, 1.4 ns for each of the XOR gates, and 2.3 ns for each byte of the tables.
    assert!((4.0..4.4).contains(&typical.0), "{typical:?}");
    assert!(!Path::new("none").exists());

    let first = computing(&plan(&cache).json());
    let kept = fs::read_to_string(&file).unwrap();
    let json: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(json["format"], 1);
    assert_eq!(json["machines"][0]["scheme"], "half-gates");
    assert_eq!(json["machines"].as_array().unwrap().len(), 1);
    assert_eq!(computing(&plan(&cache).json()), first);
    assert_eq!(fs::read_to_string(&file).unwrap(), kept);
    // Each scheme has figures of its own.
    plan(&[&cache[..], &["--scheme", "prf"]].concat());
    let json: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(json["machines"].as_array().unwrap().len(), 2);

    // What the file says is what counts, small work or not.
    let garbling = &serde_json::to_string(&json["machines"][0]["figures"]["garble_and_s"]).unwrap();
    fs::write(&file, kept.replace(garbling, "0.001")).unwrap();
    let slow = transpute([&small[..], &cache, &["--json"]].concat()).expect(0);
    assert!((6.4..6.5).contains(&computing(&slow.json()).0));

    // A file that is none is measured for again, and replaced.
    for damaged in [&kept[..kept.len() / 2], &kept.replace(garbling, "7")] {
        fs::write(&file, damaged).unwrap();
        let finished = plan(&cache);
        assert!(
            finished.stderr.contains("ignoring the file"),
            "{}",
            finished.stderr
        );
        let json: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(json["machines"].as_array().unwrap().len(), 1);
    }
    // One that cannot be written is none either.
    let finished = plan(&["--machine-cache", folder.path().to_str().unwrap()]);
    assert!(
        finished.stderr.contains("cannot keep"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_user_without_a_home_has_no_file_but_a_plan() {
    let run = |name: &str, value: &str| {
        let work = ["--circuit", "aes128", "--batch", "7000", "--path", "eu-us"];
        let args = [&["plan"], &work[..]].concat();
        let process = Process::start_with(args, |command| {
            command
                .env_remove("XDG_CACHE_HOME")
                .env_remove("HOME")
                .env(name, value)
        });
        process.finish().expect(0)
    };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    run("HOME", "");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    run("HOME", home);
    assert!(folder.path().join(".cache/transpute/machine.json").exists());
    run("XDG_CACHE_HOME", home);
    assert!(folder.path().join("transpute/machine.json").exists());
}

#[test]
fn a_run_takes_what_both_machines_were_found_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.json");
    plan(&["--machine-cache", file.to_str().unwrap()]);
    let kept = fs::read_to_string(&file).unwrap();
    let json: Value = serde_json::from_str(&kept).unwrap();
    let figure = |name: &str| {
        let figure = &json["machines"][0]["figures"][name];
        serde_json::to_string(figure).unwrap()
    };
    let slow = kept.replace(
        &format!("\"garble_and_s\":{}", figure("garble_and_s")),
        "\"garble_and_s\":0.001",
    );
    let slow = write(folder.path(), "slow.json", &slow);
    let slower = kept.replace(
        &format!("\"evaluate_and_s\":{}", figure("evaluate_and_s")),
        "\"evaluate_and_s\":0.002",
    );
    let slower = write(folder.path(), "slower.json", &slower);
    let [garbler, evaluator] = aes();
    let garbler = garbler.and(["--machine-cache", &slow]);
    let evaluator = evaluator.and(["--machine-cache", &slower]);
    let [garbler, evaluator] = meet(garbler, evaluator).map(|party| party.expect(0));
    assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
    assert_eq!(garbler.json()["selection"], Value::Null);
    let (garbling, evaluating) = computing(&evaluator.json()["selection"]);
    assert!((6.4..6.5).contains(&garbling), "{garbling}");
    assert!((12.8..12.9).contains(&evaluating), "{evaluating}");
}

#[test]
fn a_plan_takes_a_path_that_is_measured_or_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.json");
    let cache = ["--machine-cache", file.to_str().unwrap()];
    let identity = KEYS.garbler.path.to_str().unwrap();
    let responder = ["probe", "--listen", "127.0.0.1:0", "--identity", identity];
    let peer = ["--peer", &KEYS.evaluator.fingerprint];
    let mut responder = Process::start([&responder[..], &peer, &cache].concat());
    let address = responder.listening_on();

    let probe = ["probe", &address, "--circuit", "aes128", "--json"];
    let probed = transpute([&probe[..], &keys(), &cache].concat()).expect(0);
    let answer = probed.json();
    // Both have the same file: the one knew its machine before it was asked, and the other reads it.
    let (ours, theirs) = (&answer["machine"], &answer["peer_machine"]);
    assert!(ours["garble_and_s"].as_f64().unwrap() > 0.0);
    let said = theirs["garble_and_s"].as_f64().unwrap();
    // Said in whole picoseconds.
    assert!((said - ours["garble_and_s"].as_f64().unwrap()).abs() < 1e-12);
    let (garbling, _) = computing(&answer["rows"][0]);
    assert!(garbling > 6400.0 * 0.99 * said, "{garbling}");
    let text = transpute([&probe[..4], &keys(), &cache].concat())
        .expect(0)
        .stdout;
    assert!(
        text.contains("computing: ") && text.contains(" ns per AND gate here"),
        "{text}"
    );

    let known = write(folder.path(), "path.json", &probed.stdout);
    let plan = ["plan", "--circuit", "aes128", "--json"];
    let later = transpute([&plan[..], &["--path", &known]].concat()).expect(0);
    assert_eq!(later.json()["path"], answer["path"]);

    let measured = [&plan[..], &["--path", "measured", "--connect", &address]].concat();
    let now = transpute([&measured[..], &keys(), &cache].concat())
        .expect(0)
        .json();
    assert_eq!(now["path"]["udp"], "passes");
    assert!(now["path"]["rtt"]["min_s"].as_f64().unwrap() < 1.0);
    let one = ["--transports", "rudp"];
    let one = transpute([&measured[..], &keys(), &one].concat())
        .expect(0)
        .json();
    assert_eq!(one["transport"], "rudp");

    let without = |more: &[&str]| transpute([&plan[..], more].concat());
    without(&["--path", "measured"]).fails(2, "needs --connect ADDR");
    without(&["--path", "measured", "--connect", &address]).fails(2, "--identity FILE and --peer");
    let known = ["--path", "eu-us"];
    let contradiction = [&known[..], &["--connect", &address]].concat();
    without(&contradiction).fails(2, "--connect contradicts --path eu-us");
    for unused in [&keys()[..], &["--plaintext"]] {
        let planned = without(&[&known[..], unused].concat()).expect(0);
        let warning = format!(
            "warning: {} has no effect: only --path measured uses it\n",
            unused[0]
        );
        assert_eq!(planned.stderr, warning);
    }
    let nobody = [
        "--path",
        "measured",
        "--connect",
        "127.0.0.1:1",
        "--plaintext",
    ];
    without(&nobody).fails(4, "127.0.0.1:1");
    let wrong = write(
        folder.path(),
        "wrong.json",
        "{\"path\": {\"rtt\": {\"min_s\": -1}}}",
    );
    without(&["--path", &wrong]).fails(3, "rtt.min_s");
    drop(responder);
}
