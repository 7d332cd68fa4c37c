//! Runs that succeed.

use serde_json::Value;

use crate::harness::{
    CIPHERTEXT, KEY, PLAINTEXT, Party, SCHEMES, aes, meet, transpute, values, write,
};

/// The message "abc", its SHA-256, its only padded block, and the initial state (FIPS 180-4).
const ABC: &str = "hex:616263";
const ABC_DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const INITIAL_STATE: &str = "hex:6a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd19";

fn abc_block() -> String {
    format!("hex:61626380{:0>120}", "18")
}

#[test]
fn aes_of_fips_197_under_every_scheme() {
    for scheme in SCHEMES {
        let [garbler, evaluator] = aes().map(|party| party.and(["--scheme", scheme]));
        let [garbler, evaluator] = meet(garbler, evaluator).map(|party| party.expect(0));
        assert_eq!(evaluator.outputs(), [CIPHERTEXT], "{scheme}");
        assert!(garbler.outputs().is_empty(), "{scheme}");
    }
}

#[test]
fn compiled_circuits_are_kept_and_damaged_ones_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let circuit = folder.path().join("aes.txt");
    transpute(["circuit", "generate", "aes128", circuit.to_str().unwrap()]).expect(0);
    let programs = folder.path().join("programs");
    let compute = |circuit: &str| {
        let party =
            |role| Party::new(role, circuit).and(["--program-cache", programs.to_str().unwrap()]);
        let [_, evaluator] = meet(
            party("garbler").input(0, KEY),
            party("evaluator").input(1, PLAINTEXT),
        )
        .map(|party| party.expect(0));
        assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
    };
    let kept = || {
        let files = std::fs::read_dir(&programs).unwrap();
        files.map(|file| file.unwrap().path()).collect::<Vec<_>>()
    };
    for circuit in ["aes128", circuit.to_str().unwrap()] {
        compute(circuit);
        compute(circuit);
    }
    assert_eq!(kept().len(), 2);
    for file in kept() {
        std::fs::write(&file, "something else").unwrap();
    }
    compute("aes128");
    let lengths = kept()
        .iter()
        .map(|file| file.metadata().unwrap().len())
        .collect::<Vec<_>>();
    assert!(
        lengths.contains(&14) && lengths.iter().any(|&length| length > 300_000),
        "{lengths:?}"
    );
}

#[test]
fn sha_256_of_fips_180_under_every_scheme() {
    for scheme in SCHEMES {
        let [garbler, evaluator] = meet(
            Party::new("garbler", "sha256")
                .and(["--scheme", scheme, "--garbler-inputs", "1"])
                .input(1, INITIAL_STATE),
            Party::new("evaluator", "sha256")
                .and(["--scheme", scheme, "--garbler-inputs", "1"])
                .input(0, &abc_block()),
        );
        garbler.expect(0);
        assert_eq!(evaluator.expect(0).outputs(), [ABC_DIGEST], "{scheme}");
    }
}

#[test]
fn a_party_may_have_no_inputs() {
    for (whose, garbler_inputs) in [("garbler", "0"), ("evaluator", "none")] {
        let party = |role| {
            let party = Party::new(role, "sha256:3").and(["--garbler-inputs", garbler_inputs]);
            if role == whose {
                party.input(0, ABC)
            } else {
                party
            }
        };
        let [_, evaluator] = meet(party("garbler"), party("evaluator")).map(|p| p.expect(0));
        assert_eq!(evaluator.outputs(), [ABC_DIGEST]);
    }
}

#[test]
fn either_role_listens() {
    let [garbler, evaluator] = aes();
    let [evaluator, garbler] = meet(evaluator, garbler).map(|party| party.expect(0));
    assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
    assert_eq!(evaluator.json()["role"], "evaluator");
    assert_eq!(garbler.json()["role"], "garbler");
}

#[test]
fn inputs_may_change_hands() {
    let swapped = ["--garbler-inputs", "1"];
    let [_, evaluator] = meet(
        Party::new("garbler", "aes128")
            .and(swapped)
            .input(1, PLAINTEXT),
        Party::new("evaluator", "aes128").and(swapped).input(0, KEY),
    )
    .map(|party| party.expect(0));
    assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
}

