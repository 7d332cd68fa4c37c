//! Many concurrent peers of a server, some of which misbehave.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use transpute::{
    Bits, Config, Connecting, Connection, Fingerprint, Identity, InputSplit, Party, Program,
    Registry, Role,
    circuit::generators,
    session::{self, Call, ConnectionConfig, Progressed, Repeat},
    transport::{LinkReader, LinkWriter, Security},
};

use super::Server;
use crate::harness::{CIPHERTEXT, KEYS};

pub(super) fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Each connection of this side computes on one of these threads.
        .max_blocking_threads(1200)
        .build()
        .unwrap();
    runtime.block_on(work);
}

/// Number of evaluators that connect at the same time. A socket buffer of 208 KiB, the default of
/// Linux, holds the first QUIC packets of about 45 evaluators. With 500 evaluators at the same
/// time, packet loss made handshakes time out.
const MAX_CONNECTING: usize = 32;

/// A server of AES-128 and the keys of its peers.
struct Crowd {
    server: Server,
    transport: &'static str,
    is_pinned: bool,
    program: Arc<Program>,
    garbler: Fingerprint,
}

/// Links of misbehaving peers.
type Held = (Option<std::net::TcpStream>, Vec<(LinkReader, LinkWriter)>);

impl Crowd {
    /// Serves `most` peers and 32 runs at a time. More runs on few processors only slow each other
    /// down.
    fn new(transport: &'static str, is_pinned: bool, most: usize) -> Self {
        let most = most.to_string();
        let more = [
            "--max-connections",
            &most,
            "--max-per-peer",
            &most,
            "--stall",
            "60",
            "--runs-at-once",
            "32",
        ];
        Self {
            server: Server::start(transport, is_pinned, &more),
            transport,
            is_pinned,
            program: Arc::new(Program::compile(&generators::aes128())),
            garbler: KEYS.garbler.fingerprint.parse().unwrap(),
        }
    }

    /// The first messages of an evaluator, up to where it waits for the garbler.
    fn opening(&self) -> Vec<u8> {
        let config = ConnectionConfig::default();
        let mut connection = session::SessionConnection::new(config, self.is_pinned);
        let call = Call {
            program: self.program.clone(),
            split: InputSplit::first_to_garbler(self.program.input_widths()),
            config: Config::default(),
            inputs: Some(Box::new(Repeat(Bits::zeros(128)))),
        };
        connection.call(Role::Evaluator, call).unwrap();
        let mut out = Vec::new();
        while connection.poll(&mut out, true).unwrap() == Progressed::Worked {}
        out
    }

    /// Opens a TCP connection without a handshake, and six links. The links carry: nothing, an HTTP
    /// request, a part of an opening, a complete proposal (two links), and a proposal of another
    /// circuit. Returns them all, still open.
    async fn misbehave(&self) -> Held {
        let half = std::net::TcpStream::connect(&self.server.address).ok();
        let opening = self.opening();
        let lie: Vec<u8> = {
            let at = opening
                .windows(32)
                .position(|bytes| bytes == self.program.digest());
            let (before, after) = opening.split_at(at.unwrap());
            [before, &[7; 32], &after[32..]].concat()
        };
        let security = match self.is_pinned {
            true => {
                let stranger = Identity::load(&KEYS.stranger.path).unwrap();
                Security::tls(Arc::new(stranger), [self.garbler])
            }
            false => Security::Plaintext,
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
            let link = registry.get(self.transport).unwrap();
            let link = link.connect(&self.server.address, &security).await.unwrap();
            let (reader, mut writer) = link.into_parts();
            writer.write_all(words).await.unwrap();
            writer.flush().await.unwrap();
            held.push((reader, writer));
        }
        (half, held)
    }

    /// Connects `count` evaluators. Returns when all are connected.
    async fn evaluators(&self, count: usize) -> Vec<Connection> {
        let mut evaluators = Vec::new();
        while evaluators.len() < count {
            let group = (evaluators.len()..count).take(MAX_CONNECTING);
            let group: Vec<_> = group
                .map(|_| tokio::spawn(self.connecting().open()))
                .collect();
            for evaluator in group {
                evaluators.push(evaluator.await.unwrap().unwrap());
            }
        }
        evaluators
    }

    fn connecting(&self) -> Connecting {
        let party = Party::new(Role::Evaluator, self.program.clone()).transport(self.transport);
        let party = match self.is_pinned {
            true => party
                .identity(Identity::load(&KEYS.evaluator.path).unwrap())
                .peer(self.garbler),
            false => party.plaintext(),
        };
        let mut config = ConnectionConfig::default();
        config.garbles = false;
        party
            .patience(Duration::from_secs(20))
            .connection_config(config)
            .connect(&self.server.address)
    }
}

async fn compute(evaluator: &Connection) -> Result<(), transpute::Error> {
    let block = Bits::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff, 128);
    let outcome = evaluator.run(block).await?;
    assert_eq!(outcome.bits().to_hex(), CIPHERTEXT);
    Ok(())
}

