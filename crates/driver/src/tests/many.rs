//! Tests of connections for many runs.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use transpute_session::{
    AbortReason, ConnectionConfig, FrameDecoder, FrameKind, OutputPolicy, Role, SessionConnection,
    SessionError,
};

use super::Setup;
use crate::{ConnectionHandle, ConnectionTask, DriverOptions, Running, drive_over};

/// Short timeouts, so that the tests detect silence quickly.
const OPTIONS: DriverOptions = DriverOptions {
    idle_timeout: Duration::from_millis(2000),
    keep_alive_interval: Duration::from_millis(100),
    linger: Duration::from_millis(300),
    max_payload: transpute_session::MAX_PAYLOAD,
};

fn side(stream: DuplexStream) -> (ConnectionHandle, ConnectionTask) {
    let (reader, writer) = split(stream);
    let connection = SessionConnection::new(ConnectionConfig::default(), false);
    drive_over(connection, reader, writer, OPTIONS)
}

fn sides(capacity: usize) -> [(ConnectionHandle, ConnectionTask); 2] {
    let (left, right) = duplex(capacity);
    [side(left), side(right)]
}

fn start(handle: &ConnectionHandle, role: Role, setup: &Setup) -> Running {
    handle.run(
        role,
        setup.program(),
        setup.split(),
        setup.config.clone(),
        Box::new(setup.own_inputs(role)),
    )
}

fn setup(ands: u32) -> Setup {
    let mut setup = Setup::chain(ands, 2);
    setup.config.output = OutputPolicy::Both;
    setup
}

#[tokio::test]
async fn many_tasks_share_a_connection_in_both_roles() {
    for capacity in [100, 1 << 20] {
        let [(left, left_end), (right, right_end)] = sides(capacity);
        let setup = setup(500);
        let mut calls = Vec::new();
        for index in 0..20 {
            let (ours, theirs) = if index % 3 == 0 {
                (Role::Garbler, Role::Evaluator)
            } else {
                (Role::Evaluator, Role::Garbler)
            };
            for running in [start(&left, ours, &setup), start(&right, theirs, &setup)] {
                calls.push(tokio::spawn(running));
            }
        }
        for call in calls {
            let outcome = call.await.unwrap().unwrap();
            assert_eq!(outcome.outputs, setup.expected());
        }
        // Each side closes the connection when its last handle is dropped.
        drop((left, right));
        left_end.wait().await.unwrap();
        right_end.wait().await.unwrap();
    }
}

#[tokio::test]
async fn a_prepared_run_waits_for_its_inputs() {
    let [(left, left_end), (right, right_end)] = sides(1 << 20);
    let setup = setup(3000);
    let prepare = |handle: &ConnectionHandle, role| {
        let (handle, setup) = (handle.clone(), setup.clone());
        async move {
            handle
                .prepare(role, setup.program(), setup.split(), setup.config.clone())
                .await
                .unwrap()
        }
    };
    let (garbler, evaluator) = tokio::join!(
        prepare(&left, Role::Garbler),
        prepare(&right, Role::Evaluator)
    );
    let garbler = garbler.run(Box::new(setup.own_inputs(Role::Garbler)));
    let evaluator = evaluator.run(Box::new(setup.own_inputs(Role::Evaluator)));
    let (garbler, evaluator) = tokio::join!(garbler, evaluator);
    assert_eq!(garbler.unwrap().outputs, setup.expected());
    assert_eq!(evaluator.unwrap().outputs, setup.expected());
    left.close();
    left_end.wait().await.unwrap();
    right_end.wait().await.unwrap();
    assert!(matches!(
        start(&right, Role::Garbler, &setup).await,
        Err(SessionError::Closed)
    ));
}

#[tokio::test]
async fn a_dropped_call_cancels_only_its_run() {
    let [(left, left_end), (right, right_end)] = sides(1 << 20);
    let setup = setup(500);
    drop(start(&left, Role::Garbler, &setup));
    let second = start(&left, Role::Garbler, &setup);
    let theirs = start(&right, Role::Evaluator, &setup);
    let their_second = start(&right, Role::Evaluator, &setup);
    let (second, theirs, their_second) = tokio::join!(second, theirs, their_second);
    assert_eq!(second.unwrap().outputs, setup.expected());
    assert!(
        matches!(
            theirs,
            Err(SessionError::PeerAborted(AbortReason::Cancelled))
        ),
        "{theirs:?}"
    );
    assert_eq!(their_second.unwrap().outputs, setup.expected());
    drop((left, right));
    left_end.wait().await.unwrap();
    right_end.wait().await.unwrap();
}

#[tokio::test]
async fn a_cut_link_ends_all_runs() {
    let (left, mut right) = duplex(1 << 20);
    let (handle, end) = side(left);
    let setup = setup(50);
    let runs = [
        start(&handle, Role::Garbler, &setup),
        start(&handle, Role::Evaluator, &setup),
    ];
    let mut heard = vec![0; 1000];
    right.read_exact(&mut heard).await.unwrap();
    drop(right);
    for run in runs {
        assert!(matches!(run.await, Err(SessionError::Connection(_))));
    }
    assert!(end.wait().await.is_err());
}

#[tokio::test]
async fn garbage_is_answered_with_an_abort() {
    let (left, mut right) = duplex(1 << 20);
    let (handle, end) = side(left);
    right.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    right.shutdown().await.unwrap();
    let mut heard = Vec::new();
    right.read_to_end(&mut heard).await.unwrap();
    assert!(end.wait().await.is_err());
    let mut decoder = FrameDecoder::new();
    decoder.buffer().extend_from_slice(&heard);
    let frames = std::iter::from_fn(|| decoder.next_frame().unwrap());
    let kinds: Vec<_> = frames.map(|frame| frame.kind).collect();
    assert!(kinds.contains(&FrameKind::Open), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&FrameKind::Abort));
    drop(handle);
}
