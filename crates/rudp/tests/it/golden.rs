//! Golden test of the wire format of docs/rudp.md. If it fails, the format has changed: then the
//! document and the version in handshake packets must change too.

use std::collections::BTreeSet;
use std::fmt::Write;

use transpute_rudp::{AcceptLimits, Read, RudpConfig, Time, is_set_up};
use transpute_units::Loss;

use crate::serving::{Listener, pair};
use crate::sim::address;

/// Runs a short exchange without loss and returns every datagram, `(from the connector, bytes)`.
fn exchange(encrypted: bool) -> Vec<(bool, Vec<u8>)> {
    let mut config = RudpConfig::default();
    // A loss rate at which parity is sent.
    config.prior.loss = Loss::known(0.05);
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
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for (upward, packet) in packets {
        context.update(&[u8::from(*upward)]);
        context.update(&(packet.len() as u64).to_le_bytes());
        context.update(packet);
    }
    hex(context.finish().as_ref())
}

/// Returns a line with the first bytes of a packet.
fn line(is_upward: bool, packet: &[u8]) -> String {
    let side = if is_upward { "C" } else { "L" };
    let shown = hex(&packet[..packet.len().min(64)]);
    format!("{side} {} bytes {shown}\n", packet.len())
}

/// Returns the answers to a first packet: a Retry packet and a version negotiation packet.
fn answers(first: &[u8]) -> String {
    let mut limits = AcceptLimits::default();
    limits.half_open = 0;
    let mut listener = Listener::with_limits(RudpConfig::default(), false, 1, limits);
    let mut other_version = first.to_vec();
    other_version[1] += 1;
    for mut packet in [first.to_vec(), other_version] {
        listener.handle_datagram(Time::ZERO, address(1), &mut packet);
    }
    let answers = listener.transmit(Time::ZERO);
    answers
        .iter()
        .map(|(_, packet)| line(false, packet))
        .collect()
}

#[test]
fn packets_agree_with_the_document() {
    let packets = exchange(false);
    let mut shown = answers(&packets[0].1);
    let mut kinds = BTreeSet::new();
    for (is_upward, packet) in &packets {
        // The type of a handshake packet, or the type of the first frame after marker and epoch,
        // connection ID and packet number.
        let kind = match is_set_up(packet) {
            true => (*is_upward, packet[0], packet.len()),
            false => (*is_upward, packet[11], 0),
        };
        if kinds.insert(kind) {
            shown += &line(*is_upward, packet);
        }
    }
    assert_eq!(shown, include_str!("golden.txt"), "\n{shown}");
    assert_eq!(
        digest(&packets),
        "409e99e907a9ebd8dee44b93b5e01627e0899e1e50078dd5e9acdefd435d17f1"
    );
}

#[test]
fn sealed_packets_do_not_change() {
    assert_eq!(
        digest(&exchange(true)),
        "a823b0c759adefcdcfea8dc1d20868232fb71c540dcc2218471e62615035a858"
    );
}
