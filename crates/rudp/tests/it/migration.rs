//! A connector whose address changes, as with a NAT rebinding, and an attacker that sends copies of
//! its packets from elsewhere.

use std::time::Duration;

use transpute_netem::scenario::PathConfig;
use transpute_rudp::{RudpConfig, Time};

use crate::link::{Datagram, Link, RTT};
use crate::sim::{Setup, address, run};

const MS: Duration = Duration::from_millis(1);

/// Returns a link with established ends.
fn established() -> Link {
    let mut link = Link::new(&RudpConfig::default());
    link.run(3 * RTT, &mut |_| true);
    assert!(link.connector.is_established() && link.accepted().is_established());
    link
}

/// Writes at both ends and runs, for this number of steps of 20 ms.
fn exchange(link: &mut Link, steps: u32, filter: &mut dyn FnMut(&mut Datagram) -> bool) {
    for _ in 0..steps {
        link.connector.write(&[1; 2000]);
        link.accepted().write(&[2; 2000]);
        link.run(20 * MS, filter);
    }
}

#[test]
fn a_transfer_continues_from_another_port() {
    for loss in [0.0, 0.01, 0.1] {
        for seed in 0..5 {
            let mut path = PathConfig::default();
            path.delay_ms = 20.0;
            path.loss = loss;
            path.rate_mbit = Some(100.0);
            let mut setup = Setup::new(&path, 10_000_000, seed);
            setup.down_bytes = 1_000_000;
            setup.rebind = Some(Duration::from_millis(400));
            let mut outcome = run(&setup);
            let context = format!("loss {loss}, seed {seed}");
            outcome.assert_complete(&context);
            let listener = outcome.listener.connection().unwrap();
            assert_eq!(listener.stats().migrations, 1, "{context}");
            assert_eq!(listener.remote(), address(9), "{context}");
            if loss < 0.1 {
                // A transfer without a migration takes 0.9 s.
                let took = outcome.listener.last_read_at.since(Time::ZERO);
                assert!(took < 1500 * MS, "{context}: {took:?}");
            }
        }
    }
}

/// After a migration, all estimates restart, because nothing is known about the new path.
#[test]
fn estimates_restart_after_a_migration() {
    let mut link = established();
    exchange(&mut link, 50, &mut |_| true);
    let before = link.accepted().stats();
    assert!(before.min_rtt >= RTT && before.migrations == 0);
    link.source = address(9);
    // Runs until the answer to a challenge and a packet have arrived over the new path.
    exchange(&mut link, 1, &mut |_| true);
    while link.accepted().stats().migrations == 0 {
        link.run(MS, &mut |_| true);
    }
    let after = link.accepted().stats();
    assert_eq!(after.min_rtt, Duration::ZERO);
    assert_eq!(after.datagram_size, 1200);
    assert_eq!(link.accepted().remote(), address(9));
    let read = link.seen.clone().map(|seen| seen.read);
    exchange(&mut link, 20, &mut |_| true);
    for (seen, before) in link.seen.iter().zip(read) {
        assert!(seen.read > before, "expected data in both directions");
    }
    assert!(link.accepted().stats().min_rtt >= RTT);
}

#[test]
fn a_connection_migrates_at_most_once_per_second() {
    let mut link = established();
    for turn in 0..50 {
        link.source = address(10 + turn % 2);
        exchange(&mut link, 5, &mut |_| true);
    }
    // The loop took five seconds, so it allows at most six migrations, one per second.
    let migrations = link.accepted().stats().migrations;
    assert!((2..=6).contains(&migrations), "{migrations}");
    exchange(&mut link, 100, &mut |_| true);
    assert_eq!(link.accepted().remote(), link.source);
    assert!(!link.connector.is_closed() && !link.accepted().is_closed());
}

/// A copy of a packet arrives from another address before the packet itself. The connector answers
/// the challenge at its own address, and the connection does not migrate. The other address gets at
/// most three times the bytes that came from it.
#[test]
fn a_copied_packet_causes_no_migration() {
    for copies in [1, 1000] {
        let mut link = established();
        let (mut sent, mut received, mut copied) = (0, 0, 0);
        for _ in 0..100 {
            link.connector.write(&[1; 2000]);
            let mut originals = Vec::new();
            link.run(20 * MS, &mut |datagram| {
                if datagram.is_upward && copied < copies {
                    copied += 1;
                    sent += datagram.bytes.len();
                    originals.push(datagram.clone());
                    datagram.from = address(66);
                }
                received += usize::from(datagram.to == address(66)) * datagram.bytes.len();
                true
            });
            for original in originals {
                link.inject(original);
            }
        }
        link.run(RTT, &mut |_| true);
        assert!(
            sent > 0 && received > 0,
            "expected a challenge to the other address"
        );
        assert!(received <= 3 * sent, "{received} for {sent}");
        let accepted = link.accepted();
        assert_eq!(
            (accepted.stats().migrations, accepted.remote()),
            (0, address(1))
        );
        assert_eq!(link.seen[1].read, 200_000);
    }
}

/// The smallest possible packets arrive from an address at which there is no peer.
#[test]
fn an_unknown_address_gets_few_challenges() {
    let mut link = established();
    link.run(100 * MS, &mut |_| true);
    let mut ping = Vec::new();
    // A keep-alive packet of the connector, which the listener gets from another address only.
    let mut received = 0;
    link.run(Duration::from_secs(3), &mut |datagram| {
        received += usize::from(datagram.to == address(66)) * datagram.bytes.len();
        if datagram.is_upward && ping.is_empty() {
            ping = datagram.bytes.clone();
            datagram.from = address(66);
        }
        true
    });
    assert!(!ping.is_empty() && received > 0);
    assert!(received <= 3 * ping.len(), "{received} for {}", ping.len());
    assert_eq!(link.accepted().stats().migrations, 0);
}

#[test]
fn only_the_connector_migrates() {
    let mut link = established();
    link.accepted().write(&[2; 100_000]);
    link.run(10 * RTT, &mut |datagram| {
        if !datagram.is_upward {
            datagram.from = address(77);
        }
        assert_eq!(datagram.is_upward, datagram.to == address(2));
        true
    });
    assert_eq!(link.connector.remote(), address(2));
    assert_eq!(link.connector.stats().migrations, 0);
    assert_eq!(
        link.seen[0].read, 100_000,
        "expected authentic packets to count from any address"
    );
}
