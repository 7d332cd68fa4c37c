//! A server for many peers, and `run --repeat` as a peer.

mod crowd;

use std::sync::Arc;

use serde_json::Value;
use transpute::{
    Bits, Party, Program, Registry, Role, circuit::catalogue, session::ConnectionConfig,
    transport::Security,
};

use self::crowd::run;
use crate::harness::{
    self, CIPHERTEXT, Finished, KEY, KEYS, PLAINTEXT, Process, transpute, values,
};

/// A server that garbles AES-128 with the example key of FIPS-197, appendix C.1.
struct Server {
    process: Process,
    address: String,
}

impl Server {
    fn start(transport: &str, is_pinned: bool, more: &[&str]) -> Self {
        let mut args = vec![
            "serve",
            "--role",
            "garbler",
            "--circuit",
            "aes128",
            "--json",
        ];
        args.extend(["--listen", "127.0.0.1:0", "--transport", transport]);
        let (key, path) = (format!("0={KEY}"), KEYS.garbler.path.to_str().unwrap());
        args.extend(["--input", &key]);
        if is_pinned {
            args.extend(["--identity", path, "--peer", &KEYS.evaluator.fingerprint]);
            args.extend(["--peer", &KEYS.stranger.fingerprint]);
        } else {
            args.push("--plaintext");
        }
        args.extend(more);
        let mut process = Process::start(args);
        let address = process.listening_on();
        Self { process, address }
    }

    /// Stops the server. Returns the JSON lines before the summary, and the summary.
    fn stop(self) -> (Vec<Value>, Value) {
        let finished = self.process.interrupt().finish().expect(0);
        let mut lines: Vec<Value> = (finished.stdout.lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let summary = lines.pop().unwrap();
        assert_eq!(summary["event"], "summary");
        (lines, summary)
    }
}

fn repeat(server: &Server, transport: &str, is_pinned: bool, more: &[&str]) -> Finished {
    let party = match is_pinned {
        true => harness::Party::new("evaluator", "aes128"),
        false => harness::Party::plaintext("evaluator", "aes128"),
    };
    let party = (party.input(1, PLAINTEXT))
        .and(["--transport", transport])
        .and(more.iter().copied());
    party.connect(&server.address).finish()
}

#[test]
fn runs_are_repeated_on_one_connection() {
    for (transport, is_pinned) in [("tcp", false), ("quic", true), ("auto", true)] {
        let server = Server::start(transport, is_pinned, &[]);
        let more = ["--repeat", "30", "--pipeline", "7"];
        let report = repeat(&server, transport, is_pinned, &more)
            .expect(0)
            .json();
        assert_eq!(values(&report["evaluations"][0]), [CIPHERTEXT]);
        assert_eq!(report["other_outputs"], 0);
        let warm = &report["times_ms"]["warm"];
        assert_eq!(warm["runs"], 29);
        let time = |name: &str| warm[name].as_f64().unwrap();
        assert!(time("least") <= time("median") && time("median") <= time("p95"));
        assert!(time("p95") <= time("most"));
        let once = repeat(&server, transport, is_pinned, &["--repeat", "1"]);
        assert!(once.expect(0).json()["times_ms"]["warm"].is_null());
        let (lines, summary) = server.stop();
        assert_eq!(lines.len(), 31);
        assert_eq!(
            (&summary["runs"], &summary["failed"]),
            (&31.into(), &0.into())
        );
        assert_eq!(summary["connections"], 2, "{transport}");
    }
}

#[test]
fn both_sides_can_repeat_without_a_server() {
    let party = |role, number, input| {
        let party = harness::Party::new(role, "aes128").input(number, input);
        party.and(["--repeat", "5", "--output-to", "both"])
    };
    let (garbler, address) = party("garbler", 0, KEY).listen();
    let evaluator = party("evaluator", 1, PLAINTEXT).connect(&address);
    for party in [garbler, evaluator] {
        let report = party.finish().expect(0).json();
        assert_eq!(values(&report["evaluations"][0]), [CIPHERTEXT]);
        assert_eq!(report["repeat"], 5);
    }
}

/// Either side may repeat, and either may garble.
#[test]
fn a_party_that_repeats_once_and_one_that_does_not_compute_together() {
    for transport in ["tcp", "auto"] {
        for (is_first_repeating, is_garbler_listening) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let mut parties = harness::aes()
                .map(|party| party.and(["--transport", transport, "--output-to", "both"]));
            if !is_garbler_listening {
                parties.reverse();
            }
            let [mut listening, mut connecting] = parties;
            match is_first_repeating {
                true => listening = listening.and(["--repeat", "1"]),
                false => connecting = connecting.and(["--repeat", "1"]),
            }
            for party in harness::meet(listening, connecting) {
                let report = party.expect(0).json();
                assert_eq!(values(&report["evaluations"][0]), [CIPHERTEXT]);
            }
        }
    }
}

