//! Tests of altered bytes, wrong lengths and calls out of order.

use std::sync::Arc;

use crate::common::{Lcg, Pair, fixed_params};
use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program, generators};
use transpute_garble::{
    Backend, ChunkPlan, DecodeInfo, Evaluator, GarbleError, Garbler, Params, Scheme, Seed,
    decode_len,
};

const SID: [u8; 32] = [1; 32];
const LIMIT: usize = 4096;

fn adder() -> Arc<Program> {
    Arc::new(Program::compile(&generators::add(32).unwrap()))
}

fn pair(program: &Arc<Program>, scheme: Scheme) -> Pair {
    let split = InputSplit::first_to_garbler(program.input_widths());
    Pair::new(
        program,
        split,
        fixed_params(scheme, 1),
        Backend::best().unwrap(),
    )
}

/// Evaluates altered chunks of an addition; returns the decoded outputs with and without the check.
fn tamper(scheme: Scheme, alter: impl Fn(&mut Vec<Vec<u8>>)) -> (Result<Bits, GarbleError>, Bits) {
    let program = adder();
    let mut pair = pair(&program, scheme);
    let mut rng = Lcg(5);
    pair.begin(&rng.bits(64));
    let mut chunks = pair.chunks(LIMIT);
    alter(&mut chunks);
    let (garbled, evaluated) = pair.finish(&chunks, LIMIT);
    let checked = evaluated.decode(&garbled.decode_info(&SID, true), &SID);
    let unchecked = evaluated.decode(&garbled.decode_info(&SID, false), &SID);
    // The garbler detects the alteration too: it accepts the right outputs or none.
    let claimed = garbled.verify(&SID, &evaluated.colours(), &evaluated.tag(&SID));
    assert_eq!(claimed.is_ok(), checked.is_ok());
    (checked, unchecked.unwrap())
}

#[test]
fn altered_tables_are_detected_only_with_the_check() {
    for scheme in Scheme::ALL {
        let (right, unchecked) = tamper(scheme, |_| ());
        let right = right.unwrap();
        assert_eq!(unchecked, right);
        let (mut noticed, mut wrong) = (0, 0);
        for byte in 0..32 * 8 {
            let (checked, unchecked) = tamper(scheme, |chunks| chunks[0][byte] ^= 1 << (byte % 8));
            match checked {
                // This ciphertext is not used in this evaluation, so its alteration has no effect.
                Ok(outputs) => assert_eq!(outputs, right, "{scheme} byte {byte}"),
                Err(error) => {
                    assert_eq!(error, GarbleError::OutputRejected);
                    noticed += 1;
                }
            }
            wrong += u32::from(unchecked != right);
        }
        assert!(noticed > 60, "{scheme}: only {noticed} of 256 noticed");
        assert!(wrong > 0, "{scheme}: without the check a wrong sum passes");
    }
}

#[test]
fn swapped_ciphertexts_and_chunks_are_detected() {
    for scheme in [Scheme::HalfGates, Scheme::FixedKey] {
        let (checked, _) = tamper(scheme, |chunks| {
            for gate in chunks[0].chunks_exact_mut(32) {
                let (tg, te) = gate.split_at_mut(16);
                tg.swap_with_slice(te);
            }
        });
        assert_eq!(checked, Err(GarbleError::OutputRejected), "{scheme}");
    }
    // Swap two chunks of equal length.
    for scheme in Scheme::ALL {
        let program = adder();
        let mut pair = pair(&program, scheme);
        let limit = 100;
        pair.begin(&Lcg(8).bits(64));
        let mut chunks = pair.chunks(limit);
        let other = (1..chunks.len())
            .find(|&i| chunks[i].len() == chunks[0].len())
            .unwrap();
        chunks.swap(0, other);
        let (garbled, evaluated) = pair.finish(&chunks, limit);
        let checked = evaluated.decode(&garbled.decode_info(&SID, true), &SID);
        assert_eq!(checked, Err(GarbleError::OutputRejected), "{scheme}");
    }
}

