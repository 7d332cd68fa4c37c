//! Rate estimates from packet trains over emulated paths.

use std::time::Duration;

use transpute_netem::model::Path;
use transpute_netem::scenario::PathConfig;
use transpute_rudp::Time;
use transpute_rudp::estimate::{MAX_TRAIN, RateEstimate, TrainReceiver};

const TRAIN: usize = 128;
const BYTES: u64 = 1500;
const MBIT: f64 = 125_000.0;

/// The conditions under which a train is sent, except the rate of the path.
#[derive(Clone, Copy, Default)]
struct Conditions {
    /// The granularity of arrival times, as with interrupt coalescing, in nanoseconds.
    batch: u64,
    /// The rate of cross traffic, as a share of the bottleneck's rate.
    cross: f64,
    jitter_ms: f64,
    loss: f64,
    reorder: f64,
    /// The sender's rate in Mbit/s. Zero means that all packets are sent at once.
    sender_mbit: f64,
    /// The size of the queue before the bottleneck, in bytes. Zero means that the queue is larger
    /// than the train.
    queue: u64,
}

fn measure(rate_mbit: f64, seed: u64, conditions: Conditions) -> Option<RateEstimate> {
    send(rate_mbit, seed, conditions).estimate()
}

/// Sends a train over a path and returns its receiver.
fn send(rate_mbit: f64, seed: u64, conditions: Conditions) -> TrainReceiver {
    let mut config = PathConfig::default();
    config.delay_ms = 55.0;
    config.rate_mbit = Some(rate_mbit);
    config.queue_bytes = Some(match conditions.queue {
        0 => 4 << 20,
        bytes => bytes,
    });
    config.jitter_ms = conditions.jitter_ms;
    config.loss = conditions.loss;
    config.reorder = conditions.reorder;
    let mut path: Path<Vec<u8>> = Path::new(&config, seed);
    let packet = |tag: u8, index: usize| {
        let mut packet = vec![0; BYTES as usize];
        packet[0] = tag;
        packet[1..9].copy_from_slice(&(index as u64).to_be_bytes());
        packet
    };
    let gap = |mbit: f64| (BYTES as f64 / (mbit * MBIT) * 1e9) as u64;
    // The interval between packets of cross traffic, which lasts from before the train until after
    // it.
    let step = if conditions.cross > 0.0 {
        gap(rate_mbit * conditions.cross)
    } else {
        0
    };
    let mut sends = Vec::new();
    let start = 20_000_000 + seed * 1_234_567;
    let between = if conditions.sender_mbit > 0.0 {
        gap(conditions.sender_mbit)
    } else {
        2_000
    };
    let after = |n: usize| between * n as u64;
    for n in 0..TRAIN {
        sends.push((start + after(n), 1, n));
    }
    if step > 0 {
        let end = start + gap(rate_mbit) * TRAIN as u64 * 3;
        // Every other gap is a third of the next, so that the traffic is neither regular nor
        // random.
        let mut at = 0;
        let mut n = 0;
        while at < end {
            sends.push((at, 0, n));
            at += if n % 2 == 0 {
                step / 2
            } else {
                step + step / 2
            };
            n += 1;
        }
    }
    sends.sort_unstable();
    let mut receiver = TrainReceiver::new(TRAIN);
    let mut take = |path: &mut Path<Vec<u8>>, until: u64| {
        while let Some(at) = path.next_deadline().filter(|&at| at < until) {
            while let Some(packet) = path.dequeue(at) {
                let seen = match conditions.batch {
                    0 => at,
                    batch => at.next_multiple_of(batch),
                };
                if packet[0] == 1 {
                    let index = u64::from_be_bytes(packet[1..9].try_into().unwrap()) as usize;
                    let left = Duration::from_nanos(after(index));
                    receiver.push(index, Time::from_nanos(seen), left, BYTES);
                }
            }
        }
    };
    for (at, tag, n) in sends {
        take(&mut path, at);
        path.enqueue(at, packet(tag, n));
    }
    take(&mut path, u64::MAX);
    receiver
}

