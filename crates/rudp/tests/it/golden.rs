//! The bytes on the wire are those that docs/rudp.md describes. A failure means that the format has changed: then the
//! document and the version in set-up packets change too.

use std::fmt::Write;

use transpute_rudp::{Config, Read, Time};

use crate::serving::pair;
use crate::sim::address;

/// Runs a short exchange without loss and returns every datagram, `(from the connector, bytes)`.
fn exchange(encrypted: bool) -> Vec<(bool, Vec<u8>)> {
    let mut config = Config::default();
    // Losses that are worth correcting.
    config.prior.loss = Some(0.05);
    let mut first = Vec::new();
    let (mut connector, mut listener) = pair([config.clone(), config], encrypted, 1, &mut first);
    let mut packets: Vec<_> = first.into_iter().map(|packet| (true, packet)).collect();
    let mut now = Time::ZERO;
    let mut wrote = false;
    let mut buffer = [0; 65_536];
    for _ in 0..60 {
        now = now + std::time::Duration::from_millis(10);
        for upward in [true, false] {
            let (from, to) = if upward {
                (&mut connector, &mut listener)
            } else {
                (&mut listener, &mut connector)
            };
            if from.next_timeout().is_some_and(|at| at <= now) {
                from.handle_timeout(now);
            }
            let mut out = Vec::new();
            while let Some(transmit) = from.poll_transmit(now, &mut out, 8) {
                for datagram in out.chunks_mut(transmit.segment_size) {
                    packets.push((upward, datagram.to_vec()));
                    to.handle_datagram(now, address(if upward { 1 } else { 2 }), datagram);
                }
                out.clear();
            }
            while matches!(to.read(now, &mut buffer), Read::Data(_)) {}
        }
        if connector.is_established() && listener.is_established() && !wrote {
            wrote = true;
            connector.write(&[0x61; 20_000]);
            connector.finish();
            listener.finish();
        }
    }
    assert!(connector.is_drained() && listener.is_drained());
    packets
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn digest(packets: &[(bool, Vec<u8>)]) -> String {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for (upward, packet) in packets {
        context.update(&[u8::from(*upward)]);
        context.update(&(packet.len() as u64).to_le_bytes());
        context.update(packet);
    }
    hex(context.finish().as_ref())
}

#[test]
fn packets_are_those_of_the_document() {
    let packets = exchange(false);
    let mut shown = String::new();
    let mut kinds = std::collections::BTreeSet::new();
    for (upward, packet) in &packets {
        // Marker and epoch, connection id, packet number; then the first frame.
        let kind = (*upward, packet[11]);
        if kinds.insert(kind) {
            let _ = writeln!(
                shown,
                "{} {} bytes {}",
                if *upward { "C" } else { "L" },
                packet.len(),
                hex(&packet[..packet.len().min(64)])
            );
        }
    }
    assert_eq!(shown, include_str!("golden.txt"), "\n{shown}");
    assert_eq!(
        digest(&packets),
        "21db8395112af83c62d5bad9f3b6a59d93317604988141cd9c0fed6fd0486d0f"
    );
}

#[test]
fn sealed_packets_do_not_change() {
    assert_eq!(
        digest(&exchange(true)),
        "ee4037ac7010121d5def90fb3d44e8e0a96c8287bba073f8c6588fc53c63986e"
    );
}
