//! Tests of the transports over real sockets and faulty paths: two processes in network namespaces
//! of their own, and between them an emulated path that loses, reorders, duplicates, is interrupted
//! or becomes narrower. For any fault, no byte may be missing or altered, and nothing may hang.
//!
//! They need root or user namespaces, and `/dev/net/tun`, and report if they cannot run. All
//! transports, with more data:
//!
//! ```text
//! ROUNDS=3 TRANSPORTS=rudp,quic cargo test --release -p transpute-transport --test it survival \
//!   -- --ignored --nocapture
//! ```

use std::{
    io::{Read as _, Write as _},
    process::{Child, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_netem::{
    lab::{Lab, PARTY_PORT, Side},
    scenario::Scenario,
    testing::unless_skipped,
};
use transpute_transport::{Identity, Link, LinkReader, LinkWriter, Registry, Security};

/// The path without its fault: 20 MB take 1.6 s.
const PATH: &str = "rtt_ms = 30\nrate_mbit = 100\n";

/// A fault, and the number of megabytes in each direction that are needed to meet it.
struct Fault {
    name: &'static str,
    toml: &'static str,
    megabytes: usize,
}

impl Fault {
    const fn new(name: &'static str, toml: &'static str, megabytes: usize) -> Self {
        Self {
            name,
            toml,
            megabytes,
        }
    }
}

const LOSS: Fault = Fault::new("30 % loss", "loss = 0.3", 3);
const DISORDER: Fault = Fault::new(
    "10 % reordered, 10 % doubled, jitter",
    "reorder = 0.1\nduplicate = 0.1\njitter_ms = 5",
    5,
);
const BLACKOUT: Fault = Fault::new(
    "5 s blackout",
    "changes = [{ at_s = 0.8, loss = 1.0 }, { at_s = 5.8, loss = 0.0 }]",
    20,
);
/// The interruption that TCP survives reliably. TCP's own timers leave it little of the 8 s after
/// which it gives up a peer.
const SHORT_BLACKOUT: Fault = Fault::new(
    "3 s blackout",
    "changes = [{ at_s = 0.8, loss = 1.0 }, { at_s = 3.8, loss = 0.0 }]",
    20,
);
const NARROW: Fault = Fault::new(
    "MTU 1500 to 1300, untold",
    "changes = [{ at_s = 0.8, path_mtu = 1300 }]",
    20,
);
const NARROW_TOLD: Fault = Fault::new(
    "MTU 1500 to 1300, with ICMP",
    "icmp = true\nchanges = [{ at_s = 0.8, path_mtu = 1300 }]",
    20,
);
const FAULTS: [Fault; 5] = [LOSS, DISORDER, BLACKOUT, NARROW, NARROW_TOLD];

/// Maximum duration of a run.
const ENOUGH: Duration = Duration::from_secs(60);

#[test]
fn rudp_survives_loss() {
    survives("rudp", &LOSS);
}

#[test]
fn rudp_survives_disorder() {
    survives("rudp", &DISORDER);
}

#[test]
fn rudp_survives_a_blackout() {
    survives("rudp", &BLACKOUT);
}

#[test]
fn rudp_survives_a_narrower_path() {
    survives("rudp", &NARROW);
    survives("rudp", &NARROW_TOLD);
}

#[test]
fn tcp_survives_disorder() {
    survives("tcp", &DISORDER);
}

/// With the bounded retransmission interval that Linux supports from 6.15 on.
#[test]
fn tcp_survives_a_blackout() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = (release.split(['.', '-'])).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 15) {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED, nothing was tested: Linux {release}"
        );
        return;
    }
    survives("tcp", &SHORT_BLACKOUT);
}

/// Makes the table in the documentation. A fault that ends the link must give an error in time, and
/// never altered data.
#[test]
#[ignore = "slow: cargo xtask slow-tests"]
fn what_every_transport_survives() {
    let chosen = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    let rounds: u64 = chosen("ROUNDS", "3").parse().unwrap();
    let transports = chosen("TRANSPORTS", "rudp,quic,tcp,tcp-striped");
    for fault in &FAULTS {
        for transport in transports.split(',') {
            let outcomes: Vec<_> = (1..=rounds)
                .filter_map(|seed| run(transport, fault, seed))
                .collect();
            let survived = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            println!("{}: {transport}: {survived} of {rounds}", fault.name);
            for outcome in outcomes {
                match outcome {
                    Ok(seconds) => println!("    all arrived in {seconds:.1} s"),
                    Err(reasons) => {
                        println!("    {}", reasons.replace('\n', " / "));
                        assert!(!reasons.contains(ALTERED) && !reasons.contains(HUNG));
                    }
                }
            }
        }
    }
}

fn survives(transport: &str, fault: &Fault) {
    if let Some(outcome) = run(transport, fault, 1) {
        println!("{transport}, {}: {outcome:?}", fault.name);
        outcome.unwrap_or_else(|reasons| panic!("{transport}, {}: {reasons}", fault.name));
    }
}

const ALTERED: &str = "altered";
const HUNG: &str = "hangs";

