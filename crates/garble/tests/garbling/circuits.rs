//! Garbled evaluation of whole circuits, compared with evaluation in the clear.

use std::sync::Arc;

use crate::common::{Lcg, Pair, all_params, fixed_params, random_circuit};
use proptest::prelude::*;
use transpute_circuit::{Bits, Circuit, InputSplit, Program, generators};
use transpute_garble::{Backend, ChunkPlan, DecodeInfo, Params, Scheme, decode_len, table_bytes};

const SID: [u8; 32] = [0xab; 32];

/// Runs instances on random inputs and checks everything that both parties learn.
fn check(
    circuit: &Circuit,
    params: Params,
    backend: Backend,
    limit: usize,
    instances: u64,
    rng: &mut Lcg,
) {
    let program = Arc::new(Program::compile(circuit));
    let garbler_values: Vec<usize> = (0..circuit.input_widths().len())
        .filter(|_| rng.below(2) == 1)
        .collect();
    let split = InputSplit::new(circuit.input_widths(), &garbler_values).unwrap();
    let mut pair = Pair::new(&program, split, params, backend);
    for instance in 0..instances {
        let inputs = rng.bits(circuit.input_bits() as usize);
        let expected = circuit.evaluate(&inputs).unwrap();
        pair.begin(&inputs);
        let chunks = pair.chunks(limit);
        let plan = ChunkPlan::new(&program, params.scheme, limit).unwrap();
        assert!(plan.eq(chunks.iter().map(Vec::len)));
        let total: usize = chunks.iter().map(Vec::len).sum();
        assert_eq!(
            table_bytes(&program, params.scheme, limit),
            Ok(total as u64)
        );
        let (garbled, evaluated) = pair.finish(&chunks, limit);
        assert_eq!(
            (garbled.instance(), evaluated.instance()),
            (instance, instance)
        );
        let (colours, tag) = (evaluated.colours(), evaluated.tag(&SID));
        assert_eq!(garbled.verify(&SID, &colours, &tag), Ok(expected.clone()));
        for checked in [false, true] {
            let bytes = garbled.decode_info(&SID, checked).to_bytes();
            assert_eq!(bytes.len(), decode_len(&program, checked));
            let info = DecodeInfo::from_bytes(&program, checked, &bytes).unwrap();
            assert_eq!(evaluated.decode(&info, &SID), Ok(expected.clone()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_circuits_are_computed(
        seed in any::<u64>(),
        gates in prop_oneof![0usize..60, 0usize..2000],
        limit in prop_oneof![64usize..300, 300usize..20_000],
    ) {
        let circuit = random_circuit(seed, gates);
        let mut rng = Lcg(seed ^ 1);
        for params in all_params() {
            for backend in Backend::available() {
                check(&circuit, params, backend, limit, 2, &mut rng);
            }
        }
    }
}

#[test]
fn a_long_circuit_is_computed() {
    let circuit = random_circuit(77, 40_000);
    assert!(Program::compile(&circuit).gates().len() > 10_000);
    let mut rng = Lcg(3);
    for params in all_params() {
        for backend in Backend::available() {
            check(&circuit, params, backend, 9_973, 3, &mut rng);
        }
    }
}

#[test]
fn aes_gives_the_answer_of_fips_197() {
    let program = Arc::new(Program::compile(&generators::aes128()));
    let key = Bits::from_hex("000102030405060708090a0b0c0d0e0f", 128).unwrap();
    let block = Bits::from_hex("00112233445566778899aabbccddeeff", 128).unwrap();
    let inputs: Bits = key.iter().chain(block.iter()).collect();
    for params in all_params() {
        for backend in Backend::available() {
            let split = InputSplit::first_to_garbler(program.input_widths());
            let mut pair = Pair::new(&program, split, params, backend);
            pair.begin(&inputs);
            let chunks = pair.chunks(16_384);
            let (garbled, evaluated) = pair.finish(&chunks, 16_384);
            let out = evaluated.decode(&garbled.decode_info(&SID, true), &SID);
            assert_eq!(out.unwrap().to_hex(), "69c4e0d86a7b0430d8cdb78070b4c55a");
        }
    }
}

#[test]
fn gates_have_the_documented_table_sizes() {
    let program = Program::compile(&generators::aes128());
    let (ands, xors) = (program.and_count(), program.xor_count());
    let whole = |scheme| table_bytes(&program, scheme, usize::MAX).unwrap();
    assert_eq!(ands, 6400);
    assert_eq!(whole(Scheme::HalfGates), 32 * ands);
    assert_eq!(whole(Scheme::FixedKey), 32 * ands);
    assert_eq!(whole(Scheme::ThreeHalves), 24 * ands + 5 * ands / 8);
    assert_eq!(whole(Scheme::Prf), 32 * ands + 16 * xors + ands / 2);
    // A gate has 197 bits: 41 gates fit in 1024 bytes, and the trailer of each chunk is rounded up.
    let cut = ChunkPlan::new(&program, Scheme::ThreeHalves, 1024).unwrap();
    let lengths: Vec<usize> = cut.collect();
    assert_eq!(lengths.len(), 6400usize.div_ceil(41));
    assert!(lengths[..156].iter().all(|&length| length == 41 * 24 + 26));
    assert_eq!(lengths[156], 4 * 24 + 3);
}

#[test]
fn constant_inverted_and_repeated_outputs_are_decoded() {
    use transpute_circuit::{Gate, Op};
    let gate = |op, a, b| Gate { op, a, b };
    // Wires 0 and 1 are inputs; 2 = 0 & 1, 3 = !2, 4 = 0, 5 = 1, 6 = !0.
    let gates = [
        gate(Op::And, 0, 1),
        gate(Op::Not, 2, 0),
        gate(Op::Zero, 0, 0),
        gate(Op::One, 0, 0),
        gate(Op::Not, 0, 0),
    ];
    let circuit =
        Circuit::new(vec![1, 1], vec![9], gates, vec![2, 3, 4, 5, 6, 0, 2, 3, 1]).unwrap();
    let mut rng = Lcg(9);
    for params in all_params() {
        for backend in Backend::available() {
            check(&circuit, params, backend, 64, 12, &mut rng);
        }
    }
}

#[test]
fn instances_share_the_offset_but_no_label() {
    let program = Arc::new(Program::compile(&random_circuit(5, 100)));
    let widths = program.input_widths();
    for scheme in Scheme::ALL {
        let split = InputSplit::new(widths, &[]).unwrap();
        let pair = Pair::new(&program, split, fixed_params(scheme, 1), Backend::Portable);
        assert_eq!(pair.garbler.delta().is_some(), scheme.is_free_xor());
        let mut seen = std::collections::HashSet::new();
        for instance in 0..5 {
            let (mut pairs, mut zeros) = (Vec::new(), Vec::new());
            pair.garbler
                .evaluator_label_pairs(instance, 0..program.input_bits(), &mut pairs);
            pair.garbler
                .evaluator_zero_labels(instance, 0..program.input_bits(), &mut zeros);
            for ([zero, one], alone) in pairs.into_iter().zip(zeros) {
                assert_eq!(zero.to_bytes(), alone.to_bytes());
                assert_ne!(zero.colour(), one.colour());
                assert!(seen.insert(zero.to_bytes()) && seen.insert(one.to_bytes()));
                if let Some(delta) = pair.garbler.delta() {
                    assert_eq!((zero ^ one).to_bytes(), delta.to_bytes());
                }
            }
        }
    }
}
