//! The choice of a transport: `transpute probe`, and the choice in `transpute run`.

use serde_json::Value;

use crate::harness::{CIPHERTEXT, Finished, KEYS, Party, Process, aes, meet, transpute, write};

/// The flags with which the evaluator reaches the garbler.
fn keys() -> Vec<&'static str> {
    let identity = KEYS.evaluator.path.to_str().unwrap();
    vec!["--identity", identity, "--peer", &KEYS.garbler.fingerprint]
}

fn names(list: &Value) -> Vec<&str> {
    (list.as_array().unwrap().iter())
        .map(|entry| entry["transport"].as_str().unwrap())
        .collect()
}

#[test]
fn the_party_that_connects_says_how_it_chose() {
    let [_, evaluator] = meet_aes(&[], &[]);
    assert_eq!(evaluator["selection"]["chooser"], "rule");
    let [garbler, evaluator] = meet_aes(&[], &["--chooser", "model"]);
    assert_eq!(garbler["selection"], Value::Null);
    assert_eq!(garbler["transport"], evaluator["transport"]);
    let selection = &evaluator["selection"];
    assert_eq!(selection["chooser"], "model");
    assert_eq!(selection["reason"], evaluator["transport_reason"]);
    let predictions = names(&selection["predictions"]);
    assert_eq!(predictions[0], selection["transport"].as_str().unwrap());
    for name in ["tcp", "tcp-striped", "quic", "rudp"] {
        assert!(predictions.contains(&name), "{predictions:?}");
    }
    assert!((0.0..=1.0).contains(&selection["confidence"].as_f64().unwrap()));
    assert!(selection["decided_after_ms"].as_f64().unwrap() > 0.0);
    assert!(selection["path"]["rtt"]["min_s"].as_f64().unwrap() > 0.0);
    assert_eq!(selection["failed"], Value::Array(Vec::new()));

    let [_, evaluator] = meet_aes(&["--offer", "quic"], &["--chooser", "paper"]);
    assert_eq!(evaluator["selection"]["chooser"], "paper");
    assert_eq!(names(&evaluator["selection"]["predictions"]), ["quic"]);
    assert_eq!(evaluator["transport"], "quic");
}

fn meet_aes(listening: &[&str], connecting: &[&str]) -> [Value; 2] {
    let [garbler, evaluator] = aes();
    let garbler = garbler.and(listening.iter().copied());
    let evaluator = evaluator.and(connecting.iter().copied());
    let [garbler, evaluator] = meet(garbler, evaluator).map(|party| party.expect(0));
    assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
    [garbler.json(), evaluator.json()]
}

#[test]
fn a_listening_run_goes_on_after_it_was_probed() {
    let [garbler, evaluator] = aes();
    let (garbler, address) = garbler.listen();
    let probe = |more: &[&str]| {
        let start = ["probe", &address, "--circuit", "add:8,mincut"];
        transpute([&start[..], &keys(), more].concat()).expect(0)
    };
    let json = probe(&["--json"]).json();
    assert_eq!(json["address"], address.as_str());
    assert_eq!(json["path"]["udp"], "passes");
    let rows = json["rows"].as_array().unwrap();
    let circuits: Vec<_> = rows.iter().map(|row| row["name"].clone()).collect();
    assert_eq!(circuits, ["add:8", "mincut"]);
    assert!(names(&rows[1]["choice"]["ranking"]).len() >= 4);
    let text = probe(&["--garbler-connects", "--scheme", "prf"]).stdout;
    for fragment in [
        "path: rtt ",
        "mincut",
        " sure",
        "tcp-striped",
        "measured within",
    ] {
        assert!(text.contains(fragment), "{fragment}\n{text}");
    }
    let evaluator = evaluator.connect(&address);
    assert_eq!(evaluator.finish().expect(0).outputs(), [CIPHERTEXT]);
    garbler.finish().expect(0);
}

#[test]
fn a_responder_is_probed_and_ends_on_a_signal() {
    let identity = KEYS.garbler.path.to_str().unwrap();
    let start = |more: &[&str]| {
        let args = ["probe", "--listen", "127.0.0.1:0", "--identity", identity];
        let peer = ["--peer", &KEYS.evaluator.fingerprint];
        let mut process = Process::start([&args[..], &peer, more].concat());
        let address = process.listening_on();
        (process, address)
    };
    let (responder, address) = start(&["--once", "--offer", "tcp,rudp"]);
    let probe = ["probe", &address, "--circuit", "aes128", "--json"];
    let json = transpute([&probe[..], &keys()].concat()).expect(0).json();
    let choice = &json["rows"][0]["choice"];
    assert!(!names(&choice["ranking"]).contains(&"quic"));
    assert!(choice["excluded"].to_string().contains("does not offer it"));
    responder.finish().expect(0);

    // The responder serves only probes. A party that connects to compute fails, and the responder
    // prints its address.
    let (mut responder, address) = start(&[]);
    let [_, evaluator] = aes();
    let failed = evaluator.connect(&address).finish();
    assert!(matches!(failed.code, Some(4 | 6)), "{}", failed.stderr);
    responder.line("127.0.0.1:");
    // The responder refuses a peer whose key it has not pinned.
    let stranger = KEYS.stranger.path.to_str().unwrap();
    let garbler = &KEYS.garbler.fingerprint;
    let unknown = ["probe", &address, "--identity", stranger, "--peer", garbler];
    transpute(unknown).fails(4, "refused our identity");
    drop(responder);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let [garbler, evaluator] = aes();
    for (party, flags, complaint) in [
        (
            evaluator.clone(),
            &["--connect", "127.0.0.1:1", "--offer", "tcp"][..],
            "--offer contradicts --connect",
        ),
        (
            garbler,
            &[
                "--listen",
                "127.0.0.1:0",
                "--offer",
                "tcp",
                "--transport",
                "rudp",
            ],
            "--offer contradicts --transport rudp",
        ),
        (
            evaluator.clone(),
            &["--connect", "127.0.0.1:1", "--plaintext"],
            "cannot be used with '--plaintext'",
        ),
        (
            evaluator,
            &[
                "--connect",
                "127.0.0.1:1",
                "--repeat",
                "2",
                "--batch-file",
                "x",
            ],
            "cannot be used with",
        ),
    ] {
        let Party(args) = party.and(flags.iter().copied());
        transpute(args).fails(2, complaint);
    }
    transpute(["probe", "--listen", "127.0.0.1:0", "--offer", "udp"]).expect(2);
    let offering = ["probe", "127.0.0.1:1", "--plaintext", "--offer", "tcp"];
    transpute(offering).fails(2, "--offer contradicts an address");
    transpute(["probe"]).expect(2);
    transpute(["probe", "127.0.0.1:1"]).fails(2, "--identity FILE and --peer");
    transpute(["probe", "127.0.0.1:1", "--plaintext", "--circuit", "smoke"]).fails(2, "--circuit");
    transpute(["probe", "127.0.0.1:1", "--plaintext"]).fails(4, "127.0.0.1:1");
}

