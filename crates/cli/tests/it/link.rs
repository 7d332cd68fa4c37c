//! `transpute link` over real sockets: every transport, every protection, and errors.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    thread,
    time::Duration,
};

use serde_json::Value;
use transpute::{Identity, Registry, transport::Security};

use crate::harness::{Finished, KEYS, Process, Relay, transpute};

/// A server and the flags with which clients reach it.
struct Server {
    process: Process,
    address: String,
    flags: Vec<String>,
}

fn texts(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

/// Returns the protection flags of the listening side and of the connecting side.
fn protection(kind: &str) -> [Vec<String>; 2] {
    if kind != "pinned" {
        return [
            texts(&[&format!("--{kind}")]),
            texts(&[&format!("--{kind}")]),
        ];
    }
    let (a, b) = (&KEYS.garbler, &KEYS.evaluator);
    let flags = |me: &std::path::Path, peer: &str| {
        texts(&["--identity", me.to_str().unwrap(), "--peer", peer])
    };
    [
        flags(&a.path, &b.fingerprint),
        flags(&b.path, &a.fingerprint),
    ]
}

impl Server {
    fn start(transport: &str, kind: &str, more: &[&str]) -> Self {
        let [listening, connecting] = protection(kind);
        let mut args = texts(&["link", "serve", "--listen", "127.0.0.1:0"]);
        args.extend(texts(&["--transport", transport, "--json"]));
        args.extend(listening);
        args.extend(texts(more));
        let mut process = Process::start(args);
        let address = process.listening_on();
        let mut flags = texts(&["--transport", transport, "--json"]);
        flags.extend(connecting);
        Self {
            process,
            address,
            flags,
        }
    }

    fn client(&self, address: &str, more: &[&str]) -> Process {
        let mut args = texts(&["link", "send", "--connect", address]);
        args.extend(self.flags.iter().cloned());
        args.extend(texts(more));
        Process::start(args)
    }

    fn send(&self, more: &[&str]) -> Finished {
        self.client(&self.address, more).finish()
    }

    /// Checks that the server still serves a client.
    fn still_serves(&self) {
        let report = self.send(&["--bytes", "1000"]).expect(0).json();
        assert_eq!(report["amount"], 1000);
    }
}

/// Returns whether a transport supports a kind of link.
fn offers(name: &str, kind: &str) -> bool {
    let transport = Registry::with_builtins().get(name).unwrap();
    let security = match kind {
        "plaintext" => Security::Plaintext,
        "unpinned" => Security::Unpinned {
            identity: Arc::new(Identity::generate().unwrap()),
        },
        _ => return true,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let listening = runtime.block_on(transport.listen("127.0.0.1:0", &security));
    listening.is_ok()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_transport_may_be_left_to_the_sender() {
    for kind in ["pinned", "unpinned", "plaintext"] {
        let server = Server::start("auto", kind, &[]);
        for more in [&["--bytes", "1000003"][..], &["--bytes", "9", "--reverse"]] {
            let report = server.send(more).expect(0).json();
            let chosen = report["transport"].as_str().unwrap();
            assert!(Registry::with_builtins().get(chosen).is_ok(), "{chosen}");
        }
    }
}

#[test]
fn every_transport_carries_bytes_there_and_back() {
    for name in Registry::with_builtins().names() {
        for kind in ["pinned", "unpinned", "plaintext"] {
            if !offers(name, kind) {
                continue;
            }
            let server = Server::start(name, kind, &[]);
            for (more, task) in [
                (&["--bytes", "1000003"][..], "up"),
                (&["--bytes", "1"], "up"),
                (&["--bytes", "1000003", "--reverse"], "down"),
            ] {
                let report = server.send(more).expect(0).json();
                assert_eq!(report["task"], task);
                assert_eq!(report["transport"], name);
                assert_eq!(report["protection"], kind);
                assert_eq!(report["cipher"].is_null(), kind == "plaintext");
                assert_eq!(report["amount"].to_string(), more[1]);
                #[cfg(target_os = "linux")]
                {
                    assert_eq!(report["clock"], "shared");
                    let whole = number(&report["seconds_from_start"]);
                    let part = number(&report["seconds_from_established"]);
                    assert!(0.0 < part && part <= whole && whole < 100.0, "{report}");
                    assert!(number(&report["goodput_bits_per_second"]) > 0.0);
                    for side in ["client", "server"] {
                        assert!(number(&report[side]["cpu_seconds"]) > 0.0);
                    }
                }
            }
            let report = server.send(&["--pingpong", "20"]).expect(0).json();
            assert_eq!(report["task"], "ping-pong");
            assert_eq!(report["round_trips"]["count"], 20);
            assert!(number(&report["round_trips"]["median_us"]) > 0.0);
            assert!(report["seconds_from_established"].is_null());
        }
    }
}

#[test]
fn every_transport_is_listed_with_one_line() {
    let listed = transpute(["link", "transports"]).expect(0).stdout;
    let lines: Vec<_> = listed.lines().map(|line| line.split_once("  ")).collect();
    let names: Vec<_> = lines.iter().map(|line| line.unwrap().0.trim()).collect();
    assert_eq!(names, ["auto", "tcp", "tcp-striped", "quic", "rudp", "udp"]);
    assert!(
        lines.iter().all(|line| !line.unwrap().1.trim().is_empty()),
        "{listed}"
    );
}

#[test]
fn repeated_transfers_are_reported_one_by_one_on_both_sides() {
    let server = Server::start("tcp", "unpinned", &[]);
    let finished = server.send(&["--bytes", "5000", "--repeat", "3"]).expect(0);
    let reports: Vec<Value> = (finished.stdout.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(reports.len(), 3);
    for (index, report) in reports.iter().enumerate() {
        assert_eq!(report["transfer"], index + 1);
        assert_eq!(report["of"], 3);
        // Each link is new, so it has carried its own bytes only.
        #[cfg(target_os = "linux")]
        assert!(number(&report["client"]["path"]["bytes_sent"]) < 20_000.0);
    }
    let plain = transpute([
        "link",
        "send",
        "--connect",
        &server.address,
        "--unpinned",
        "--bytes",
        "10",
        "--repeat",
        "2",
    ])
    .expect(0);
    assert!(plain.stdout.contains("10 bytes up in"), "{}", plain.stdout);
    #[cfg(target_os = "linux")]
    assert!(plain.stdout.contains("\nmedian "), "{}", plain.stdout);
    assert!(plain.stderr.contains("for benchmarks only"));
}

#[test]
fn transfers_at_once_are_served_and_marked() {
    let server = Server::start("tcp", "plaintext", &[]);
    // A silent client does not delay the others.
    let mut silent = TcpStream::connect(&server.address).unwrap();
    silent
        .write_all(b"transpute/1 plaintext \x07tcp tcp")
        .unwrap();
    let clients: Vec<_> = (0..4)
        .map(|_| server.client(&server.address, &["--bytes", "3000000"]))
        .collect();
    for client in clients {
        client.finish().expect(0);
    }
    let report = server.send(&["--bytes", "10"]).expect(0).json();
    assert_eq!(report["server"]["cpu_is_shared"], true);
}

#[test]
fn one_transfer_is_enough_if_so_wanted() {
    let server = Server::start("tcp", "pinned", &["--once"]);
    server.send(&["--bytes", "70000"]).expect(0);
    let report = server.process.finish().expect(0).json();
    assert_eq!(report["role"], "server");
    assert_eq!(report["amount"], 70_000);
}

#[test]
fn sides_that_do_not_trust_each_other_do_not_meet() {
    let server = Server::start("tcp", "pinned", &[]);
    let address = server.address.as_str();
    let send = |flags: &[&str]| {
        let start = ["link", "send", "--connect", address, "--bytes", "9"];
        transpute(start.iter().chain(flags).copied())
    };
    send(&["--unpinned"]).fails(4, "only one side pins keys");
    send(&["--plaintext"]).fails(4, "--plaintext must be given on both sides");
    let key = KEYS.stranger.path.to_str().unwrap();
    let pin = KEYS.garbler.fingerprint.as_str();
    send(&["--identity", key, "--peer", pin]).fails(4, "refused our identity");
    let key = KEYS.evaluator.path.to_str().unwrap();
    let other = KEYS.stranger.fingerprint.as_str();
    send(&["--identity", key, "--peer", other]).fails(4, "expected sha256:");
    server.still_serves();

    let server = Server::start("tcp", "unpinned", &[]);
    let pinned = ["--identity", key, "--peer", pin];
    let start = ["link", "send", "--connect", &server.address, "--bytes", "9"];
    transpute(start.iter().chain(&pinned).copied()).fails(4, "only one side pins keys");
    server.still_serves();
}

#[test]
fn a_peer_that_is_lost_is_an_error_and_the_server_goes_on() {
    for name in Registry::with_builtins().names() {
        let server = Server::start(name, "pinned", &[]);
        // More bytes than any test transfers.
        let endless = ["--bytes", "1000000000000"];
        let client = server.client(&server.address, &endless);
        thread::sleep(Duration::from_millis(500));
        client.kill();
        server.still_serves();

        let client = server.client(&server.address, &endless);
        thread::sleep(Duration::from_millis(500));
        server.process.kill();
        client.finish().fails(6, "");
    }
    let nobody = texts(&["link", "send", "--connect", "127.0.0.1:1", "--plaintext"]);
    let args = texts(&["--bytes", "1", "--patience", "0"]);
    transpute(nobody.into_iter().chain(args)).fails(4, "cannot connect");
}

#[test]
fn altered_bytes_fail_the_transfer_on_both_sides() {
    for (kind, fragment) in [("plaintext", "altered"), ("unpinned", "")] {
        let server = Server::start("tcp", kind, &["--once"]);
        let relay = Relay::with_spoiled_bytes(&server.address, 100_000);
        let client = server.client(&relay.address, &["--bytes", "1000000", "--reverse"]);
        client.finish().fails(6, fragment);
        server.process.finish().fails(6, fragment);
    }
}

#[test]
fn garbage_does_not_disturb_the_server() {
    let server = Server::start("tcp", "plaintext", &[]);
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"transpute/1 plaintext \x07tcp tcp",
        b"transpute/1 plaintext \x07tcp tcp\xff\xff\xff\xff",
        b"transpute/1 plaintext \x07tcp tcp\x04\0\0\0null",
        b"transpute/1 plaintext \x07tcp tcp\x02\0\0\0{}",
    ] {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        // The server ends the stream, cleanly or with a reset.
        let _ = stream.read_to_end(&mut rest);
    }
    // Well-formed requests that are not served: a wrong version, and sizes over the limits.
    for request in [
        r#"{"version":9,"task":"down","amount":5,"seed":1}"#,
        r#"{"version":1,"task":"down","amount":18446744073709551615,"seed":1}"#,
        r#"{"version":1,"task":"ping-pong","amount":0,"seed":1}"#,
    ] {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let length = u32::try_from(request.len()).unwrap().to_le_bytes();
        let message = [
            b"transpute/1 plaintext \x07tcp tcp",
            &length[..],
            request.as_bytes(),
        ]
        .concat();
        stream.write_all(&message).unwrap();
        let mut answer = Vec::new();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains("refused"), "{request}: {answer}");
    }
    server.still_serves();
}

#[test]
fn wrong_flags_are_named() {
    let send = ["link", "send", "--connect", "127.0.0.1:1"];
    for (args, fragment) in [
        (&["--plaintext"][..], "required"),
        (&["--plaintext", "--bytes", "0"], "--bytes"),
        (&["--plaintext", "--bytes", "x"], "--bytes"),
        (
            &["--plaintext", "--bytes", "1", "--pingpong", "1"],
            "--pingpong",
        ),
        (&["--plaintext", "--pingpong", "0"], "--pingpong"),
        (
            &["--plaintext", "--pingpong", "1", "--reverse"],
            "--pingpong",
        ),
        (&["--plaintext", "--unpinned", "--bytes", "1"], "--unpinned"),
        (&["--bytes", "1"], "--identity FILE and --peer"),
        (
            &["--bytes", "1", "--identity", "x"],
            "--identity FILE and --peer",
        ),
        (
            &["--plaintext", "--bytes", "1", "--repeat", "0"],
            "--repeat",
        ),
        (
            &["--plaintext", "--bytes", "1", "--rate-hint", "0"],
            "--rate-hint",
        ),
        (
            &["--plaintext", "--bytes", "1", "--transport", "smoke"],
            "there is no transport named \"smoke\" among auto, quic, ",
        ),
        (
            &["--plaintext", "--bytes", "1", "--transport", "tcp:x=1"],
            "it has: cc",
        ),
        (
            &[
                "--plaintext",
                "--bytes",
                "1",
                "--transport",
                "tcp-striped:n=99",
            ],
            "from 1 to 32",
        ),
    ] {
        transpute(send.iter().chain(args).copied()).fails(2, fragment);
    }
    transpute(["link", "serve", "--plaintext"]).fails(2, "required");
    transpute(["link", "serve", "--plaintext", "--listen", "nowhere"]).fails(2, "host:port");
    #[cfg(target_os = "linux")]
    {
        let refused = transpute(
            ["link", "serve", "--plaintext", "--listen", "127.0.0.1:0"]
                .into_iter()
                .chain(["--transport", "tcp:cc=nosuch"]),
        );
        assert!(
            !refused.stderr.contains("No such file"),
            "{}",
            refused.stderr
        );
        refused.fails(2, "no congestion control \"nosuch\": it has ");
    }
}

#[test]
fn a_rate_hint_that_is_of_no_use_is_said_to_be() {
    let server = Server::start("tcp", "plaintext", &[]);
    let finished = server.send(&["--bytes", "1", "--rate-hint", "1000000000"]);
    let finished = finished.expect(0);
    assert!(finished.stderr.contains("--rate-hint: tcp does not use"));
    assert!(finished.json()["rate_hint_bits_per_second"].is_null());
}
