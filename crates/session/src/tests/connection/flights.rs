//! Tests of the number of flights of a run.

use transpute_circuit::generators;
use transpute_garble::Scheme;

use super::{Pair, tag};
use crate::{
    ConnectionConfig, FrameKind, OtPlan, Role,
    tests::{Setup, chain, random_inputs},
};

/// Returns two sides that have exchanged openings and filled their pools.
fn warm() -> Pair {
    let mut pair = Pair::new(1);
    pair.rest();
    pair
}

#[test]
fn a_warm_run_is_one_round_trip() {
    let aes = generators::aes128();
    let wide =
        generators::min_of_candidates(1200, 20, generators::CandidatesOptions::default()).unwrap();
    for scheme in Scheme::ALL {
        for circuit in [&aes, &wide] {
            let mut setup = Setup::new(circuit, random_inputs(circuit, 1, 1));
            setup.config.scheme = scheme;
            let mut pair = warm();
            let [garbler, evaluator] = pair.call_both(0, &setup);
            // All requests of the evaluator are sent before any frame of the run has arrived.
            pair.exhaust(1);
            pair.arrive(0);
            // The garbler answers the requests and sends its tables. The evaluator then needs no
            // further frame.
            pair.exhaust(0);
            assert!(
                pair.arriving[1]
                    .iter()
                    .all(|frame| frame.kind != FrameKind::Open)
            );
            while pair.deliver(1) || pair.poll(1) {}
            pair.check_outputs(1, evaluator, &setup);
            pair.check(1, evaluator, &setup);
            pair.rest();
            pair.check(0, garbler, &setup);
            pair.assert_alive();
        }
    }
}

#[test]
fn warm_runs_do_not_wait_for_each_other() {
    let aes = generators::aes128();
    let setup = Setup::new(&aes, random_inputs(&aes, 1, 1));
    let mut pair = warm();
    let runs: Vec<_> = (0..40).map(|_| pair.call_both(0, &setup)).collect();
    pair.exhaust(1);
    pair.arrive(0);
    pair.exhaust(0);
    while pair.deliver(1) || pair.poll(1) {}
    for run in runs {
        pair.check(1, run[1], &setup);
    }
}

#[test]
fn a_cold_run_of_few_bits_is_one_round_trip_from_the_connection() {
    let aes = generators::aes128();
    let setup = Setup::new(&aes, random_inputs(&aes, 1, 1));
    let mut pair = Pair::new(2);
    let [_, evaluator] = pair.call_both(0, &setup);
    pair.exhaust(0);
    pair.exhaust(1);
    // Both sides have sent their first flight before they receive a frame.
    let ours = pair.arriving[1].len();
    pair.arrive(0);
    pair.exhaust(0);
    assert!(pair.arriving[1].len() > ours);
    pair.check_direct(evaluator, &setup);
}

#[test]
fn few_cold_runs_need_no_pool() {
    let aes = generators::aes128();
    let setup = Setup::new(&aes, random_inputs(&aes, 1, 1));
    let mut pair = Pair::new(2);
    let runs: Vec<_> = (0..5).map(|_| pair.call_both(0, &setup)).collect();
    pair.rest();
    let plans: Vec<OtPlan> = (runs.iter())
        .map(|run| match &pair.done(1, run[1]).end {
            Some(Ok(report)) => report.ot,
            other => panic!("{other:?}"),
        })
        .collect();
    // Each run has 128 transfers, and at most 256 transfers of a connection may be direct without a
    // demand.
    let directly = plans.iter().filter(|plan| **plan == OtPlan::Direct).count();
    assert!(directly <= 2, "{plans:?}");
}

#[test]
fn a_prepared_run_is_one_round_trip_without_tables() {
    let wide =
        generators::min_of_candidates(400, 20, generators::CandidatesOptions::default()).unwrap();
    for scheme in Scheme::ALL {
        let mut setup = Setup::new(&wide, random_inputs(&wide, 3, 1));
        setup.config.scheme = scheme;
        let mut pair = warm();
        let garbler = pair.prepare(0, Role::Garbler, &setup);
        let evaluator = pair.prepare(1, Role::Evaluator, &setup);
        pair.rest();
        assert!(pair.done(0, garbler).is_prepared);
        assert!(pair.done(1, evaluator).is_prepared);
        let before = pair.sent.len();
        // Both sides get their inputs at the same time.
        pair.provide(0, garbler, &setup);
        pair.provide(1, evaluator, &setup);
        pair.exhaust(1);
        pair.exhaust(0);
        pair.arrive(0);
        pair.exhaust(0);
        while pair.deliver(1) || pair.poll(1) {}
        pair.check(1, evaluator, &setup);
        pair.rest();
        pair.check(0, garbler, &setup);
        // After the inputs are known, no tables are sent. The garbler sends one label (16 bytes)
        // for each of its input bits and two labels (32 bytes) for each of the evaluator's.
        let online = &pair.sent[before..];
        assert!(
            online
                .iter()
                .all(|(_, frame)| frame.kind != FrameKind::Tables)
        );
        let down: usize = online
            .iter()
            .filter(|(end, _)| *end == 0)
            .map(|(_, frame)| frame.payload.len())
            .sum();
        let bits = 3 * (200 * 20);
        assert!(
            down < bits * (16 + 32) + 3 * 20 * 17 + 2000,
            "{scheme}: {down}"
        );
    }
}

#[test]
fn decoding_waits_until_both_inputs_are_fixed() {
    let circuit = chain(100);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
    let mut pair = warm();
    let garbler = pair.prepare(0, Role::Garbler, &setup);
    let evaluator = pair.prepare(1, Role::Evaluator, &setup);
    pair.rest();
    let decodes = |pair: &Pair| {
        (pair.sent.iter())
            .filter(|(_, frame)| frame.kind == FrameKind::Decode)
            .count()
    };
    pair.provide(0, garbler, &setup);
    pair.rest();
    assert_eq!(decodes(&pair), 0);
    pair.provide(1, evaluator, &setup);
    pair.rest();
    assert_eq!(decodes(&pair), 1);
    pair.check(1, evaluator, &setup);
}

#[test]
fn the_pool_is_topped_up_to_what_was_asked_for() {
    for pool in [0, 100, 4096, 70_000] {
        let config = ConnectionConfig {
            pool,
            ..ConnectionConfig::default()
        };
        let mut pair = Pair::with(1, &config);
        pair.rest();
        pair.assert_alive();
        let blocks: usize = (pair.sent.iter())
            .filter(|(end, frame)| *end == 1 && frame.kind == FrameKind::OtExtend)
            .inspect(|(_, frame)| assert_eq!(tag(frame), 0))
            .map(|(_, frame)| (frame.payload.len() - 12) / 512 - 1)
            .sum();
        let due = (pool as usize).min(65_536).div_ceil(128);
        assert_eq!(blocks, due, "{pool}");
    }
}

#[test]
fn a_warm_batch_is_one_round_trip() {
    // All tables fit in the window, so the evaluator requests all labels at once. They need more
    // than one message.
    let circuit = chain(60);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1500, 1));
    let mut pair = warm();
    let [_, evaluator] = pair.call_both(0, &setup);
    pair.exhaust(1);
    pair.arrive(0);
    pair.exhaust(0);
    while pair.deliver(1) || pair.poll(1) {}
    pair.check(1, evaluator, &setup);
}
