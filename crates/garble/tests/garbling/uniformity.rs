//! A smoke test for bias: the evaluator's view of one AND gate looks uniform for all inputs.

use std::sync::Arc;

use crate::common::fixed_params;
use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program};
use transpute_garble::{Backend, Evaluator, Garbler, Label, Scheme, Seed};

const GARBLINGS: usize = 10_000;

#[test]
fn tables_labels_and_colours_have_no_bias() {
    let gate = Gate {
        op: Op::And,
        a: 0,
        b: 1,
    };
    let circuit = Circuit::new(vec![1, 1], vec![1], [gate], vec![2]).unwrap();
    let program = Arc::new(Program::compile(&circuit));
    let split = InputSplit::first_to_garbler(program.input_widths());
    for scheme in Scheme::ALL {
        for values in 0..4 {
            let (mine, theirs) = (values & 1, usize::from(values & 2 != 0));
            let mut counts: Vec<usize> = Vec::new();
            for n in 0..GARBLINGS {
                // Secrets are fresh and public values are fixed, so all variation comes from the
                // seed.
                let mut seed = [0; 32];
                seed[..8].copy_from_slice(&(n as u64).to_le_bytes());
                let params = fixed_params(scheme, 1);
                let backend = Backend::best();
                let seed = Seed::from_bytes(seed);
                let mut garbler =
                    Garbler::new(program.clone(), &split, params, seed, backend).unwrap();
                let mut evaluator =
                    Evaluator::new(program.clone(), &split, params, backend).unwrap();
                let bits = Bits::from_u128(mine, 1);
                let (mut pairs, mut sent, mut chunk) = (Vec::new(), Vec::new(), Vec::new());
                garbler.evaluator_label_pairs(0, 0..1, &mut pairs);
                if scheme.sends_garbler_labels() {
                    garbler.garbler_labels(0, 0..1, &bits, &mut sent);
                }
                let sent: Vec<Label> = sent
                    .as_chunks()
                    .0
                    .iter()
                    .copied()
                    .map(Label::from_bytes)
                    .collect();
                let active = pairs[0][theirs];
                garbler.begin_instance(&bits).unwrap();
                garbler.garble_chunk(64, &mut chunk).unwrap();
                let given = (!sent.is_empty()).then_some(&sent[..]);
                evaluator.begin_instance(given, &[active]).unwrap();
                evaluator.evaluate_chunk(&chunk, 64).unwrap();
                let outputs = evaluator.take_outputs().unwrap();
                let info = garbler.take_outputs().unwrap().decode_info(&[0; 32], false);
                let bit = outputs.decode(&info, &[0; 32]).unwrap().get(0);
                assert_eq!(bit, values == 3);

                let trailer_bits = scheme.and_bits();
                let mut seen: Vec<bool> = Vec::new();
                for byte in chunk.iter().copied().chain(active.to_bytes()) {
                    seen.extend((0..8).map(|i| byte >> i & 1 == 1));
                }
                // The zero padding of the trailer is not part of the view.
                let table = 8 * scheme.and_bytes();
                if trailer_bits > 0 {
                    seen.drain(table + trailer_bits..table + 8);
                }
                seen.push(outputs.colours().get(0));
                counts.resize(seen.len(), 0);
                for (count, bit) in counts.iter_mut().zip(seen) {
                    *count += usize::from(bit);
                }
            }
            // The standard deviation is 50. With over 7000 counts, a deviation beyond five sigma
            // has a probability of 1/250, and the seeds are fixed.
            for (bit, &count) in counts.iter().enumerate() {
                // The lowest bit of each row is cut off and sent masked in the trailer, so both
                // ciphertexts are even.
                if scheme == Scheme::Prf && [0, 128].contains(&bit) {
                    assert_eq!(count, 0);
                    continue;
                }
                assert!(
                    count.abs_diff(GARBLINGS / 2) <= 250,
                    "{scheme} values {values} bit {bit}: {count} of {GARBLINGS}"
                );
            }
        }
    }
}
