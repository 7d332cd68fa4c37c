//! Pseudorandom circuits and bits for tests.

use crate::{Bits, Circuit, Gate, Op};

/// A reproducible stream of pseudorandom numbers (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (self.next() % u64::from(bound)) as u32
    }

    pub(crate) fn bits(&mut self, len: usize) -> Bits {
        (0..len).map(|_| self.next() & 1 == 1).collect()
    }
}

/// The parameters of a random circuit.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) input_widths: Vec<u32>,
    pub(crate) output_widths: Vec<u32>,
    pub(crate) gates: u32,
}

/// Returns a pseudorandom circuit. It has all operations, gates that read one wire twice, a few
/// wires with many uses, and short and long paths. Any wire may be an output. A circuit without
/// wires has no output bits.
pub(crate) fn random_circuit(shape: &Shape) -> Circuit {
    let mut random = Random(shape.seed);
    let inputs: u32 = shape.input_widths.iter().sum();
    let mut gates: Vec<Gate> = Vec::new();
    while gates.len() < shape.gates as usize {
        let wire = inputs + gates.len() as u32;
        if wire == 0 {
            let (a, b) = (0, 0);
            gates.push(Gate { op: Op::One, a, b });
            continue;
        }
        let mut operand = || match random.below(8) {
            0 => random.below(3.min(wire)),
            1 | 2 => random.below(wire),
            3 => wire - 1 - random.below(4.min(wire)),
            _ => wire - 1 - random.below(60.min(wire)),
        };
        let (a, other) = (operand(), operand());
        let (op, b) = match random.below(64) {
            0 => (Op::Zero, 0),
            1 => (Op::One, 0),
            2 | 3 => (Op::Copy, other),
            4..=9 => (Op::Not, other),
            10 => (Op::Xor, a),
            11 => (Op::And, a),
            12..=43 => (Op::Xor, other),
            _ => (Op::And, other),
        };
        gates.push(Gate { op, a, b });
        // Gates that read both a wire and its negation are made frequent, to exercise folding.
        if op == Op::Not && gates.len() < shape.gates as usize {
            let op = [Op::And, Op::Xor][random.below(2) as usize];
            gates.push(Gate { op, a: wire, b: a });
        }
    }
    let wires = inputs + gates.len() as u32;
    let output_widths: Vec<u32> = match wires {
        0 => shape.output_widths.iter().map(|_| 0).collect(),
        _ => shape.output_widths.clone(),
    };
    let outputs = (0..output_widths.iter().sum())
        .map(|_| random.below(wires))
        .collect();
    Circuit::new(shape.input_widths.clone(), output_widths, gates, outputs)
        .expect("operands are below their gate")
}
