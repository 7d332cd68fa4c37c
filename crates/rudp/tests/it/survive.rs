//! Whatever the path does, data arrive unaltered or an error says why.

use std::time::Duration;

use transpute_testbed::scenario::{Change, PathConfig};

use crate::sim::{Setup, run};

fn base() -> PathConfig {
    PathConfig {
        delay_ms: 20.0,
        rate_mbit: Some(100.0),
        ..PathConfig::default()
    }
}

#[test]
fn a_plain_transfer_completes() {
    let mut setup = Setup::new(&base(), 3_000_000, 1);
    setup.down_bytes = 500_000;
    let outcome = run(&setup);
    outcome.assert_complete("plain");
    eprintln!("{}", outcome.describe());
}

#[test]
fn thirty_percent_loss() {
    let path = PathConfig {
        loss: 0.3,
        ..base()
    };
    for seed in 0..5 {
        let mut setup = Setup::new(&path, 3_000_000, seed);
        setup.down_bytes = 100_000;
        let outcome = run(&setup);
        outcome.assert_complete("30 % loss");
        eprintln!("{:?}", outcome.now);
    }
}

#[test]
fn reordering_and_duplication() {
    let path = PathConfig {
        reorder: 0.1,
        duplicate: 0.1,
        jitter_ms: 5.0,
        ..base()
    };
    for seed in 0..5 {
        let outcome = run(&Setup::new(&path, 5_000_000, seed));
        outcome.assert_complete("reordering");
        let stats = outcome.connector.connection.stats();
        let share = stats.retransmitted_packets as f64 / stats.sent_packets as f64;
        assert!(share < 0.02, "{share}: {}", outcome.describe());
    }
}

#[test]
fn a_blackout_of_five_seconds() {
    let change = |at_s, loss| Change {
        at_s,
        loss: Some(loss),
        ..Change::default()
    };
    let path = PathConfig {
        changes: vec![change(0.3, 1.0), change(5.3, 0.0)],
        ..base()
    };
    let outcome = run(&Setup::new(&path, 20_000_000, 1));
    outcome.assert_complete("blackout");
    let seconds = outcome.listener.last_read_at.as_nanos() as f64 / 1e9;
    // 20 MB take 1.7 s; it was gone for 5 s and is noticed to be back within one.
    assert!(seconds < 8.5, "{seconds}: {}", outcome.describe());
}

#[test]
fn a_drop_of_the_mtu_mid_run() {
    for mtu in [1400, 1200] {
        let mut setup = Setup::new(&base(), 10_000_000, 1);
        setup.mtu = vec![(Duration::ZERO, 1472), (Duration::from_millis(400), mtu)];
        let outcome = run(&setup);
        outcome.assert_complete("mtu");
        let stats = outcome.connector.connection.stats();
        assert!(stats.mtu_falls >= 1 && usize::from(stats.datagram_size) <= mtu);
        let seconds = outcome.listener.last_read_at.as_nanos() as f64 / 1e9;
        assert!(seconds < 2.5, "{seconds}: {}", outcome.describe());
    }
}
