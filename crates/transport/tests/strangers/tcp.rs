//! Tests that a listening TCP port survives unauthenticated traffic, in bounded memory and time.

use std::{net::SocketAddr, time::Duration};

#[cfg(target_os = "linux")]
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use transpute_transport::{ConnectError, Security, Tcp, TcpOptions, TransportError};

use crate::parties::Parties;

fn parties(encrypted: bool) -> Parties {
    let mut options = TcpOptions::default();
    options.max_handshakes = 8;
    options.handshake_timeout = Duration::from_secs(2);
    let parties = Parties::new(Tcp::new(options));
    if encrypted {
        return parties;
    }
    Parties {
        listening: Security::Plaintext,
        connecting: Security::Plaintext,
        ..parties
    }
}

#[tokio::test]
async fn silent_strangers_beyond_the_limit_are_dropped_and_the_peer_is_served() {
    for encrypted in [true, false] {
        let parties = parties(encrypted);
        let (address, accepting) = parties.listen().await;
        let mut silent = Vec::new();
        for _ in 0..100 {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            // The start of a plausible first message, and then silence.
            let greeting: &[u8] = if encrypted {
                b"\x16\x03\x01"
            } else {
                b"transp"
            };
            stream.write_all(greeting).await.unwrap();
            silent.push(stream);
        }
        parties.meet(&address, accepting).await;
        // The oldest connections were closed. At most the limit, and those after the accepted link,
        // are still open.
        let mut hung_up = 0;
        for stream in &mut silent {
            let mut rest = Vec::new();
            let closed = stream.read_to_end(&mut rest);
            if tokio::time::timeout(Duration::from_millis(1), closed)
                .await
                .is_ok()
            {
                hung_up += 1;
            }
        }
        assert!(hung_up >= 92, "{hung_up} of 100, encrypted: {encrypted}");
    }
}

#[tokio::test]
async fn a_stranger_that_trickles_bytes_is_cut_off_at_the_deadline() {
    let parties = parties(true);
    let (address, accepting) = parties.listen().await;
    let mut slow = TcpStream::connect(&address).await.unwrap();
    // A handshake record of 16 KiB, one byte at a time, would take minutes.
    let mut written = slow
        .write_all(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc")
        .await;
    let trickle = async {
        while written.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            written = slow.write_all(&[3]).await;
        }
    };
    // 2 s of handshake and 1 s for reading the refusal. The limit only prevents a failing test from
    // hanging.
    tokio::time::timeout(Duration::from_secs(60), trickle)
        .await
        .unwrap();
    parties.meet(&address, accepting).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn endless_garbage_does_not_grow_memory() {
    let _guard = crate::MEASURING.lock().await;
    for encrypted in [true, false] {
        let parties = parties(encrypted);
        let (address, accepting) = parties.listen().await;
        // One-time allocations happen before the first measurement.
        flood(&address, encrypted, 20).await;
        let before = crate::parties::resident_bytes();
        flood(&address, encrypted, 400).await;
        let grown = crate::parties::resident_bytes().saturating_sub(before);
        // If the listener kept 400 connections with up to 64 KiB each, the memory would grow by
        // 25 MB.
        assert!(grown < 8 << 20, "grew by {grown}, encrypted: {encrypted}");
        parties.meet(&address, accepting).await;
    }
}

#[cfg(target_os = "linux")]
async fn flood(address: &str, encrypted: bool, strangers: u32) {
    let mut random = StdRng::seed_from_u64(strangers.into());
    for index in 0..strangers {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut bytes = vec![0; 64 * 1024];
        random.fill_bytes(&mut bytes);
        if encrypted && index % 2 == 0 {
            // Garbage that passes the parser of records: a fragment of a client hello that claims
            // to be huge.
            bytes[..9].copy_from_slice(b"\x16\x03\x01\x40\x00\x01\x00\xff\xff");
        }
        // The listener may close at any byte.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
    }
}

#[tokio::test]
async fn dropping_the_listener_hangs_up_on_strangers() {
    let parties = parties(true);
    let mut listener = parties
        .transport
        .listen("127.0.0.1:0", &parties.listening)
        .await
        .unwrap();
    let address: SocketAddr = listener.local_address().parse().unwrap();
    let mut stranger = TcpStream::connect(address).await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(50), listener.accept())
            .await
            .is_err()
    );
    drop(listener);
    let mut rest = Vec::new();
    // The stream ends, cleanly or with a reset.
    let _ = stranger.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    assert!(matches!(
        parties.transport.connect(&address.to_string(), &parties.connecting).await,
        Err(TransportError::Connect(ConnectError::Connect { address: named, .. })) if named == address.to_string()
    ));
}