#[test]
fn options_without_effect_cause_a_warning() {
    let warned = |finished: &Finished, flags: &[&str]| {
        for flag in flags {
            let warning = format!("warning: {flag} has no effect: only ");
            let count = finished.stderr.matches(&warning).count();
            assert_eq!(count, 1, "{flag}\n{}", finished.stderr);
        }
        let count = finished.stderr.matches("warning: ").count();
        assert_eq!(count, flags.len(), "{}", finished.stderr);
    };
    let [garbler, evaluator] = aes();
    let named = ["--transport", "tcp"];
    let choosing = ["--chooser", "paper"];
    let parties = meet(
        garbler.clone().and(choosing),
        evaluator.clone().and(["--pipeline", "2"]),
    );
    let parties = parties.map(|party| party.expect(0));
    warned(&parties[0], &["--chooser"]);
    warned(&parties[1], &["--pipeline"]);

    let garbler = garbler.and(named).and(["--repeat", "2"]);
    let evaluator = (evaluator.and(named).and(choosing)).and(["--repeat", "2", "--threads", "2"]);
    let parties = meet(garbler, evaluator.clone()).map(|party| party.expect(0));
    warned(&parties[0], &[]);
    warned(&parties[1], &["--chooser", "--threads"]);

    let silent = evaluator.and(["--quiet", "--connect", "127.0.0.1:1", "--patience", "0"]);
    warned(&transpute(silent.0).expect(4), &[]);

    let once = ["probe", "127.0.0.1:1", "--plaintext", "--once"];
    warned(&transpute(once).expect(4), &["--once"]);
    let list = ["circuit", "generate", "--list", "--to", "old"];
    warned(&transpute(list).expect(0), &["--to"]);
}

#[test]
fn a_plan_takes_a_path_that_is_measured_or_was() {
    let folder = tempfile::tempdir().unwrap();
    let identity = KEYS.garbler.path.to_str().unwrap();
    let responder = ["probe", "--listen", "127.0.0.1:0", "--identity", identity];
    let peer = ["--peer", &KEYS.evaluator.fingerprint];
    let mut responder = Process::start([&responder[..], &peer].concat());
    let address = responder.listening_on();

    let probe = ["probe", &address, "--circuit", "aes128", "--json"];
    let probed = transpute([&probe[..], &keys()].concat()).expect(0);
    let known = write(folder.path(), "path.json", &probed.stdout);
    let plan = ["plan", "--circuit", "aes128", "--json"];
    let later = transpute([&plan[..], &["--path", &known]].concat()).expect(0);
    assert_eq!(later.json()["path"], probed.json()["path"]);

    let measured = [&plan[..], &["--path", "measured", "--connect", &address]].concat();
    let now = transpute([&measured[..], &keys()].concat())
        .expect(0)
        .json();
    assert_eq!(now["path"]["udp"], "passes");
    assert!(now["path"]["rtt"]["min_s"].as_f64().unwrap() < 1.0);
    let one = ["--transports", "quic"];
    let one = transpute([&measured[..], &keys(), &one].concat())
        .expect(0)
        .json();
    assert_eq!(one["transport"], "quic");

    let without = |more: &[&str]| transpute([&plan[..], more].concat());
    without(&["--path", "measured"]).fails(2, "needs --connect ADDR");
    without(&["--path", "measured", "--connect", &address]).fails(2, "--identity FILE and --peer");
    let known = ["--path", "eu-us"];
    let contradiction = [&known[..], &["--connect", &address]].concat();
    without(&contradiction).fails(2, "--connect contradicts --path eu-us");
    without(&["--path", "eu-us", "--price-per-gb", "-1"]).expect(2);
    for unused in [&keys()[..], &["--plaintext"]] {
        let planned = without(&[&known[..], unused].concat()).expect(0);
        let warning = format!(
            "warning: {} has no effect: only --path measured uses it\n",
            unused[0]
        );
        assert_eq!(planned.stderr, warning);
    }
    let unreachable = [
        "--path",
        "measured",
        "--connect",
        "127.0.0.1:1",
        "--plaintext",
    ];
    without(&unreachable).fails(4, "127.0.0.1:1");
    for text in [
        "{\"path\": {\"rtt\": {\"min_s\": -1}}}",
        "{\"rtt\": {\"min_s\": -1}}",
    ] {
        let wrong = write(folder.path(), "wrong.json", text);
        without(&["--path", &wrong]).fails(3, "rtt.min_s");
    }
    drop(responder);
}