#[test]
fn chunks_of_the_wrong_length_change_nothing() {
    let program = adder();
    for scheme in Scheme::ALL {
        let mut pair = pair(&program, scheme);
        pair.begin(&Bits::zeros(64));
        let chunks = pair.chunks(LIMIT);
        let expected = chunks[0].len();
        for wrong in [0, expected - 1, expected + 1] {
            let chunk = vec![0; wrong];
            assert_eq!(
                pair.evaluator.evaluate_chunk(&chunk, LIMIT),
                Err(GarbleError::ChunkLength {
                    expected,
                    found: wrong
                })
            );
        }
        assert_eq!(
            pair.evaluator.evaluate_chunk(&chunks[0], 63),
            Err(GarbleError::ChunkLimit { min: 64, found: 63 })
        );
        let (garbled, evaluated) = pair.finish(&chunks, LIMIT);
        let outputs = evaluated.decode(&garbled.decode_info(&SID, true), &SID);
        assert_eq!(outputs, Ok(Bits::zeros(32)));
        // A chunk after the last one is rejected.
        assert_eq!(
            pair.evaluator.evaluate_chunk(&chunks[0], LIMIT),
            Err(GarbleError::NoInstance)
        );
    }
}

#[test]
fn calls_out_of_order_are_rejected() {
    let program = adder();
    let mut pair = pair(&program, Scheme::HalfGates);
    let mut out = Vec::new();
    assert_eq!(
        pair.garbler.garble_chunk(LIMIT, &mut out),
        Err(GarbleError::NoInstance)
    );
    assert_eq!(
        pair.garbler.take_outputs().err(),
        Some(GarbleError::NoOutputs)
    );
    assert_eq!(
        pair.garbler.begin_instance(&Bits::zeros(31)),
        Err(GarbleError::InputCount {
            expected: 32,
            found: 31
        })
    );
    pair.begin(&Bits::zeros(64));
    let unfinished = Err(GarbleError::Unfinished { instance: 0 });
    assert_eq!(pair.garbler.begin_instance(&Bits::zeros(32)), unfinished);
    let labels = vec![transpute_garble::Label::default(); 32];
    assert_eq!(pair.evaluator.begin_instance(None, &labels), unfinished);
    assert_eq!(
        pair.evaluator.take_outputs().err(),
        Some(GarbleError::NoOutputs)
    );
    assert_eq!(
        pair.garbler.garble_chunk(63, &mut out),
        Err(GarbleError::ChunkLimit { min: 64, found: 63 })
    );
    assert!(out.is_empty(), "nothing is written on errors");

    let chunks = pair.chunks(LIMIT);
    // Garbling the instance again would reveal both labels of every wire.
    assert_eq!(
        pair.garbler.garble_chunk(LIMIT, &mut out),
        Err(GarbleError::NoInstance)
    );
    pair.finish(&chunks, LIMIT);
    assert_eq!(
        pair.garbler.take_outputs().err(),
        Some(GarbleError::NoOutputs)
    );
    assert_eq!(
        pair.evaluator.take_outputs().err(),
        Some(GarbleError::NoOutputs)
    );
}

