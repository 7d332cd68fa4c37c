//! `transpute tunnel` over real sockets: forwards, refusals, and what programs see when a tunnel is
//! killed.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
};

use crate::{
    harness::{KEYS, Process, transpute},
    process::DEADLINE,
};

/// The flags of the listening side and of the connecting side.
fn protection(is_pinned: bool) -> [Vec<String>; 2] {
    if !is_pinned {
        return [(); 2].map(|()| vec!["--plaintext".to_owned()]);
    }
    let flags = |me: &crate::harness::Key, peer: &crate::harness::Key| {
        let path = me.path.to_str().unwrap().to_owned();
        let [identity, pin] = ["--identity", "--peer"].map(str::to_owned);
        vec![identity, path, pin, peer.fingerprint.clone()]
    };
    let (a, b) = (&KEYS.garbler, &KEYS.evaluator);
    [flags(a, b), flags(b, a)]
}

/// Both sides of a tunnel.
struct Tunnel {
    listening: Process,
    connecting: Process,
    /// The local addresses of the forwards of the connecting side.
    addresses: Vec<String>,
}

/// Reads the local address of a forward.
fn forward(process: &mut Process) -> String {
    let line = process.line("forwarding ");
    line.split(' ').next().unwrap().to_owned()
}

impl Tunnel {
    /// Starts a tunnel. The listening side allows `allowed`, and the connecting side forwards a
    /// port to each of `targets`.
    fn start(transport: &str, is_pinned: bool, allowed: &[&str], targets: &[&str]) -> Self {
        let [ours, theirs] = protection(is_pinned);
        let mut args = vec!["tunnel", "listen", "--transport", transport];
        args.extend(["--listen", "127.0.0.1:0"]);
        args.extend(ours.iter().map(String::as_str));
        for target in allowed {
            args.extend(["--allow", target]);
        }
        let mut listening = Process::start(args);
        let address = listening.listening_on();

        let rules: Vec<String> = targets.iter().map(|target| format!("0={target}")).collect();
        let mut args = vec!["tunnel", "connect", "--transport", transport];
        args.extend(["--connect", &address]);
        args.extend(theirs.iter().map(String::as_str));
        for rule in &rules {
            args.extend(["--forward", rule]);
        }
        let mut connecting = Process::start(args);
        let addresses = rules.iter().map(|_| forward(&mut connecting)).collect();
        connecting.line("connected to ");
        Self {
            listening,
            connecting,
            addresses,
        }
    }
}

/// Starts a server that runs `serve` for each connection.
fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let serve = serve.clone();
            thread::spawn(move || serve(socket.unwrap()));
        }
    });
    address
}

fn echo() -> String {
    server(|mut socket| {
        let mut writer = socket.try_clone().unwrap();
        if io::copy(&mut socket, &mut writer).is_ok() {
            let _ = writer.shutdown(Shutdown::Write);
        }
    })
}

fn connect(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket
}

/// Sends bytes, ends this direction, and returns the answer.
fn exchange(mut socket: TcpStream, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = socket.try_clone()?;
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            writer.write_all(bytes)?;
            writer.shutdown(Shutdown::Write)
        });
        let mut answer = Vec::new();
        let read = socket.read_to_end(&mut answer);
        read.and(sending.join().unwrap()).map(|()| answer)
    })
}

/// Checks that a connection was reset. A tunnel that is lost must never look like the end of the
/// data.
#[track_caller]
fn assert_reset<T: std::fmt::Debug>(result: io::Result<T>) {
    let kind = result.unwrap_err().kind();
    let is_reset = matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    assert!(is_reset, "{kind:?}");
}

#[test]
fn connections_pass_over_every_kind_of_link() {
    let target = echo();
    let bytes: Vec<u8> = (0..2_000_003_u32).map(|i| (i / 7) as u8).collect();
    for (transport, is_pinned) in [("auto", true), ("auto", false), ("rudp", true)] {
        let tunnel = Tunnel::start(transport, is_pinned, &[&target], &[&target]);
        for bytes in [&bytes[..], b"", b"x"] {
            let answer = exchange(connect(&tunnel.addresses[0]), bytes).unwrap();
            assert!(answer == bytes, "{transport}: {} bytes", bytes.len());
        }
        #[cfg(target_os = "linux")]
        {
            tunnel.connecting.interrupt().finish().expect(0);
            tunnel.listening.interrupt().finish().expect(0);
        }
    }
}

#[test]
fn the_listening_side_forwards_over_the_newest_link() {
    let target = echo();
    let [ours, theirs] = protection(true);
    let rule = format!("0={target}");
    let mut listening = Process::start(
        [
            "tunnel",
            "listen",
            "--listen",
            "127.0.0.1:0",
            "--forward",
            &rule,
        ]
        .into_iter()
        .chain(ours.iter().map(String::as_str)),
    );
    let local = forward(&mut listening);
    let address = listening.listening_on();
    assert_reset(exchange(connect(&local), b"no link yet"));
    listening.line(" WARN reset a connection to ");
    for _ in 0..2 {
        let connecting = Process::start(
            [
                "tunnel",
                "connect",
                "--connect",
                &address,
                "--allow",
                &target,
            ]
            .into_iter()
            .chain(theirs.iter().map(String::as_str)),
        );
        listening.line("link ");
        assert_eq!(exchange(connect(&local), b"hello").unwrap(), b"hello");
        connecting.kill();
        listening.line("link ");
    }
    assert_reset(exchange(connect(&local), b"no link any more"));
}

