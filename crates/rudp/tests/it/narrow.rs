//! Interfaces with a small MTU, which reject larger packets at once.

use std::time::Duration;

use transpute_netem::scenario::PathConfig;
use transpute_rudp::ClosedReason;

use crate::sim::{Outcome, Setup, run};

fn transfer(interface: Option<(usize, bool)>, probe: bool) -> Outcome {
    let mut path = PathConfig::default();
    path.delay_ms = 55.0;
    path.rate_mbit = Some(1000.0);
    path.queue_bdp = Some(1.0);
    let mut setup = Setup::new(&path, 10_000_000, 1);
    setup.interface = interface;
    setup.connector.probe = probe;
    setup.listener.probe = probe;
    setup.time_limit = Duration::from_secs(60);
    run(&setup)
}

#[test]
fn a_rejected_train_is_sent_at_the_size_that_fits() {
    let usual = transfer(None, true);
    for (max, is_reported, expected) in [
        (1372, true, 1372),
        (1372, false, 1300),
        (1252, true, 1252),
        (1252, false, 1200),
        (1200, true, 1200),
    ] {
        let outcome = transfer(Some((max, is_reported)), true);
        let context = format!("{max} {is_reported}");
        outcome.assert_complete(&context);
        let stats = outcome.connector.stats().unwrap();
        assert_eq!(stats.datagram_size, expected, "{context}");
        assert_eq!(
            (stats.lost_packets, stats.mtu_reductions),
            (0, 0),
            "{context}"
        );
        // The train measured the rate of the path as usual.
        let rate = outcome.connector.path_estimate.expect("an estimate") as f64;
        assert!((rate / 125e6 - 1.0).abs() < 0.1, "{context}: {rate}");
        assert_eq!(
            outcome.connector.established_at, usual.connector.established_at,
            "{context}"
        );
        let ratio = outcome.transfer().as_secs_f64() / usual.transfer().as_secs_f64();
        assert!(ratio < 1.05, "{context}: {ratio}");
    }
}

#[test]
fn a_rejected_size_is_not_probed_without_a_train_either() {
    for is_reported in [false, true] {
        let outcome = transfer(Some((1372, is_reported)), false);
        outcome.assert_complete("no train");
        let size = outcome.connector.stats().unwrap().datagram_size;
        assert_eq!(size, if is_reported { 1372 } else { 1300 });
    }
}

#[test]
fn an_interface_that_is_too_narrow_is_reported_at_once() {
    let outcome = transfer(Some((548, true)), true);
    assert_eq!(
        outcome.connector.closed,
        Some(Some(ClosedReason::PathTooNarrow))
    );
}
