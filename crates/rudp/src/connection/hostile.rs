//! A peer that has the keys and sends whatever it likes: the state machine must survive it in bounded memory.
//!
//! [`run`] takes any bytes, so a fuzzer can drive it as well as the properties below.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::Connection;
use crate::frame::{Ack, BlockPlace, DataHeader, ParityHeader, Report};
use crate::seal::{HEADER_LEN, TAG_LEN};
use crate::wire::Reader;
use crate::{Cipher, Config, Keys, Read, Side, Time, frame};

/// Reads `script` as packets of frames and steps of time, and has them all happen to a connection in mid-life.
fn run(script: &[u8]) {
    let from = SocketAddr::from(([192, 0, 2, 1], 1));
    let keys = |side| Keys::new(side, &[1; 32], b"", Cipher::Aes128Gcm).expect("32 bytes");
    let mut victim = Connection::listen(keys(Side::Listener), Config::default(), Time::ZERO, 1);
    let mut attacker = keys(Side::Connector).sealer;
    let mut now = Time::ZERO;
    let mut number = 0;
    let mut out = Vec::new();
    let mut buffer = vec![0; 4096];
    let mut reader = Reader(script);
    victim.write(&[5; 50_000]);
    while !reader.is_empty() && !victim.is_drained() {
        let mut packet = vec![0; HEADER_LEN];
        let frames = reader.u8().unwrap_or(0) % 4;
        for _ in 0..=frames {
            put_any(&mut packet, &mut reader);
        }
        packet.resize(packet.len() + TAG_LEN, 0);
        attacker.seal(number, &mut packet).expect("sealing works");
        number += 1 + reader.uint(1).unwrap_or(0) / 64;
        victim.handle_datagram(now, from, &mut packet);
        now = now + Duration::from_micros(reader.uint(2).unwrap_or(0) * 10);
        if victim.next_timeout().is_some_and(|at| at <= now) {
            victim.handle_timeout(now);
        }
        let mut batches = 0;
        while victim.poll_transmit(now, &mut out, 10).is_some() {
            batches += 1;
            assert!(batches < 2000, "sends without end");
            out.clear();
        }
        while victim.poll_event().is_some() {}
        while let Read::Data(_) = victim.read(now, &mut buffer) {}
        assert!(victim.decoder.held_bytes() <= 32 << 20);
        let _ = victim.stats();
    }
}

/// Puts a frame that parses, with fields from the script, or noise.
fn put_any(packet: &mut Vec<u8>, reader: &mut Reader<'_>) {
    let mut small = || reader.uint(1).unwrap_or(0);
    let kind = small() % 12;
    let (a, b, c) = (small(), small(), small());
    // Small numbers, and now and then the largest there are.
    let wide = |value: u64| {
        if value > 250 {
            (1 << 48) - 256 + value
        } else {
            value * 300
        }
    };
    let bytes = [0x61; 1500];
    match kind {
        0 => frame::put_ping(packet),
        1 => {
            let end = wide(a) + 1;
            let start = end - (b % end.min(200)).max(1);
            let ack = Ack {
                largest: end - 1,
                delay: (b as u32) << 24,
                arrival_rate: (c as u32) << 24,
                ranges: std::iter::once(start..end).collect(),
                limit: wide(b),
                contiguous: wide(c),
                ..Ack::default()
            };
            frame::put_ack(packet, &ack, 1000);
        }
        2 => frame::put_challenge(packet, a),
        3 => frame::put_response(packet, a),
        4 => frame::put_train(packet, a as u8 % 4, b as u8, c as u8),
        5 => {
            let report = Report {
                train: a as u8 % 4,
                received: b as u8,
                largest: (c as u16) << 8,
                rate: wide(b).saturating_mul(wide(c)),
                error: 7,
                at_least: a > 128,
            };
            frame::put_report(packet, &report);
        }
        6 => frame::put_limit(packet, wide(a)),
        7 if a == 255 => frame::put_close(packet, b),
        7 | 8 => {
            let header = ParityHeader {
                block: a as u32 % 8,
                start: wide(b),
                segments: c as u8 % 16,
                count: 4,
                index: b as u8 % 4,
            };
            frame::put_parity(packet, &header, &bytes[..2 * c as usize]);
        }
        9 | 10 => {
            let header = DataHeader {
                offset: wide(a),
                end: b == 255,
                place: (c > 64).then_some(BlockPlace {
                    block: b as u32 % 8,
                    index: c as u8 % 16,
                }),
            };
            frame::put_data_header(packet, &header);
            packet.extend_from_slice(&bytes[..4 * c as usize]);
        }
        _ => packet.extend_from_slice(&[a as u8, b as u8, c as u8]),
    }
}

/// A report may claim anything; what is passed on stays within what there is and what was sent.
#[test]
fn absurd_reports_are_cut_down() {
    let from = SocketAddr::from(([192, 0, 2, 1], 1));
    let keys = |side| Keys::new(side, &[1; 32], b"", Cipher::Aes128Gcm).expect("32 bytes");
    let mut victim = Connection::connect(
        keys(Side::Connector),
        from,
        Config::default(),
        Time::ZERO,
        1,
    );
    let mut attacker = keys(Side::Listener).sealer;
    let report = Report {
        train: crate::setup::SETUP_TRAIN,
        received: 255,
        largest: u16::MAX,
        rate: (1 << 48) - 1,
        error: 0x7fff,
        at_least: false,
    };
    let mut packet = vec![0; HEADER_LEN];
    frame::put_report(&mut packet, &report);
    packet.resize(packet.len() + TAG_LEN, 0);
    attacker.seal(0, &mut packet).expect("sealing works");
    assert_eq!(victim.outgoing_train(), None);
    victim.handle_datagram(Time::ZERO, from, &mut packet);
    let told = victim.outgoing_train().expect("a report came");
    assert_eq!((told.sent, told.received), (128, 128));
    assert_eq!(told.rate, Some(crate::stats::TrainResult::MAX_CLAIM));
    assert_eq!(told.error_permille, 1000);
    assert_eq!(victim.incoming_train(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_peer_makes_a_connection_panic(script in prop::collection::vec(any::<u8>(), 0..600)) {
        run(&script);
    }
}
