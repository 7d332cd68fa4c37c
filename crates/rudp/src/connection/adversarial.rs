//! Tests of a connection against a peer that has the keys and sends arbitrary frames. The
//! connection must not panic, and its memory must stay bounded.
//!
//! [`run`] takes arbitrary bytes, so that a fuzzer can call it as well as the property tests in
//! `fuzzing`.

use std::net::SocketAddr;
use std::time::Duration;

use super::RudpConnection;
use crate::frame::{self, Ack, BlockPlace, DataHeader, Frame, ParityHeader, Report, read_frame};
use crate::handshake::Complete;
use crate::rate::ControllerKind;
use crate::seal::{HEADER_LEN, TAG_LEN};
use crate::wire::Reader;
use crate::{Cipher, EndpointSide, FecPolicy, PacketKeys, Read, Reliability, RudpConfig, Time};

/// The maximum size of the receive buffer of the stream, in bytes.
const STREAM: u64 = 64 << 20;
/// The maximum size of the store of parity symbols, in bytes.
const SYMBOLS: usize = 32 << 20;

/// The maximum number of batches of datagrams that a connection may send without a step of time.
const MAX_BATCHES: usize = 2000;

/// The attacker, with its keys and the data from its victim's packets.
struct Attacker {
    keys: PacketKeys,
    number: u64,
    token: u64,
    largest: u64,
    sent: u64,
}

impl Attacker {
    fn read(&mut self, datagrams: &[u8], size: usize) {
        for datagram in datagrams.chunks(size.max(1)) {
            let mut datagram = datagram.to_vec();
            let opener = &mut self.keys.opener;
            let Ok(number) = opener.number(&datagram) else {
                continue;
            };
            let Ok(frames) = opener.open(number, &mut datagram) else {
                panic!("the victim sends a packet that its peer cannot decrypt");
            };
            self.largest = self.largest.max(number);
            let mut reader = Reader(frames);
            while !reader.is_empty() {
                match read_frame(&mut reader) {
                    Ok(Frame::Challenge(token)) => self.token = token,
                    Ok(Frame::Data(header, data)) => {
                        self.sent = self.sent.max(header.offset + data.len() as u64);
                    }
                    Ok(_) => {}
                    Err(_) => panic!("the victim sends frames that cannot be parsed"),
                }
            }
        }
    }
}

/// Returns an established connection with a remote address to which nothing was sent, and the keys
/// of its peer.
pub(super) fn established(
    side: EndpointSide,
    from: SocketAddr,
    config: RudpConfig,
) -> (RudpConnection, PacketKeys) {
    let keys = |side| PacketKeys::new(side, &[1; 32], b"", Cipher::Aes128Gcm).expect("32 bytes");
    let peer = match side {
        EndpointSide::Connector => EndpointSide::Listener,
        EndpointSide::Listener => EndpointSide::Connector,
    };
    let mut connection = RudpConnection::new(side, from, config, Time::ZERO, 1);
    let complete = Complete {
        keys: keys(side),
        limit: 1 << 20,
        rtt: Duration::from_millis(20),
        retried: false,
    };
    connection.on_complete(Time::ZERO, complete);
    if side == EndpointSide::Connector {
        connection.trains.start();
    }
    (connection, keys(peer))
}

