//! Tests of a server: limits, misbehaving peers, the end.

mod demands;
mod stalls;

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use transpute::{
    Bits, Builder, Circuit, Connection, Error, Identity, InputSplit, OutputPolicy, Party, Program,
    Registry, Role, SessionError, UInt,
    serve::{Limits, Offered, Request, ServeSummary, Stopper},
    session::{AbortReason, Call, ConnectionConfig, Field, Repeat, SessionConnection as Protocol},
    transport::{Link, Security},
};

const OURS: u128 = 1000;

fn adder() -> Circuit {
    Builder::build(|b| {
        let x = b.input::<UInt<16>>();
        let y = b.input::<UInt<16>>();
        b.output(x + y);
    })
    .unwrap()
}

fn number(value: u128) -> Bits {
    Bits::from_u128(value, 16)
}

/// A server of sums without encryption, with its stopper.
struct Serving {
    address: String,
    stop: Stopper,
    end: JoinHandle<Result<ServeSummary, Error>>,
}

impl Serving {
    async fn start(limits: Limits) -> Self {
        let party = Party::garbler(&adder()).plaintext().transport("tcp");
        Self::of(party, limits).await
    }

    async fn of(party: Party, limits: Limits) -> Self {
        let input = |_: &Request| Ok(number(OURS));
        let listening = party.listen("127.0.0.1:0").await.unwrap();
        let server = listening.serve(input, limits).unwrap();
        Self {
            address: server.local_address(),
            stop: server.stopper(),
            end: tokio::spawn(server.run()),
        }
    }

    async fn connect(&self) -> Connection {
        let party = Party::evaluator(&adder()).plaintext().transport("tcp");
        party.connect(&self.address).open().await.unwrap()
    }

    /// Connects without sending anything.
    async fn link(&self) -> Link {
        let tcp = Registry::with_builtins().get("tcp").unwrap();
        tcp.connect(&self.address, &Security::Plaintext)
            .await
            .unwrap()
    }

    async fn stop(self) -> ServeSummary {
        self.stop.stop();
        let end = timeout(Duration::from_secs(60), self.end).await;
        end.expect("it stops in time").unwrap().unwrap()
    }
}

async fn check(connection: &Connection, value: u128) {
    let outcome = connection.run(number(value)).await.unwrap();
    assert_eq!(outcome.bits(), number(OURS + value));
}

/// Returns the source of a connection's error.
fn root(error: Error) -> Arc<SessionError> {
    match error {
        Error::Session(SessionError::Connection(error)) => error,
        Error::Session(error) => Arc::new(error),
        other => panic!("{other}"),
    }
}

/// Returns the frames that open a connection and call for one run.
fn opening() -> Vec<u8> {
    let program = Arc::new(Program::compile(&adder()));
    let mut protocol = Protocol::new(ConnectionConfig::default(), false);
    let call = Call {
        split: InputSplit::first_to_garbler(program.input_widths()),
        program,
        config: transpute::Config::default(),
        inputs: Some(Box::new(Repeat(number(1)))),
    };
    protocol.call(Role::Evaluator, call).unwrap();
    let mut out = Vec::new();
    while protocol.poll(&mut out, true).unwrap() == transpute::session::Progressed::Worked {}
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn many_peers_are_served_among_those_that_do_wrong() {
    let mut limits = Limits::default();
    limits.max_per_peer = 100;
    limits.runs_at_once = 8;
    let serving = Serving::start(limits).await;
    // Five peers stall: one sends nothing, one sends another protocol, one sends half an opening,
    // one calls for a run without continuing, and one only connects over TCP.
    let silent = serving.link().await;
    let mut wrong = Vec::new();
    let opening = opening();
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &opening[..50], &opening] {
        let (reader, mut writer) = serving.link().await.into_parts();
        writer.write_all(words).await.unwrap();
        writer.flush().await.unwrap();
        wrong.push((reader, writer));
    }
    let _half = TcpStream::connect(&serving.address).await.unwrap();
    let peers: Vec<_> = (0..40)
        .map(|peer| {
            let party = Party::evaluator(&adder()).plaintext().transport("tcp");
            let connecting = party.connect(&serving.address);
            tokio::spawn(async move {
                let connection = connecting.open().await.unwrap();
                for value in [peer, peer + 500] {
                    check(&connection, value).await;
                }
                connection.close().await.unwrap();
            })
        })
        .collect();
    for peer in peers {
        peer.await.unwrap();
    }
    drop((silent, wrong));
    let summary = serving.stop().await;
    assert_eq!((summary.runs, summary.evaluations), (80, 80), "{summary:?}");
    assert!(summary.max_at_once <= 100);
}

