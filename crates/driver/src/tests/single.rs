//! Tests of connections for a single run.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use transpute_session::{
    AbortReason, Field, Milestone, Output, OutputPolicy, Role, RunId, SessionConnection,
    SessionError,
};

use super::Setup;
use crate::{DriverOptions, SingleRunReport, run_over, spawn_thread};

/// Short timeouts, so that the tests detect silence quickly.
const OPTIONS: DriverOptions = DriverOptions {
    idle_timeout: Duration::from_millis(400),
    keep_alive_interval: Duration::from_millis(50),
    linger: Duration::from_millis(200),
    max_payload: transpute_session::MAX_PAYLOAD,
};

fn start(setup: &Setup, role: Role) -> (SessionConnection, RunId) {
    SessionConnection::single(role, setup.call(role), false, Some(spawn_thread)).unwrap()
}

async fn drive(
    (connection, run): (SessionConnection, RunId),
    stream: DuplexStream,
) -> (Result<SingleRunReport, SessionError>, Vec<Output>) {
    let (reader, writer) = split(stream);
    let outputs = Arc::new(Mutex::new(Vec::new()));
    let sink = outputs.clone();
    let result = run_over(connection, run, reader, writer, OPTIONS, move |output| {
        sink.lock().unwrap().push(output);
    })
    .await;
    let result = match result {
        Ok(outcome) => {
            outcome.closing.wait().await;
            Ok(outcome.report)
        }
        Err(error) => Err(error),
    };
    let outputs = std::mem::take(&mut *outputs.lock().unwrap());
    (result, outputs)
}

#[tokio::test]
async fn a_session_works_over_streams_of_any_capacity() {
    let mut setup = Setup::chain(2000, 20);
    setup.config.output = OutputPolicy::Both;
    setup.config.chunk_len = 1024;
    for (capacity, threads) in [(16, 1), (1000, 1), (1 << 20, 1), (1 << 20, 2)] {
        setup.config.threads = threads.try_into().unwrap();
        let (left, right) = duplex(capacity);
        let (garbler, evaluator) = tokio::join!(
            drive(start(&setup, Role::Garbler), left),
            drive(start(&setup, Role::Evaluator), right),
        );
        for (report, outputs) in [garbler, evaluator] {
            let report = report.unwrap();
            assert!(report.at(Milestone::LastOutput) >= report.at(Milestone::FirstTable));
            let outputs: Vec<_> = outputs.into_iter().map(|output| output.bits).collect();
            assert_eq!(outputs, setup.expected());
        }
    }
}

#[tokio::test]
async fn a_peer_that_closes_is_detected() {
    let setup = Setup::chain(50, 1);
    for role in [Role::Garbler, Role::Evaluator] {
        let (left, right) = duplex(1000);
        drop(right);
        let (report, _) = drive(start(&setup, role), left).await;
        assert!(matches!(report, Err(SessionError::Closed)), "{report:?}");
    }
}

#[tokio::test]
async fn a_silent_peer_is_noticed() {
    let setup = Setup::chain(50, 1);
    for role in [Role::Garbler, Role::Evaluator] {
        // The peer stays connected and reads, but sends nothing.
        let (left, mut right) = duplex(1000);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 1000];
            while right.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        });
        let (report, _) = drive(start(&setup, role), left).await;
        assert!(
            matches!(report, Err(SessionError::PeerLost(_))),
            "{report:?}"
        );
        reading.abort();
    }
}

#[tokio::test]
async fn a_slow_peer_that_sends_keep_alives_is_not_lost() {
    let setup = Setup::chain(50, 1);
    let (left, mut right) = duplex(1 << 20);
    let slow = async {
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_millis(40)).await;
            right
                .write_all(SessionConnection::sign_of_life())
                .await
                .unwrap();
        }
        drive(start(&setup, Role::Evaluator), right).await
    };
    let (garbler, evaluator) = tokio::join!(drive(start(&setup, Role::Garbler), left), slow);
    garbler.0.unwrap();
    evaluator.0.unwrap();
}

#[tokio::test]
async fn garbage_is_answered_with_an_abort() {
    let setup = Setup::chain(50, 1);
    let (left, mut right) = duplex(1 << 20);
    let peer = async {
        right.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        right.shutdown().await.unwrap();
        let mut heard = Vec::new();
        right.read_to_end(&mut heard).await.unwrap();
        heard
    };
    let (ours, heard) = tokio::join!(drive(start(&setup, Role::Evaluator), left), peer);
    assert!(
        matches!(ours.0, Err(SessionError::Frame(_))),
        "{:?}",
        ours.0
    );
    // An `Abort` frame for the connection, with the reason [`AbortReason::Protocol`].
    let farewell = [0x31, 5, 0, 0, 0, 0, 0, 0, 0, 1];
    assert!(heard.ends_with(&farewell));
}

#[tokio::test]
async fn both_sides_report_a_disagreement() {
    let ours = Setup::chain(5000, 1);
    let mut theirs = ours.clone();
    theirs.config.chunk_len = 100;
    let (left, right) = duplex(1000);
    let (garbler, evaluator) = tokio::join!(
        drive(start(&ours, Role::Garbler), left),
        drive(start(&theirs, Role::Evaluator), right),
    );
    for report in [garbler.0, evaluator.0] {
        assert!(
            matches!(
                report,
                Err(SessionError::Disagreement {
                    field: Field::ChunkLen,
                    ..
                } | SessionError::RefusedByPeer(Field::ChunkLen))
            ),
            "{report:?}"
        );
    }
}

#[tokio::test]
async fn a_failing_input_ends_both_sides() {
    let setup = Setup::chain(50, 3);
    let mut broken = setup.clone();
    broken.inputs.truncate(1);
    let (left, right) = duplex(1000);
    let (garbler, evaluator) = tokio::join!(
        drive(start(&broken, Role::Garbler), left),
        drive(start(&setup, Role::Evaluator), right),
    );
    assert!(matches!(
        garbler.0,
        Err(SessionError::Input { instance: 1, .. })
    ));
    assert!(matches!(
        evaluator.0,
        Err(SessionError::PeerAborted(AbortReason::Local))
    ));
}
