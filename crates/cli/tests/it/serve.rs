//! A party that serves many peers, and `run --repeat` as such a peer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use transpute::{
    Bits, Config, Identity, InputSplit, Party, Program, Registry, Role,
    circuit::generators,
    session::{self, Call, ConnectionConfig, Progressed, Repeat},
    transport::Security,
};

use crate::harness::{
    self, CIPHERTEXT, Finished, KEY, KEYS, PLAINTEXT, Process, transpute, values,
};

/// A server of AES-128 under the key of FIPS 197.
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

    /// Tells it to end, and returns its lines and summary.
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
fn what_does_not_fit_is_told_by_exit_code() {
    let server = Server::start("tcp", false, &["--max-per-peer", "1"]);
    let single = repeat(&server, "tcp", false, &[]);
    single.fails(4, "standing connections only");
    let batch = repeat(&server, "tcp", false, &["--repeat", "2", "--batch", "3"]);
    batch.fails(5, "batch size");
    let scheme = repeat(&server, "tcp", false, &["--repeat", "2", "--scheme", "prf"]);
    scheme.fails(5, "garbling scheme");
    run(async {
        // It takes the only place without a word.
        let tcp = Registry::with_builtins().get("tcp").unwrap();
        let stays = (tcp.connect(&server.address, &Security::Plaintext).await).unwrap();
        let refused = repeat(&server, "tcp", false, &["--repeat", "2"]);
        refused.fails(4, "no room for more");
        drop(stays);
    });
    let (_, summary) = server.stop();
    assert!(summary["turned_away"].as_u64().unwrap() >= 2, "{summary}");
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

/// The first words of an evaluator of AES-128, up to where it waits for the garbler.
fn opening(program: &Arc<Program>, encrypted: bool) -> Vec<u8> {
    let mut connection = session::Connection::new(ConnectionConfig::default(), encrypted);
    let call = Call {
        program: program.clone(),
        split: InputSplit::first_to_garbler(program.input_widths()),
        config: Config::default(),
        inputs: Some(Box::new(Repeat(Bits::zeros(128)))),
    };
    connection.call(Role::Evaluator, call).unwrap();
    let mut out = Vec::new();
    while connection.poll(&mut out, true).unwrap() == Progressed::Worked {}
    out
}

/// Lets so many evaluators run AES-128 at once, among some that do wrong, and returns the server's summary.
async fn crowd(transport: &str, is_pinned: bool, count: usize) -> Value {
    let most = (count + 20).to_string();
    let more = [
        "--max-connections",
        &most,
        "--max-per-peer",
        &most,
        "--stall",
        "60",
        // On few processors more at once only make every one slower.
        "--runs-at-once",
        "32",
    ];
    let server = Server::start(transport, is_pinned, &more);
    let program = Arc::new(Program::compile(&generators::aes128()));
    let garbler: transpute::Fingerprint = KEYS.garbler.fingerprint.parse().unwrap();
    let protect = |party: Party| match is_pinned {
        true => party
            .identity(Identity::load(&KEYS.evaluator.path).unwrap())
            .peer(garbler),
        false => party.plaintext(),
    };
    let security = match is_pinned {
        true => {
            let stranger = Identity::load(&KEYS.stranger.path).unwrap();
            Security::tls(Arc::new(stranger), [garbler])
        }
        false => Security::Plaintext,
    };
    // Half a handshake; then links with nothing, garbage, half an opening, a call that is never followed up, of two peers, and
    // one about another circuit.
    let half = std::net::TcpStream::connect(&server.address).ok();
    let opening = opening(&program, is_pinned);
    let lie: Vec<u8> = {
        let at = opening
            .windows(32)
            .position(|bytes| bytes == program.digest());
        let (before, after) = opening.split_at(at.unwrap());
        [before, &[7; 32], &after[32..]].concat()
    };
    let mut held = Vec::new();
    let registry = Registry::with_builtins();
    for words in [
        &[],
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &opening[..60],
        &opening,
        &opening,
        &lie,
    ] {
        let link = registry.get(transport).unwrap();
        let link = link.connect(&server.address, &security).await.unwrap();
        let (reader, mut writer) = link.into_parts();
        writer.write_all(words).await.unwrap();
        writer.flush().await.unwrap();
        held.push((reader, writer));
    }
    let begun = Instant::now();
    let mut connections = Vec::new();
    for _ in 0..count {
        let party = protect(Party::new(Role::Evaluator, program.clone())).transport(transport);
        let connecting = party
            .patience(Duration::from_secs(20))
            .connection_config(ConnectionConfig {
                garbles: false,
                ..ConnectionConfig::default()
            })
            .connect(&server.address);
        connections.push(tokio::spawn(connecting.open()));
    }
    let mut evaluators = Vec::new();
    for connection in connections {
        evaluators.push(connection.await.unwrap().unwrap());
    }
    let connected = begun.elapsed();
    let block = Bits::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff, 128);
    let runs: Vec<_> = (evaluators.into_iter())
        .map(|evaluator| {
            let block = block.clone();
            tokio::spawn(async move {
                let outcome = evaluator.run(block).await?;
                assert_eq!(outcome.bits().to_hex(), CIPHERTEXT);
                Ok::<_, transpute::Error>(evaluator)
            })
        })
        .collect();
    let mut done = Vec::new();
    let mut failed = Vec::new();
    for run in runs {
        match run.await.unwrap() {
            Ok(evaluator) => done.push(evaluator),
            Err(error) => failed.push(error.to_string()),
        }
    }
    if let Some(first) = failed.first() {
        drop(held);
        let told = server.process.interrupt().finish().stderr;
        let why: Vec<_> = (told.lines())
            .filter(|line| !line.contains("connected from") && !line.ends_with(": closed"))
            .take(40)
            .collect();
        panic!("{} of {count} failed: {first}\n{why:#?}", failed.len());
    }
    let computed = begun.elapsed();
    let closing: Vec<_> = (done.into_iter())
        .map(|evaluator| tokio::spawn(evaluator.close()))
        .collect();
    for closing in closing {
        closing.await.unwrap().unwrap();
    }
    let all = begun.elapsed();
    drop((half, held));
    let (_, summary) = server.stop();
    println!(
        "{count} over {transport}{}: connected in {connected:.1?}, computed in {computed:.1?}, closed in {all:.1?}\n{summary}",
        if is_pinned { ", pinned" } else { "" }
    );
    let number = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(number("runs"), count as u64);
    assert!(number("most_at_once") >= count as u64);
    // The process itself, its program and the allocator have a little too.
    let limit = number("memory_limit_bytes") + (64 << 20);
    assert!(number("peak_resident_bytes") < limit, "{summary}");
    summary
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Each standing connection of this side computes on one.
        .max_blocking_threads(1200)
        .build()
        .unwrap();
    runtime.block_on(work);
}

#[test]
fn a_crowd_is_served_among_those_that_do_wrong() {
    run(async {
        for (transport, is_pinned) in [("tcp", true), ("quic", true), ("tcp", false)] {
            crowd(transport, is_pinned, 40).await;
        }
    });
}

/// The figures of docs/performance.md:
///
/// ```text
/// cargo test -p transpute-cli --test it five_hundred -- --ignored --nocapture
/// ```
#[test]
#[ignore = "takes many threads and some memory"]
fn five_hundred_evaluators_are_served_at_once() {
    run(async {
        for (transport, is_pinned) in [("tcp", false), ("tcp", true), ("quic", true)] {
            crowd(transport, is_pinned, 500).await;
        }
    });
}