#[tokio::test]
async fn peers_over_a_limit_are_told() {
    let (mut connections, mut per_peer) = (Limits::default(), Limits::default());
    connections.max_connections = 2;
    per_peer.max_per_peer = 2;
    for limits in [connections, per_peer] {
        let serving = Serving::start(limits).await;
        let (first, second) = (serving.connect().await, serving.connect().await);
        check(&first, 1).await;
        check(&second, 2).await;
        let third = serving.connect().await;
        let error = root(third.run(number(3)).await.unwrap_err());
        assert!(
            matches!(*error, SessionError::PeerAborted(AbortReason::Busy)),
            "{error}"
        );
        drop(third);
        // Peers within the limit continue, and free their slots when they leave.
        check(&first, 4).await;
        second.close().await.unwrap();
        let fourth = loop {
            let fourth = serving.connect().await;
            if fourth.run(number(5)).await.is_ok() {
                break fourth;
            }
        };
        check(&fourth, 6).await;
        drop((first, fourth));
        assert!(serving.stop().await.rejected >= 1);
    }
}

#[tokio::test]
async fn what_is_not_offered_is_refused_and_the_rest_goes_on() {
    let serving = Serving::start(Limits::default()).await;
    let connection = serving.connect().await;
    let handle = connection.handle();
    let call = |circuit: &Circuit, role, batch| {
        let program = Arc::new(Program::compile(circuit));
        let split = InputSplit::first_to_garbler(program.input_widths());
        let mut config = transpute::Config::default();
        config.batch = batch;
        handle.run(role, program, split, config, Box::new(Repeat(number(1))))
    };
    let other = Builder::build(|b| {
        let x = b.input::<UInt<16>>();
        let y = b.input::<UInt<16>>();
        b.output(x - y);
    })
    .unwrap();
    for (running, field) in [
        (call(&other, Role::Evaluator, 1), Field::Circuit),
        (call(&adder(), Role::Garbler, 1), Field::Role),
        (call(&adder(), Role::Evaluator, 2), Field::Batch),
    ] {
        let error = running.await.unwrap_err();
        assert!(
            matches!(error, SessionError::RefusedByPeer(found) if found == field),
            "{error}"
        );
    }
    // A cancelled run leaves no gap in the numbers.
    drop(call(&adder(), Role::Evaluator, 1));
    check(&connection, 7).await;
    let preparing = connection.prepare().await.unwrap_err();
    assert!(matches!(
        *root(preparing),
        SessionError::PreparedFull { .. } | SessionError::RefusedByPeer(Field::Prepared)
    ));
    check(&connection, 8).await;
    connection.close().await.unwrap();
    let summary = serving.stop().await;
    assert_eq!(summary.runs, 2, "{summary:?}");
    assert!(summary.declined >= 3, "{summary:?}");
}

/// The peer of a single run follows its plan, in either role.
#[tokio::test]
async fn a_single_run_is_served() {
    let circuit = adder();
    for is_garbling in [true, false] {
        let (server, client) = match is_garbling {
            true => (Party::garbler(&circuit), Party::evaluator(&circuit)),
            false => (Party::evaluator(&circuit), Party::garbler(&circuit)),
        };
        let server = server.output_to(OutputPolicy::Both).plaintext();
        let serving = Serving::of(server.transport("tcp"), Limits::default()).await;
        let client = client.output_to(OutputPolicy::Both).plaintext();
        let connecting = client.transport("tcp").connect(&serving.address);
        let results = connecting.run(number(30)).await.unwrap();
        assert_eq!(results.bits(), number(OURS + 30));
        assert_ne!(results.report.session.ot, transpute::session::OtPlan::Pool);
        let summary = serving.stop().await;
        assert_eq!((summary.runs, summary.broken), (1, 0), "{summary:?}");
    }
}

#[tokio::test]
async fn idle_and_stalled_peers_are_sent_away() {
    let mut limits = Limits::default();
    limits.idle = Duration::from_millis(300);
    limits.stall = Duration::from_millis(300);
    limits.opening = Duration::from_millis(300);
    let serving = Serving::start(limits).await;
    let idle = serving.connect().await;
    check(&idle, 1).await;
    // The server closes both connections, so reading ends.
    for words in [Vec::new(), opening()] {
        let (mut reader, mut writer) = serving.link().await.into_parts();
        writer.write_all(&words).await.unwrap();
        writer.flush().await.unwrap();
        let mut heard = Vec::new();
        let reading = reader.read_to_end(&mut heard);
        let _ = timeout(Duration::from_secs(30), reading)
            .await
            .expect("the peer is cut off");
    }
    let error = loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if let Err(error) = idle.run(number(2)).await {
            break root(error);
        }
        tokio::time::sleep(Duration::from_millis(600)).await;
    };
    assert!(matches!(*error, SessionError::Closed), "{error}");
    let summary = serving.stop().await;
    assert_eq!(summary.broken, 1, "{summary:?}");
}

