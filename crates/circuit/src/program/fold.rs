//! Folds the constants, copies and inversions of a circuit, and determines which gates are live.

use std::collections::HashMap;

use crate::{Circuit, Gate, Op, Wire};

/// The value of a wire: a constant, or the value of a *root*, possibly inverted. A root is a wire
/// that is an input bit or the output of a gate that is not folded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Value(u32);

impl Value {
    /// The constant 0, with the root 2^31 - 1. No wire has this number, because a circuit has fewer
    /// than 2^31 wires.
    const ZERO: Self = Self(0xffff_fffe);

    pub(super) fn new(root: Wire, inverted: bool) -> Self {
        Self(root << 1 | u32::from(inverted))
    }

    /// Returns the root. A constant returns 2^31 - 1, which is no wire.
    pub(super) fn root(self) -> Wire {
        self.0 >> 1
    }

    pub(super) fn is_inverted(self) -> bool {
        self.0 & 1 == 1
    }

    pub(super) fn constant(self) -> Option<bool> {
        (self.0 >> 1 == Self::ZERO.0 >> 1).then_some(self.is_inverted())
    }

    pub(super) fn invert_if(self, invert: bool) -> Self {
        Self(self.0 ^ u32::from(invert))
    }

    /// Returns the XOR of two values. If the XOR gate cannot be folded, the root of the result is
    /// the gate's output `wire`.
    fn xor(self, other: Self, wire: Wire) -> Self {
        if self.root() == other.root() {
            Self::ZERO.invert_if(self != other)
        } else if let Some(bit) = self.constant() {
            other.invert_if(bit)
        } else if let Some(bit) = other.constant() {
            self.invert_if(bit)
        } else {
            Self::new(wire, self.is_inverted() != other.is_inverted())
        }
    }

    /// Returns the AND of two values. If the AND gate cannot be folded, the root of the result is
    /// the gate's output `wire`.
    fn and(self, other: Self, wire: Wire) -> Self {
        if self.root() == other.root() {
            if self == other { self } else { Self::ZERO }
        } else if let Some(bit) = self.constant() {
            if bit { other } else { Self::ZERO }
        } else if let Some(bit) = other.constant() {
            if bit { self } else { Self::ZERO }
        } else {
            Self::new(wire, false)
        }
    }
}

/// A circuit's gates after folding.
pub(super) struct Folded {
    /// The value of each wire. The program keeps a gate if the gate's output is a root with uses.
    pub(super) values: Vec<Value>,
    /// For each root, the number of operands of kept gates and of output bits that read it. The
    /// count of every other wire is 0.
    pub(super) uses: UseCounts,
    pub(super) and_count: u64,
    pub(super) xor_count: u64,
}

impl Folded {
    pub(super) fn new(circuit: &Circuit) -> Self {
        let values = fold(circuit);
        let mut folded = Self {
            uses: UseCounts::new(values.len()),
            values,
            and_count: 0,
            xor_count: 0,
        };
        folded.count_uses(circuit);
        folded
    }

    /// Counts the uses of each root, and the kept gates. The gates are visited from the last to the
    /// first, so that all uses of a gate are counted before the gate's own operands. The operands
    /// of a gate without uses are not counted.
    fn count_uses(&mut self, circuit: &Circuit) {
        for &wire in circuit.outputs() {
            let value = self.values[wire as usize];
            if value.constant().is_none() {
                self.uses.add(value.root());
            }
        }
        let wires = circuit.input_bits()..circuit.wire_count();
        for (wire, gate) in wires.rev().zip(circuit.gates().rev()) {
            if !self.uses.is_used(wire) {
                continue;
            }
            match gate.op {
                Op::And => self.and_count += 1,
                _ => self.xor_count += 1,
            }
            self.uses.add(self.values[gate.a as usize].root());
            self.uses.add(self.values[gate.b as usize].root());
        }
    }
}

/// Computes the value of each wire.
fn fold(circuit: &Circuit) -> Vec<Value> {
    let mut values = Vec::with_capacity(circuit.wire_count() as usize);
    values.extend((0..circuit.input_bits()).map(|wire| Value::new(wire, false)));
    for (wire, Gate { op, a, b }) in (circuit.input_bits()..).zip(circuit.gates()) {
        let (a, b) = (a as usize, b as usize);
        values.push(match op {
            Op::Xor => values[a].xor(values[b], wire),
            Op::And => values[a].and(values[b], wire),
            Op::Not => values[a].invert_if(true),
            Op::Copy => values[a],
            Op::Zero => Value::ZERO,
            Op::One => Value::ZERO.invert_if(true),
        });
    }
    values
}

/// A count of uses for each wire. It takes one byte per wire, and a map for the few counts over
/// 255.
pub(super) struct UseCounts {
    low: Vec<u8>,
    /// For each wire with a count over 255, the count minus 255.
    excess: HashMap<Wire, u32>,
}

impl UseCounts {
    fn new(wires: usize) -> Self {
        Self {
            low: vec![0; wires],
            excess: HashMap::new(),
        }
    }

    pub(super) fn is_used(&self, wire: Wire) -> bool {
        self.low[wire as usize] != 0
    }

    fn add(&mut self, wire: Wire) {
        let low = &mut self.low[wire as usize];
        if *low == u8::MAX {
            *self.excess.entry(wire).or_insert(0) += 1;
        } else {
            *low += 1;
        }
    }

    /// Subtracts one use of a wire. Returns whether it was the last one.
    pub(super) fn release(&mut self, wire: Wire) -> bool {
        let low = &mut self.low[wire as usize];
        if *low == u8::MAX
            && let Some(excess) = self.excess.get_mut(&wire)
        {
            *excess -= 1;
            if *excess == 0 {
                self.excess.remove(&wire);
            }
            return false;
        }
        *low -= 1;
        *low == 0
    }
}
