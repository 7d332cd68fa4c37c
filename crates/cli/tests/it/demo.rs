//! `transpute demo`.

use std::fs;

use crate::harness::{CIPHERTEXT, Process, SCHEMES, transpute};

#[test]
fn the_demo_checks_its_answer_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let demo = |args: &[&str]| {
        let args = ["demo"].iter().chain(args);
        let process = Process::start_with(args, |command| command.env("TMPDIR", folder.path()));
        let finished = process.finish();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        finished
    };
    let text = demo(&[]).expect(0).stdout;
    for fragment in [CIPHERTEXT, "6,400 AND", "32.000 per AND", "correct"] {
        assert!(text.contains(fragment), "{fragment}\n{text}");
    }
    let transport = (text.lines())
        .find(|line| line.starts_with("transport "))
        .unwrap();
    assert!(transport.contains(" (round trip "), "{transport}");
    assert!(transport.contains("; expected 0.0"), "{transport}");
    for scheme in SCHEMES {
        let json = demo(&["--json", "--scheme", scheme]).expect(0).json();
        assert_eq!(json["ok"], true);
        assert_eq!(json["computed"], CIPHERTEXT);
        assert_eq!(json["evaluator"]["scheme"], scheme);
        assert_eq!(json["garbler"]["encrypted"], true);
        // The evaluator connects, so it chooses.
        let selection = &json["evaluator"]["selection"];
        assert!(selection["predictions"].as_array().unwrap().len() >= 2);
        assert_eq!(json["garbler"]["selection"], serde_json::Value::Null);
    }
    let batch = ["--circuit", "sha256", "--batch", "20", "--threads", "2"];
    let json = demo(&[&batch[..], &["--transport", "tcp", "--plaintext", "--json"]].concat());
    let json = json.expect(0).json();
    assert_eq!(json["ok"], true);
    assert_eq!(json["evaluator"]["batch"], 20);
    assert_eq!(json["garbler"]["encrypted"], false);
    assert!(json["evaluator"]["mega_and_per_second"].as_f64() > Some(0.0));
    demo(&["--circuit", "sha257"]).fails(2, "did you mean");
    let named = demo(&["--transport", "quic"]).expect(0).stdout;
    assert!(named.contains("quic: asked for by name"), "{named}");
    demo(&["--transport", "smoke"]).fails(2, "--transport");
    demo(&["--batch", "0"]).fails(2, "must be at least 1");
}

#[test]
fn more_logging_is_that_of_both_parties() {
    let quiet = transpute(["demo"]).expect(0);
    assert_eq!(quiet.stderr, "");
    let logging = transpute(["demo", "-v"]).expect(0).stderr;
    for party in ["garbler: ", "evaluator: "] {
        let lines: Vec<_> = (logging.lines())
            .filter(|line| line.starts_with(party))
            .collect();
        assert!(lines.iter().any(|line| line.contains("INFO")), "{logging}");
        assert!(
            !lines.iter().any(|line| line.contains("DEBUG")),
            "{logging}"
        );
    }
    let more = transpute(["demo", "-vv"]).expect(0).stderr;
    assert!(more.lines().count() > logging.lines().count(), "{more}");
}