#[tokio::test]
async fn stopping_finishes_what_is_under_way() {
    let (asked, mut is_asked) = tokio::sync::mpsc::unbounded_channel();
    let (go, may_go) = tokio::sync::watch::channel(false);
    struct Slow(
        tokio::sync::mpsc::UnboundedSender<()>,
        tokio::sync::watch::Receiver<bool>,
    );
    impl transpute::serve::Service for Slow {
        async fn input(
            &self,
            _: &Request,
        ) -> Result<Box<dyn transpute::Inputs>, transpute::session::Decline> {
            let _ = self.0.send(());
            let _ = self.1.clone().wait_for(|go| *go).await;
            Ok(Box::new(Repeat(number(OURS))))
        }
    }
    let party = Party::garbler(&adder()).plaintext().transport("tcp");
    let listening = party.listen("127.0.0.1:0").await.unwrap();
    let server = listening
        .serve(Slow(asked, may_go), Limits::default())
        .unwrap();
    let (address, stop) = (server.local_address(), server.stopper());
    let end = tokio::spawn(server.run());
    let connect = || {
        let party = Party::evaluator(&adder()).plaintext().transport("tcp");
        party.connect(&address).open()
    };
    let connection = connect().await.unwrap();
    let running = connection.run(number(1));
    let (outcome, ()) = tokio::join!(running, async {
        is_asked.recv().await.unwrap();
        go.send_replace(true);
    });
    assert_eq!(outcome.unwrap().bits(), number(OURS + 1));
    // The second run waits for its input when the server stops, so it has not started.
    go.send_replace(false);
    let (outcome, ()) = tokio::join!(connection.run(number(2)), async {
        is_asked.recv().await.unwrap();
        stop.stop();
    });
    assert!(matches!(*root(outcome.unwrap_err()), SessionError::Closed));
    let summary = timeout(Duration::from_secs(60), end)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(summary.runs, 1, "{summary:?}");
    assert!(connect().await.is_err());
}

#[tokio::test]
async fn pinned_peers_are_served_in_both_roles_over_any_transport() {
    for transport in ["tcp", "quic", "auto"] {
        let choice = || match transport {
            "auto" => transpute::TransportChoice::Auto,
            name => name.into(),
        };
        let server = Identity::generate().unwrap();
        let server_is = server.fingerprint();
        let peers: Vec<_> = (0..3).map(|_| Identity::generate().unwrap()).collect();
        let settings = |party: Party| party.output_to(OutputPolicy::Both).transport(choice());
        let sum = settings(Party::evaluator(&adder()));
        let other = settings(Party::garbler(&adder()));
        let offered = vec![Offered::new(&sum).unwrap(), Offered::new(&other).unwrap()];
        let mut party = settings(Party::evaluator(&adder())).identity(server);
        for peer in &peers {
            party = party.peer(peer.fingerprint());
        }
        let listening = party.listen("127.0.0.1:0").await.unwrap();
        let server = listening.serve_all(
            offered,
            |request: &Request| {
                assert!(request.peer.link.peer_fingerprint.is_some());
                Ok(number(OURS))
            },
            Limits::default(),
        );
        let (address, stop) = (server.local_address(), server.stopper());
        let end = tokio::spawn(server.run());
        for peer in peers {
            let party = settings(Party::garbler(&adder()))
                .identity(peer)
                .peer(server_is);
            let connection = party.connect(&address).open().await.unwrap();
            let outcome = connection.run(number(5)).await.unwrap();
            assert_eq!(outcome.bits(), number(OURS + 5));
            let program = Arc::new(Program::compile(&adder()));
            let split = InputSplit::first_to_garbler(program.input_widths());
            let mut config = transpute::Config::default();
            config.output = OutputPolicy::Both;
            let inputs = Box::new(Repeat(number(6)));
            let running =
                (connection.handle()).run(Role::Evaluator, program, split, config, inputs);
            assert_eq!(running.await.unwrap().outputs, [number(OURS + 6)]);
            connection.close().await.unwrap();
        }
        stop.stop();
        let summary = end.await.unwrap().unwrap();
        assert_eq!((summary.runs, summary.failed), (6, 0), "{transport}");
    }
}
