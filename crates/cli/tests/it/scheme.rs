//! `--scheme auto`.

use serde_json::Value;

use crate::harness::{CIPHERTEXT, KEY, Party, aes, meet};

/// Runs AES-128 with each party's `--scheme`. The first party listens.
fn schemes(listener: usize, wishes: [&str; 2], more: &[&str]) -> [Value; 2] {
    let mut parties = aes();
    parties.rotate_left(listener);
    let mut wishes = wishes.into_iter();
    let [first, second] = parties.map(|party| {
        let wish = wishes.next().unwrap_or_default();
        // TCP does not measure the rate before the scheme is chosen. Within one host an unknown
        // rate counts as unlimited, so the expected choice does not depend on a measurement.
        let party = party.and(["--transport", "tcp"]);
        party.and(["--scheme", wish]).and(more.iter().copied())
    });
    meet(first, second).map(|party| party.expect(0).json())
}

#[test]
fn the_party_that_connects_chooses_among_what_both_allow() {
    for listener in [0, 1] {
        for (wishes, used) in [
            // On loopback, the processor is the bottleneck.
            (["auto", "auto"], "half-gates"),
            (["three-halves", "auto"], "three-halves"),
            (["auto", "three-halves"], "three-halves"),
            (["auto:half-gates,fixed-key", "auto"], "half-gates"),
        ] {
            let [first, second] = schemes(listener, wishes, &[]);
            for report in [&first, &second] {
                assert_eq!(report["scheme"], used, "{wishes:?}");
            }
            let evaluator = if listener == 0 { &second } else { &first };
            assert_eq!(evaluator["outputs"][0]["hex"], CIPHERTEXT, "{wishes:?}");
            assert!(first["scheme_choice"].is_null());
            let choice = &second["scheme_choice"];
            assert_eq!(choice.is_object(), wishes[1] == "auto", "{wishes:?}");
            if choice.is_object() {
                assert_eq!(choice["preferred"], "half-gates", "{choice}");
                assert_eq!(choice["predictions"][0]["limit"], "computing", "{choice}");
            }
            let [first, second] = schemes(listener, wishes, &["--repeat", "2"]);
            for report in [first, second] {
                assert_eq!(report["scheme"], used, "{wishes:?}");
                assert_eq!(report["path"]["is_worse"], false, "{report}");
            }
        }
    }
}

#[test]
fn parties_without_a_common_scheme_hear_what_the_other_allows() {
    let [garbler, evaluator] = aes();
    let (garbler, address) = garbler.and(["--scheme", "prf"]).listen();
    let evaluator = (evaluator.and(["--scheme", "auto"])).connect(&address);
    let allowed = ["prf", "auto:half-gates,three-halves"];
    for (party, [ours, theirs]) in [(garbler, allowed), (evaluator, [allowed[1], allowed[0]])] {
        let expected = format!("garbling scheme: {ours} here, {theirs} at the peer");
        party.finish().fails(5, &expected);
    }
}

#[test]
fn schemes_that_cannot_be_chosen_from_are_usage_errors() {
    for (flags, complaint) in [
        (
            &["--scheme", "auto:half-gates,prf"][..],
            "prf cannot be one of several",
        ),
        (&["--scheme", "auto:halfgates"], "did you mean half-gates?"),
        (
            &["--scheme", "auto", "--rekey-period", "8"],
            "--rekey-period contradicts --scheme auto",
        ),
    ] {
        let party = Party::plaintext("garbler", "aes128").input(0, KEY);
        let party = party.and(flags.iter().copied()).connect("127.0.0.1:1");
        party.finish().fails(2, complaint);
    }
}
