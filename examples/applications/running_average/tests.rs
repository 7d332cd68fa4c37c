//! Tests of the program, with each party as a separate process and with both in one process.

use clap::Parser;

use crate::{Cli, circuit::Opened, distances::random, rounds::Rounds};

#[path = "../processes.rs"]
mod processes;

use processes::{Keys, act, text};

/// Runs one party in a child process that another test starts. This is not a test by itself.
#[test]
#[ignore = "child of two_processes_keep_the_average_on_every_transport"]
fn party_process() {
    act(|arguments| async {
        let cli = Cli::try_parse_from(["running_average".to_owned()].into_iter().chain(arguments))?;
        crate::run(cli).await
    });
}

fn expected_sum(seed: u64, rounds: usize) -> u64 {
    random(seed, rounds)
        .iter()
        .map(|&distance| u64::from(distance))
        .sum()
}

#[test]
fn two_processes_keep_the_average_on_every_transport() {
    let keys = Keys::new();
    for (transport, rounds, batch, open) in [
        ("auto", "30", "1", "round"),
        ("tcp", "30", "7", "round"),
        ("tcp-striped", "20", "20", "batch"),
        ("quic", "30", "8", "batch"),
        ("rudp", "20", "1", "round"),
    ] {
        let common = [
            "--rounds",
            rounds,
            "--batch",
            batch,
            "--open",
            open,
            "--transport",
            transport,
            "--json",
        ];
        let server = [&["server", "--expect-seed", "5"], &common[..]].concat();
        let device = [&["device", "--seed", "5", "--wait", "5"], &common[..]].concat();
        let [server, device] = keys.meet(&server, &device);
        assert!(
            server.status.success() && device.status.success(),
            "{server:?} {device:?}"
        );
        let (server, device) = (server.json(), device.json());
        let sum = expected_sum(5, rounds.parse().unwrap());
        assert_eq!(server["sum"], sum, "{server}");
        assert_eq!(
            server["average"],
            sum as f64 / rounds.parse::<f64>().unwrap()
        );
        assert_eq!(server["correct"], true);
        if transport != "auto" {
            assert_eq!(server["transport"], transport);
        }
        // The device learns no result.
        assert!(
            device["sum"].is_null() && device["average"].is_null(),
            "{device}"
        );
        assert_eq!(server["bytes_received"], device["bytes_sent"]);
    }
}

#[tokio::test]
async fn both_parties_run_in_one_process() {
    for flags in [
        &[][..],
        &["--batch", "3"],
        &["--batch", "10", "--open", "batch"],
    ] {
        let arguments = ["running_average", "demo", "--rounds", "10"]
            .iter()
            .chain(flags);
        // The demo returns an error if the server's sums differ from those of the distances.
        crate::run(Cli::try_parse_from(arguments).unwrap())
            .await
            .unwrap();
    }
}

#[test]
fn a_device_reads_its_distances_from_a_file() {
    let keys = Keys::new();
    let file = keys.file("distances.txt");
    std::fs::write(&file, "10\n20\n4294967295\n").unwrap();
    let server = ["server", "--rounds", "3", "--json"];
    let device = [
        "device",
        "--rounds",
        "3",
        "--wait",
        "5",
        "--distances",
        &text(&file),
    ];
    let [server, device] = keys.meet(&server, &device);
    assert!(device.status.success(), "{device:?}");
    assert_eq!(server.json()["sum"], 4_294_967_325_u64);
}

#[test]
fn parties_with_different_batches_fail() {
    let keys = Keys::new();
    let [server, device] = keys.meet(
        &["server", "--rounds", "4", "--batch", "2"],
        &["device", "--rounds", "4", "--batch", "4", "--wait", "5"],
    );
    for ended in [server, device] {
        let complaint = ended.complaint();
        assert!(complaint.contains("circuit"), "{complaint}");
    }
}

#[test]
fn a_server_that_expects_different_distances_fails() {
    let keys = Keys::new();
    let [server, device] = keys.meet(
        &["server", "--rounds", "3", "--expect-seed", "2"],
        &["device", "--rounds", "3", "--seed", "1", "--wait", "5"],
    );
    assert!(device.status.success(), "{device:?}");
    assert!(!server.status.success());
    assert!(
        server
            .stderr
            .contains("error: the sums differ from those of the distances"),
        "{server:?}"
    );
}

#[test]
fn the_server_learns_a_sum_for_each_round_or_each_batch() {
    let sums = |opened| {
        Rounds::new(5, 2, opened)
            .unwrap()
            .expected_sums(&[1, 2, 3, 4, 5])
    };
    assert_eq!(sums(Opened::Round), [1, 3, 6, 10, 15]);
    assert_eq!(sums(Opened::Batch), [3, 10, 15]);
}

#[test]
fn arguments_out_of_range_are_refused() {
    for wrong in [
        &["device", "--rounds", "0"][..],
        &["device", "--rounds", "65537"],
        &["device", "--batch", "0"],
        &["device", "--batch", "10001"],
        &["device", "--open", "never"],
        &["device", "--distances", "x", "--seed", "1"],
        &["server", "--listen", "a:1", "--connect", "a:1"],
    ] {
        let arguments = ["running_average"].iter().chain(wrong);
        assert!(Cli::try_parse_from(arguments).is_err(), "{wrong:?}");
    }
}
