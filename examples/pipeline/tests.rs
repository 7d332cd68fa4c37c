//! Both parties, as processes and in one.

use clap::Parser;

use crate::Args;

#[path = "../processes.rs"]
#[expect(dead_code, reason = "other examples also read JSON and write files")]
mod processes;

use processes::{Ended, Keys, act};

/// The process that other tests start.
#[test]
#[ignore = "child of two_processes_compute_over_every_transport"]
fn party_process() {
    act(|arguments| async {
        let args = Args::try_parse_from(["pipeline".to_owned()].into_iter().chain(arguments))?;
        crate::run(args).await
    });
}

/// Returns the times that a party printed, by what they are of.
fn reported(ended: &Ended) -> Vec<&str> {
    assert!(ended.status.success(), "{ended:?}");
    (ended.stdout.lines())
        .filter_map(|line| line.split_once(": ")?.1.strip_suffix(" ms"))
        .map(|line| line.rsplit_once(' ').unwrap().0.trim())
        .collect()
}

#[test]
fn two_processes_compute_over_every_transport() {
    let keys = Keys::new();
    for transport in ["auto", "tcp", "tcp-striped", "quic", "rudp"] {
        let common = [
            "--transport",
            transport,
            "--prepare",
            "min-of-candidates:10x20",
        ];
        // Only the connecting side says how many.
        let connecting = [&["--runs", "7", "--wait", "5"], &common[..]].concat();
        for ended in keys.meet(&common, &connecting) {
            assert_eq!(
                reported(&ended),
                [
                    "connected",
                    "first AES-128",
                    "warm AES-128",
                    "warm AES-128",
                    "warm AES-128",
                    "warm AES-128",
                    "warm AES-128",
                    "7 AES-128 at once",
                    "prepared 360 AND gates",
                    "output, from the inputs",
                ],
                "{transport}"
            );
        }
    }
}

#[test]
fn the_larger_number_of_runs_counts() {
    let keys = Keys::new();
    let common = ["--transport", "tcp", "--prepare", "min-of-candidates:10x20"];
    let listening = [&["--runs", "9"], &common[..]].concat();
    let connecting = [&["--runs", "3", "--wait", "5"], &common[..]].concat();
    for ended in keys.meet(&listening, &connecting) {
        assert!(reported(&ended).contains(&"9 AES-128 at once"));
    }
}

#[test]
fn different_circuits_are_a_clear_error_on_both_sides() {
    let keys = Keys::new();
    let arguments = |circuit| ["--transport", "tcp", "--wait", "5", "--prepare", circuit];
    let parties = keys.meet(
        &arguments("min-of-candidates:10x20"),
        &arguments("min-of-candidates:11x20"),
    );
    for ended in parties {
        let complaint = ended.complaint();
        assert!(complaint.contains("circuit"), "{complaint}");
    }
}

#[tokio::test]
async fn both_parties_run_in_one_program() {
    for transport in ["auto", "quic"] {
        let arguments = ["pipeline", "--runs", "2", "--transport", transport];
        let small = ["--prepare", "min-of-candidates:10x20"];
        let args = Args::try_parse_from(arguments.into_iter().chain(small)).unwrap();
        crate::run(args).await.unwrap();
    }
}
