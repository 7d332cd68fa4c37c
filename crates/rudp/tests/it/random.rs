//! Thousands of random paths. On each of them, data arrive unaltered and in order and both ends
//! close, or an error gives the reason.
//!
//! A seed that fails is added to `seeds.txt`, whose seeds are run first.

use std::time::Duration;

use transpute_netem::model::derive_seed;
use transpute_netem::scenario::{Change, GilbertElliott, PathConfig};
use transpute_rudp::rate::ControllerKind;
use transpute_rudp::{ClosedReason, FecPolicy};

use crate::sim::{Setup, run};

/// Seeds that failed before.
const FAILED_SEEDS: &str = include_str!("seeds.txt");

/// A generator of random numbers.
struct Random(u64);

impl Random {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 += 1;
        derive_seed(self.0, 99) % sides
    }

    fn unit(&mut self) -> f64 {
        self.roll(1 << 40) as f64 / (1u64 << 40) as f64
    }

    fn maybe(&mut self, one_in: u64, value: f64) -> f64 {
        if self.roll(one_in) == 0 {
            self.unit() * value
        } else {
            0.0
        }
    }
}

fn random_path(random: &mut Random) -> PathConfig {
    let mut path = PathConfig::default();
    path.delay_ms = [0.01, 1.0, 20.0, 150.0][random.roll(4) as usize] * (0.5 + random.unit());
    path.jitter_ms = random.maybe(3, 20.0);
    path.loss = random.maybe(2, 0.3);
    path.reorder = random.maybe(3, 0.2);
    path.duplicate = random.maybe(3, 0.2);
    path.rate_mbit = [None, Some(2.0), Some(20.0), Some(1000.0)][random.roll(4) as usize];
    if random.roll(4) == 0 {
        path.burst = Some(GilbertElliott {
            p_enter: 0.01 * random.unit(),
            p_leave: 0.05 + 0.3 * random.unit(),
            loss_good: 0.0,
            loss_bad: 1.0,
        });
    }
    if path.rate_mbit.is_some() {
        path.queue_bytes = Some(20_000 + random.roll(500_000));
    }
    if random.roll(5) == 0 {
        let at_s = random.unit();
        let lasts = 5.0 * random.unit();
        let change = |at_s, loss| Change {
            at_s,
            loss: Some(loss),
            ..Change::default()
        };
        path.changes = vec![change(at_s, 1.0), change(at_s + lasts, path.loss)];
    }
    path
}

fn random_setup(seed: u64) -> Setup {
    let mut random = Random(derive_seed(seed, 1));
    let up = random_path(&mut random);
    let mut setup = Setup::new(&up, 0, seed);
    if random.roll(2) == 0 {
        setup.down = random_path(&mut random);
    }
    let sizes = [0, 1, 1429, 20_000, 150_000];
    setup.up_bytes = sizes[random.roll(5) as usize];
    setup.down_bytes = sizes[random.roll(5) as usize];
    setup.corrupt = random.maybe(3, 0.05);
    setup.encrypted = random.roll(4) != 0;
    setup.segments = 1 + random.roll(20) as usize;
    if random.roll(5) == 0 {
        let later = Duration::from_millis(random.roll(500));
        setup.mtu = vec![
            (Duration::ZERO, 1472),
            (later, [1200, 1300, 1452][random.roll(3) as usize]),
        ];
    }
    for config in [&mut setup.connector, &mut setup.listener] {
        config.probe = random.roll(3) != 0;
        config.controller =
            ControllerKind::ALL[random.roll(3) as usize % ControllerKind::ALL.len()];
        if random.roll(3) == 0 {
            config.fec = FecPolicy::Off;
        }
        config.max_receive_window = 1 << (20 + random.roll(4));
        config.idle_timeout = Duration::from_secs(20);
        config.setup_timeout = Duration::from_secs(10);
    }
    setup
}

/// Runs one seed and returns whether both ends completed without an error.
fn check(seed: u64) -> bool {
    let setup = random_setup(seed);
    let outcome = run(&setup);
    assert!(!outcome.hung, "seed {seed} hung: {}", outcome.describe());
    let ends = [&outcome.connector, &outcome.listener];
    let clean = ends.iter().all(|end| end.closed == Some(None));
    if clean {
        assert_eq!(outcome.listener.read, setup.up_bytes, "seed {seed}");
        assert_eq!(outcome.connector.read, setup.down_bytes, "seed {seed}");
        assert!(
            ends.iter().all(|end| end.saw_end && end.delivered),
            "seed {seed}"
        );
    }
    for end in ends {
        // A listener that did not receive complete first messages has no connection.
        assert!(
            matches!(
                end.closed,
                Some(None | Some(ClosedReason::PathBlocked(_) | ClosedReason::TimedOut(_)))
            ) || end.stats().is_none(),
            "seed {seed}: {}",
            outcome.describe()
        );
    }
    clean
}

fn run_seeds(seeds: std::ops::Range<u64>) {
    let count = seeds.end - seeds.start;
    let failed: Vec<_> = seeds.filter(|&seed| !check(seed)).collect();
    eprintln!(
        "{} of {count} ended with an error: {failed:?}",
        failed.len()
    );
    assert!(failed.len() as u64 * 500 <= count, "{failed:?}");
}

#[test]
fn seeds_that_failed_before() {
    for line in FAILED_SEEDS.lines().filter(|line| !line.starts_with('#')) {
        check(line.split_whitespace().next().unwrap().parse().unwrap());
    }
}

#[test]
fn a_thousand_paths() {
    run_seeds(0..1000);
}

#[test]
fn two_thousand_more_paths() {
    run_seeds(1000..3000);
}

#[test]
#[ignore = "slow: cargo xtask slow-tests"]
fn a_hundred_thousand_paths() {
    run_seeds(3000..103_000);
}