#[test]
fn outputs_go_to_the_parties_of_the_policy() {
    for (who, garbler_learns, evaluator_learns) in [
        ("evaluator", false, true),
        ("garbler", true, false),
        ("both", true, true),
    ] {
        let [garbler, evaluator] = aes().map(|party| party.and(["--output-to", who]));
        let [garbler, evaluator] = meet(garbler, evaluator).map(|party| party.expect(0));
        for (party, learns) in [(garbler, garbler_learns), (evaluator, evaluator_learns)] {
            let expected: &[&str] = if learns { &[CIPHERTEXT] } else { &[] };
            assert_eq!(party.outputs(), expected, "{who}");
            let evaluations = party.json()["evaluations"].as_array().unwrap().len();
            assert_eq!(evaluations, usize::from(learns));
        }
    }
}

#[test]
fn settings_may_be_others_than_the_defaults() {
    for settings in [
        &["--ot", "direct", "--rekey-period", "1024"][..],
        &["--ot", "iknp", "--chunk", "64"],
        &["--ot", "softspoken-4", "--no-output-check"],
        &[
            "--transport",
            "tcp",
            "--scheme",
            "three-halves",
            "--chunk",
            "1000",
        ],
    ] {
        let [garbler, evaluator] = aes().map(|party| party.and(settings.iter().copied()));
        let [_, evaluator] = meet(garbler, evaluator).map(|party| party.expect(0));
        assert_eq!(evaluator.outputs(), [CIPHERTEXT], "{settings:?}");
    }
}

#[test]
fn base_ot_over_ml_kem_is_one_setting_away() {
    for (ot, base_bytes) in [("auto", 128 * 4544), ("softspoken-2", 128 * 4544)] {
        let settings = ["--base-ot", "ml-kem-768", "--ot", ot];
        let [garbler, evaluator] = aes().map(|party| party.and(settings));
        let parties = meet(garbler, evaluator).map(|party| party.expect(0));
        assert_eq!(parties[1].outputs(), [CIPHERTEXT], "{ot}");
        for party in parties {
            let json = party.json();
            assert_eq!(json["base_ot"], "ml-kem-768");
            assert_eq!(json["bytes"]["base_ot"], base_bytes);
            assert_eq!(json["ot"], if ot == "auto" { "direct" } else { ot });
            // The plan is predicted unless the user sets one.
            let plan = &json["ot_plan"];
            assert_eq!(plan.is_object(), ot == "auto", "{plan}");
            if plan.is_object() {
                assert_eq!(plan["chosen"], "direct");
                assert!(plan["predicted_ms"].as_f64() < plan["runner_up_ms"].as_f64());
            }
        }
    }
}

#[test]
fn plaintext_is_possible_when_both_ask() {
    let [garbler, evaluator] = meet(
        Party::plaintext("garbler", "aes128").input(0, KEY),
        Party::plaintext("evaluator", "aes128").input(1, PLAINTEXT),
    )
    .map(|party| party.expect(0));
    assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
    for party in [garbler, evaluator] {
        let json = party.json();
        assert_eq!(json["encrypted"], false);
        assert!(json["cipher"].is_null() && json["peer"]["fingerprint"].is_null());
    }
}

#[test]
fn values_come_from_files_and_in_every_notation() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "value", "dec:\n  -7\n");
    let [_, evaluator] = meet(
        Party::new("garbler", "mul:16").input(0, &format!("@{file}")),
        Party::new("evaluator", "mul:16").input(1, "bits:0110000000000000"),
    )
    .map(|party| party.expect(0));
    // -7 * 6 = -42.
    assert_eq!(evaluator.outputs(), ["ffd6"]);
    assert_eq!(evaluator.json()["outputs"][0]["bits"], "0110101111111111");
}

#[test]
fn batch_files_have_an_evaluation_per_line() {
    let folder = tempfile::tempdir().unwrap();
    let lines = |f: fn(u32) -> String| (0..40).map(f).collect::<String>();
    let left = write(
        folder.path(),
        "left",
        &lines(|i| format!("# {i}\n0=dec:{i}\n\n")),
    );
    let right = write(
        folder.path(),
        "right",
        &lines(|i| format!("dec:{}\n", 2 * i)),
    );
    let [garbler, evaluator] = meet(
        Party::new("garbler", "add:8").and(["--batch-file", &left]),
        Party::new("evaluator", "add:8").and(["--batch-file", &right]),
    )
    .map(|party| party.expect(0));
    let json = evaluator.json();
    let sums: Vec<_> = (json["evaluations"].as_array().unwrap().iter())
        .flat_map(values)
        .collect();
    let expected: Vec<_> = (0..40).map(|i| format!("{:02x}", 3 * i)).collect();
    assert_eq!(sums, expected);
    assert_eq!(values(&json["outputs"]), expected[..1]);
    assert_eq!(
        (&json["batch"], &garbler.json()["batch"]),
        (&40.into(), &40.into())
    );
}

