//! Tests of `transpute model` and `transpute plan`.

use std::{fs, path::Path};

use serde_json::Value;

use crate::process::{transpute, write};

/// Returns the path of recorded runs over TCP in the repository.
fn records(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/quick");
    format!("{folder}/{name}.jsonl")
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_model_is_fitted_shown_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model.json");
    let out_text = out.to_str().unwrap();
    let (grid, rtt) = (records("grid"), records("rtt"));
    let fit = [
        "model", "fit", &grid, &rtt, "--name", "grids", "--out", out_text,
    ];
    let table = transpute(fit).expect(0).stdout;
    assert!(table.starts_with("fitted to: grids ("), "{table}");
    for name in ["fitted", "unseen", "median", "rate_share"] {
        assert!(table.contains(name), "{name}: {table}");
    }
    let model = json(&out);
    let [fit_error, unseen_error] = ["fit", "held_out"].map(|part| {
        let goodness = &model["transports"]["tcp"][part];
        assert!(goodness["cells"].as_u64().unwrap() > 8, "{model}");
        goodness["median_error"].as_f64().unwrap()
    });
    // The records never change, so the errors of the fit are always the same.
    assert!(
        fit_error < 0.15 && unseen_error < 0.25,
        "{fit_error} {unseen_error}"
    );

    // The order of the files does not change the model.
    let again = folder.path().join("again.json");
    let again_text = again.to_str().unwrap();
    transpute([
        "model", "fit", &rtt, &grid, "--name", "grids", "--out", again_text,
    ])
    .expect(0);
    assert_eq!(json(&again), model);

    let shown = transpute(["model", "show", out_text]).expect(0).stdout;
    assert_eq!(shown, table);
    let shown = transpute(["model", "show", out_text, "--json"]).expect(0);
    assert_eq!(serde_json::from_str::<Value>(&shown.stdout).unwrap(), model);

    let args = [
        "--model",
        out_text,
        "--path",
        "eu-us",
        "--circuit",
        "aes128",
    ];
    let predicted = transpute(
        [
            &["model", "predict", "--json", "--bytes", "50000000"][..],
            &args,
        ]
        .concat(),
    );
    let predicted = predicted.expect(0).json();
    let seconds = |row: usize, transport: &str| {
        let ranking = predicted["rows"][row]["choice"]["ranking"]
            .as_array()
            .unwrap();
        let found = ranking
            .iter()
            .find(|ranked| ranked["transport"] == transport);
        found.unwrap()["seconds"].as_f64().unwrap()
    };
    for transport in ["tcp", "tcp-striped", "quic", "rudp"] {
        // The first workload takes two round trips of 110 ms, which are 220 ms. The second workload
        // sends 50 MB, which take 400 ms at 1 Gbit/s.
        assert!(seconds(0, transport) > 0.22, "{transport}: {predicted}");
        assert!(seconds(1, transport) > 0.4, "{transport}: {predicted}");
    }
}

#[test]
fn every_run_is_listed_as_fitted_or_held_out() {
    let args = ["model", "fit", &records("grid"), "--residuals", "--json"];
    let text = transpute(args).expect(0).stdout;
    let lines: Vec<Value> = (text.lines())
        .filter(|line| line.starts_with("{\"cell\""))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let held_out = lines
        .iter()
        .filter(|line| line["is_held_out"] == true)
        .count();
    assert!(held_out > 0 && held_out < lines.len(), "{text}");
    for one in &lines {
        // All runs of one cell belong to the same part, `fit` or `unseen`.
        let other = lines
            .iter()
            .find(|other| other["cell"] == one["cell"])
            .unwrap();
        assert_eq!(one["is_held_out"], other["is_held_out"]);
        assert!(one["predicted_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn the_included_model_prints_a_table() {
    let table = transpute(["model", "show"]).expect(0).stdout;
    assert!(table.contains("rudp") && table.contains("tcp"), "{table}");
    let table = transpute(["model", "predict", "--path", "eu-aus"])
        .expect(0)
        .stdout;
    for text in ["path: rtt 300 ms", "aes128", "mincut", "rudp", "sure"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let paper = [
        "model",
        "predict",
        "--path",
        "eu-aus",
        "--circuit",
        "mincut",
        "--paper",
    ];
    let table = transpute(paper).expect(0).stdout;
    assert!(table.contains("not window-based"), "{table}");
}

#[test]
fn invalid_models_and_paths_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.json");
    let missing = missing.to_str().unwrap();
    transpute(["model", "show", missing]).fails(3, "missing.json");
    let wrong = write(folder.path(), "wrong.json", "{\"format\":1}\n");
    transpute(["model", "show", &wrong]).fails(3, "wrong.json");
    let empty = write(folder.path(), "empty.jsonl", "");
    transpute(["model", "fit", &empty]).fails(1, "at least 10 cells");
    transpute(["model", "fit", &wrong]).fails(3, "not a record");
    transpute(["model", "predict", "--path", "atlantis"]).fails(2, "--path");
    transpute(["model", "predict", "--transports", "a b"]).fails(2, "--transports");
    transpute(["plan", "--path", "eu-us"]).fails(2, "required arguments");
}

#[test]
fn a_plan_counts_what_its_runs_cost() {
    let folder = tempfile::tempdir().unwrap();
    // This workload sends 1 GB, which takes one second at 8 Gbit/s.
    let work = write(
        folder.path(),
        "work.json",
        "{\"garbler\": \"listener\", \"garbler_bytes\": 1000000000, \"garbler_late_bytes\": 0, \"evaluator_bytes\": 0, \
         \"flights\": 1, \"serial_s\": 0, \"garble_s\": 0, \"evaluate_s\": 0}",
    );
    let args = ["plan", "--workload", &work, "--path", "eu-us", "--json"];
    let with = |more: &[&str]| transpute([&args[..], more].concat()).expect(0).json();
    let once = with(&["--price-per-gb", "0.2", "--price-per-hour", "3.6"]);
    let number = |plan: &Value, field: &str| plan[field].as_f64().unwrap();
    let seconds = number(&once, "seconds");
    assert!(seconds > 8.0, "{once}");
    // The price of traffic includes headers and retransmissions. Each of the two machines costs
    // 0.001 per second.
    let sent = number(&once, "garbler_bytes");
    assert!((1e9..1.2e9).contains(&sent), "{once}");
    let sent = (sent + number(&once, "evaluator_bytes")) / 1e9;
    assert!(
        (number(&once, "traffic_cost") - 0.2 * sent).abs() < 1e-6,
        "{once}"
    );
    assert!(
        (number(&once, "machine_cost") - 2e-3 * seconds).abs() < 1e-6,
        "{once}"
    );
    let often = with(&[
        "--price-per-gb",
        "0.2",
        "--price-per-hour",
        "3.6",
        "--runs",
        "50",
    ]);
    assert!((number(&often, "cost") / number(&once, "cost") - 50.0).abs() < 1e-6);
    let free = with(&[]);
    assert_eq!(number(&free, "cost"), 0.0);
    let text = transpute([
        "plan",
        "--circuit",
        "aes128",
        "--path",
        "eu-us",
        "--runs",
        "3",
    ]);
    assert!(
        text.expect(0).stdout.contains("transport: "),
        "the plan names no transport"
    );
}
