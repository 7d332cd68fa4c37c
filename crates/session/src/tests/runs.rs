//! Tests of runs that succeed.

use proptest::prelude::*;
use transpute_circuit::{Bits, InputSplit, generators};
use transpute_garble::{Backend, Scheme};
use transpute_ot::{BaseOt, Extension};

use super::{Pair, Setup, chain, circuits, random_inputs};
use crate::{FrameKind, OtChoice, OutputPolicy, Role, SchemeSet, SessionError};

const POLICIES: [OutputPolicy; 3] = [
    OutputPolicy::Evaluator,
    OutputPolicy::Garbler,
    OutputPolicy::Both,
];

pub(super) const OT_CHOICES: [OtChoice; 6] = [
    OtChoice::Auto,
    OtChoice::Direct,
    OtChoice::Extension(Extension::Iknp),
    OtChoice::Extension(Extension::SoftSpoken2),
    OtChoice::Extension(Extension::SoftSpoken4),
    OtChoice::Extension(Extension::SoftSpoken8),
];

#[test]
fn every_scheme_policy_and_transfer_gives_the_outputs() {
    let circuit = chain(300);
    for scheme in Scheme::ALL {
        for output in POLICIES {
            for ot in OT_CHOICES {
                for encrypted in [false, true] {
                    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 3, 7));
                    setup.config.scheme = scheme;
                    setup.config.output = output;
                    setup.config.ot = ot;
                    setup.config.chunk_len = 1000;
                    setup.encrypted = encrypted;
                    setup.check();
                }
            }
        }
    }
}

#[test]
fn standard_vectors_pass_through_every_scheme() {
    let aes = generators::aes128();
    let mut input = Bits::from_hex("000102030405060708090a0b0c0d0e0f", 128).unwrap();
    input.extend([Bits::from_hex("00112233445566778899aabbccddeeff", 128).unwrap()]);
    for scheme in Scheme::ALL {
        let mut setup = Setup::new(&aes, vec![input.clone()]);
        setup.config.scheme = scheme;
        let ends = Pair::new(&setup, &setup).run(&mut |_, frame| vec![frame]);
        let outputs = ends.evaluator.unwrap();
        assert_eq!(
            outputs[0].bits.to_hex(),
            "69c4e0d86a7b0430d8cdb78070b4c55a",
            "{scheme}"
        );
    }
}

#[test]
fn parties_without_inputs_take_part() {
    let circuit = chain(40);
    for garbler_values in [vec![], vec![0, 1], vec![1]] {
        for scheme in Scheme::ALL {
            for output in POLICIES {
                let mut setup = Setup::new(&circuit, random_inputs(&circuit, 2, 3));
                setup.split = InputSplit::new(circuit.input_widths(), &garbler_values).unwrap();
                setup.config.scheme = scheme;
                setup.config.output = output;
                setup.check();
            }
        }
    }
}

#[test]
fn batches_cross_every_window() {
    // Each evaluation has 8 transfers, so the limits of messages are at other positions than those
    // of evaluations.
    let circuit = chain(3);
    for scheme in Scheme::ALL {
        let mut setup = Setup::new(&circuit, random_inputs(&circuit, 5000, 11));
        setup.config.scheme = scheme;
        setup.config.output = OutputPolicy::Both;
        setup.config.table_lead = 100;
        setup.check();
    }
}

#[test]
fn circuits_without_tables_work() {
    use transpute_circuit::{Circuit, Gate, Op};
    let gates = [Gate {
        op: Op::Xor,
        a: 0,
        b: 1,
    }];
    let circuit = Circuit::new(vec![1, 1], vec![2], gates, vec![2, 0]).unwrap();
    for scheme in Scheme::ALL {
        for output in POLICIES {
            let mut setup = Setup::new(&circuit, random_inputs(&circuit, 9, 5));
            setup.config.scheme = scheme;
            setup.config.output = output;
            setup.check();
        }
    }
}

#[test]
fn traffic_is_what_the_schemes_cost() {
    let circuit = chain(5000);
    for (scheme, per_and, per_xor) in [
        (Scheme::HalfGates, 32.0, 0.0),
        (Scheme::FixedKey, 32.0, 0.0),
        (Scheme::ThreeHalves, 24.625, 0.0),
        (Scheme::Prf, 32.5, 16.0),
    ] {
        let mut setup = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
        setup.config.scheme = scheme;
        let program = transpute_circuit::Program::compile(&circuit);
        let ends = Pair::new(&setup, &setup).run(&mut |_, frame| vec![frame]);
        let tables: usize = (ends.delivered.iter())
            .filter(|(_, frame)| frame.kind == FrameKind::Tables)
            .map(|(_, frame)| frame.payload.len() + 5)
            .sum();
        let due = program.and_count() as f64 * per_and + program.xor_count() as f64 * per_xor;
        let ratio = tables as f64 / due;
        assert!((1.0..1.01).contains(&ratio), "{scheme}: {ratio}");
    }
}

#[test]
fn the_garbler_runs_ahead_as_far_as_agreed() {
    let circuit = chain(4000);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 4, 1));
    setup.config.table_lead = 50_000;
    setup.config.chunk_len = 4096;
    let mut garbler = setup.start(Role::Garbler, 1).connection;
    let mut out = Vec::new();
    while garbler.poll(&mut out, true).unwrap() == crate::Progressed::Worked {}
    let tables: usize = super::frames(&out)
        .iter()
        .filter(|frame| frame.kind == FrameKind::Tables)
        .map(|frame| frame.payload.len() - 12)
        .sum();
    assert!((45_000..=50_000).contains(&tables), "{tables}");
}