#[test]
fn a_batch_may_repeat_its_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "right", "dec:1\ndec:2\ndec:3\n");
    let keys = &*crate::harness::KEYS;
    let evaluator = Party::bare("evaluator", "add:8")
        .and(["--batch-file", &file])
        .and(["--identity", keys.evaluator.path.to_str().unwrap()])
        .and(["--peer", &keys.garbler.fingerprint]);
    let garbler = Party::new("garbler", "add:8")
        .and(["--batch", "3"])
        .input(0, "dec:10");
    let [_, evaluator] = meet(garbler, evaluator).map(|party| party.expect(0));
    assert_eq!(
        evaluator.stdout,
        "evaluation 0 output 0: hex:0b dec:11 bits:11010000\n\
         evaluation 1 output 0: hex:0c dec:12 bits:00110000\n\
         evaluation 2 output 0: hex:0d dec:13 bits:10110000\n"
    );
    assert!(
        evaluator.stderr.contains("3 evaluations"),
        "{}",
        evaluator.stderr
    );
}

#[test]
fn quiet_prints_outputs_only() {
    let [garbler, evaluator] = aes();
    let (garbler, address) = garbler.listen();
    let mut args = evaluator.and(["--quiet"]).0;
    args.retain(|arg| arg != "--json");
    let evaluator = Party(args).connect(&address).finish().expect(0);
    garbler.finish().expect(0);
    assert_eq!(evaluator.stdout, format!("output 0: hex:{CIPHERTEXT}\n"));
    assert_eq!(evaluator.stderr, "");
}

#[test]
fn circuits_come_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("aes.txt");
    let file = file.to_str().unwrap();
    transpute(["circuit", "generate", "aes128", file]).expect(0);
    // The circuit is the same from a file and built in.
    let [_, evaluator] = meet(
        Party::new("garbler", file).input(0, KEY),
        Party::new("evaluator", "aes128").input(1, PLAINTEXT),
    )
    .map(|party| party.expect(0));
    assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
}

#[test]
fn the_json_object_says_what_happened() {
    let [garbler, evaluator] = aes();
    let [garbler, evaluator] = meet(garbler, evaluator).map(|party| party.expect(0).json());
    assert_eq!(keys_of(&garbler), keys_of(&evaluator));
    assert_eq!(
        keys_of(&evaluator),
        [
            "base_ot",
            "batch",
            "bytes",
            "bytes_per_and",
            "cipher",
            "circuit",
            "connected_unix_ns",
            "encrypted",
            "evaluations",
            "mega_and_per_second",
            "ot",
            "ot_plan",
            "outputs",
            "peak_heap_bytes",
            "peer",
            "role",
            "round_trips",
            "rtt_ms",
            "scheme",
            "scheme_choice",
            "selection",
            "times_ms",
            "transport",
            "transport_reason",
        ]
    );
    assert_eq!(
        keys_of(&evaluator["times_ms"]),
        [
            "agreed",
            "connect",
            "first_labels",
            "first_table",
            "handshake",
            "last_table",
            "output",
            "session",
        ]
    );
    assert_eq!(
        keys_of(&evaluator["bytes"]),
        [
            "base_ot",
            "framing",
            "labels",
            "ot",
            "outputs",
            "received",
            "sent",
            "tables",
            "wire_received",
            "wire_sent",
        ]
    );
    let bytes = &evaluator["bytes"];
    assert_eq!(bytes["tables"], 6400 * 32);
    assert_eq!(evaluator["bytes_per_and"], 32.0);
    assert_eq!(evaluator["round_trips"], 1.0);
    assert_eq!(bytes["sent"], garbler["bytes"]["received"]);
    let by_purpose: u64 = ["tables", "ot", "labels", "outputs", "framing"]
        .iter()
        .map(|purpose| bytes[purpose].as_u64().unwrap())
        .sum();
    let both_ways = bytes["sent"].as_u64().unwrap() + bytes["received"].as_u64().unwrap();
    assert_eq!(by_purpose, both_ways);
    let keys = &*crate::harness::KEYS;
    assert_eq!(
        evaluator["peer"]["fingerprint"],
        keys.garbler.fingerprint.as_str()
    );
    assert_eq!(
        evaluator["circuit"]["inputs"],
        serde_json::json!([128, 128])
    );
    assert_eq!(evaluator["circuit"]["and"], 6400);
    let output = &evaluator["outputs"][0];
    assert!(
        output["bits"].as_str().unwrap().starts_with("01011010"),
        "{output}"
    );
}

fn keys_of(object: &Value) -> Vec<String> {
    let mut keys: Vec<_> = object.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}