/// Lets two parties exchange data over a path with a fault. Returns the duration, or the messages
/// of the parties. `None` if labs do not work here.
fn run(transport: &str, fault: &Fault, seed: u64) -> Option<Result<f64, String>> {
    let text = format!("{PATH}seed = {seed}\n{}", fault.toml);
    let scenario = Scenario::parse(&text, "survival").unwrap();
    let lab = unless_skipped(Lab::start(&scenario))?;
    let address = format!("{}:{PARTY_PORT}", lab.address(Side::A));
    let start = |side: Side| {
        let mut command = lab.command(side, std::env::current_exe().unwrap());
        command
            .args(["--exact", "survival::party", "--nocapture"])
            .env(ROLE, if side == Side::A { "listen" } else { "connect" })
            .env("SURVIVAL_TRANSPORT", transport)
            .env("SURVIVAL_ADDRESS", &address)
            .env("SURVIVAL_BYTES", (fault.megabytes * 1_000_000).to_string())
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let started = Instant::now();
    let parties = [start(Side::A), start(Side::B)];
    Some(match parties.map(|party| end(party, started)) {
        [Ok(one), Ok(other)] => Ok(one.max(other)),
        outcomes => {
            let said = outcomes.map(|outcome| outcome.err().unwrap_or_else(|| "satisfied".into()));
            Err(said.join("\n"))
        }
    })
}

/// Waits for a party. Returns its duration in seconds, or its error.
fn end(mut party: Child, started: Instant) -> Result<f64, String> {
    let status: Option<ExitStatus> = loop {
        match party.try_wait().unwrap() {
            Some(status) => break Some(status),
            // Half of that is for making the link.
            None if started.elapsed() > 2 * ENOUGH => {
                party.kill().unwrap();
                party.wait().unwrap();
                break None;
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let mut text = String::new();
    let mut stderr = party.stderr.take().unwrap();
    stderr.read_to_string(&mut text).unwrap();
    let said = (text.lines().find_map(|line| line.strip_prefix(PREFIX))).unwrap_or(text.trim());
    match status {
        Some(status) if status.success() => said.parse().map_err(|_| format!("what? {said}")),
        Some(_) => Err(said.to_owned()),
        None => Err(format!("the whole process {HUNG}: {said}")),
    }
}

const ROLE: &str = "SURVIVAL_ROLE";
const PREFIX: &str = "party: ";

/// Runs one of the two parties, in a process of its own. Does nothing as a test of its own.
#[test]
fn party() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let variable = |name| std::env::var(name).unwrap();
    let bytes = variable("SURVIVAL_BYTES").parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let result = runtime.block_on(async {
        let (transport, address) = (variable("SURVIVAL_TRANSPORT"), variable("SURVIVAL_ADDRESS"));
        let link = link(&transport, &address, role == "listen").await?;
        exchange(link, bytes).await
    });
    let said = match &result {
        Ok(seconds) => seconds.to_string(),
        Err(reason) => reason.clone(),
    };
    eprintln!("{PREFIX}{said}");
    // The other party may still wait for the last acknowledgement. If the path loses the last
    // packets of a process that has exited, the other one only learns that it is gone.
    thread::sleep(Duration::from_secs(1));
    std::process::exit(i32::from(result.is_err()));
}

/// Makes the link. A connector retries, because the path may lose a whole handshake.
async fn link(transport: &str, address: &str, is_listening: bool) -> Result<Link, String> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let transport = Registry::with_builtins().get(transport).unwrap();
    let security = Security::Unpinned {
        identity: Identity::generate().unwrap().into(),
    };
    if is_listening {
        let mut listener = transport.listen(address, &security).await.unwrap();
        let accepted = tokio::time::timeout(2 * PATIENCE, listener.accept()).await;
        return accepted
            .map_err(|_| "nobody came")?
            .map_err(|error| format!("cannot accept: {error}"));
    }
    let started = Instant::now();
    loop {
        match transport.connect(address, &security).await {
            Ok(link) => return Ok(link),
            Err(error) if started.elapsed() > PATIENCE => {
                return Err(format!("cannot connect: {error}"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Sends and receives bytes concurrently. Returns the duration in seconds.
async fn exchange(link: Link, bytes: usize) -> Result<f64, String> {
    let started = Instant::now();
    let (mut reader, mut writer) = link.into_parts();
    let mut arrived = 0;
    let both = async {
        let (sent, received) = (
            send(&mut writer, bytes),
            receive(&mut reader, bytes, &mut arrived),
        );
        tokio::try_join!(sent, received)
    };
    match tokio::time::timeout(ENOUGH, both).await {
        Ok(result) => result.map(|_| started.elapsed().as_secs_f64()),
        Err(_) => Err(format!("too slow: {arrived} bytes in {ENOUGH:?}")),
    }
}

async fn send(writer: &mut LinkWriter, bytes: usize) -> Result<(), String> {
    let mut at = 0;
    let mut block = Vec::new();
    while at < bytes {
        fill(&mut block, at, BLOCK.min(bytes - at));
        (writer.write_all(&block).await).map_err(|error| format!("writing at {at}: {error}"))?;
        at += block.len();
    }
    (writer.shutdown().await).map_err(|error| format!("finishing at {at}: {error}"))
}

async fn receive(reader: &mut LinkReader, bytes: usize, arrived: &mut usize) -> Result<(), String> {
    let (mut got, mut expected) = (vec![0; BLOCK], Vec::new());
    let mut at = 0;
    loop {
        *arrived = at;
        let read =
            (reader.read(&mut got).await).map_err(|error| format!("reading at {at}: {error}"))?;
        if read == 0 {
            break;
        }
        fill(&mut expected, at, read);
        if got[..read] != expected {
            return Err(format!("bytes {at} to {} are {ALTERED}", at + read));
        }
        at += read;
    }
    if at == bytes {
        Ok(())
    } else {
        Err(format!("{at} bytes of {bytes} and then an end: {ALTERED}"))
    }
}

const BLOCK: usize = 64 * 1024;

/// Fills a buffer with bytes that differ everywhere: the upper bytes of multiples of an odd number.
fn fill(buffer: &mut Vec<u8>, at: usize, length: usize) {
    buffer.clear();
    buffer.extend((at..at + length).map(|position| {
        let word = (position as u64 / 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word.to_be_bytes()[position % 8]
    }));
}
