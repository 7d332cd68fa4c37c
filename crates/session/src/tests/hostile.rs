//! Tests of faulty links and malicious peers.

use bytes::Bytes;
use proptest::prelude::*;
use transpute_garble::Scheme;
use transpute_ot::Extension;

use super::{Ends, Pair, Setup, chain, flipped, random_inputs};
use crate::{
    Frame, FrameKind, OtChoice, OutputPolicy, Role, SessionError, wire::FrameKind as Kind,
};

fn setup(scheme: Scheme, ot: OtChoice, output: OutputPolicy) -> Setup {
    let circuit = chain(60);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 2, 9));
    setup.config.scheme = scheme;
    setup.config.ot = ot;
    setup.config.output = output;
    setup.config.chunk_len = 512;
    setup
}

fn setups() -> Vec<Setup> {
    let iknp = OtChoice::Extension(Extension::Iknp);
    let soft = OtChoice::Extension(Extension::SoftSpoken4);
    vec![
        setup(Scheme::HalfGates, OtChoice::Direct, OutputPolicy::Evaluator),
        setup(Scheme::FixedKey, iknp, OutputPolicy::Both),
        setup(Scheme::ThreeHalves, soft, OutputPolicy::Garbler),
        setup(Scheme::Prf, soft, OutputPolicy::Both),
    ]
}

/// Runs both sides with frame number `target` (from 0) replaced by the result of `change`.
fn run_with(setup: &Setup, target: usize, change: &dyn Fn(Frame) -> Vec<Frame>) -> Ends {
    let mut count = 0;
    Pair::new(setup, setup).run(&mut |_, frame| {
        count += 1;
        if count - 1 == target {
            change(frame)
        } else {
            vec![frame]
        }
    })
}

fn frame_count(setup: &Setup) -> usize {
    let ends = Pair::new(setup, setup).run(&mut |_, frame| vec![frame]);
    ends.garbler.unwrap();
    ends.evaluator.unwrap();
    ends.delivered.len()
}

/// Asserts that the run fails on both sides.
fn assert_caught(ends: &Ends, what: &str) {
    for role in [Role::Garbler, Role::Evaluator] {
        assert!(ends.of(role).is_err(), "{what}: the {role} noticed nothing");
    }
}

