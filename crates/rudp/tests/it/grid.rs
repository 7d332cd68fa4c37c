//! Transfer times compared with the physical limit of the path.

use transpute_netem::scenario::PathConfig;
use transpute_rudp::{Time, rate::ControllerKind};

use crate::sim::{Outcome, Setup, overhead, run};

const GBIT: f64 = 1000.0;

fn path(rtt_ms: f64, loss: f64, queue_bdp: f64) -> PathConfig {
    let mut path = PathConfig::default();
    path.delay_ms = rtt_ms / 2.0;
    path.loss = loss;
    path.rate_mbit = Some(GBIT);
    path.queue_bdp = Some(queue_bdp);
    path
}

fn limit(rtt_ms: f64, bytes: u64) -> f64 {
    rtt_ms / 2000.0 + bytes as f64 * 8.0 / (GBIT * 1e6)
}

fn transfer(setup: &Setup) -> Outcome {
    let outcome = run(setup);
    outcome.assert_complete("grid");
    assert_eq!(outcome.listener.read, setup.up_bytes);
    outcome
}

/// Runs one case with several seeds. Returns the median ratio of the transfer time to the physical
/// limit.
fn cell(rtt: f64, loss: f64, bytes: u64, queue: f64, prior: bool) -> f64 {
    let mut ratios = Vec::new();
    let mut overheads = Vec::new();
    let mut line = String::new();
    // The test uses three seeds for large transfers, and an odd number because of the median.
    for seed in 0..if bytes > 10_000_000 { 3 } else { 5 } {
        let mut setup = Setup::new(&path(rtt, loss, queue), bytes, 100 + seed);
        setup.connector.controller = ControllerKind::Bbr;
        setup.connector.probe = prior;
        setup.listener.probe = prior;
        let outcome = transfer(&setup);
        let ratio = outcome.transfer().as_secs_f64() / limit(rtt, bytes);
        let stats = outcome.connector.stats().unwrap();
        line += &format!(" {ratio:.3}({:.1}%)", 100.0 * overhead(&stats));
        ratios.push(ratio);
        // Packets that overflowed the queue were lost as well.
        let lost = (stats.lost_packets as f64 / stats.sent_packets as f64).max(loss);
        overheads.push(overhead(&stats) - 4.0 * lost);
    }
    ratios.sort_by(f64::total_cmp);
    overheads.sort_by(f64::total_cmp);
    let extra = overheads[overheads.len() / 2];
    // A train of 32 packets without loss does not prove that the path loses none, so some parity is
    // allowed.
    assert!(
        extra <= 0.04,
        "{extra} more than four times the loss of {loss}:{line}"
    );
    let median = ratios[ratios.len() / 2];
    eprintln!(
        "{rtt:>4} ms {:>5} % {:>6.2} MB queue {queue} probe {prior}: {median:.3} |{line}",
        loss * 100.0,
        bytes as f64 / 1e6
    );
    median
}

