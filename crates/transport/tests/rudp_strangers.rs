//! The two listening ports of reliable UDP survive whoever knocks, in bounded memory.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UdpSocket,
};
use transpute_transport::{Identity, Rudp, Security, Transport};

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Random datagrams, which look like the first ones of connections that are not there yet.
async fn flood(address: &str, packets: u32) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut state = 0x2545_f491_4f6c_dd1d_u64 + u64::from(packets);
    let mut packet = [0; 1400];
    for index in 0..packets {
        for byte in &mut packet {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
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
    let identity = || Arc::new(Identity::generate().unwrap());
    let (a, b) = (identity(), identity());
    let listening = Security::tls(Arc::clone(&a), [b.fingerprint()]);
    let connecting = Security::tls(b, [a.fingerprint()]);
    let rudp = Rudp::default();
    let mut listener = rudp.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    flood(&address, 5_000).await;
    let before = resident_bytes();
    flood(&address, 50_000).await;
    let grown = resident_bytes().saturating_sub(before);
    // 50,000 packets of 700 bytes would be 35 MB if they were kept.
    assert!(grown < 16 << 20, "grew by {grown}");
    let (accepted, connected) =
        tokio::join!(listener.accept(), rudp.connect(&address, &connecting));
    let (mut reader, _keep) = connected.unwrap().into_parts();
    let (_keep, mut writer) = accepted.unwrap().into_parts();
    writer.write_all(b"hello").await.unwrap();
    writer.flush().await.unwrap();
    let mut got = [0; 5];
    reader.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
}
