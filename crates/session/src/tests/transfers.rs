//! Tests of oblivious transfers: the base OT, and the party that decides on the plan.

use std::time::Duration;

use transpute_garble::Scheme;
use transpute_ot::{BaseOt, Extension};

use transpute_units::{Bandwidth, KnownDirection};

use super::{Pair, Setup, chain, random_inputs, runs::OT_CHOICES};
use crate::{
    ConfigError, FrameKind, KnownPath, OtChoice, OtPlan, OutputPolicy, Role, SessionError,
};

fn setup(evaluations: usize, seed: u64) -> Setup {
    let circuit = chain(40);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, evaluations, seed));
    setup.config.output = OutputPolicy::Both;
    setup
}

/// Runs both sides and checks the outputs. Returns the agreed plan.
fn run(garbler: &Setup, evaluator: &Setup) -> OtPlan {
    finish(Pair::new(garbler, evaluator), garbler)
}

fn finish(pair: Pair, setup: &Setup) -> OtPlan {
    let mut plans = Vec::new();
    let ends = pair.run_to(&mut |_, frame| vec![frame], &mut |side| {
        plans.push(side.single.plan);
    });
    for role in [Role::Garbler, Role::Evaluator] {
        let outputs = ends.of(role).as_ref().unwrap();
        assert_eq!(outputs.len(), setup.inputs.len());
        for (output, input) in outputs.iter().zip(&setup.inputs) {
            assert_eq!(output.bits, setup.circuit.evaluate(input).unwrap());
        }
    }
    assert_eq!(plans[0], plans[1]);
    plans[0]
}

/// Returns paths for which different OT plans are the fastest.
fn paths() -> [Option<KnownPath>; 4] {
    let slow = KnownPath {
        rtt: Some(Duration::from_millis(1)),
        to_peer: KnownDirection::of_rate(Bandwidth::from_bytes_per_second(1e4)),
        from_peer: KnownDirection::of_rate(Bandwidth::from_bytes_per_second(1e9)),
    };
    [
        None,
        Some(KnownPath::of_rtt(Duration::ZERO)),
        Some(KnownPath::of_rtt(Duration::from_millis(300))),
        Some(slow),
    ]
}

#[test]
fn every_way_works_on_every_base() {
    for &base_ot in BaseOt::ALL {
        for scheme in [Scheme::HalfGates, Scheme::Prf] {
            for ot in OT_CHOICES {
                let mut setup = setup(3, 7);
                setup.config.scheme = scheme;
                setup.config.base_ot = base_ot;
                setup.config.ot = ot;
                setup.check();
            }
        }
    }
}

#[test]
fn a_garbler_follows_every_evaluator() {
    for &base_ot in BaseOt::ALL {
        for ot in OT_CHOICES {
            for expected in paths() {
                let mut garbler = setup(3, 8);
                garbler.config.base_ot = base_ot;
                garbler.config.path = expected;
                let mut evaluator = garbler.clone();
                evaluator.config.path = None;
                evaluator.config.ot = ot;
                let plan = run(&garbler, &evaluator);
                match ot {
                    OtChoice::Extension(kind) => assert_eq!(plan, OtPlan::Extension(kind)),
                    _ => assert_eq!(plan, OtPlan::Direct),
                }
            }
        }
    }
}

#[test]
fn two_parties_with_other_ideas_of_the_path_do_as_the_evaluator_thinks() {
    let mut seen = Vec::new();
    for &base_ot in BaseOt::ALL {
        for theirs in paths() {
            for ours in paths() {
                // 20 evaluations with 8 input bits of the evaluator need 160 transfers.
                let mut garbler = setup(20, 9);
                garbler.config.base_ot = base_ot;
                garbler.config.path = theirs;
                let mut evaluator = garbler.clone();
                evaluator.config.path = ours;
                let (plan, planned) = evaluator.config.plan(160).unwrap();
                assert_eq!(planned.map(|planned| planned.path), ours);
                assert_eq!(run(&garbler, &evaluator), plan);
                seen.push(plan);

                // The plan is the same if the path becomes known only after the start of the
                // connection.
                let mut late = [Role::Garbler, Role::Evaluator].map(|role| {
                    let mut setup = garbler.clone();
                    setup.config.path = None;
                    setup.start(role, role as u64)
                });
                for (single, path) in late.iter_mut().zip([theirs, ours]) {
                    if let Some(path) = path {
                        single.connection.set_path(single.run, path).unwrap();
                    }
                }
                let [first, second] = late;
                assert_eq!(finish(Pair::with_roles(first, second), &garbler), plan);
            }
        }
    }
    assert!(seen.contains(&OtPlan::Direct));
    assert!(seen.iter().any(|plan| matches!(plan, OtPlan::Extension(_))));
}