fn check(sizes: &[u64], rtts: &[f64], losses: &[f64], queues: &[f64], prior: bool) {
    let mut failures = Vec::new();
    for &rtt in rtts {
        for &loss in losses {
            for &bytes in sizes {
                for &queue in queues {
                    // Without a prior and a probe, the sender learns the rate one round trip after
                    // the first flight, and the loss perhaps one round trip later. `round` is a
                    // round trip as a share of the physical limit.
                    let round = rtt / 1000.0 / limit(rtt, bytes);
                    let bar = match (prior, loss >= 0.01) {
                        (true, false) => 1.2,
                        (true, true) => 1.3,
                        (false, false) => f64::max(1.6, 1.1 + round),
                        (false, true) => f64::max(1.6, 1.3 + 3.0 * round),
                    };
                    let ratio = cell(rtt, loss, bytes, queue, prior);
                    if ratio > bar {
                        failures.push(format!(
                            "{rtt} ms, loss {loss}, {bytes} B, queue {queue}: {ratio:.3} > {bar}"
                        ));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn small_transfers_are_close_to_the_limit_of_the_path() {
    check(
        &[210_000, 2_770_000],
        &[110.0, 300.0],
        &[0.0, 0.0001, 0.0005, 0.01],
        &[1.0, 0.1],
        true,
    );
}

#[test]
fn large_transfers_are_close_to_the_limit_of_the_path() {
    check(
        &[30_500_000],
        &[110.0, 300.0],
        &[0.0, 0.0001, 0.0005, 0.01],
        &[1.0, 0.1],
        true,
    );
}

#[test]
#[ignore = "slow: cargo xtask slow-tests"]
fn huge_transfers_are_close_to_the_limit_of_the_path() {
    check(
        &[69_000_000],
        &[110.0, 300.0],
        &[0.0, 0.0001, 0.0005, 0.01],
        &[1.0, 0.1],
        true,
    );
}

#[test]
fn without_a_probe_the_first_flight_shows_the_rate() {
    check(
        &[30_500_000],
        &[110.0, 300.0],
        &[0.0, 0.0001, 0.0005, 0.01],
        &[1.0, 0.1],
        false,
    );
}

/// The listener sends the data, as a listening garbler does: the evaluator connects, and the
/// garbler answers its first bytes with tables.
#[test]
fn the_listener_starts_at_the_rate_of_the_path() {
    for rtt_ms in [110.0, 300.0] {
        let mut setup = Setup::new(&path(rtt_ms, 0.0, 1.0), 500_000, 1);
        setup.down_bytes = 36_000_000;
        let outcome = run(&setup);
        outcome.assert_complete("from the listener");
        assert_eq!(outcome.connector.read, setup.down_bytes);
        let seconds = outcome.connector.last_read_at.since(Time::ZERO);
        // The first byte arrives after two round trips. Half a round trip of them is part of
        // `limit`.
        let ratio = seconds.as_secs_f64() / (1.5 * rtt_ms / 1000.0 + limit(rtt_ms, 36_000_000));
        assert!(ratio < 1.08, "{rtt_ms} ms: {ratio}");
    }
}

#[test]
fn the_start_spares_a_short_queue() {
    for (rtt_ms, rate_mbit) in [
        (5.0, 10.0),
        (20.0, 2.0),
        (20.0, 10.0),
        (50.0, 50.0),
        (110.0, 10.0),
    ] {
        let mut path = PathConfig::default();
        path.delay_ms = rtt_ms / 2.0;
        path.rate_mbit = Some(rate_mbit);
        path.queue_bytes = Some(32_000);
        let outcome = transfer(&Setup::new(&path, 1_000_000, 1));
        // The train of the handshake fills the queue. Data after it, except ten packets, wait for
        // the report.
        let lost = outcome.connector.stats().unwrap().lost_packets;
        assert!(lost <= 10, "{rtt_ms} ms, {rate_mbit} Mbit/s: {lost} lost");
    }
}

#[test]
fn the_application_cannot_write_far_ahead_of_a_slow_path() {
    for (rtt_ms, rate_mbit, max) in [(2.0, 20.0, 300_000), (30.0, 20.0, 600_000)] {
        let mut path = PathConfig::default();
        path.delay_ms = rtt_ms / 2.0;
        path.rate_mbit = Some(rate_mbit);
        path.queue_bytes = Some(75_000);
        let outcome = transfer(&Setup::new(&path, 12_000_000, 1));
        eprintln!("{rtt_ms} ms: {} bytes ahead", outcome.ahead);
        assert!(outcome.ahead <= max, "{rtt_ms} ms: {}", outcome.ahead);
        let limit = rtt_ms / 2000.0 + 12e6 * 8.0 / (rate_mbit * 1e6);
        let ratio = outcome.transfer().as_secs_f64() / limit;
        assert!(ratio < 1.1, "{rtt_ms} ms: {ratio}");
    }
}
