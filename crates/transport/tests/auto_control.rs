//! The control connection of `auto`, of which there are two until one is up.

#![cfg(unix)]

mod meeting;
mod relay;

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};
use transpute_transport::{
    Link, Listener, TransportError,
    auto::{Accepted, AutoListener, AutoOptions, Candidates, Offer},
};

use self::meeting::{patient, pinned};

/// Only what is looked at: neither QUIC nor reliable UDP.
fn control_alone() -> AutoOptions {
    let mut options = patient();
    (options.quic_at_once, options.rudp_at_once) = (false, false);
    options
}

/// Waits for the control connection and makes it the link.
async fn pick_tcp(candidates: Candidates) -> Link {
    candidates.control().await.unwrap();
    let choice = "tcp".parse().unwrap();
    candidates.pick(&choice, Vec::new()).await.unwrap()
}

async fn say_hello(accepted: Accepted, link: Link) {
    let (mut reader, _) = accepted.link.into_parts();
    let (_, mut writer) = link.into_parts();
    writer.write_all(b"hello").await.unwrap();
    writer.flush().await.unwrap();
    let mut said = [0; 5];
    reader.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_connection_loses_another_one_makes_up_for() {
    let (near, far) = pinned();
    let mut listener = AutoListener::bind("127.0.0.1:0", &far, Offer::all(), patient())
        .await
        .unwrap();
    let relay = relay::relay(&listener.local_address()).await;
    relay.faults.unheard.store(1, Ordering::Relaxed);
    let options = control_alone();
    let began = Instant::now();
    let candidates = Candidates::connect(&relay.address, &near, options).unwrap();
    let (accepted, link) = tokio::join!(listener.next(), pick_tcp(candidates));
    // Nothing is ever heard on the first one.
    assert!(began.elapsed() < options.tcp.handshake_timeout);
    say_hello(accepted.unwrap(), link).await;
    relay.tcp.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_listener_takes_two_connections_for_one_visit() {
    let (near, far) = pinned();
    let mut listener = AutoListener::bind("127.0.0.1:0", &far, Offer::all(), patient())
        .await
        .unwrap();
    let candidates =
        Candidates::connect(&listener.local_address(), &near, control_alone()).unwrap();
    // Nobody takes the first one up until there is a second one.
    sleep(Duration::from_millis(50)).await;
    let (visit, link) = tokio::join!(listener.next_visit(), pick_tcp(candidates));
    let accepted = visit.unwrap().expect("a link");
    say_hello(accepted, link).await;
    let more = timeout(Duration::from_millis(300), listener.next_visit()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn a_port_that_nobody_listens_at_is_told_at_once() {
    let (near, far) = pinned();
    let listener = AutoListener::bind("127.0.0.1:0", &far, Offer::all(), patient())
        .await
        .unwrap();
    let address = listener.local_address();
    drop(listener);
    let candidates = Candidates::connect(&address, &near, control_alone()).unwrap();
    let error = candidates.control().await.unwrap_err();
    assert!(
        matches!(error.root(), TransportError::Connect { .. }),
        "{error:?}"
    );
}