#[test]
fn a_path_that_is_known_too_late_changes_nothing() {
    let setup = setup(40, 10);
    for role in [Role::Garbler, Role::Evaluator] {
        let mut single = setup.start(role, 1);
        let before = single.plan;
        // Each poll sends one frame: the opening, then the hello.
        for _ in 0..2 {
            single.connection.poll(&mut Vec::new(), true).unwrap();
        }
        let path = KnownPath::of_rtt(Duration::from_secs(1));
        single.connection.set_path(single.run, path).unwrap();
        single.note();
        assert_eq!(single.plan, before);
    }
}

/// Changes the OT plan in one party's hello to other codes. No side may panic, and a side that
/// succeeds must have the right outputs.
#[test]
fn lies_about_the_plan_fail_cleanly() {
    for &base_ot in BaseOt::ALL {
        for liar in [Role::Garbler, Role::Evaluator] {
            for ot in [OtChoice::Auto, OtChoice::Extension(Extension::Iknp)] {
                let all = (0..=0x1f).chain([0x40, 0x80, 0x81, 0x91, 0x98, 0xc0, 0xff]);
                // ML-KEM-768 is slow, so it is tested with a few codes only.
                let is_one = |code: &u8| [0, 1, 0x12, 0x40, 0x81, 0x94].contains(code);
                for code in all.filter(|code| base_ot == BaseOt::Ristretto255 || is_one(code)) {
                    let mut setup = setup(2, 11);
                    setup.config.base_ot = base_ot;
                    setup.config.ot = ot;
                    let ends = Pair::new(&setup, &setup).run(&mut |role, mut frame| {
                        if role == liar && frame.kind == FrameKind::Hello {
                            let mut payload = frame.payload.to_vec();
                            payload[3] = code;
                            frame.payload = payload.into();
                        }
                        vec![frame]
                    });
                    for role in [Role::Garbler, Role::Evaluator] {
                        if let Ok(outputs) = ends.of(role) {
                            for (output, input) in outputs.iter().zip(&setup.inputs) {
                                let expected = setup.circuit.evaluate(input).unwrap();
                                assert_eq!(output.bits, expected);
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn more_direct_transfers_than_fit_in_a_frame_are_refused_at_once() {
    for &base_ot in BaseOt::ALL {
        let most = OtPlan::direct_maximum(base_ot);
        let per_evaluation = 8;
        let mut fits = setup(1, 12);
        fits.config.base_ot = base_ot;
        fits.config.ot = OtChoice::Direct;
        fits.config.batch = most / per_evaluation + 1;
        assert!(matches!(
            fits.start_error(Role::Evaluator),
            Some(SessionError::Config(ConfigError::TooManyForDirect { .. }))
        ));
    }
    let mut setup = setup(55, 13);
    setup.config.base_ot = BaseOt::MlKem768;
    setup.config.ot = OtChoice::Direct;
    assert_eq!(run(&setup, &setup), OtPlan::Direct);
}

#[test]
fn direct_transfers_take_one_round_trip_on_every_base() {
    for &base_ot in BaseOt::ALL {
        let mut setup = setup(1, 14);
        setup.config.base_ot = base_ot;
        setup.config.output = OutputPolicy::Evaluator;
        // Frames that are sent in one step arrive in the next one.
        let mut pair = Pair::new(&setup, &setup);
        let first: Vec<_> = (0..2).map(|end| pair.sides[end].step()).collect();
        for (end, frames) in first.into_iter().enumerate() {
            pair.sides[1 - end].arriving.extend(frames);
        }
        let answers = pair.sides[0].step();
        pair.sides[1].step();
        pair.sides[1].arriving.extend(answers);
        pair.sides[1].step();
        assert_eq!(pair.sides[1].outputs.len(), 1, "{base_ot}");
    }
}

#[test]
fn a_changed_base_message_ends_the_session() {
    for &base_ot in BaseOt::ALL {
        for ot in [
            OtChoice::Direct,
            OtChoice::Extension(Extension::SoftSpoken2),
        ] {
            for from in [Role::Garbler, Role::Evaluator] {
                for at in [0, 700] {
                    let mut setup = setup(2, 15);
                    setup.config.base_ot = base_ot;
                    setup.config.ot = ot;
                    let ends = Pair::new(&setup, &setup).run(&mut |role, mut frame| {
                        if role == from && frame.kind == FrameKind::OtSetup {
                            let mut payload = frame.payload.to_vec();
                            let at = at.min(payload.len() - 1);
                            payload[at] ^= 1;
                            frame.payload = payload.into();
                        }
                        vec![frame]
                    });
                    assert!(ends.garbler.is_err() && ends.evaluator.is_err());
                }
            }
        }
    }
}
