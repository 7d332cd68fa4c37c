//! Tests of the limits on the memory that a peer can occupy.

use transpute_circuit::generators;

use super::Pair;
use crate::{
    ConnectionConfig, FrameKind, OtPlan, Role, SessionError,
    tests::{Setup, chain, random_inputs},
};

#[test]
fn tables_of_all_runs_stay_within_the_window() {
    let config = ConnectionConfig {
        window: 1 << 20,
        ..ConnectionConfig::default()
    };
    let circuit = chain(9000);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
    for evaluator_first in [false, true] {
        let mut pair = Pair::with(1, &config);
        // One side calls all its runs before the other side calls any.
        let mut garbling = Vec::new();
        let mut evaluating = Vec::new();
        for _ in 0..12 {
            if evaluator_first {
                evaluating.push(pair.call(1, Role::Evaluator, &setup));
            } else {
                garbling.push(pair.call(0, Role::Garbler, &setup));
            }
        }
        pair.rest();
        pair.assert_alive();
        let sent: usize = (pair.sent.iter())
            .filter(|(_, frame)| frame.kind == FrameKind::Tables)
            .map(|(_, frame)| frame.payload.len() - 12)
            .sum();
        if evaluator_first {
            assert_eq!(sent, 0);
        } else {
            assert!(sent <= 1 << 20 && sent > (1 << 20) - (64 << 10), "{sent}");
            let [tables, bytes, transfers, _] = pair.sides[1].held(Role::Evaluator);
            assert_eq!(tables, sent as u64);
            assert!(bytes < 12 * 700, "{bytes}");
            assert_eq!(transfers, 0);
        }
        for _ in 0..12 {
            if evaluator_first {
                garbling.push(pair.call(0, Role::Garbler, &setup));
            } else {
                evaluating.push(pair.call(1, Role::Evaluator, &setup));
            }
        }
        let mut most = 0;
        while pair.poll(0) || pair.deliver(1) || pair.poll(1) || pair.deliver(0) {
            let [held, .., running] = pair.sides[1].held(Role::Evaluator);
            most = most.max(held + running);
        }
        assert!(most <= (1 << 20) + (4 << 20) + (128 << 10), "{most}");
        pair.assert_alive();
        for (garbler, evaluator) in garbling.into_iter().zip(evaluating) {
            pair.check(0, garbler, &setup);
            pair.check(1, evaluator, &setup);
        }
    }
}

#[test]
fn direct_transfers_without_a_demand_stay_within_a_limit() {
    let aes = generators::aes128();
    let setup = Setup::new(&aes, random_inputs(&aes, 1, 1));
    let mut pair = Pair::new(5);
    // Three runs with 128 transfers each exceed the limit of 256 direct transfers.
    let runs: Vec<_> = (0..3).map(|_| pair.call_both(0, &setup)).collect();
    // The evaluator sends its first requests before it has a pool, because no frame of the garbler
    // has arrived.
    pair.exhaust(1);
    pair.rest();
    pair.assert_alive();
    let mut plans = Vec::new();
    for [garbler, evaluator] in runs {
        pair.check(0, garbler, &setup);
        pair.check(1, evaluator, &setup);
        if let Some(Ok(report)) = &pair.done(1, evaluator).end {
            plans.push(report.ot);
        }
    }
    assert_eq!(plans, [OtPlan::Direct, OtPlan::Direct, OtPlan::Pool]);
}

#[test]
fn prepared_tables_stay_within_what_was_agreed() {
    let circuit = chain(1000);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
    let config = ConnectionConfig {
        // The limit is enough for the tables of three runs, but not of four.
        prepared: 3 * 32_000 + 1000,
        ..ConnectionConfig::default()
    };
    let mut pair = Pair::with(1, &config);
    let runs: Vec<_> = (0..4)
        .map(|_| {
            [
                pair.prepare(0, Role::Garbler, &setup),
                pair.prepare(1, Role::Evaluator, &setup),
            ]
        })
        .collect();
    pair.rest();
    pair.assert_alive();
    for end in [0, 1] {
        assert!(
            matches!(
                pair.done(end, runs[3][end]).end,
                Some(Err(
                    SessionError::PreparedFull { .. } | SessionError::PeerAborted(_)
                ))
            ),
            "{:?}",
            pair.done(end, runs[3][end])
        );
    }
    // When a prepared run ends, another one may take its place.
    for end in [0, 1] {
        pair.provide(end, runs[1][end], &setup);
    }
    pair.rest();
    for end in [0, 1] {
        pair.check(end, runs[1][end], &setup);
    }
    let again = [
        pair.prepare(0, Role::Garbler, &setup),
        pair.prepare(1, Role::Evaluator, &setup),
    ];
    for end in [0, 1] {
        pair.provide(end, again[end], &setup);
    }
    pair.rest();
    for end in [0, 1] {
        pair.check(end, again[end], &setup);
    }
}

#[test]
fn runs_under_way_stay_within_what_was_agreed() {
    let config = ConnectionConfig {
        max_runs: 32,
        ..ConnectionConfig::default()
    };
    let circuit = chain(5);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
    for role in [Role::Garbler, Role::Evaluator] {
        let mut pair = Pair::with(1, &config);
        for _ in 0..100 {
            pair.call(0, role, &setup);
        }
        pair.rest();
        pair.assert_alive();
        let hellos = (pair.sent.iter())
            .filter(|(_, frame)| frame.kind == FrameKind::Hello)
            .count();
        assert_eq!(hellos, 32);
    }
}