#[test]
fn a_single_run_is_served() {
    for (transport, is_pinned) in [("tcp", false), ("auto", true)] {
        let server = Server::start(transport, is_pinned, &[]);
        // With the default, the round-trip time decides, which is longer on a busy machine.
        let direct = repeat(&server, transport, is_pinned, &["--ot", "direct"]);
        let report = direct.expect(0).json();
        assert_eq!(values(&report["outputs"]), [CIPHERTEXT]);
        assert_eq!(report["round_trips"], 1.0);
        let extended = repeat(&server, transport, is_pinned, &["--ot", "iknp"]);
        assert_eq!(extended.expect(0).json()["ot"], "iknp");
        let (_, summary) = server.stop();
        assert_eq!(
            (&summary["runs"], &summary["failed"]),
            (&2.into(), &0.into())
        );
    }
}

#[test]
fn declined_runs_do_not_fill_the_log() {
    const RUNS: usize = 300;
    let server = Server::start("tcp", false, &[]);
    run(async {
        let other = Arc::new(Program::compile(&catalogue::named("add:8").unwrap()));
        let party = Party::new(Role::Evaluator, other)
            .transport("tcp")
            .plaintext();
        let mut config = ConnectionConfig::default();
        config.garbles = false;
        let connecting = party.connection_config(config);
        let evaluator = connecting.connect(&server.address).open().await.unwrap();
        for _ in 0..RUNS {
            let input = Bits::zeros(8);
            evaluator.run(input).await.unwrap_err();
        }
        evaluator.close().await.unwrap();
    });
    let finished = server.process.interrupt().finish().expect(0);
    let lines = finished.stderr.matches("a run was declined").count();
    // A few lines at once and a few more every ten seconds, also on a slow machine.
    assert!((1..RUNS / 4).contains(&lines), "{lines} lines");
    let summary = finished.json();
    assert_eq!(summary["declined"], RUNS);
}

#[test]
fn repeated_runs_have_the_base_ot_that_was_asked_for() {
    let kem = ["--base-ot", "ml-kem-768"];
    let asks = ["--repeat", "2", kem[0], kem[1]];
    let server = Server::start("tcp", false, &[]);
    repeat(&server, "tcp", false, &asks).fails(5, "base OT");
    server.stop();
    let server = Server::start("tcp", false, &kem);
    let report = repeat(&server, "tcp", false, &asks).expect(0).json();
    assert_eq!(values(&report["evaluations"][0]), [CIPHERTEXT]);
    server.stop();
}

#[test]
fn mismatches_are_reported_by_the_exit_code() {
    let server = Server::start("tcp", false, &["--max-per-peer", "1"]);
    let batch = repeat(&server, "tcp", false, &["--repeat", "2", "--batch", "3"]);
    batch.fails(5, "batch size");
    let scheme = repeat(&server, "tcp", false, &["--repeat", "2", "--scheme", "prf"]);
    scheme.fails(5, "garbling scheme");
    run(async {
        // A silent peer occupies the only slot of the server.
        let tcp = Registry::with_builtins().get("tcp").unwrap();
        let stays = (tcp.connect(&server.address, &Security::Plaintext).await).unwrap();
        let refused = repeat(&server, "tcp", false, &["--repeat", "2"]);
        refused.fails(4, "no room for more");
        drop(stays);
    });
    let (_, summary) = server.stop();
    assert!(summary["rejected"].as_u64().unwrap() >= 1, "{summary}");
    transpute([
        "serve",
        "--role",
        "garbler",
        "--circuit",
        "aes128",
        "--listen",
        "127.0.0.1:0",
    ])
    .fails(2, "--identity");
}
