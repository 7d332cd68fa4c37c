//! Tests of instances that are garbled eight at a time.

use std::sync::Arc;

use crate::common::{Lcg, all_params, fixed_params, random_circuit};
use sha2::{Digest, Sha256};
use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program};
use transpute_garble::{
    Backend, ChunkPlan, Evaluator, GarbleError, Garbler, LANES, Label, Params, Scheme, Seed, lanes,
};

const SID: [u8; 32] = [3; 32];

/// Runs instances in groups of the given sizes, checks all outputs and returns the chunks.
fn run(
    program: &Arc<Program>,
    params: Params,
    backend: Backend,
    limit: usize,
    groups: &[usize],
) -> Vec<Vec<u8>> {
    let split = InputSplit::first_to_garbler(program.input_widths());
    let seed = Seed::from_bytes([0x5e; 32]);
    let mut garbler = Garbler::new(program.clone(), &split, params, seed, backend).unwrap();
    let mut evaluator = Evaluator::new(program.clone(), &split, params, backend).unwrap();
    let mut rng = Lcg(5);
    let (mut instance, mut all) = (0, Vec::new());
    for &lanes in groups {
        let (mut inputs, mut mine) = (Vec::new(), Vec::new());
        let (mut sent, mut labels) = (Vec::new(), Vec::new());
        for number in instance..instance + lanes as u64 {
            let input = rng.bits(program.input_bits());
            let bits: [Bits; 2] = [true, false].map(|of_garbler| {
                (split.ranges(of_garbler).flatten())
                    .map(|i| input.get(i as usize))
                    .collect()
            });
            let mut pairs = Vec::new();
            garbler.evaluator_label_pairs(number, 0..bits[1].len(), &mut pairs);
            labels.extend(
                pairs
                    .iter()
                    .zip(bits[1].iter())
                    .map(|(pair, bit)| pair[usize::from(bit)]),
            );
            garbler.garbler_labels(number, 0..bits[0].len(), &bits[0], &mut sent);
            mine.push(bits[0].clone());
            inputs.push(input);
        }
        let sent: Vec<Label> = (sent.as_chunks::<16>().0.iter())
            .map(|bytes| Label::from_bytes(*bytes))
            .collect();
        let sent = params.scheme.sends_garbler_labels().then_some(&sent[..]);
        garbler.begin_side_by_side(&mine).unwrap();
        evaluator.begin_side_by_side(lanes, sent, &labels).unwrap();
        assert_eq!((garbler.lanes(), evaluator.lanes()), (lanes, lanes));
        let mut plan = ChunkPlan::side_by_side(program, params.scheme, limit, lanes).unwrap();
        while !garbler.is_instance_done() {
            let mut chunk = Vec::new();
            garbler.garble_chunk(limit, &mut chunk).unwrap();
            assert_eq!(plan.next(), Some(chunk.len()));
            assert!(chunk.len() <= limit);
            evaluator.evaluate_chunk(&chunk, limit).unwrap();
            all.push(chunk);
        }
        assert_eq!(plan.next(), None);
        for (number, input) in (instance..).zip(&inputs) {
            let (garbled, evaluated) = (
                garbler.take_outputs().unwrap(),
                evaluator.take_outputs().unwrap(),
            );
            assert_eq!((garbled.instance(), evaluated.instance()), (number, number));
            let found = evaluated
                .decode(&garbled.decode_info(&SID, true), &SID)
                .unwrap();
            assert_eq!(found.to_string(), program.evaluate(input).to_string());
        }
        assert_eq!(garbler.take_outputs().err(), Some(GarbleError::NoOutputs));
        assert_eq!(evaluator.take_outputs().err(), Some(GarbleError::NoOutputs));
        instance += lanes as u64;
    }
    all
}

fn program() -> Arc<Program> {
    Arc::new(Program::compile(&random_circuit(2025, 2000)))
}

#[test]
fn every_back_end_gives_the_same_bytes_and_the_right_outputs() {
    let program = program();
    for params in all_params() {
        for limit in [512, 1000, 1 << 20] {
            // A single instance before a group makes the first gate number of the group unaligned.
            for groups in [&[LANES, LANES, 1][..], &[1, LANES, 1, 1, LANES]] {
                let expected = run(&program, params, Backend::Portable, limit, groups);
                for backend in Backend::available() {
                    let found = run(&program, params, backend, limit, groups);
                    assert!(found == expected, "{} {backend} {limit}", params.scheme);
                }
            }
        }
    }
}

#[test]
fn random_circuits_give_their_outputs() {
    for seed in 0..20 {
        let program = Arc::new(Program::compile(&random_circuit(seed, 300)));
        for scheme in Scheme::ALL {
            run(
                &program,
                fixed_params(scheme, 1),
                Backend::best().unwrap(),
                4096,
                &[LANES, LANES],
            );
        }
    }
}

