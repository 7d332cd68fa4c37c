//! Difficult paths: data arrive unaltered, or an error gives the reason.

use std::time::Duration;

use transpute_netem::scenario::{Change, PathConfig};

use crate::sim::{Setup, run};

fn base() -> PathConfig {
    let mut path = PathConfig::default();
    path.delay_ms = 20.0;
    path.rate_mbit = Some(100.0);
    path
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
    let mut path = base();
    path.loss = 0.3;
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
    let mut path = base();
    path.reorder = 0.1;
    path.duplicate = 0.1;
    path.jitter_ms = 5.0;
    for seed in 0..5 {
        let outcome = run(&Setup::new(&path, 5_000_000, seed));
        outcome.assert_complete("reordering");
        let stats = outcome.connector.stats().unwrap();
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
    let mut path = base();
    path.changes = vec![change(0.3, 1.0), change(5.3, 0.0)];
    let outcome = run(&Setup::new(&path, 20_000_000, 1));
    outcome.assert_complete("blackout");
    let seconds = outcome.listener.last_read_at.as_nanos() as f64 / 1e9;
    // 20 MB take 1.7 s. The path is dead for 5 s, and its recovery is noticed within one second.
    assert!(seconds < 8.5, "{seconds}: {}", outcome.describe());
}

/// A blackout at any time during the handshake: both ends connect once the path has recovered.
#[test]
fn a_blackout_during_the_handshake() {
    const DARK_S: f64 = 0.3;
    let change = |at_s, loss| Change {
        at_s,
        loss: Some(loss),
        ..Change::default()
    };
    // A small transfer, in which the connector sends little besides the handshake, and a bulk
    // transfer.
    for bytes in [100, 600_000] {
        for cut_ms in (0..90).step_by(2) {
            let from_s = f64::from(cut_ms) / 1e3;
            let mut path = base();
            path.changes = vec![change(from_s, 1.0), change(from_s + DARK_S, 0.0)];
            let mut setup = Setup::new(&path, bytes, 1);
            for config in [&mut setup.connector, &mut setup.listener] {
                config.probe = true;
            }
            let outcome = run(&setup);
            outcome.assert_complete(&format!("{bytes} bytes, dark from {cut_ms} ms"));
            let seconds = outcome.listener.last_read_at.as_nanos() as f64 / 1e9;
            // The next attempt follows within a second, and then the transfer takes its usual time.
            assert!(
                seconds < from_s + DARK_S + 1.5,
                "{bytes} bytes, dark from {cut_ms} ms: {seconds} s: {}",
                outcome.describe()
            );
        }
    }
}

#[test]
fn a_reduction_of_the_mtu_during_a_transfer() {
    for mtu in [1400, 1200] {
        let mut setup = Setup::new(&base(), 10_000_000, 1);
        setup.mtu = vec![(Duration::ZERO, 1472), (Duration::from_millis(400), mtu)];
        let outcome = run(&setup);
        outcome.assert_complete("mtu");
        let stats = outcome.connector.stats().unwrap();
        assert!(stats.mtu_reductions >= 1 && usize::from(stats.datagram_size) <= mtu);
        let seconds = outcome.listener.last_read_at.as_nanos() as f64 / 1e9;
        assert!(seconds < 2.5, "{seconds}: {}", outcome.describe());
    }
}