/// Checks that estimates are within this share of the rate, for several seeds, and prints the
/// largest error.
fn assert_within(tolerance: f64, rates: &[f64], conditions: Conditions) {
    for &rate in rates {
        let mut worst: f64 = 0.0;
        for seed in 1..=20 {
            let estimate = measure(rate, seed, conditions).unwrap();
            let error = estimate.rate as f64 / (rate * MBIT) - 1.0;
            if error.abs() > worst.abs() {
                worst = error;
            }
            assert!(
                error.abs() <= tolerance,
                "{rate} Mbit/s, seed {seed}: {estimate:?}"
            );
            assert!(
                estimate.low <= estimate.rate
                    && estimate.high.is_none_or(|high| high >= estimate.rate)
            );
        }
        println!("{rate} Mbit/s: worst {:+.1} %", worst * 100.0);
    }
}

const RATES: [f64; 6] = [10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0];

#[test]
fn the_error_on_a_clean_path_is_small() {
    assert_within(0.01, &RATES, Conditions::default());
}

#[test]
fn loss_and_reordering_hardly_change_the_estimate() {
    let conditions = Conditions {
        loss: 0.01,
        reorder: 0.05,
        ..Conditions::default()
    };
    assert_within(0.03, &RATES, conditions);
    assert_within(
        0.1,
        &RATES,
        Conditions {
            loss: 0.2,
            ..Conditions::default()
        },
    );
}

#[test]
fn batched_arrivals_hardly_change_the_estimate() {
    // 50 us are a 25th of the duration of the train at 1 Gbit/s.
    let conditions = Conditions {
        batch: 50_000,
        loss: 0.01,
        ..Conditions::default()
    };
    assert_within(0.05, &RATES[..5], conditions);
    assert_within(0.1, &[2000.0], conditions);
}

#[test]
fn moderate_jitter_is_tolerated() {
    let conditions = Conditions {
        jitter_ms: 0.2,
        ..Conditions::default()
    };
    assert_within(0.1, &RATES, conditions);
}

#[test]
fn with_cross_traffic_the_estimate_is_between_available_bandwidth_and_capacity() {
    for rate in RATES {
        for cross in [0.1, 0.3, 0.5] {
            let conditions = Conditions {
                cross,
                ..Conditions::default()
            };
            for seed in 1..=5 {
                let estimate = measure(rate, seed, conditions).unwrap();
                let share = estimate.rate as f64 / (rate * MBIT);
                assert!(
                    (1.0 - cross - 0.02..=1.02).contains(&share),
                    "{rate} {cross}: {share}"
                );
            }
        }
    }
}

#[test]
fn a_slow_sender_yields_a_lower_bound() {
    let sender = Conditions {
        sender_mbit: 400.0,
        ..Conditions::default()
    };
    let estimate = measure(1000.0, 1, sender).unwrap();
    assert!(estimate.is_lower_bound(), "{estimate:?}");
    for rate in [100.0, 200.0, 300.0] {
        let estimate = measure(rate, 1, sender).unwrap();
        assert!(!estimate.is_lower_bound(), "{rate}: {estimate:?}");
        let error = estimate.rate as f64 / (rate * MBIT) - 1.0;
        assert!(error.abs() < 0.02, "{rate}: {estimate:?}");
    }
}

/// Returns the estimate of a train with these sending and arrival times, in nanoseconds.
fn estimate_of(train: impl Iterator<Item = (u64, u64)>) -> RateEstimate {
    let mut receiver = TrainReceiver::new(TRAIN);
    for (n, (left, at)) in train.enumerate() {
        receiver.push(n, Time::from_nanos(at), Duration::from_nanos(left), BYTES);
    }
    receiver.estimate().unwrap()
}