#[test]
fn threads_make_the_same_bytes_in_the_same_order() {
    let circuit = chain(300);
    for scheme in Scheme::ALL {
        for output in POLICIES {
            let mut setup = Setup::new(&circuit, random_inputs(&circuit, 27, 7));
            setup.config.scheme = scheme;
            setup.config.output = output;
            setup.config.chunk_len = 1000;
            let told = |threads: usize| {
                let mut setup = setup.clone();
                setup.config.threads = threads.try_into().unwrap();
                setup.check();
                let ends = Pair::new(&setup, &setup).run(&mut |_, frame| vec![frame]);
                // Only frames of these kinds are compared. The order of requests and answers
                // relative to them varies.
                [FrameKind::Tables, FrameKind::Decode, FrameKind::Output].map(|kind| {
                    let told = ends.delivered.iter().map(|(_, frame)| frame);
                    let told = told.filter(|frame| frame.kind == kind);
                    told.cloned().collect::<Vec<_>>()
                })
            };
            let alone = told(1);
            assert!(!alone[0].is_empty());
            for threads in [2, 3, 20] {
                assert!(told(threads) == alone, "{scheme} on {threads} threads");
            }
        }
    }
}

#[test]
fn a_wrong_table_is_noticed_whoever_evaluates() {
    let circuit = chain(300);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 27, 7));
    setup.config.chunk_len = 1000;
    for threads in [1, 3] {
        setup.config.threads = threads.try_into().unwrap();
        for number in [0, 40, 200] {
            let mut seen = 0;
            let ends = Pair::new(&setup, &setup).run(&mut |_, mut frame| {
                if frame.kind == FrameKind::Tables {
                    if seen == number {
                        let mut payload = frame.payload.to_vec();
                        payload[8..].iter_mut().for_each(|byte| *byte ^= 0x55);
                        frame.payload = payload.into();
                    }
                    seen += 1;
                }
                vec![frame]
            });
            assert!(seen > number);
            assert!(
                // The evaluator may compare the transcripts before it evaluates the wrong chunk.
                matches!(
                    ends.evaluator,
                    Err(SessionError::Garble(_) | SessionError::Transcript)
                ),
                "{:?}",
                ends.evaluator
            );
        }
    }
}

#[test]
fn back_ends_make_the_same_bytes() {
    let circuit = chain(500);
    for scheme in Scheme::ALL {
        let mut reference = None;
        for backend in Backend::available() {
            let mut setup = Setup::new(&circuit, random_inputs(&circuit, 9, 1));
            setup.config.scheme = scheme;
            setup.config.backend = Some(backend);
            let ends = Pair::new(&setup, &setup).run(&mut |_, frame| vec![frame]);
            ends.garbler.unwrap();
            match &reference {
                None => reference = Some(ends.delivered),
                Some(reference) => assert!(*reference == ends.delivered, "{scheme} {backend}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_circuits_give_their_outputs(
        circuit in circuits(400),
        seed: u64,
        scheme in prop::sample::select(&Scheme::ALL[..]),
        output in prop::sample::select(&POLICIES[..]),
        ot in prop::sample::select(&OT_CHOICES[..]),
        chunk_len in 64u32..3000,
        table_lead in 0u64..5000,
        evaluations in prop_oneof![1usize..4, 7usize..18],
        output_check: bool,
    ) {
        let mut setup = Setup::new(&circuit, random_inputs(&circuit, evaluations, seed));
        setup.config.scheme = scheme;
        setup.config.output = output;
        setup.config.ot = ot;
        setup.config.chunk_len = chunk_len;
        setup.config.table_lead = table_lead;
        setup.config.output_check = output_check;
        setup.check();
    }
}

/// Fails if any byte on the wire changes. After such a change, update the protocol version and
/// `docs/protocol.md`.
#[test]
fn the_wire_format_is_the_documented_one() {
    let circuit = chain(100);
    let mut hasher = blake3::Hasher::new();
    let mut add = |garbler: &Setup, evaluator: &Setup| {
        let ends = Pair::new(garbler, evaluator).run(&mut |_, frame| vec![frame]);
        // The two directions are hashed one after the other, because their interleaving is not part
        // of the format.
        for role in [Role::Garbler, Role::Evaluator] {
            for (_, frame) in ends.delivered.iter().filter(|(from, _)| *from == role) {
                hasher.update(&[frame.kind as u8]);
                hasher.update(&(frame.payload.len() as u32).to_le_bytes());
                hasher.update(&frame.payload);
            }
        }
        ends.garbler.unwrap();
    };
    for scheme in Scheme::ALL {
        for ot in OT_CHOICES {
            for &base_ot in BaseOt::ALL {
                // 10 evaluations are garbled in one group of eight and two single ones.
                let mut setup = Setup::new(&circuit, random_inputs(&circuit, 10, 1));
                setup.config.scheme = scheme;
                setup.config.ot = ot;
                setup.config.base_ot = base_ot;
                setup.config.output = OutputPolicy::Both;
                add(&setup, &setup);
            }
        }
    }
    // A garbler that starts again within its first chunk.
    let evaluator = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
    let mut garbler = evaluator.clone();
    garbler.config.scheme = Scheme::ThreeHalves;
    garbler.config.other_schemes = SchemeSet::RECOMMENDED;
    garbler.config.decides_scheme = true;
    add(&garbler, &evaluator);
    // The frames of a connection with many runs.
    for frame in super::connection::hostile::frames_of_runs() {
        hasher.update(&[frame.kind as u8]);
        hasher.update(&(frame.payload.len() as u32).to_le_bytes());
        hasher.update(&frame.payload);
    }
    assert_eq!(
        hasher.finalize().to_hex().as_str(),
        "ba5dc8d8f5f6d60a35416e29198f36ea7ba65ddab6df81680eb1aa3498386b3e"
    );
}
