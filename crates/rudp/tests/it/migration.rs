//! A connector whose address changes, as when a NAT forgets it, and somebody who sends copies of
//! its packets from elsewhere.

use std::time::Duration;

use transpute_netem::scenario::PathConfig;
use transpute_rudp::{Config, Time};

use crate::link::{Datagram, Link, RTT};
use crate::sim::{Setup, address, run};

const MS: Duration = Duration::from_millis(1);

/// Returns a link whose ends are established.
fn established() -> Link {
    let mut link = Link::new(&Config::default());
    link.run(3 * RTT, &mut |_| true);
    assert!(link.connector.is_established() && link.accepted().is_established());
    link
}

/// Writes at both ends and runs, for so many steps of 20 ms.
fn talk(link: &mut Link, steps: u32, filter: &mut dyn FnMut(&mut Datagram) -> bool) {
    for _ in 0..steps {
        link.connector.write(&[1; 2000]);
        link.accepted().write(&[2; 2000]);
        link.run(20 * MS, filter);
    }
}

#[test]
fn a_transfer_goes_on_from_another_port() {
    for loss in [0.0, 0.01, 0.1] {
        for seed in 0..5 {
            let path = PathConfig {
                delay_ms: 20.0,
                loss,
                rate_mbit: Some(100.0),
                ..PathConfig::default()
            };
            let mut setup = Setup::new(&path, 10_000_000, seed);
            setup.down_bytes = 1_000_000;
            setup.rebind = Some(Duration::from_millis(400));
            let mut outcome = run(&setup);
            let context = format!("loss {loss}, seed {seed}");
            outcome.assert_complete(&context);
            let listener = outcome.listener.connection().unwrap();
            assert_eq!(listener.stats().moves, 1, "{context}");
            assert_eq!(listener.remote(), address(9), "{context}");
            if loss < 0.1 {
                // It takes 0.9 s otherwise.
                let took = outcome.listener.last_read_at.since(Time::ZERO);
                assert!(took < 1500 * MS, "{context}: {took:?}");
            }
        }
    }
}

/// Of another path nothing is known.
#[test]
fn estimates_restart_after_a_move() {
    let mut link = established();
    talk(&mut link, 50, &mut |_| true);
    let before = link.accepted().stats();
    assert!(before.min_rtt >= RTT && before.moves == 0);
    link.source = address(9);
    // Until the answer to a challenge and a packet have come over the new path.
    talk(&mut link, 1, &mut |_| true);
    while link.accepted().stats().moves == 0 {
        link.run(MS, &mut |_| true);
    }
    let after = link.accepted().stats();
    assert_eq!(after.min_rtt, Duration::ZERO);
    assert_eq!(after.datagram_size, 1200);
    assert_eq!(link.accepted().remote(), address(9));
    let read = link.seen.clone().map(|seen| seen.read);
    talk(&mut link, 20, &mut |_| true);
    for (seen, before) in link.seen.iter().zip(read) {
        assert!(seen.read > before, "data go on both ways");
    }
    assert!(link.accepted().stats().min_rtt >= RTT);
}

#[test]
fn a_connection_moves_once_a_second_at_most() {
    let mut link = established();
    for turn in 0..50 {
        link.source = address(10 + turn % 2);
        talk(&mut link, 5, &mut |_| true);
    }
    // For five seconds.
    let moves = link.accepted().stats().moves;
    assert!((2..=6).contains(&moves), "{moves}");
    talk(&mut link, 100, &mut |_| true);
    assert_eq!(link.accepted().remote(), link.source);
    assert!(!link.connector.is_closed() && !link.accepted().is_closed());
}

/// A copy of a packet that arrives before the packet itself, from elsewhere: the connector answers
/// where it is, and nothing moves. Elsewhere gets no more than three times what came from there.
#[test]
fn a_copied_packet_moves_nothing() {
    for copies in [1, 1000] {
        let mut link = established();
        let (mut given, mut got, mut copied) = (0, 0, 0);
        for _ in 0..100 {
            link.connector.write(&[1; 2000]);
            let mut originals = Vec::new();
            link.run(20 * MS, &mut |datagram| {
                if datagram.is_upward && copied < copies {
                    copied += 1;
                    given += datagram.bytes.len();
                    originals.push(datagram.clone());
                    datagram.from = address(66);
                }
                got += usize::from(datagram.to == address(66)) * datagram.bytes.len();
                true
            });
            for original in originals {
                link.inject(original);
            }
        }
        link.run(RTT, &mut |_| true);
        assert!(given > 0 && got > 0, "it is asked there too");
        assert!(got <= 3 * given, "{got} for {given}");
        let accepted = link.accepted();
        assert_eq!((accepted.stats().moves, accepted.remote()), (0, address(1)));
        assert_eq!(link.seen[1].read, 200_000);
    }
}

/// The smallest packets there are, from addresses where nobody is.
#[test]
fn an_unknown_address_gets_few_challenges() {
    let mut link = established();
    link.run(100 * MS, &mut |_| true);
    let mut ping = Vec::new();
    // A sign of life of the connector, which the listener gets from elsewhere only.
    let mut got = 0;
    link.run(Duration::from_secs(3), &mut |datagram| {
        got += usize::from(datagram.to == address(66)) * datagram.bytes.len();
        if datagram.is_upward && ping.is_empty() {
            ping = datagram.bytes.clone();
            datagram.from = address(66);
        }
        true
    });
    assert!(!ping.is_empty() && got > 0);
    assert!(got <= 3 * ping.len(), "{got} for {}", ping.len());
    assert_eq!(link.accepted().stats().moves, 0);
}

#[test]
fn only_the_connector_moves() {
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
    assert_eq!(link.connector.stats().moves, 0);
    assert_eq!(
        link.seen[0].read, 100_000,
        "authentic packets count wherever they come from"
    );
}
