//! The driver over in-memory streams.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};

use super::{Setup, chain, random_inputs};
use crate::{
    AbortReason, DriverOptions, Field, Milestone, Output, OutputPolicy, Report, Role, Session,
    SessionError, driver::run_over,
};

/// Short times, so that silence is noticed soon.
const OPTIONS: DriverOptions = DriverOptions {
    silence_limit: Duration::from_millis(400),
    sign_of_life: Duration::from_millis(50),
    linger: Duration::from_millis(200),
    max_payload: crate::MAX_PAYLOAD,
};

async fn drive(
    session: Session,
    stream: DuplexStream,
) -> (Result<Report, SessionError>, Vec<Output>) {
    let (reader, writer) = split(stream);
    let outputs = Arc::new(Mutex::new(Vec::new()));
    let sink = outputs.clone();
    let result = run_over(session, reader, writer, OPTIONS, move |output| {
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
async fn a_session_passes_through_the_narrowest_pipe() {
    let circuit = chain(2000);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 20, 3));
    setup.config.output = OutputPolicy::Both;
    setup.config.chunk_len = 1024;
    for capacity in [16, 1000, 1 << 20] {
        let (left, right) = duplex(capacity);
        let (garbler, evaluator) = tokio::join!(
            drive(setup.start(Role::Garbler, 1).unwrap(), left),
            drive(setup.start(Role::Evaluator, 2).unwrap(), right),
        );
        for (report, outputs) in [garbler, evaluator] {
            let report = report.unwrap();
            assert!(report.at(Milestone::LastOutput) >= report.at(Milestone::FirstTable));
            for (output, input) in outputs.iter().zip(&setup.inputs) {
                assert_eq!(output.bits, circuit.evaluate(input).unwrap());
            }
            assert_eq!(outputs.len(), 20);
        }
    }
}

#[tokio::test]
async fn a_peer_that_closes_is_noticed() {
    let circuit = chain(50);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 3));
    for role in [Role::Garbler, Role::Evaluator] {
        let (left, right) = duplex(1000);
        drop(right);
        let (report, _) = drive(setup.start(role, 1).unwrap(), left).await;
        assert!(matches!(report, Err(SessionError::Closed)), "{report:?}");
    }
}

#[tokio::test]
async fn a_silent_peer_is_noticed() {
    let circuit = chain(50);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 3));
    for role in [Role::Garbler, Role::Evaluator] {
        // The peer stays connected, even reads, but says nothing.
        let (left, mut right) = duplex(1000);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 1000];
            while right.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        });
        let (report, _) = drive(setup.start(role, 1).unwrap(), left).await;
        assert!(
            matches!(report, Err(SessionError::PeerLost(_))),
            "{report:?}"
        );
        reading.abort();
    }
}

#[tokio::test]
async fn a_slow_peer_that_shows_signs_of_life_is_waited_for() {
    let circuit = chain(50);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 3));
    let (left, mut right) = duplex(1 << 20);
    let slow = async {
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_millis(40)).await;
            right.write_all(Session::sign_of_life()).await.unwrap();
        }
        drive(setup.start(Role::Evaluator, 2).unwrap(), right).await
    };
    let (garbler, evaluator) =
        tokio::join!(drive(setup.start(Role::Garbler, 1).unwrap(), left), slow);
    garbler.0.unwrap();
    evaluator.0.unwrap();
}

#[tokio::test]
async fn garbage_is_answered_with_an_abort() {
    let circuit = chain(50);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 3));
    let (left, mut right) = duplex(1 << 20);
    let peer = async {
        right.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        right.shutdown().await.unwrap();
        let mut heard = Vec::new();
        right.read_to_end(&mut heard).await.unwrap();
        heard
    };
    let (ours, heard) = tokio::join!(drive(setup.start(Role::Evaluator, 1).unwrap(), left), peer);
    assert!(
        matches!(ours.0, Err(SessionError::Frame(_))),
        "{:?}",
        ours.0
    );
    let farewell = Session::farewell(&SessionError::NotTranspute).unwrap();
    assert!(heard.ends_with(&farewell));
}

#[tokio::test]
async fn both_sides_of_a_disagreement_know() {
    let circuit = chain(5000);
    let ours = Setup::new(&circuit, random_inputs(&circuit, 1, 3));
    let mut theirs = ours.clone();
    theirs.config.chunk_len = 100;
    let (left, right) = duplex(1000);
    let (garbler, evaluator) = tokio::join!(
        drive(ours.start(Role::Garbler, 1).unwrap(), left),
        drive(theirs.start(Role::Evaluator, 2).unwrap(), right),
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
    let circuit = chain(50);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 3, 3));
    let mut broken = setup.clone();
    broken.inputs.truncate(1);
    let (left, right) = duplex(1000);
    let (garbler, evaluator) = tokio::join!(
        drive(broken.start(Role::Garbler, 1).unwrap(), left),
        drive(setup.start(Role::Evaluator, 2).unwrap(), right),
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
