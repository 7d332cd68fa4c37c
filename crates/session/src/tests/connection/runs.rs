//! Tests of runs that succeed, and of runs that fail alone.

use std::{collections::HashSet, num::NonZeroU64};

use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};
use transpute_garble::Scheme;
use transpute_ot::Extension;

use super::{Pair, call, indices, tag};
use crate::{
    AbortReason, ConnectionConfig, FrameKind, OtChoice, OtPlan, OutputPolicy, Role,
    SessionConnection, SessionError,
    error::Field,
    tests::{Setup, chain, circuits, random_inputs},
};

const POLICIES: [OutputPolicy; 3] = [
    OutputPolicy::Evaluator,
    OutputPolicy::Garbler,
    OutputPolicy::Both,
];

fn setups(count: usize, scheme: Scheme) -> Vec<Setup> {
    (0..count)
        .map(|index| {
            let circuit = chain(20 + 30 * index as u32);
            let mut setup = Setup::new(&circuit, random_inputs(&circuit, 1 + index % 10, 3));
            setup.config.scheme = scheme;
            setup.config.chunk_len = 700;
            setup.config.output = POLICIES[index % 3];
            setup
        })
        .collect()
}

#[test]
fn runs_of_every_scheme_pass_in_both_roles_at_once() {
    for (seed, scheme) in Scheme::ALL.into_iter().enumerate() {
        for extension in Extension::ALL {
            let config = ConnectionConfig {
                extension,
                ..ConnectionConfig::default()
            };
            let mut pair = Pair::with(seed as u64, &config);
            let setups = setups(8, scheme);
            let mut runs = Vec::new();
            for (index, setup) in setups.iter().enumerate() {
                runs.push((index % 2, pair.call_both(index % 2, setup)));
                pair.wander(index * 5);
            }
            pair.rest();
            pair.assert_alive();
            for ((garbler, [as_garbler, as_evaluator]), setup) in runs.into_iter().zip(&setups) {
                pair.check(garbler, as_garbler, setup);
                pair.check(1 - garbler, as_evaluator, setup);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_circuits_called_at_any_time_give_their_outputs(
        circuits in prop::collection::vec(circuits(150), 2..7),
        seed: u64,
        scheme in prop::sample::select(&Scheme::ALL[..]),
        chunk_len in 64u32..2000,
        pool in prop_oneof![Just(0u32), 1u32..5000],
        prepared in 0u32..64,
    ) {
        let config = ConnectionConfig { pool, ..ConnectionConfig::default() };
        let mut pair = Pair::with(seed, &config);
        let setups: Vec<Setup> = circuits.iter().enumerate().map(|(index, circuit)| {
            let mut setup = Setup::new(circuit, random_inputs(circuit, 1 + index * 3, seed));
            setup.config.scheme = scheme;
            setup.config.chunk_len = chunk_len;
            setup.config.output = POLICIES[index % 3];
            setup
        }).collect();
        // Both sides call in the same order, at different times.
        let mut runs = [Vec::new(), Vec::new()];
        let mut unprovided = Vec::new();
        while runs.iter().any(|runs| runs.len() < setups.len()) {
            let end = (pair.rng.next_u32() & 1) as usize;
            let index = runs[end].len();
            if let Some(setup) = setups.get(index) {
                let role = if index % 2 == end { Role::Garbler } else { Role::Evaluator };
                let run = if prepared >> index & 1 == 1 {
                    let run = pair.prepare(end, role, setup);
                    unprovided.push((end, run, index));
                    run
                } else {
                    pair.call(end, role, setup)
                };
                runs[end].push(run);
            }
            let steps = pair.rng.next_u32() as usize % 200;
            pair.wander(steps);
            if pair.rng.next_u32() & 1 == 0 && let Some((end, run, index)) = unprovided.pop() {
                pair.provide(end, run, &setups[index]);
            }
        }
        for (end, run, index) in unprovided {
            pair.provide(end, run, &setups[index]);
            pair.wander(20);
        }
        pair.rest();
        pair.assert_alive();
        for end in [0, 1] {
            for (run, setup) in runs[end].iter().zip(&setups) {
                pair.check(end, *run, setup);
            }
            pair.sides[end].close();
        }
        pair.rest();
        prop_assert!(pair.finished == [true; 2]);
        // The indices of used transfers are consecutive, so no transfer of a pool is used twice.
        for end in [0, 1] {
            let mut next = 0;
            for (first, count) in pair.sent.iter()
                .filter(|(from, _)| *from == end)
                .filter_map(|(_, frame)| indices(frame))
            {
                prop_assert_eq!(first, next);
                next = first + count;
            }
        }
    }
}

#[test]
fn every_run_has_an_offset_of_its_own() {
    let mut pair = Pair::new(3);
    let circuit = chain(40);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
    let mut seen = HashSet::new();
    for _ in 0..50 {
        for end in [0, 1] {
            let run = pair.call(end, Role::Garbler, &setup);
            let delta = pair.sides[end].delta(run).filter(|delta| *delta != [0; 16]);
            // `delta` is `None` if the run has not started.
            if let Some(delta) = delta {
                assert!(seen.insert(delta));
            }
            pair.call(1 - end, Role::Evaluator, &setup);
        }
        pair.rest();
    }
    pair.assert_alive();
    assert_eq!(seen.len(), 100);
}

#[test]
fn a_disagreement_ends_one_run_and_no_other() {
    let mut pair = Pair::new(4);
    let setups = setups(3, Scheme::HalfGates);
    let mut other = setups[1].clone();
    other.config.scheme = Scheme::ThreeHalves;
    let mut runs = Vec::new();
    for (index, setup) in setups.iter().enumerate() {
        let theirs = if index == 1 { &other } else { setup };
        runs.push([
            pair.call(0, Role::Garbler, setup),
            pair.call(1, Role::Evaluator, theirs),
        ]);
    }
    pair.rest();
    pair.assert_alive();
    for (index, ([garbler, evaluator], setup)) in runs.into_iter().zip(&setups).enumerate() {
        if index != 1 {
            pair.check(0, garbler, setup);
            pair.check(1, evaluator, setup);
            continue;
        }
        for (end, run) in [(0, garbler), (1, evaluator)] {
            assert!(
                matches!(
                    pair.done(end, run).end,
                    Some(Err(SessionError::Disagreement {
                        field: Field::Scheme,
                        ..
                    } | SessionError::RefusedByPeer(Field::Scheme)))
                ),
                "{:?}",
                pair.done(end, run)
            );
        }
    }
}

/// A side that fixes no number, such as a server, accepts any number.
#[test]
fn fixed_numbers_of_runs_must_be_equal() {
    let config = |runs| ConnectionConfig {
        runs: NonZeroU64::new(runs),
        ..ConnectionConfig::default()
    };
    let setup = &setups(1, Scheme::HalfGates)[0];
    for (ours, theirs, is_agreed) in [(3, 3, true), (3, 0, true), (0, 3, true), (3, 1, false)] {
        let mut pair = Pair::with(6, &config(ours));
        let mut rng = StdRng::seed_from_u64(7);
        pair.sides[1] = SessionConnection::with_rng(config(theirs), false, &mut rng);
        let garbler = pair.call(0, Role::Garbler, setup);
        let evaluator = pair.call(1, Role::Evaluator, setup);
        pair.rest();
        if is_agreed {
            pair.assert_alive();
            pair.check(0, garbler, setup);
            pair.check(1, evaluator, setup);
            continue;
        }
        for failed in &pair.failed {
            assert!(
                matches!(
                    failed,
                    Some(
                        SessionError::Disagreement {
                            field: Field::Runs,
                            ..
                        } | SessionError::RefusedByPeer(Field::Runs)
                    )
                ),
                "{failed:?}"
            );
        }
    }
}

#[test]
fn a_failing_input_ends_one_run_and_no_other() {
    for role in [Role::Garbler, Role::Evaluator] {
        let mut pair = Pair::new(5);
        let setups = setups(4, Scheme::HalfGates);
        let mut runs = Vec::new();
        for (index, setup) in setups.iter().enumerate() {
            let mut broken = call(setup, role);
            if index == 2 {
                broken.inputs = Some(Box::new(Vec::new()));
            }
            let other = match role {
                Role::Garbler => Role::Evaluator,
                Role::Evaluator => Role::Garbler,
            };
            runs.push([
                pair.sides[0].call(role, broken).unwrap(),
                pair.call(1, other, setup),
            ]);
        }
        pair.rest();
        pair.assert_alive();
        for (index, ([ours, theirs], setup)) in runs.into_iter().zip(&setups).enumerate() {
            if index != 2 {
                pair.check(0, ours, setup);
                pair.check(1, theirs, setup);
                continue;
            }
            assert!(matches!(
                pair.done(0, ours).end,
                Some(Err(SessionError::Input { .. }))
            ));
            assert!(matches!(
                pair.done(1, theirs).end,
                Some(Err(SessionError::PeerAborted(AbortReason::Local)))
            ));
        }
    }
}

#[test]
fn a_cancelled_run_ends_at_any_point_and_others_go_on() {
    for steps in [0, 3, 10, 30, 60, 100, 200, 400] {
        for canceller in [0, 1] {
            let mut pair = Pair::new(steps as u64);
            let setups = setups(5, Scheme::HalfGates);
            let mut runs = Vec::new();
            for setup in &setups {
                runs.push(pair.call_both(0, setup));
            }
            pair.wander(steps);
            pair.sides[canceller].cancel(runs[2][canceller]);
            pair.rest();
            pair.assert_alive();
            for (index, (run, setup)) in runs.iter().zip(&setups).enumerate() {
                for end in [0, 1] {
                    if index != 2 {
                        pair.check(end, run[end], setup);
                    } else {
                        assert!(pair.done(end, run[end]).end.is_some());
                    }
                }
            }
            // All runs have ended, so the connection closes.
            for end in [0, 1] {
                pair.sides[end].close();
            }
            pair.rest();
            assert_eq!(pair.finished, [true; 2]);
        }
    }
}

#[test]
fn a_peer_that_leaves_a_run_alone_delays_no_other() {
    let mut pair = Pair::new(6);
    let setups = setups(6, Scheme::HalfGates);
    // Side 1 calls a run that its peer never calls.
    let lonely = pair.call(1, Role::Garbler, &setups[5]);
    let mut runs = Vec::new();
    for setup in &setups {
        runs.push(pair.call_both(0, setup));
    }
    pair.rest();
    pair.assert_alive();
    for (run, setup) in runs.iter().zip(&setups) {
        pair.check(0, run[0], setup);
        pair.check(1, run[1], setup);
    }
    assert!(!pair.runs[1].contains_key(&lonely));
    // When the peer closes the connection, the waiting call ends with an error.
    pair.sides[0].close();
    pair.rest();
    assert!(matches!(
        pair.done(1, lonely).end,
        Some(Err(SessionError::Closed))
    ));
    assert_eq!(pair.finished, [true; 2]);
}

#[test]
fn direct_transfer_can_be_asked_for() {
    let mut pair = Pair::new(7);
    let circuit = chain(30);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 4, 2));
    setup.config.ot = OtChoice::Direct;
    let runs = pair.call_both(1, &setup);
    pair.rest();
    pair.check(1, runs[0], &setup);
    pair.check(0, runs[1], &setup);
    let Some(Ok(report)) = &pair.done(0, runs[1]).end else {
        unreachable!()
    };
    assert_eq!(report.ot, OtPlan::Direct);
    // The run demands another extension than that of the connection's pool.
    setup.config.ot = OtChoice::Extension(Extension::Iknp);
    let runs = pair.call_both(1, &setup);
    pair.rest();
    pair.assert_alive();
    for (end, run) in [(1, runs[0]), (0, runs[1])] {
        pair.check(end, run, &setup);
        let Some(Ok(report)) = &pair.done(end, run).end else {
            unreachable!()
        };
        assert_eq!(report.ot, OtPlan::Extension(Extension::Iknp));
    }
}

#[test]
fn a_thousand_runs_reuse_their_places() {
    let config = ConnectionConfig {
        max_runs: 32,
        ..ConnectionConfig::default()
    };
    let mut pair = Pair::with(8, &config);
    let circuit = chain(5);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 2));
    let runs: Vec<_> = (0..1000).map(|_| pair.call_both(0, &setup)).collect();
    pair.rest();
    pair.assert_alive();
    for run in runs {
        pair.check(0, run[0], &setup);
        pair.check(1, run[1], &setup);
    }
    for end in [0, 1] {
        for role in [Role::Garbler, Role::Evaluator] {
            assert_eq!(pair.sides[end].held(role), [0; 4]);
        }
    }
}

#[test]
fn messages_of_many_bits_fit_the_pool() {
    use transpute_circuit::generators;
    let mut pair = Pair::new(9);
    let circuit =
        generators::min_of_candidates(1200, 20, generators::CandidatesOptions::default()).unwrap();
    let setup = Setup::new(&circuit, random_inputs(&circuit, 2, 2));
    let runs = pair.call_both(0, &setup);
    pair.rest();
    pair.assert_alive();
    pair.check(0, runs[0], &setup);
    pair.check(1, runs[1], &setup);
    let extended = (pair.sent.iter())
        .filter(|(_, frame)| frame.kind == FrameKind::OtExtend && tag(frame) == 0)
        .count();
    assert!(extended > 2);
}
