//! Tests of a listener that takes over the UDP port of an earlier one whose links still exist.

use std::{io, sync::atomic::Ordering, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use transpute_transport::{
    BindError, LinkReader, LinkWriter, Listener, Rudp, Security, Transport, TransportError,
    auto::{AutoListener, Offer},
};

use crate::{
    auto::always::race_for,
    meeting::{patient, pinned},
    relay,
};

/// Time limit of a test that would hang.
const LONG: Duration = Duration::from_secs(20);

type Halves = (LinkReader, LinkWriter);

async fn pair(listener: &mut dyn Listener, address: &str, security: &Security) -> (Halves, Halves) {
    let rudp = Rudp::default();
    let both = async { tokio::join!(listener.accept(), rudp.connect(address, security)) };
    let (accepted, connected) = timeout(LONG, both).await.expect("they do not meet");
    (
        accepted.unwrap().into_parts(),
        connected.unwrap().into_parts(),
    )
}

async fn carries((_, writer): &mut Halves, (reader, _): &mut Halves) {
    let sent = vec![7; 300_000];
    let mut got = vec![0; sent.len()];
    let send = async {
        writer.write_all(&sent).await?;
        writer.flush().await
    };
    let both = async { tokio::join!(send, reader.read_exact(&mut got)) };
    let (written, read) = timeout(LONG, both).await.expect("nothing passes");
    written.unwrap();
    read.unwrap();
    assert!(got == sent);
}

async fn carries_both_ways(a: &mut Halves, b: &mut Halves) {
    carries(a, b).await;
    carries(b, a).await;
}

fn is_taken(error: &TransportError) -> bool {
    matches!(error, TransportError::Bind(BindError::Listen { source, .. }) if source.kind() == io::ErrorKind::AddrInUse)
}

#[tokio::test]
async fn links_outlive_their_listener_beside_those_of_the_next_one() {
    let (listening, connecting) = pinned();
    let rudp = Rudp::default();
    let mut listener = rudp.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    let (mut a, mut b) = pair(&mut *listener, &address, &connecting).await;
    // While there is a listener, the port is taken.
    let error = rudp.listen(&address, &listening).await.err().unwrap();
    assert!(is_taken(&error), "{error}");
    drop(listener);
    for _ in 0..2 {
        let mut next = rudp.listen(&address, &listening).await.unwrap();
        assert_eq!(next.local_address(), address);
        let (mut c, mut d) = pair(&mut *next, &address, &connecting).await;
        carries_both_ways(&mut a, &mut b).await;
        carries_both_ways(&mut c, &mut d).await;
    }
}

/// The peer of the old link has vanished, so it takes seconds until the link has ended.
#[tokio::test]
async fn a_link_that_is_ending_does_not_keep_the_port() {
    let (listening, connecting) = pinned();
    let rudp = Rudp::default();
    let mut listener = rudp.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    let relay = relay::relay(&address).await;
    let (mut a, b) = pair(&mut *listener, &relay.address, &connecting).await;
    relay.faults.cut.store(true, Ordering::Relaxed);
    a.1.write_all(&[1; 100_000]).await.unwrap();
    drop((listener, a, b));
    let mut next = rudp.listen(&address, &listening).await.unwrap();
    let (mut c, mut d) = pair(&mut *next, &address, &connecting).await;
    carries_both_ways(&mut c, &mut d).await;
}

/// The halves of a link that has ended hold the socket, which no thread serves any more.
#[tokio::test]
async fn a_link_that_has_ended_does_not_keep_the_port() {
    let (listening, connecting) = pinned();
    let rudp = Rudp::default();
    let mut listener = rudp.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    let (mut a, mut b) = pair(&mut *listener, &address, &connecting).await;
    drop(listener);
    let ends = async { tokio::join!(a.1.shutdown(), b.1.shutdown()) };
    let (one, other) = timeout(LONG, ends).await.unwrap();
    one.unwrap();
    other.unwrap();
    // The port is free whether the thread has ended or not.
    for pause in [Duration::ZERO, Duration::from_millis(500)] {
        tokio::time::sleep(pause).await;
        let mut next = rudp.listen(&address, &listening).await.unwrap();
        let (mut c, mut d) = pair(&mut *next, &address, &connecting).await;
        carries_both_ways(&mut c, &mut d).await;
    }
    drop((a, b));
}

async fn pick(listener: &mut AutoListener, security: &Security, choice: &str) -> (Halves, Halves) {
    let address = listener.local_address();
    let racing = race_for(choice, &address, security, patient());
    let both = async { tokio::join!(listener.next(), racing) };
    let (accepted, won) = timeout(LONG, both).await.expect("they do not meet");
    let connected = won.unwrap().link;
    (accepted.unwrap().link.into_parts(), connected.into_parts())
}

/// A listener of `auto` shares its port with QUIC, which releases it when all of its connections
/// have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_of_auto_takes_the_port_of_another() {
    let (listening, connecting) = pinned();
    let bind = async |address: &str| AutoListener::bind(address, &listening, Offer::all()).await;
    let mut listener = bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_address();
    let (mut a, mut b) = pick(&mut listener, &connecting, "rudp").await;
    let error = bind(&address).await.err().unwrap();
    assert!(is_taken(&error), "{error}");
    drop(listener);
    let mut next = bind(&address).await.unwrap();
    for choice in ["rudp", "quic"] {
        let (mut c, mut d) = pick(&mut next, &connecting, choice).await;
        carries_both_ways(&mut a, &mut b).await;
        carries_both_ways(&mut c, &mut d).await;
    }
}