/// Returns the sending and arrival times of packets over a bottleneck with this service time.
fn through(service: u64, sends: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    let mut free = 0;
    sends.iter().map(move |&left| {
        free = free.max(left) + service;
        (left, 1_000_000 + free)
    })
}

#[test]
fn a_train_with_a_slow_section_is_measured_by_its_fast_ones() {
    // A service time of 12 us is 1 Gbit/s. For the packets in the range `slow`, the sender has only
    // half of a processor.
    for (slow, pause) in [(16..68, 25_000), (0..90, 24_000), (60..128, 40_000)] {
        let mut at = 0;
        let sends: Vec<u64> = (0..TRAIN)
            .map(|n| {
                at += if slow.contains(&n) { pause } else { 2_500 };
                at
            })
            .collect();
        let estimate = estimate_of(through(12_000, &sends));
        let share = estimate.rate as f64 / (1000.0 * MBIT);
        assert!((0.9..1.01).contains(&share), "{slow:?}: {estimate:?}");
        assert!(!estimate.is_lower_bound());
    }
}

#[test]
fn a_pause_near_one_end_of_a_train_does_not_lower_the_estimate() {
    let sends: Vec<u64> = (0..TRAIN as u64).map(|n| 1_000 * n).collect();
    for before in [3, 10, TRAIN - 10] {
        let train = through(12_000, &sends).enumerate();
        let estimate = estimate_of(train.map(|(n, (left, at))| {
            let paused = if n < before { 0 } else { 3_000_000 };
            (left, at + paused)
        }));
        let share = estimate.rate as f64 / (1000.0 * MBIT);
        assert!((0.95..1.01).contains(&share), "{before}: {estimate:?}");
    }
}

#[test]
fn faster_arrivals_after_pauses_on_the_path_are_not_taken_as_the_rate() {
    // As in the test above, but a hop on the path is suspended for 250 of every 400 us. After each
    // suspension, it forwards the held packets four times as fast.
    for phase in [0, 100_000, 200_000, 300_000] {
        let mut at = 0;
        let sends: Vec<u64> = (0..TRAIN)
            .map(|n| {
                at += if n < 50 { 25_000 } else { 1_000 };
                at
            })
            .collect();
        let mut free = 0;
        let estimate = estimate_of(through(12_000, &sends).map(|(left, at)| {
            let in_turn = (at + phase) % 400_000;
            let awake = at + 250_000_u64.saturating_sub(in_turn);
            free = awake.max(free + 3_000);
            (left, free)
        }));
        let share = estimate.rate as f64 / (1000.0 * MBIT);
        assert!((0.6..1.2).contains(&share), "{phase}: {share} {estimate:?}");
    }
}

#[test]
fn the_estimate_of_a_compressed_train_is_limited_by_the_sending_rate() {
    // Packets are sent 20 us apart. A hop on the path holds them for 2 ms and then forwards them 1
    // us apart.
    let sends: Vec<u64> = (0..TRAIN as u64).map(|n| 20_000 * n).collect();
    let sent = BYTES as f64 / 20e-6;
    for from in [0, 300_000, 1_200_000] {
        let mut free = 0;
        let estimate = estimate_of(sends.iter().map(|&left| {
            let held = if left >= from {
                left.max(from + 2_000_000)
            } else {
                left
            };
            free = held.max(free + 1_000);
            (left, free)
        }));
        let share = estimate.rate as f64 / sent;
        assert!((0.4..1.06).contains(&share), "{from}: {share} {estimate:?}");
        assert!(
            estimate.is_lower_bound() || share < 1.0,
            "{from}: {estimate:?}"
        );
    }
}

