//! Processes that are suspended for tens of milliseconds, as on a busy machine. Only lost packets
//! are retransmitted, and bursts do limited harm to queues and sockets.

use std::time::Duration;

use transpute_netem::scenario::PathConfig;

use crate::sim::{Outcome, Setup, Sleep, run};

fn path(rtt_ms: f64, loss: f64) -> PathConfig {
    let mut path = PathConfig::default();
    path.delay_ms = rtt_ms / 2.0;
    path.loss = loss;
    path.rate_mbit = Some(1000.0);
    path.queue_bdp = Some(1.0);
    path
}

const SLEEP: Sleep = Sleep {
    awake: Duration::from_millis(40),
    socket: 64 << 20,
    timers_first: false,
};

/// Runs one transfer for each seed and passes its outcome to `look`. Checks that the mean overhead
/// is at most four times the loss rate plus 4.5 %.
///
/// The mean is checked because one sample of 32 probe packets may lose more than the path does on
/// average. Then more parity is sent than necessary. Without any loss among 32 packets the loss
/// rate is still uncertain, so the first round trip carries 4 % of parity.
fn check(path: &PathConfig, bytes: u64, sleep: Sleep, seeds: u64, mut look: impl FnMut(&Outcome)) {
    let (mut overhead, mut lost) = (0.0, 0.0);
    for seed in 0..seeds {
        let mut setup = Setup::new(path, bytes, seed);
        setup.sleep = Some(sleep);
        let outcome = run(&setup);
        let context = format!("{path:?}, {bytes} bytes, seed {seed}");
        outcome.assert_complete(&context);
        assert_eq!(outcome.listener.read, bytes, "{context}");
        let stats = outcome.connector.stats().unwrap();
        // A socket that overflows just after the size was raised looks like a smaller path MTU, but
        // not for long.
        let max_reductions = u64::from(outcome.lost > 0.05);
        let is_large = stats.datagram_size >= 1452;
        assert!(
            stats.mtu_reductions <= max_reductions && is_large,
            "{context}: {}",
            outcome.describe()
        );
        overhead += stats.overhead() / seeds as f64;
        lost += outcome.lost.max(path.loss) / seeds as f64;
        look(&outcome);
    }
    let bar = 4.0 * lost + 0.045;
    assert!(
        overhead <= bar,
        "{path:?}, {bytes} bytes: {overhead} is more than {bar}"
    );
}

#[test]
fn a_suspended_process_retransmits_only_lost_packets() {
    for timers_first in [false, true] {
        let sleep = Sleep {
            timers_first,
            ..SLEEP
        };
        for (rtt, loss) in [(110.0, 0.0), (110.0, 0.0005), (110.0, 0.01), (300.0, 0.01)] {
            for (bytes, seeds) in [(2_770_000, 8), (30_500_000, 2)] {
                check(&path(rtt, loss), bytes, sleep, seeds, |outcome| {
                    let stats = outcome.connector.stats().unwrap();
                    // Each timeout is followed by two probes, which repeat data that may have
                    // arrived.
                    let max = stats.lost_packets - stats.spurious_losses + 2 * stats.probe_timeouts;
                    assert!(
                        stats.retransmitted_packets <= max && stats.spurious_losses <= 3,
                        "{rtt} ms, {loss}: {}",
                        outcome.describe()
                    );
                });
            }
        }
    }
}

#[test]
fn an_overflowing_socket_costs_only_what_it_lost() {
    let mut worst: f64 = 0.0;
    let sleep = Sleep {
        socket: 2 << 20,
        ..SLEEP
    };
    check(&path(110.0, 0.01), 30_500_000, sleep, 4, |outcome| {
        worst = worst.max(outcome.lost);
    });
    assert!(worst > 0.05, "no socket has overflowed: {worst}");
}

/// A hop on the path was suspended while the train passed, so that the train arrived faster than it
/// was sent. The data after it must not overload the path.
#[test]
fn a_compressed_train_is_not_taken_as_the_rate() {
    for (bytes, queue) in [(2_770_000, 1.0), (30_500_000, 1.0), (30_500_000, 0.3)] {
        let mut path = path(110.0, 0.0);
        path.queue_bdp = Some(queue);
        let mut setup = Setup::new(&path, bytes, 1);
        setup.squeeze = Some(9);
        let outcome = run(&setup);
        outcome.assert_complete("compressed");
        let rate = outcome.connector.path_estimate.expect("an estimate");
        assert!(
            rate > 250_000_000,
            "expected a compressed train, got a rate of: {rate}"
        );
        // The last close notice may still be in flight when the simulation ends.
        let max = if queue < 1.0 { 0.1 } else { 0.002 };
        assert!(
            outcome.lost <= max,
            "{bytes} {queue}: {} {}",
            outcome.lost,
            outcome.describe()
        );
        eprintln!(
            "{bytes} {queue}: lost {} in {:?}",
            outcome.lost,
            outcome.transfer()
        );
    }
}
