//! Tests of recorded packets that are replayed from another address: the answer is limited, and
//! nothing changes.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UdpSocket,
    time::timeout,
};
use transpute_transport::{
    Link, LinkReader as Reader, LinkStats, LinkWriter as Writer, Listener, Registry,
    auto::{AutoListener, Offer},
};

use super::always::race_among;
use crate::{
    meeting::{patient, pinned},
    relay,
};

/// Far more than any of this takes, so that only a hang exceeds it.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends datagrams from an address of its own, several times. Returns the numbers of bytes sent and
/// received.
async fn replay(target: &str, datagrams: &[Vec<u8>]) -> (usize, usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (mut sent, mut came) = (0, 0);
    let mut buffer = [0; 2048];
    for _ in 0..3 {
        for (index, datagram) in datagrams.iter().enumerate() {
            sent += socket.send_to(datagram, target).await.unwrap();
            while let Ok(length) = socket.try_recv(&mut buffer) {
                came += length;
            }
            if index % 16 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
    // The peer may still answer, and retransmit its answers. Count them until it is silent for a
    // second.
    while let Ok(Ok(length)) = timeout(Duration::from_secs(1), socket.recv(&mut buffer)).await {
        came += length;
    }
    (sent, came)
}

/// Sends something in each direction.
async fn talk(near: (&mut Reader, &mut Writer), far: (&mut Reader, &mut Writer)) {
    for (writer, reader) in [(near.1, far.0), (far.1, near.0)] {
        writer.write_all(b"hello").await.unwrap();
        writer.flush().await.unwrap();
        let mut got = [0; 5];
        reader.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"hello");
    }
}

fn parts(link: Link) -> ((Reader, Writer), LinkStats) {
    let stats = link.stats();
    (link.into_parts(), stats)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_datagrams_are_not_answered_again() {
    let (listening, connecting) = pinned();
    // The maximum amplification of a replay.
    for (pick, most) in [("quic", 3), ("rudp", 3)] {
        let bound = AutoListener::bind("127.0.0.1:0", &listening, Offer::all()).await;
        let mut listener = bound.unwrap();
        let address = listener.local_address();
        let relay = relay::relay(&address).await;
        let mut registry = Registry::with_builtins();
        registry.retain(|name| name == pick);
        let racing = race_among(pick, &relay.address, &connecting, patient(), &registry);
        let meeting = async { tokio::join!(listener.next(), racing) };
        let (accepted, won) = timeout(HANG_TIMEOUT, meeting).await.unwrap();
        let ((mut near, _), (mut far, far_stats)) =
            (parts(won.unwrap().link), parts(accepted.unwrap().link));
        let talked = talk((&mut near.0, &mut near.1), (&mut far.0, &mut far.1));
        timeout(HANG_TIMEOUT, talked).await.unwrap();
        let recorded = std::mem::take(&mut *relay.faults.recorded.lock().unwrap());
        // RFC 9443: the first byte distinguishes the protocols.
        let is_rudp = |packet: &Vec<u8>| (0x10..0x40).contains(&packet[0]);
        assert!(recorded.len() > 5 && recorded.iter().all(|p| is_rudp(p) == (pick == "rudp")));

        // The recorded datagrams are replayed while the connection exists and the listener accepts
        // others.
        let before = far_stats.path().wire_bytes_received;
        let (sent, came) = tokio::select! {
            counts = replay(&address, &recorded) => counts,
            accepted = listener.next() => panic!("{accepted:?}"),
        };
        assert!(came <= most * sent, "{pick}: {came} for {sent}");
        if pick == "rudp" {
            // Nothing was counted again. Only keep-alives were added.
            let grown = far_stats.path().wire_bytes_received.unwrap() - before.unwrap();
            assert!(grown < sent as u64 / 10, "{grown} of {sent}");
        }
        let talked = talk((&mut near.0, &mut near.1), (&mut far.0, &mut far.1));
        timeout(HANG_TIMEOUT, talked)
            .await
            .expect("the link works still");

        // The datagrams are replayed again after the connection has ended.
        drop((near, far));
        let (sent, came) = tokio::select! {
            counts = replay(&address, &recorded) => counts,
            accepted = listener.next() => panic!("{accepted:?}"),
        };
        assert!(came <= most * sent, "{pick}: {came} for {sent}");
    }
}