#[test]
fn overflow_losses_are_distinguished_from_random_losses() {
    for rate in [10.0, 50.0, 200.0] {
        for queue in [20_000, 33_000, 110_000] {
            for loss in [0.0, 0.01, 0.03] {
                for seed in 1..=40 {
                    let conditions = Conditions {
                        queue,
                        loss,
                        ..Conditions::default()
                    };
                    let receiver = send(rate, seed, conditions);
                    let (before, received) = receiver.before_overflow();
                    let case =
                        format!("{rate} Mbit/s, {queue} B, {loss}, {seed}: {received}/{before}");
                    // The estimate includes the bytes that leave the queue while the train arrives,
                    // which takes a quarter of a millisecond.
                    let max = queue as f64 + rate * MBIT * 0.3e-3;
                    let bytes = (before as u64 * BYTES) as f64;
                    assert!((0.6 * queue as f64..1.4 * max).contains(&bytes), "{case}");
                    assert!(before - received <= 2 + before / 8, "{case}");
                }
            }
        }
    }
}

#[test]
fn a_train_in_pieces_may_overflow_a_queue_twice() {
    // A listener sends three packets for each one received until its peer is validated, and the
    // rest a round trip later. Over a slow path the queue is full after 33 packets and then accepts
    // one in three. It is empty again when the rest arrives.
    let passes = |n: usize| match n {
        0..33 => true,
        33..78 => n.is_multiple_of(3),
        78..100 => true,
        _ => false,
    };
    let mut receiver = TrainReceiver::new(TRAIN);
    for (place, n) in (0..TRAIN).filter(|&n| passes(n)).enumerate() {
        let pause = if n < 78 { 0 } else { 20_000 };
        let at = Time::from_nanos((1200 * place as u64 + pause) * 1000);
        let left = Duration::from_micros(400 * n as u64 + pause);
        receiver.push(n, at, left, BYTES);
    }
    let (before, received) = receiver.before_overflow();
    assert!((30..=36).contains(&before), "{received}/{before}");
    assert!(before - received <= 2, "{received}/{before}");
}

#[test]
fn losses_spread_over_a_train_are_not_an_overflow() {
    for (loss, max) in [(0.0, 0), (0.01, 0), (0.03, 1), (0.1, 4)] {
        let conditions = Conditions {
            loss,
            ..Conditions::default()
        };
        let mistaken = (1..=400)
            .filter(|&seed| send(200.0, seed, conditions).before_overflow().0 < TRAIN)
            .count();
        assert!(mistaken <= max, "{mistaken} of 400 at {loss}");
    }
}

#[test]
fn trains_without_information_have_no_estimate() {
    let mut receiver = TrainReceiver::new(TRAIN);
    assert_eq!(receiver.estimate(), None);
    for n in 0..TRAIN {
        receiver.push(n, Time::from_nanos(1000), Duration::ZERO, BYTES);
    }
    assert!(receiver.is_complete());
    assert_eq!(receiver.estimate(), None);
    // The estimate of two batches, 100 us apart, is half of the rate of the second batch alone.
    let mut receiver = TrainReceiver::new(TRAIN);
    for n in 0..TRAIN {
        let at = Time::from_nanos(if n < 64 { 0 } else { 100_000 });
        receiver.push(n, at, Duration::ZERO, BYTES);
    }
    let estimate = receiver.estimate().unwrap();
    assert!(estimate.is_lower_bound());
    assert_eq!(estimate.rate, 64 * BYTES * 1_000_000 / 200);
}

#[test]
fn duplicates_and_invalid_indices_are_ignored() {
    let mut receiver = TrainReceiver::new(usize::MAX);
    for n in (0..4).chain(0..4) {
        receiver.push(
            n,
            Time::from_nanos(n as u64 * 12_000),
            Duration::ZERO,
            BYTES,
        );
    }
    receiver.push(MAX_TRAIN, Time::from_nanos(1), Duration::ZERO, BYTES);
    receiver.push(usize::MAX, Time::from_nanos(1), Duration::MAX, u64::MAX);
    assert_eq!(receiver.received(), 4);
    let estimate = receiver.estimate().unwrap();
    assert_eq!(
        (estimate.rate, estimate.packets, estimate.lost),
        (125_000_000, 4, 0)
    );
}