#[test]
fn label_counts_are_checked() {
    let program = adder();
    let split = InputSplit::first_to_garbler(program.input_widths());
    let labels = vec![transpute_garble::Label::default(); 32];
    for scheme in Scheme::ALL {
        let params = fixed_params(scheme, 1);
        let mut evaluator =
            Evaluator::new(program.clone(), &split, params, Backend::Portable).unwrap();
        let (right, wrong) = match scheme.sends_garbler_labels() {
            true => (Some(&labels[..]), None),
            false => (None, Some(&labels[..])),
        };
        assert!(matches!(
            evaluator.begin_instance(wrong, &labels),
            Err(GarbleError::LabelCount {
                party: "garbler",
                ..
            })
        ));
        assert_eq!(
            evaluator.begin_instance(right, &labels[1..]),
            Err(GarbleError::LabelCount {
                party: "evaluator",
                expected: 32,
                found: 31
            })
        );
        assert_eq!(evaluator.begin_instance(right, &labels), Ok(()));
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    let program = adder();
    let split = InputSplit::first_to_garbler(program.input_widths());
    let seed = || Seed::from_bytes([0; 32]);
    let params = fixed_params(Scheme::HalfGates, 3);
    let error = Garbler::new(program.clone(), &split, params, seed(), Backend::Portable).err();
    assert_eq!(
        error,
        Some(GarbleError::RekeyPeriod {
            scheme: Scheme::HalfGates,
            found: 3
        })
    );
    let other = InputSplit::first_to_garbler(&[32, 31]);
    let params = fixed_params(Scheme::Prf, 1);
    let error = Evaluator::new(program.clone(), &other, params, Backend::Portable).err();
    assert_eq!(
        error,
        Some(GarbleError::SplitMismatch {
            expected: vec![32, 32],
            found: vec![32, 31]
        })
    );
    assert_eq!(
        ChunkPlan::new(&program, Scheme::Prf, 0).err(),
        Some(GarbleError::ChunkLimit { min: 64, found: 0 })
    );
}

#[test]
fn output_claims_are_bound_to_session_instance_and_labels() {
    // The last output bit is constant, so it has no label.
    let gates = [
        Gate {
            op: Op::And,
            a: 0,
            b: 1,
        },
        Gate {
            op: Op::One,
            a: 0,
            b: 0,
        },
    ];
    let circuit = Circuit::new(vec![1, 1], vec![2], gates, vec![2, 3]).unwrap();
    let program = Arc::new(Program::compile(&circuit));
    for scheme in Scheme::ALL {
        let mut pair = pair(&program, scheme);
        let mut outputs = Vec::new();
        for _ in 0..2 {
            pair.begin(&Bits::from_u128(3, 2));
            let chunks = pair.chunks(LIMIT);
            outputs.push(pair.finish(&chunks, LIMIT));
        }
        let (garbled, evaluated) = &outputs[0];
        let (colours, tag) = (evaluated.colours(), evaluated.tag(&SID));
        assert_eq!(
            garbled.verify(&SID, &colours, &tag),
            Ok(Bits::from_u128(3, 2))
        );
        let rejected = Err(GarbleError::TagRejected);
        assert_eq!(garbled.verify(&[2; 32], &colours, &tag), rejected);
        assert_eq!(outputs[1].0.verify(&SID, &colours, &tag), rejected);
        for bit in 0..2 {
            let mut other = colours.clone();
            other.set(bit, !other.get(bit));
            assert_eq!(garbled.verify(&SID, &other, &tag), rejected);
        }
        let mut other = tag;
        other[31] ^= 0x80;
        assert_eq!(garbled.verify(&SID, &colours, &other), rejected);
        assert_eq!(
            garbled.verify(&SID, &Bits::zeros(1), &tag),
            Err(GarbleError::ColourCount {
                expected: 2,
                found: 1
            })
        );
        let info = garbled.decode_info(&SID, true);
        let rejected = Err(GarbleError::OutputRejected);
        assert_eq!(evaluated.decode(&info, &[2; 32]), rejected);
        assert_eq!(outputs[1].1.decode(&info, &SID), rejected);
    }
}

#[test]
fn decoding_information_is_read_strictly() {
    let gates = [
        Gate {
            op: Op::And,
            a: 0,
            b: 1,
        },
        Gate {
            op: Op::Zero,
            a: 0,
            b: 0,
        },
    ];
    let circuit = Circuit::new(vec![1, 1], vec![2], gates, vec![2, 3]).unwrap();
    let program = Program::compile(&circuit);
    assert_eq!(
        (decode_len(&program, false), decode_len(&program, true)),
        (1, 17)
    );
    for (found, check) in [(0, false), (2, false), (16, true), (18, true)] {
        let expected = decode_len(&program, check);
        assert_eq!(
            DecodeInfo::from_bytes(&program, check, &vec![0; found]),
            Err(GarbleError::DecodeLength { expected, found })
        );
    }
    for byte in [0b10, 0b100, 0x80] {
        assert_eq!(
            DecodeInfo::from_bytes(&program, false, &[byte]),
            Err(GarbleError::DecodePadding)
        );
    }
    for byte in [0, 1] {
        let info = DecodeInfo::from_bytes(&program, false, &[byte]).unwrap();
        assert_eq!(info.to_bytes(), [byte]);
    }
    let info = DecodeInfo::from_bytes(&program, true, &[1; 17]).unwrap();
    assert_eq!(info.to_bytes(), [1; 17]);
    assert_eq!(
        format!("{info:?}"),
        "DecodeInfo { outputs: 2, check: true }"
    );
}

#[test]
fn random_parameters_and_seeds_never_repeat() {
    let mut rng = rand::rng();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..10_000 {
        let params = Params::random(Scheme::HalfGates, 1, &mut rng);
        assert!(seen.insert(params.start.to_vec()));
        assert!(seen.insert(params.nonce.to_le_bytes().to_vec()));
        assert!(seen.insert(params.input_seed.to_vec()));
    }
}
