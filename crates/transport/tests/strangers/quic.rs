//! Tests that a listening QUIC port survives unauthenticated traffic, in bounded memory and time.

use std::time::Duration;

#[cfg(target_os = "linux")]
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::net::UdpSocket;
use transpute_transport::{Quic, QuicOptions};

use crate::parties::{self, Parties};

fn parties() -> Parties {
    let mut options = QuicOptions::default();
    options.max_handshakes = 8;
    options.handshake_timeout = Duration::from_secs(2);
    Parties::new(Quic::new(options))
}

/// Records the first packet of a real connector, which the listener must process.
async fn greeting(parties: &Parties) -> Vec<u8> {
    let ear = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = ear.local_addr().unwrap().to_string();
    let mut packet = vec![0; 2048];
    let length = tokio::select! {
        _ = parties.transport.connect(&address, &parties.connecting) => unreachable!("nobody answers"),
        received = ear.recv(&mut packet) => received.unwrap(),
    };
    packet.truncate(length);
    packet
}

#[tokio::test]
async fn strangers_that_greet_and_fall_silent_keep_nobody_out() {
    let parties = parties();
    let (address, accepting) = parties.listen().await;
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let packet = greeting(&parties).await;
        stranger.send_to(&packet, &address).await.unwrap();
        crowd.push(stranger);
    }
    parties.meet(&address, accepting).await;
}

#[tokio::test]
async fn greetings_are_answered_with_no_more_than_three_times_as_much() {
    let parties = parties();
    let (address, _accepting) = parties.listen().await;
    for _ in 0..20 {
        let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let packet = greeting(&parties).await;
        stranger.send_to(&packet, &address).await.unwrap();
        let mut answered = 0;
        let mut buffer = [0; 2048];
        while let Ok(Ok(length)) =
            tokio::time::timeout(Duration::from_millis(100), stranger.recv(&mut buffer)).await
        {
            answered += length;
        }
        // RFC 9000, section 8.1: until the address is validated.
        assert!(answered > 0 && answered <= 3 * packet.len(), "{answered}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn endless_garbage_does_not_grow_memory() {
    let _guard = crate::MEASURING.lock().await;
    let parties = parties();
    let (address, accepting) = parties.listen().await;
    let packet = greeting(&parties).await;
    // One-time allocations happen before the first measurement.
    flood(&address, &packet, 2_000).await;
    let before = parties::resident_bytes();
    flood(&address, &packet, 40_000).await;
    let grown = parties::resident_bytes().saturating_sub(before);
    // 40,000 packets of 1,200 bytes would be 48 MB if they were kept.
    assert!(grown < 16 << 20, "grew by {grown}");
    parties.meet(&address, accepting).await;
}

/// Sends random packets, and first packets with flipped random bits.
#[cfg(target_os = "linux")]
async fn flood(address: &str, greeting: &[u8], packets: u32) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut random = StdRng::seed_from_u64(packets.into());
    for index in 0..packets {
        let mut packet = greeting.to_vec();
        if index % 2 == 0 {
            random.fill_bytes(&mut packet);
        } else {
            for _ in 0..1 + random.next_u64() % 8 {
                let at = random.next_u64() as usize % packet.len();
                packet[at] ^= 1 << (random.next_u64() % 8);
            }
        }
        packet.truncate(1 + random.next_u64() as usize % packet.len());
        socket.send_to(&packet, address).await.unwrap();
        if index % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// A peer that connects to an idle listener, and continues after the listener is dropped, does not
/// affect the listener's links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_goes_away_with_somebody_at_the_door_leaves_its_links_alone() {
    let parties = parties();
    let (address, accepting) = parties.listen().await;
    let link = parties
        .transport
        .connect(&address, &parties.connecting)
        .await;
    let (accepted, listener) = accepting.await.unwrap();
    // From a peer that repeats it.
    let knock = greeting(&parties).await;
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    stranger.send_to(&knock, &address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(listener);
    stranger.send_to(&knock, &address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    parties::greet(accepted, link.unwrap()).await;
}
