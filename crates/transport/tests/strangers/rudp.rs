//! Tests that the two listening ports of reliable UDP survive unauthenticated traffic, in bounded
//! memory.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::net::UdpSocket;
use transpute_transport::Rudp;

use crate::parties::Parties;

/// Sends random datagrams that look like the first ones of unknown connections.
async fn flood(address: &str, packets: u32) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut random = StdRng::seed_from_u64(packets.into());
    let mut packet = [0; 1400];
    for index in 0..packets {
        random.fill_bytes(&mut packet);
        packet[0] = 0x10;
        socket
            .send_to(&packet[..1 + index as usize % 1400], address)
            .await
            .unwrap();
        if index % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn endless_garbage_neither_grows_memory_nor_keeps_the_peer_out() {
    let _guard = crate::MEASURING.lock().await;
    let parties = Parties::new(Rudp::default());
    let (address, accepting) = parties.listen().await;
    flood(&address, 5_000).await;
    let before = crate::parties::resident_bytes();
    flood(&address, 50_000).await;
    let grown = crate::parties::resident_bytes().saturating_sub(before);
    // If the listener kept 50,000 packets of 700 bytes, the memory would grow by 35 MB.
    assert!(grown < 16 << 20, "grew by {grown}");
    parties.meet(&address, accepting).await;
}