/// Interprets `script` as a kind of connection, packets of frames and steps of time, and applies
/// them to a connection.
pub(crate) fn run(script: &[u8]) {
    let mut reader = Reader(script);
    let options = reader.u8().unwrap_or(0);
    let from = SocketAddr::from(([192, 0, 2, 1], 1));
    let config = RudpConfig {
        fec: [FecPolicy::Adaptive, FecPolicy::Off][usize::from(options >> 1 & 1)],
        reliability: [Reliability::Repair, Reliability::Detect]
            [usize::from(options & 0b1100 == 0b1100)],
        controller: ControllerKind::ALL[usize::from(options >> 4 & 3) % ControllerKind::ALL.len()],
        probe: options & 0x40 == 0,
        max_receive_window: STREAM,
        ..RudpConfig::default()
    };
    let mut now = Time::ZERO;
    let side = [EndpointSide::Listener, EndpointSide::Connector][usize::from(options & 1)];
    let (mut victim, keys) = established(side, from, config);
    let mut attacker = Attacker {
        keys,
        number: 0,
        token: 0,
        largest: 0,
        sent: 0,
    };
    let mut out = Vec::new();
    let mut buffer = vec![0; 4096];
    victim.write(&[5; 50_000]);
    while !reader.is_empty() && !victim.is_drained() {
        let action = reader.u8().unwrap_or(0);
        act(&mut victim, action, now);
        let mut packet = vec![0; HEADER_LEN];
        for _ in 0..=action % 4 {
            put_any(&mut packet, &mut reader, &attacker);
        }
        packet.resize(packet.len() + TAG_LEN, 0);
        (attacker.keys.sealer)
            .seal(attacker.number, &mut packet)
            .expect("sealing works");
        attacker.number += 1 + reader.uint(1).unwrap_or(0) / 64;
        if action & 0xf8 == 0x80 {
            // Makes the packet fail authentication. Some of these packets also become shorter than
            // any valid packet.
            packet[HEADER_LEN] ^= 1;
            packet.truncate(usize::from(action & 7) * 8);
        }
        // Some packets come from another address.
        let from = match action & 0x38 {
            0x38 => SocketAddr::from(([192, 0, 2, 2], u16::from(action & 1))),
            _ => from,
        };
        victim.handle_datagram(now, from, &mut packet);
        now = now + Duration::from_micros(reader.uint(2).unwrap_or(0) * 10);
        if victim.next_timeout().is_some_and(|at| at <= now) {
            victim.handle_timeout(now);
        }
        let mut batches = 0;
        while let Some(transmit) = victim.poll_transmit(now, &mut out, 10) {
            batches += 1;
            assert!(batches < MAX_BATCHES, "the connection sends endlessly");
            assert_eq!(transmit.len, out.len());
            attacker.read(&out, transmit.segment_size);
            out.clear();
        }
        while victim.poll_event().is_some() {}
        assert!(victim.readable() <= STREAM);
        if action & 0x40 == 0 {
            while let Read::Data(_) = victim.read(now, &mut buffer) {}
        }
        assert!(victim.decoder.held_bytes() <= SYMBOLS);
        assert!(victim.stats().overhead() >= 0.0);
    }
}

/// Performs an action of the application that owns the victim.
fn act(victim: &mut RudpConnection, action: u8, now: Time) {
    match action {
        0xf0..=0xf7 => {
            victim.write(&[7; 20_000]);
        }
        0xf8..=0xfb => victim.finish(),
        0xfc | 0xfd => victim.on_refused(usize::from(victim.mtu.current()), None),
        0xfe => victim.on_refused(1400, Some(1300)),
        0xff => victim.close(now, 5),
        _ => {}
    }
}

/// Writes a frame with fields from the script, or random bytes.
fn put_any(packet: &mut Vec<u8>, reader: &mut Reader<'_>, attacker: &Attacker) {
    let mut small = || reader.uint(1).unwrap_or(0);
    let kind = small() % 16;
    let (a, b, c) = (small(), small(), small());
    // Most values are small, and some are close to the maximum.
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
        4 => frame::put_train(
            packet,
            a as u8 % 4,
            b as u8,
            c as u8,
            Duration::from_micros(wide(c)),
        ),
        5 => {
            let report = Report {
                train: a as u8 % 4,
                received: b as u8,
                clear: c as u8,
                clear_received: a as u8,
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
        11 => frame::put_response(packet, attacker.token),
        12 | 13 => {
            // Acknowledges packets that arrived, with gaps. It may be a correct acknowledgement, or
            // one that retracts earlier ones.
            let largest = attacker.largest.saturating_sub(a);
            let mut ranges = Vec::new();
            let mut end = largest + 1;
            for _ in 0..=b % 8 {
                let start = end.saturating_sub(1 + c);
                if start == end {
                    break;
                }
                ranges.push(start..end);
                end = start.saturating_sub(1 + b / 8);
                if end == 0 {
                    break;
                }
            }
            let contiguous = attacker.sent.min(wide(c));
            let piece = contiguous + 1..attacker.sent.min(contiguous + 1 + wide(a));
            let ack = Ack {
                largest,
                delay: a as u32,
                arrival_rate: (c as u32) << 8,
                ranges,
                limit: wide(b),
                contiguous,
                pieces: std::iter::once(piece)
                    .filter(|piece| kind == 13 && piece.start < piece.end)
                    .collect(),
                ..Ack::default()
            };
            frame::put_ack(packet, &ack, 1000);
        }
        14 => {
            let count = (a as usize).min(reader.0.len());
            packet.extend(reader.take(count).unwrap_or_default());
        }
        _ => packet.extend_from_slice(&[a as u8, b as u8, c as u8]),
    }
}
