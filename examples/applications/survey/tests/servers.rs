//! Tests of two servers, most of them as processes.

use std::fs;

use transpute::{Role, select::End};

use super::{
    processes::{Ended, Keys, text},
    survey,
};
use crate::{
    file::{Shares, read_answers},
    histogram::Bins,
    tally,
};

#[test]
fn the_traffic_is_that_of_the_workload() {
    let keys = Keys::new();
    let plain = text(&keys.file("answers.csv"));
    survey(&["generate", &plain, "--rows", "900", "--columns", "4"]).unwrap();
    survey(&["split", &plain]).unwrap();
    let ended = meet(
        &keys,
        "histogram",
        &plain,
        &["--choices", "5", "--transport", "tcp", "--json"],
    );
    let [garbler, evaluator] = ended.each_ref().map(Ended::json);
    let bins = Bins::choices(5, 3).unwrap();
    let party = tally::party(Role::Garbler, tally::program(&bins, 900).unwrap(), 4);
    let computation = party.computation(End::Listener).unwrap();
    let expected = computation.traffic();
    let sent = |said: &serde_json::Value| said["frame_bytes_sent"].as_u64().unwrap();
    let (garbler, evaluator) = (sent(&garbler), sent(&evaluator));
    // The number of oblivious transfers that the evaluator requests depends on timing. So the
    // garbler's bytes vary.
    assert!(
        (expected.min_garbler_bytes..=expected.max_garbler_bytes).contains(&garbler),
        "{expected:?}, {garbler} sent"
    );
    // The evaluator chooses the OT extension by the measured path. The length of its requests
    // depends on this choice.
    let off = evaluator.abs_diff(expected.evaluator_bytes);
    assert!(
        off * 20 < garbler + evaluator,
        "{expected:?}, {evaluator} sent"
    );
}

/// Compares the plan of the survey in docs/selection.md with its circuit.
#[test]
fn the_documented_plan_matches_the_circuit() {
    let bins = Bins::choices(5, 3).unwrap();
    let party = tally::party(Role::Garbler, tally::program(&bins, 5000).unwrap(), 20);
    let workload = party.workload(End::Listener).unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/selection.md");
    let page = fs::read_to_string(page).unwrap();
    let start = page.find("{\"garbler\":\"listener\"").unwrap();
    let mut planned = serde_json::Deserializer::from_str(&page[start..]).into_iter();
    let planned: serde_json::Value = planned.next().unwrap().unwrap();
    assert_eq!(planned["garbler_bytes"], workload.garbler_bytes);
    assert_eq!(planned["garbler_late_bytes"], workload.garbler_late_bytes);
    assert_eq!(planned["evaluator_bytes"], workload.evaluator_bytes);
    assert_eq!(planned["flights"], workload.flights);
}

/// Runs both servers as processes, with the files of shares `plain`.a and `plain`.b. The garbler
/// listens.
fn meet(keys: &Keys, command: &str, plain: &str, flags: &[&str]) -> [Ended; 2] {
    let files = [format!("{plain}.a"), format!("{plain}.b")];
    let arguments = |file, role| [&[command, file, "--role", role], flags].concat();
    let ended = keys.meet(
        &arguments(&files[0], "garbler"),
        &[arguments(&files[1], "evaluator"), vec!["--wait", "5"]].concat(),
    );
    assert!(
        ended.iter().all(|ended| ended.status.success()),
        "{ended:?}"
    );
    ended
}

#[test]
fn two_processes_count_histograms() {
    let keys = Keys::new();
    let plain = text(&keys.file("numbers.csv"));
    survey(&[
        "generate",
        &plain,
        "--rows",
        "60",
        "--columns",
        "3",
        "--values",
        "256",
        "--seed",
        "9",
    ])
    .unwrap();
    survey(&["split", &plain, "--values", "256"]).unwrap();
    let flags = ["--bounds", "51,102,153,204", "--expect", &plain, "--json"];
    let [garbler, evaluator] = meet(&keys, "histogram", &plain, &flags);
    let (garbler, evaluator) = (garbler.json(), evaluator.json());
    assert_eq!(garbler["histograms"], evaluator["histograms"]);
    assert_eq!(
        (&garbler["correct"], &garbler["variant"]),
        (&true.into(), &"range".into())
    );
    let bins = Bins::ranges(vec![51, 102, 153, 204], 8).unwrap();
    let answers = read_answers(plain.as_ref(), 8, 256).unwrap();
    let expected: Vec<Vec<u64>> = (0..3)
        .map(|question| bins.plain(&answers, question))
        .collect();
    assert_eq!(
        garbler["histograms"],
        serde_json::to_value(expected).unwrap()
    );
    // One party's shares alone give a different histogram.
    let alone = Shares::open(format!("{plain}.a").as_ref()).unwrap();
    assert_ne!(bins.plain(&alone.table, 0), bins.plain(&answers, 0));
}