/// Asserts that each party that learns the outputs has the right ones.
fn check_outputs(setup: &Setup, ends: &Ends, what: &str) {
    for role in [Role::Garbler, Role::Evaluator] {
        let outputs = ends.of(role).as_ref().unwrap();
        for (output, input) in outputs.iter().zip(&setup.inputs) {
            if setup.config.output.reaches(role) {
                let expected = setup.circuit.evaluate(input).unwrap();
                assert_eq!(output.bits, expected, "{what}: the {role}");
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_caught_or_has_no_effect() {
    for setup in setups() {
        let frames = frame_count(&setup);
        for target in 0..frames {
            for place in [0.0, 0.37, 0.99] {
                let ends = run_with(&setup, target, &|frame| vec![flipped(frame, place)]);
                let kind = ends.delivered[target].1.kind;
                // The evaluator sends the last frame and ends, so only the garbler can detect the
                // change.
                if target == frames - 1 {
                    assert!(ends.garbler.is_err());
                    continue;
                }
                let what = format!("{} frame {target} {kind:?}", setup.config.scheme);
                if kind == Kind::Tables && ends.evaluator.is_ok() {
                    // The evaluator has not read the changed bit.
                    check_outputs(&setup, &ends, &what);
                } else {
                    assert_caught(&ends, &what);
                }
            }
        }
    }
}

#[test]
fn frames_dropped_doubled_or_swapped_are_caught() {
    for setup in setups() {
        let frames = frame_count(&setup);
        for target in 0..frames {
            if target == frames - 1 {
                // The evaluator sends the last frame and ends. Without this frame, the garbler
                // waits until the link closes.
                let ends = run_with(&setup, target, &|_| vec![]);
                assert!(ends.garbler.is_err());
                continue;
            }
            let dropped = run_with(&setup, target, &|_| vec![]);
            assert_caught(&dropped, &format!("dropped {target}"));
            let doubled = run_with(&setup, target, &|frame| vec![frame.clone(), frame]);
            let (sender, frame) = &doubled.delivered[target];
            let receiver = match sender {
                Role::Garbler => &doubled.evaluator,
                Role::Evaluator => &doubled.garbler,
            };
            // A second `Finish` may arrive after the receiver's run has ended. It has no effect
            // then.
            assert!(
                receiver.is_err() || frame.kind == FrameKind::Finish,
                "doubled {target} {:?}",
                frame.kind
            );
        }
        // Swaps each two consecutive frames of the garbler. Swaps of equal frames are not checked.
        for target in 0..frames {
            let (mut count, mut held) = (0, None);
            let mut swapped = false;
            let ends = Pair::new(&setup, &setup).run(&mut |role, frame| {
                if role == Role::Evaluator {
                    return vec![frame];
                }
                count += 1;
                match held.take() {
                    None if count - 1 == target => {
                        held = Some(frame);
                        vec![]
                    }
                    Some(first) => {
                        swapped = first != frame;
                        vec![frame, first]
                    }
                    None => vec![frame],
                }
            });
            if swapped {
                assert_caught(&ends, &format!("{} swapped {target}", setup.config.scheme));
            }
        }
    }
}

#[test]
fn a_cut_stream_is_an_error_on_both_sides() {
    for setup in setups() {
        let frames = frame_count(&setup);
        for keep in 0..frames - 1 {
            let mut count = 0;
            let ends = Pair::new(&setup, &setup).run(&mut |_, frame| {
                count += 1;
                if count <= keep { vec![frame] } else { vec![] }
            });
            assert_caught(&ends, &format!("cut after {keep}"));
        }
    }
}

#[test]
fn frames_behind_the_end_are_refused() {
    for setup in setups() {
        let extra = |kind| Frame {
            kind,
            payload: Bytes::from_static(&[0; 40]),
        };
        for kind in [Kind::Tables, Kind::OtReply, Kind::Output, Kind::Decode] {
            let ends = Pair::new(&setup, &setup).run(&mut |_, frame| {
                if frame.kind == Kind::Finish {
                    vec![extra(kind), frame]
                } else {
                    vec![frame]
                }
            });
            assert!(ends.garbler.is_err() && ends.evaluator.is_err(), "{kind:?}");
        }
    }
}

/// Over an encrypted link, the transcript does not cover the contents of tables. So only the output
/// check detects wrong tables.
#[test]
fn bad_tables_are_caught_by_the_output_check_and_only_by_it() {
    let tamper = |setup: &Setup| {
        let mut wrong = 0;
        for target in 0..frame_count(setup) {
            let ends = run_with(setup, target, &|frame| {
                let mut payload = frame.payload.to_vec();
                if frame.kind == Kind::Tables {
                    payload[8..].iter_mut().for_each(|byte| *byte ^= 0x55);
                }
                vec![Frame {
                    payload: payload.into(),
                    ..frame
                }]
            });
            if let Ok(outputs) = &ends.evaluator {
                wrong += outputs
                    .iter()
                    .zip(&setup.inputs)
                    .filter(|(output, input)| output.bits != setup.circuit.evaluate(input).unwrap())
                    .count();
            }
        }
        wrong
    };
    let mut setup = setup(Scheme::HalfGates, OtChoice::Direct, OutputPolicy::Evaluator);
    setup.encrypted = true;
    assert_eq!(tamper(&setup), 0);
    setup.config.output_check = false;
    assert!(tamper(&setup) > 0, "the test would not see a wrong output");
}

#[test]
fn tables_beyond_the_agreed_lead_are_refused() {
    let circuit = chain(400);
    let mut ours = Setup::new(&circuit, random_inputs(&circuit, 2, 1));
    ours.config.chunk_len = 512;
    ours.config.table_lead = 2000;
    // The evaluator never receives its labels, so it cannot evaluate. It receives each chunk of
    // tables three times, with consecutive numbers.
    let mut number = 0u64;
    let ends = Pair::new(&ours, &ours).run(&mut |_, frame| match frame.kind {
        Kind::OtReply => vec![],
        Kind::Tables => (0..3)
            .map(|_| {
                let mut payload = frame.payload.to_vec();
                payload[..8].copy_from_slice(&number.to_le_bytes());
                number += 1;
                Frame {
                    kind: frame.kind,
                    payload: payload.into(),
                }
            })
            .collect(),
        _ => vec![frame],
    });
    assert!(
        matches!(
            ends.evaluator,
            Err(SessionError::Unexpected { kind: Kind::Tables, problem }) if problem.contains("ahead")
        ),
        "{:?}",
        ends.evaluator
    );
}

/// The window counts the bytes of waiting chunks. Without a length check, a peer could send any
/// number of empty chunks.
#[test]
fn chunks_of_a_wrong_length_are_refused_before_they_can_be_evaluated() {
    let circuit = chain(400);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 2, 1));
    setup.config.chunk_len = 512;
    for len in [0, 1, 511, 513] {
        // The evaluator receives no labels, so it evaluates no chunk.
        let ends = Pair::new(&setup, &setup).run(&mut |_, mut frame| match frame.kind {
            Kind::OtReply => vec![],
            Kind::Tables => {
                let mut payload = frame.payload.to_vec();
                payload.resize(8 + len, 0);
                frame.payload = payload.into();
                vec![frame]
            }
            _ => vec![frame],
        });
        assert!(
            matches!(
                ends.evaluator,
                Err(SessionError::Length { kind: Kind::Tables, expected: 520, found })
                    if found == 8 + len
            ),
            "{:?}",
            ends.evaluator
        );
    }
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let kinds = vec![
        Kind::Hello,
        Kind::OtSetup,
        Kind::Refuse,
        Kind::OtExtendSetup,
        Kind::OtExtend,
        Kind::OtCheck,
        Kind::OtReply,
        Kind::GarblerLabels,
        Kind::Tables,
        Kind::Decode,
        Kind::Output,
        Kind::Finish,
        Kind::Abort,
        Kind::Alive,
    ];
    let start = prop_oneof![
        Just(vec![]),
        (0..20u64).prop_map(|n| n.to_le_bytes().to_vec())
    ];
    (
        prop::sample::select(kinds),
        start,
        prop::collection::vec(any::<u8>(), 0..600),
    )
        .prop_map(|(kind, mut payload, rest)| {
            payload.extend(rest);
            Frame {
                kind,
                payload: payload.into(),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Random frames at any position cause neither a panic nor a wrong output.
    #[test]
    fn inserted_frames_do_no_harm(
        which in 0usize..4,
        place in 0usize..40,
        instead: bool,
        to_garbler: bool,
        inserted in prop::collection::vec(any_frame(), 1..4),
    ) {
        let setup = &setups()[which];
        let mut count = 0;
        let ends = Pair::new(setup, setup).run(&mut |role, frame| {
            if (role == Role::Evaluator) != to_garbler {
                return vec![frame];
            }
            count += 1;
            if count - 1 != place {
                return vec![frame];
            }
            let mut frames = inserted.clone();
            if !instead {
                frames.push(frame);
            }
            frames
        });
        for role in [Role::Garbler, Role::Evaluator] {
            if let Ok(outputs) = ends.of(role) {
                for (output, input) in outputs.iter().zip(&setup.inputs) {
                    prop_assert_eq!(&output.bits, &setup.circuit.evaluate(input).unwrap());
                }
            }
        }
    }
}