#[test]
fn refused_connections_are_reset_and_reported_on_both_sides() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let other = echo();
    let mut tunnel = Tunnel::start("tcp", false, &[&closed], &[&closed, &other]);
    assert_reset(exchange(connect(&tunnel.addresses[0]), b"hello"));
    let line = (tunnel.listening).line(&format!(" WARN refused a connection to {closed}: "));
    assert!(line.contains("refused"), "{line}");
    let line = (tunnel.connecting).line(&format!(" WARN reset a connection to {closed}: "));
    assert!(line.contains("the far side refused it"), "{line}");
    assert_reset(exchange(connect(&tunnel.addresses[1]), b"hello"));
    let line = (tunnel.listening).line(&format!(" WARN refused a connection to {other}: "));
    assert_eq!(line, "this target is not allowed");
}

/// A program that reads from the tunnel, and a program at the target that reads too. Returns the
/// connection of the first, and receives the result of the second.
fn readers(address: &str, results: &std::sync::mpsc::Receiver<io::Result<usize>>) -> TcpStream {
    let mut client = connect(address);
    client.write_all(b"x").unwrap();
    let mut byte = [0];
    client.read_exact(&mut byte).unwrap();
    assert!(results.try_recv().is_err());
    client
}

#[test]
fn a_killed_tunnel_resets_the_connections_on_both_sides() {
    let (sender, results) = std::sync::mpsc::channel();
    let target = server(move |mut socket| {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        socket.write_all(&byte).unwrap();
        sender.send(socket.read(&mut byte)).unwrap();
    });
    for is_pinned in [true, false] {
        for kills_listener in [true, false] {
            let tunnel = Tunnel::start("tcp", is_pinned, &[&target], &[&target]);
            let mut client = readers(&tunnel.addresses[0], &results);
            let Tunnel {
                mut listening,
                connecting,
                ..
            } = tunnel;
            if kills_listener {
                listening.kill();
                connecting.finish().fails(6, "");
            } else {
                connecting.kill();
                listening.line("link 1: ended: ");
            }
            assert_reset(client.read(&mut [0]));
            assert_reset(results.recv_timeout(DEADLINE).unwrap());
        }
    }
}

#[test]
fn what_prevents_a_tunnel_has_an_exit_code() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let rule = format!("{port}=80");
    let start = [
        "tunnel",
        "connect",
        "--plaintext",
        "--connect",
        "127.0.0.1:1",
    ];
    let connect = |more: &[&str]| transpute(start.iter().chain(more).copied());
    let message = format!("cannot listen on 127.0.0.1:{port}");
    connect(&["--forward", &rule]).fails(4, &message);
    connect(&["--allow", "80", "--patience", "0"]).fails(4, "cannot connect");
    connect(&[]).fails(2, "required");
    for (wrong, fragment) in [
        ("80", "expected LOCAL=REMOTE"),
        ("x=80", "expected HOST:PORT, PORT or unix:PATH"),
        ("80=unix:", "expected a path after unix:"),
        ("80=::1:80", "must be in brackets"),
    ] {
        connect(&["--forward", wrong]).fails(2, fragment);
    }
    connect(&["--allow", "host:99999"]).fails(2, "from 0 to 65535");
    let start = ["tunnel", "listen", "--listen", "127.0.0.1:0"];
    let listen = |more: &[&str]| transpute(start.iter().chain(more).copied());
    listen(&["--plaintext", "--forward", &rule]).fails(4, &message);
    listen(&["--allow", "80"]).fails(2, "--identity FILE and --peer");
    listen(&["--allow", "80", "--plaintext", "--transport", "smoke"]).fails(2, "smoke");
}

#[test]
fn a_peer_with_another_key_is_rejected() {
    let [ours, _] = protection(true);
    for transport in ["tcp", "auto"] {
        let args = [
            "tunnel",
            "listen",
            "--listen",
            "127.0.0.1:0",
            "--allow",
            "80",
        ];
        let args = args.into_iter().chain(["--transport", transport]);
        let mut listening = Process::start(args.chain(ours.iter().map(String::as_str)));
        let address = listening.listening_on();
        let connect = |key: &str, pin: &str| {
            let start = ["tunnel", "connect", "--connect", &address, "--allow", "80"];
            let flags = ["--transport", transport, "--identity", key, "--peer", pin];
            transpute(start.into_iter().chain(flags))
        };
        let (stranger, us) = (&KEYS.stranger, &KEYS.garbler);
        connect(stranger.path.to_str().unwrap(), &us.fingerprint).fails(4, "refused our identity");
        let key = KEYS.evaluator.path.to_str().unwrap();
        connect(key, &stranger.fingerprint).fails(4, "expected sha256:");
    }
}

#[test]
fn another_protocol_on_the_link_is_named() {
    let server = Process::start(["link", "serve", "--listen", "127.0.0.1:0", "--plaintext"]);
    let mut server = server;
    let address = server.listening_on();
    let args = ["tunnel", "connect", "--connect", &address, "--plaintext"];
    let tunnel = transpute(
        args.into_iter()
            .chain(["--transport", "tcp", "--allow", "80"]),
    );
    // The server closes the link, because the hello of a tunnel is no request.
    tunnel.fails(6, "");

    let mut listening = Process::start(
        ["tunnel", "listen", "--listen", "127.0.0.1:0", "--plaintext"]
            .into_iter()
            .chain(["--transport", "tcp", "--allow", "80"]),
    );
    let address = listening.listening_on();
    transpute(
        ["link", "send", "--connect", &address, "--plaintext"]
            .into_iter()
            .chain(["--bytes", "10"]),
    )
    .fails(6, "");
    let line = listening.line("link 1: ended: ");
    assert!(line.contains("the peer does not run a tunnel"), "{line}");
}
