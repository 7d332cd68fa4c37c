//! A benchmark of the cost of a packet: sealing, opening and both state machines, without sockets.

use std::time::{Duration, Instant};

use transpute_rudp::rate::ControllerKind;
use transpute_rudp::{Read, RudpConfig, Time};
use transpute_units::Bandwidth;

use crate::serving::pair;
use crate::sim::address;

/// Prints the packets per second through both ends on one core. It checks nothing, because machines
/// differ.
#[test]
#[ignore = "measures; run by hand: cargo test --release -p transpute-rudp --test it -- --ignored --nocapture packets_per_second"]
fn packets_per_second() {
    let bytes: usize = if cfg!(debug_assertions) {
        20_000_000
    } else {
        300_000_000
    };
    for encrypted in [true, false] {
        let mut config = RudpConfig::default();
        config.controller = ControllerKind::Fixed;
        config.probe = false;
        config.prior.rate = Some(Bandwidth::from_megabits_per_second(10_000.0));
        let (mut a, mut b) = pair([config.clone(), config], encrypted, 1, &mut Vec::new());
        let data = vec![7; 1 << 16];
        let mut buffer = vec![0; 1 << 18];
        let (mut written, mut read) = (0, 0);
        let mut now = Time::ZERO;
        let mut out = Vec::new();
        let start = Instant::now();
        while read < bytes {
            now = now + Duration::from_micros(100);
            for (from, to, port) in [(0, 1, 1), (1, 0, 2)] {
                let ends = [&mut a, &mut b];
                if ends[from].next_timeout().is_some_and(|at| at <= now) {
                    ends[from].handle_timeout(now);
                }
                while let Some(transmit) = ends[from].poll_transmit(now, &mut out, 44) {
                    for datagram in out.chunks_mut(transmit.segment_size) {
                        ends[to].handle_datagram(now, address(port), datagram);
                    }
                    out.clear();
                }
            }
            while written < bytes {
                let taken = a.write(&data[..data.len().min(bytes - written)]);
                if taken == 0 {
                    break;
                }
                written += taken;
            }
            while let Read::Data(count) = b.read(now, &mut buffer) {
                read += count;
            }
        }
        let elapsed = start.elapsed().as_secs_f64();
        let stats = a.stats();
        eprintln!(
            "encrypted {encrypted}: {:.0} packets/s, {:.2} Gbit/s through both ends ({} packets, {} parity)",
            stats.sent_packets as f64 / elapsed,
            bytes as f64 * 8.0 / elapsed / 1e9,
            stats.sent_packets,
            stats.parity_packets,
        );
    }
}
