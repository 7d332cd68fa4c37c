use proptest::prelude::*;

use super::{Program, compile::compile};
use crate::{Bits, Circuit, Gate, Op};

/// A circuit from random words: `size` gates, the operands near or far.
fn random_circuit(words: &[u64], inputs: u32, size: usize, outputs: u32) -> Circuit {
    let mut state = words.iter().fold(1, |acc: u64, word| {
        acc.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word
    });
    let mut next = move || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let mut gates: Vec<Gate> = Vec::new();
    let first = inputs;
    for i in 0..size as u32 {
        let defined = first + i;
        let mut pick = || {
            let span = match next() % 4 {
                0 => defined,
                1 => defined.min(4),
                _ => defined.min(40),
            };
            let back = (next() % u64::from(span.max(1))) as u32;
            // Wire 0 becomes very popular.
            if next().is_multiple_of(8) {
                0
            } else {
                defined - 1 - back
            }
        };
        let (a, b) = if defined == 0 {
            (0, 0)
        } else {
            (pick(), pick())
        };
        let op = match next() % 32 {
            _ if defined == 0 => Op::One,
            0 => Op::Zero,
            1 => Op::One,
            2 => Op::Copy,
            3..=6 => Op::Not,
            7..=18 => Op::Xor,
            _ => Op::And,
        };
        let b = if next().is_multiple_of(16) { a } else { b };
        gates.push(Gate { op, a, b });
    }
    let wires = first + size as u32;
    let outputs: Vec<u32> = (0..if wires == 0 { 0 } else { outputs })
        .map(|_| (next() % u64::from(wires)) as u32)
        .collect();
    Circuit::new(vec![inputs], vec![outputs.len() as u32], gates, outputs).unwrap()
}

fn assert_same(circuit: &Circuit, program: &Program, seed: u64) {
    program.check().unwrap();
    let mut state = seed | 1;
    for _ in 0..4 {
        let inputs: Bits = (0..circuit.input_bits())
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state & 1 == 1
            })
            .collect();
        let expected = circuit.evaluate(&inputs).unwrap();
        assert_eq!(program.evaluate(&inputs).to_string(), expected.to_string());
    }
}

proptest! {
    #[test]
    fn programs_compute_what_their_circuits_do(
        seed: u64,
        inputs in 0..20_u32,
        size in prop_oneof![4 => 0..200_usize, 1 => 0..20_000_usize],
        outputs in 0..40_u32,
        window in prop_oneof![1..5_usize, 5..200_usize, Just(1 << 16)],
    ) {
        let circuit = random_circuit(&[seed], inputs, size, outputs);
        assert_same(&circuit, &compile(&circuit, window), seed);
    }
}