/// A gate of eight instances is eight gates with consecutive numbers. For a circuit of one gate,
/// instances side by side therefore have the same tables as single instances.
#[test]
fn one_gate_side_by_side_is_eight_gates() {
    for (op, schemes) in [(Op::And, &Scheme::ALL[..]), (Op::Xor, &[Scheme::Prf])] {
        let gates = [Gate { op, a: 0, b: 1 }];
        let circuit = Circuit::new(vec![1, 1], vec![1], gates, vec![2]).unwrap();
        let program = Arc::new(Program::compile(&circuit));
        for &scheme in schemes {
            let params = fixed_params(scheme, 1);
            let bytes = match op {
                Op::And => scheme.and_bytes(),
                _ => scheme.xor_bytes(),
            };
            let together = run(&program, params, Backend::best().unwrap(), 512, &[LANES]).concat();
            let single = run(&program, params, Backend::best().unwrap(), 512, &[1; LANES]);
            let ciphertexts: Vec<u8> = (single.iter())
                .flat_map(|chunk| chunk[..bytes].iter().copied())
                .collect();
            assert!(together[..LANES * bytes] == ciphertexts, "{scheme}");
        }
    }
}

/// A failure means that the wire format changed, which needs a new protocol version.
#[test]
fn transcripts_are_those_of_the_protocol_version() {
    let program = program();
    let found = Scheme::ALL.map(|scheme| {
        let params = fixed_params(scheme, 1);
        let chunks = run(
            &program,
            params,
            Backend::best().unwrap(),
            1000,
            &[LANES, 1],
        );
        let hash = Sha256::digest(chunks.concat());
        hash[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    });
    let expected = [
        "219c6e3f2557119f",
        "96b5cd337c079692",
        "0bb7b4c1c80e6b9c",
        "83a2bd008cd74445",
    ];
    assert_eq!(found, expected);
}

#[test]
fn wrong_numbers_of_instances_are_rejected() {
    let program = program();
    let split = InputSplit::first_to_garbler(program.input_widths());
    let params = fixed_params(Scheme::HalfGates, 1);
    let seed = Seed::from_bytes([1; 32]);
    let backend = Backend::Portable;
    let mut garbler = Garbler::new(program.clone(), &split, params, seed, backend).unwrap();
    let mut evaluator = Evaluator::new(program.clone(), &split, params, backend).unwrap();
    let bits = vec![Bits::zeros(split.garbler_bits()); 9];
    for found in [0, 2, 7, 9] {
        let refused = GarbleError::LaneCount { found };
        assert_eq!(
            garbler.begin_side_by_side(&bits[..found]),
            Err(refused.clone())
        );
        assert_eq!(
            evaluator.begin_side_by_side(found, None, &[]),
            Err(refused.clone())
        );
        let plan = ChunkPlan::side_by_side(&program, params.scheme, 1000, found);
        assert_eq!(plan.err(), Some(refused));
    }
    let labels = vec![Label::from_bytes([0; 16]); 9 * split.evaluator_bits()];
    let expected = LANES * split.evaluator_bits();
    let short = evaluator.begin_side_by_side(LANES, None, &labels[..expected - 1]);
    let (party, found) = ("evaluator", expected - 1);
    assert_eq!(
        short,
        Err(GarbleError::LabelCount {
            party,
            expected,
            found
        })
    );
    // A chunk must have room for a gate of every instance.
    garbler.begin_side_by_side(&bits[..LANES]).unwrap();
    let refused = GarbleError::ChunkLimit {
        min: 512,
        found: 511,
    };
    assert_eq!(garbler.garble_chunk(511, &mut Vec::new()), Err(refused));
}

#[test]
fn small_programs_in_large_batches_are_garbled_side_by_side() {
    let small = program();
    assert!(small.slot_count() <= 4096);
    assert_eq!(lanes(&small, 512, 8), LANES);
    assert_eq!(lanes(&small, 512, u64::MAX), LANES);
    assert_eq!(lanes(&small, 512, 7), 1);
    assert_eq!(lanes(&small, 511, 8), 1);
    let large = |inputs: u32, outputs: u32| {
        // All inputs are outputs, so all their labels are live at the end.
        let circuit = Circuit::new(vec![inputs], vec![outputs], [], (0..outputs).collect());
        lanes(&Program::compile(&circuit.unwrap()), 512, 8)
    };
    assert_eq!(large(1 << 18, 1 << 18), LANES);
    assert_eq!(large((1 << 18) + 1, (1 << 18) + 1), 1);
    assert_eq!(large(1 << 19, 1), LANES);
    assert_eq!(large((1 << 19) + 1, 1), 1);
}