#[test]
fn two_processes_find_frequent_itemsets() {
    let keys = Keys::new();
    let plain = text(&keys.file("baskets.csv"));
    survey(&[
        "generate",
        &plain,
        "--baskets",
        "--rows",
        "80",
        "--columns",
        "8",
        "--seed",
        "4",
    ])
    .unwrap();
    survey(&["split", &plain, "--values", "2"]).unwrap();
    for flags in [
        &["--support", "14"][..],
        &["--support", "14", "--supports", "--largest", "2"],
    ] {
        let flags = [flags, &["--expect", &plain, "--json"]].concat();
        let [garbler, evaluator] = meet(&keys, "itemsets", &plain, &flags);
        let (garbler, evaluator) = (garbler.json(), evaluator.json());
        assert_eq!(garbler["frequent"], evaluator["frequent"]);
        assert_eq!(garbler["correct"], true);
        // The test is meaningful only if frequent sets have more than one size.
        let sizes: Vec<usize> = (garbler["frequent"].as_array().unwrap().iter())
            .map(|one| one["items"].as_array().unwrap().len())
            .collect();
        assert!(sizes.contains(&1) && sizes.contains(&2), "{sizes:?}");
        assert_eq!(evaluator["bytes_received"], garbler["bytes_sent"]);
    }
}

#[test]
fn shares_of_different_tables_are_detected() {
    let keys = Keys::new();
    let plain = text(&keys.file("answers.csv"));
    survey(&["generate", &plain, "--rows", "20", "--columns", "2"]).unwrap();
    survey(&["split", &plain]).unwrap();
    let first = format!("{plain}.a");
    // Splitting again gives shares with another table number.
    survey(&["split", &plain, "--one", &text(&keys.file("new.a"))]).unwrap();
    let said = survey(&["histogram", &first, &format!("{plain}.b"), "--choices", "5"]);
    assert_eq!(
        said.unwrap_err(),
        "the peer has shares of a different table"
    );
}

#[test]
fn servers_with_different_thresholds_fail() {
    let keys = Keys::new();
    let plain = text(&keys.file("baskets.csv"));
    survey(&[
        "generate",
        &plain,
        "--baskets",
        "--rows",
        "30",
        "--columns",
        "4",
    ])
    .unwrap();
    survey(&["split", &plain, "--values", "2"]).unwrap();
    let (one, other) = (format!("{plain}.a"), format!("{plain}.b"));
    for ended in keys.meet(
        &["itemsets", &one, "--support", "3", "--role", "garbler"],
        &[
            "itemsets",
            &other,
            "--support",
            "4",
            "--role",
            "evaluator",
            "--wait",
            "5",
        ],
    ) {
        let complaint = ended.complaint();
        assert!(complaint.contains("circuit"), "{complaint}");
    }
}

#[test]
fn invalid_arguments_are_reported_on_one_line() {
    let keys = Keys::new();
    let plain = text(&keys.file("answers.csv"));
    let (one, other) = (format!("{plain}.a"), format!("{plain}.b"));
    survey(&["generate", &plain, "--rows", "20", "--columns", "2"]).unwrap();
    survey(&["split", &plain]).unwrap();
    for (arguments, expected) in [
        (
            &["histogram", &one, &other, "--choices", "9"][..],
            "expected shares of 4 bits for 9 choices, found 3",
        ),
        (
            &["histogram", &one, &other, "--bounds", "8"],
            "bounds must be ascending",
        ),
        (
            &["histogram", &one, "--choices", "5"],
            "expected two files of shares",
        ),
        (
            &["itemsets", &one, &other, "--support", "3"],
            "expected shares of 1 bit per item, found 3",
        ),
        (
            &["histogram", &plain, &other, "--choices", "5"],
            "answers.csv:1: expected the first line",
        ),
        (
            &["generate", &plain, "--rows", "99999999999"],
            "found 1999999999980",
        ),
        (
            &["workload", "--rows", "16777216", "--choices", "5"],
            "a question needs",
        ),
        (
            &["histogram", &one, &other],
            "error: the following required arguments were not provided",
        ),
    ] {
        let said = survey(arguments).unwrap_err();
        assert!(said.contains(expected), "{said}");
    }
    let wrong = "histograms differ from those of the plain answers";
    let others = text(&keys.file("others.csv"));
    survey(&[
        "generate",
        &others,
        "--rows",
        "20",
        "--columns",
        "2",
        "--seed",
        "2",
    ])
    .unwrap();
    let said = survey(&[
        "histogram",
        &one,
        &other,
        "--choices",
        "5",
        "--expect",
        &others,
    ]);
    assert!(said.unwrap_err().contains(wrong));
}