/// Lets `count` evaluators run AES-128 at once together with misbehaving peers. Returns the
/// server's summary.
async fn crowd(transport: &'static str, is_pinned: bool, count: usize) -> Value {
    let town = Crowd::new(transport, is_pinned, count + 20);
    let held = town.misbehave().await;
    let begun = Instant::now();
    let evaluators = town.evaluators(count).await;
    let connected = begun.elapsed();
    let runs: Vec<_> = (evaluators.into_iter())
        .map(|evaluator| tokio::spawn(async move { compute(&evaluator).await.map(|()| evaluator) }))
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
        let told = town.server.process.interrupt().finish().stderr;
        let why: Vec<_> = (told.lines())
            .filter(|line| !line.contains("connected from") && !line.ends_with(": closed"))
            .take(40)
            .collect();
        panic!("{} of {count} failed: {first}\n{why:#?}", failed.len());
    }
    let computed = begun.elapsed();
    close(done).await;
    let all = begun.elapsed();
    drop(held);
    let (_, summary) = town.server.stop();
    println!(
        "{count} over {transport}{}: connected in {connected:.1?}, computed in {computed:.1?}, closed in {all:.1?}\n{summary}",
        if is_pinned { ", pinned" } else { "" }
    );
    let number = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(number("runs"), count as u64);
    assert!(number("max_at_once") >= count as u64);
    // The process, its program and the allocator take some memory too.
    let limit = number("memory_limit_bytes") + (64 << 20);
    assert!(number("peak_resident_bytes") < limit, "{summary}");
    summary
}

async fn close(evaluators: Vec<Connection>) {
    let closing: Vec<_> = (evaluators.into_iter())
        .map(|evaluator| tokio::spawn(evaluator.close()))
        .collect();
    for closing in closing {
        closing.await.unwrap().unwrap();
    }
}

#[test]
fn a_crowd_is_served_among_those_that_do_wrong() {
    run(async {
        for (transport, is_pinned) in [("tcp", true), ("quic", true), ("tcp", false)] {
            crowd(transport, is_pinned, 40).await;
        }
    });
}

/// Measures a server with 500 peers. This command measures the figures in docs/performance.md:
///
/// ```text
/// cargo test -p transpute-cli --test it five_hundred -- --ignored --nocapture
/// ```
#[test]
#[ignore = "slow: cargo xtask slow-tests"]
fn five_hundred_evaluators_are_served_at_once() {
    run(async {
        for (transport, is_pinned) in [("tcp", false), ("tcp", true), ("quic", true)] {
            crowd(transport, is_pinned, 500).await;
        }
    });
}

/// Number of runs of each evaluator, in sequence.
const RUNS: usize = 100;

/// Returns the duration of runs of two evaluators that run in sequence: median and 95th percentile.
async fn latencies(evaluators: &[Arc<Connection>]) -> [Duration; 2] {
    let runs: Vec<_> = (evaluators.iter().cloned())
        .map(|evaluator| {
            tokio::spawn(async move {
                let mut times = Vec::new();
                for _ in 0..RUNS {
                    let begun = Instant::now();
                    compute(&evaluator).await.unwrap();
                    times.push(begun.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for run in runs {
        times.extend(run.await.unwrap());
    }
    times.sort();
    [times[times.len() / 2], times[times.len() * 19 / 20]]
}

/// Measures how much misbehaving peers slow down the runs of other peers. The times are printed and
/// not checked, because load on the machine affects them too. This command measures the figures in
/// docs/performance.md:
///
/// ```text
/// cargo test -p transpute-cli --test it slow_nobody -- --ignored --nocapture
/// ```
#[test]
#[ignore = "measures; run by hand: cargo test -p transpute-cli --test it slow_nobody -- --ignored --nocapture"]
fn misbehaving_peers_do_not_slow_the_others() {
    run(async {
        for (transport, is_pinned) in [("tcp", true), ("quic", true)] {
            let town = Crowd::new(transport, is_pinned, 100);
            let evaluators = town.evaluators(2).await;
            let evaluators: Vec<_> = evaluators.into_iter().map(Arc::new).collect();
            latencies(&evaluators).await;
            // The measurements alternate, because the machine's load may change.
            for _ in 0..3 {
                let alone = latencies(&evaluators).await;
                let mut held = Vec::new();
                for _ in 0..10 {
                    held.push(town.misbehave().await);
                }
                let among = latencies(&evaluators).await;
                drop(held);
                tokio::time::sleep(Duration::from_secs(1)).await;
                println!(
                    "{transport}: median, 95 %: alone {alone:.2?}, among 70 that do wrong {among:.2?}"
                );
            }
            let evaluators = evaluators
                .into_iter()
                .map(|one| Arc::into_inner(one).unwrap());
            close(evaluators.collect()).await;
            town.server.stop();
        }
    });
}
