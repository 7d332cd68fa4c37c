//! A listening TCP port survives whoever knocks, in bounded memory and time.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use transpute_transport::{
    Identity, Link, Listener, Security, Tcp, TcpOptions, Transport, TransportError,
};

struct Parties {
    tcp: Tcp,
    listening: Security,
    connecting: Security,
}

fn parties(encrypted: bool) -> Parties {
    let mut options = TcpOptions::default();
    options.max_handshakes = 8;
    options.handshake_timeout = Duration::from_secs(2);
    let (a, b) = (
        Arc::new(Identity::generate().unwrap()),
        Arc::new(Identity::generate().unwrap()),
    );
    let (of_a, of_b) = (a.fingerprint(), b.fingerprint());
    let (listening, connecting) = if encrypted {
        (Security::tls(a, [of_b]), Security::tls(b, [of_a]))
    } else {
        (Security::Plaintext, Security::Plaintext)
    };
    Parties {
        tcp: Tcp::new(options),
        listening,
        connecting,
    }
}

/// Accepts one link in a task, so that the listener works while strangers are created.
async fn listen(parties: &Parties) -> (String, JoinHandle<(Link, Box<dyn Listener>)>) {
    let mut listener = parties
        .tcp
        .listen("127.0.0.1:0", &parties.listening)
        .await
        .unwrap();
    let address = listener.local_address();
    let accepting = tokio::spawn(async move { (listener.accept().await.unwrap(), listener) });
    (address, accepting)
}

async fn meets(parties: &Parties, address: &str, accepting: JoinHandle<(Link, Box<dyn Listener>)>) {
    let link = parties
        .tcp
        .connect(address, &parties.connecting)
        .await
        .unwrap();
    let (accepted, _listener) = accepting.await.unwrap();
    let (mut reader, _keep) = link.into_parts();
    let (_keep, mut writer) = accepted.into_parts();
    writer.write_all(b"hello").await.unwrap();
    writer.flush().await.unwrap();
    let mut got = [0; 5];
    reader.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
}

#[tokio::test]
async fn silent_strangers_beyond_the_limit_are_dropped_and_the_peer_is_served() {
    for encrypted in [true, false] {
        let parties = parties(encrypted);
        let (address, accepting) = listen(&parties).await;
        let mut silent = Vec::new();
        for _ in 0..100 {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            // The start of a plausible greeting, and then nothing.
            let greeting: &[u8] = if encrypted {
                b"\x16\x03\x01"
            } else {
                b"transp"
            };
            stream.write_all(greeting).await.unwrap();
            silent.push(stream);
        }
        meets(&parties, &address, accepting).await;
        // The oldest were hung up on: at most the limit, and those after the accepted link, are still open.
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
    let (address, accepting) = listen(&parties).await;
    let mut slow = TcpStream::connect(&address).await.unwrap();
    // A handshake record of 16 KiB, one byte at a time; it would take minutes.
    let mut written = slow
        .write_all(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc")
        .await;
    let trickle = async {
        while written.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            written = slow.write_all(&[3]).await;
        }
    };
    // 2 s of handshake, 1 s of farewell; the bound only keeps a failing test from hanging.
    tokio::time::timeout(Duration::from_secs(60), trickle)
        .await
        .unwrap();
    meets(&parties, &address, accepting).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn endless_garbage_does_not_grow_memory() {
    for encrypted in [true, false] {
        let parties = parties(encrypted);
        let (address, accepting) = listen(&parties).await;
        // Whatever is allocated once is there before the first measurement.
        flood(&address, encrypted, 20).await;
        let before = resident_bytes();
        flood(&address, encrypted, 400).await;
        let grown = resident_bytes().saturating_sub(before);
        // 400 strangers with up to 64 KiB each would be 25 MB if anything were kept.
        assert!(grown < 8 << 20, "grew by {grown}, encrypted: {encrypted}");
        meets(&parties, &address, accepting).await;
    }
}

#[cfg(target_os = "linux")]
async fn flood(address: &str, encrypted: bool, strangers: u32) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 + u64::from(strangers);
    for index in 0..strangers {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut bytes = vec![0; 64 * 1024];
        for byte in &mut bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
        if encrypted && index % 2 == 0 {
            // Garbage that goes through record parsing: a fragment of a client hello that claims to be huge.
            bytes[..9].copy_from_slice(b"\x16\x03\x01\x40\x00\x01\x00\xff\xff");
        }
        // The listener may hang up at any byte.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
    }
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test]
async fn dropping_the_listener_hangs_up_on_strangers() {
    let parties = parties(true);
    let mut listener = parties
        .tcp
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
    // Ends, cleanly or with a reset.
    let _ = stranger.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    assert!(matches!(
        parties.tcp.connect(&address.to_string(), &parties.connecting).await,
        Err(TransportError::Connect { address: named, .. }) if named == address.to_string()
    ));
}
