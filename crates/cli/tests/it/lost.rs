//! Peers that disappear and bytes that are lost or corrupted.

use crate::harness::{CIPHERTEXT, KEY, PLAINTEXT, Party, Process, Relay, aes, write};

/// Number of evaluations of a run that lasts longer than any test.
const ENDLESS: &str = "10000000";

/// Starts an endless run through a relay and waits for the first tables.
fn endless() -> (Process, Process, Relay) {
    let [garbler, evaluator] = aes().map(|party| party.and(["--batch", ENDLESS]));
    let (garbler, address) = garbler.listen();
    let relay = Relay::to(&address);
    let evaluator = evaluator.connect(&relay.address);
    relay.wait_for(500_000);
    (garbler, evaluator, relay)
}

#[test]
fn a_relay_alone_changes_nothing() {
    let [garbler, evaluator] = aes();
    let (garbler, address) = garbler.listen();
    let relay = Relay::to(&address);
    let evaluator = evaluator.connect(&relay.address).finish().expect(0);
    garbler.finish().expect(0);
    assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
}

#[test]
fn a_killed_evaluator_is_noticed() {
    let (garbler, evaluator, _relay) = endless();
    evaluator.kill();
    garbler.finish().fails(6, "");
}

#[test]
fn a_killed_garbler_is_noticed() {
    let (garbler, evaluator, _relay) = endless();
    garbler.kill();
    evaluator.finish().fails(6, "");
}

/// The command must not report a lost peer as a different value of `--repeat`. Without TLS, the
/// link of a killed peer ends as if the peer had closed it.
#[test]
fn a_peer_killed_in_a_repeated_run_is_lost() {
    let [garbler, evaluator] =
        [("garbler", 0, KEY), ("evaluator", 1, PLAINTEXT)].map(|(role, number, input)| {
            // A long first run is under way when the peer is killed.
            Party::plaintext(role, "aes128")
                .input(number, input)
                .and(["--batch", ENDLESS, "--repeat", "3"])
        });
    let (garbler, address) = garbler.listen();
    let relay = Relay::to(&address);
    let evaluator = evaluator.connect(&relay.address);
    relay.wait_for(500_000);
    garbler.kill();
    let finished = evaluator.finish().fails(6, "");
    assert!(!finished.stderr.contains("--repeat"), "{}", finished.stderr);
}

#[test]
fn a_silent_path_is_noticed_by_both() {
    let (garbler, evaluator, relay) = endless();
    relay.stop();
    evaluator.finish().fails(6, "no sign of life");
    garbler.finish().fails(6, "no sign of life");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_ends_at_once_and_the_peer_learns_of_it() {
    let (garbler, evaluator, _relay) = endless();
    let id = garbler.id().to_string();
    let kill = std::process::Command::new("kill")
        .args(["-INT", &id])
        .status();
    assert!(kill.unwrap().success());
    garbler.finish().expect(130);
    evaluator.finish().fails(6, "");
}

#[test]
fn inputs_that_break_in_the_middle_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let value = write(folder.path(), "value", "dec:1");
    let batch = write(folder.path(), "batch", &format!("dec:0\n@{value}\n"));
    let (garbler, address) = Party::new("garbler", "add:8")
        .and(["--batch-file", &batch])
        .listen();
    // The garbler has already checked the file. It becomes invalid now.
    write(folder.path(), "value", "dec:1000");
    let evaluator = Party::new("evaluator", "add:8")
        .and(["--batch", "2"])
        .input(1, "dec:1");
    let evaluator = evaluator.connect(&address).finish();
    evaluator.fails(6, "the peer gave up because of a failure on its side");
    garbler.finish().fails(
        3,
        &format!(
            "input of evaluation 1: {batch}:2: input value 0: {value}: the value does not fit"
        ),
    );
}

#[test]
fn bytes_changed_on_the_way_spoil_an_encrypted_run() {
    let [garbler, evaluator] = aes();
    let (garbler, address) = garbler.listen();
    let relay = Relay::with_spoiled_bytes(&address, 100_000);
    let evaluator = evaluator.connect(&relay.address).finish();
    evaluator.fails(6, "TLS failed");
    garbler.finish().fails(6, "");
}

#[test]
fn bytes_changed_on_the_way_spoil_a_plaintext_run() {
    // The relay flips bits in tables. In plaintext, only the check of the outputs can detect this.
    let (garbler, address) = Party::plaintext("garbler", "aes128").input(0, KEY).listen();
    let relay = Relay::with_spoiled_bytes(&address, 100_000);
    let evaluator = Party::plaintext("evaluator", "aes128").input(1, PLAINTEXT);
    let evaluator = evaluator.connect(&relay.address).finish().fails(6, "");
    // There are no outputs.
    let keys: Vec<_> = evaluator
        .json()
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(keys, ["error"]);
    garbler.finish().fails(6, "the peer gave up");
}
