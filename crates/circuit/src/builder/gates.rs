//! The gates that a builder has added. Constants are folded when a gate is added. At the end,
//! unused gates are dropped and the wires get their numbers.

use std::collections::HashMap;

use crate::{Circuit, CircuitError, Op, Wire};

/// A literal, which is a node of [`Gates`] or the negation of one: `node << 1 | inverted`.
///
/// Node 0 is the constant 0, so a constant is a literal, too. A negation becomes a gate only if an
/// AND gate or an output uses it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lit(u32);

impl Lit {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const ONE: Self = Self(1);

    pub(crate) fn constant(value: bool) -> Self {
        Self(u32::from(value))
    }

    pub(crate) fn is_constant(self) -> bool {
        self.0 < 2
    }

    pub(crate) fn negate(self) -> Self {
        Self(self.0 ^ 1)
    }

    fn node(self) -> u32 {
        self.0 >> 1
    }

    fn is_inverted(self) -> bool {
        self.0 & 1 == 1
    }

    fn negate_if(self, invert: bool) -> Self {
        Self(self.0 ^ u32::from(invert))
    }
}

/// The largest number of nodes. A [`Lit`] has 31 bits for the number of its node.
const MAX_NODES: usize = (1 << 31) - 1;

/// The entry of a node on which no output depends, in the result of [`Gates::live_nodes`].
const DEAD: Wire = Wire::MAX;

/// All nodes added so far: the constant 0, gates and input bits, in any order that has operands
/// before the gates that read them.
pub(crate) struct Gates {
    /// The operation of each node, or [`Op::Copy`] for an input bit. A copy of a value needs no
    /// node.
    ops: Vec<Op>,
    /// The operand nodes of each node. The first operand of an input bit is its wire number.
    operands: Vec<[u32; 2]>,
    /// Maps a node to the node with the opposite value, if such a node was added for it.
    negations: HashMap<u32, u32>,
    input_widths: Vec<u32>,
    input_bits: u64,
    output_widths: Vec<u32>,
    outputs: Vec<u32>,
    /// Number of nodes that were not added, because there were already [`MAX_NODES`].
    refused: u64,
}

impl Gates {
    pub(super) fn new() -> Self {
        Self {
            ops: vec![Op::Zero],
            operands: vec![[0; 2]],
            negations: HashMap::new(),
            input_widths: Vec::new(),
            input_bits: 0,
            output_widths: Vec::new(),
            outputs: Vec::new(),
            refused: 0,
        }
    }

    /// Adds an input value of `width` bits and returns its bits.
    pub(super) fn input(&mut self, width: usize) -> Vec<Lit> {
        // A width over `u32::MAX` also exceeds the limit on wires, so `finish` rejects it.
        self.input_widths
            .push(u32::try_from(width).unwrap_or(u32::MAX));
        (0..width)
            .map(|_| {
                let wire = self.input_bits as u32;
                self.input_bits += 1;
                self.push(Op::Copy, [wire, 0])
            })
            .collect()
    }

    /// Adds an output value that consists of `bits`.
    pub(super) fn output(&mut self, bits: impl ExactSizeIterator<Item = Lit>) {
        self.output_widths
            .push(u32::try_from(bits.len()).unwrap_or(u32::MAX));
        for bit in bits {
            let node = self.positive(bit);
            self.outputs.push(node);
        }
    }

    pub(crate) fn xor(&mut self, a: Lit, b: Lit) -> Lit {
        let invert = a.is_inverted() ^ b.is_inverted();
        match (a.node(), b.node()) {
            (a, b) if a == b => Lit::constant(invert),
            (0, _) => b.negate_if(a.is_inverted()),
            (_, 0) => a.negate_if(b.is_inverted()),
            (a, b) => self.push(Op::Xor, [a, b]).negate_if(invert),
        }
    }

    pub(crate) fn and(&mut self, a: Lit, b: Lit) -> Lit {
        if a == b || b == Lit::ONE {
            a
        } else if a == Lit::ONE {
            b
        } else if a == b.negate() || a == Lit::ZERO || b == Lit::ZERO {
            Lit::ZERO
        } else {
            let operands = [self.positive(a), self.positive(b)];
            self.push(Op::And, operands)
        }
    }

    pub(crate) fn or(&mut self, a: Lit, b: Lit) -> Lit {
        self.and(a.negate(), b.negate()).negate()
    }

    /// Returns `a` if `select` is 1, and `b` otherwise. This adds 1 AND gate, or none if `a ^ b` is
    /// constant.
    pub(crate) fn mux(&mut self, select: Lit, a: Lit, b: Lit) -> Lit {
        let difference = self.xor(a, b);
        let chosen = self.and(select, difference);
        self.xor(b, chosen)
    }

    /// Returns a wire that is always 0 but that constant folding treats as a variable.
    pub(super) fn opaque_zero(&mut self) -> Lit {
        self.push(Op::Zero, [0; 2])
    }

    /// Returns a literal with the same value that is not inverted. An inversion becomes an explicit
    /// gate.
    pub(super) fn materialize(&mut self, lit: Lit) -> Lit {
        if lit.is_constant() {
            return lit;
        }
        Lit(self.positive(lit) << 1)
    }

    /// Returns a node with the value of the literal. If the literal is inverted, this is a NOT
    /// gate, which is added unless it exists.
    fn positive(&mut self, lit: Lit) -> u32 {
        if !lit.is_inverted() {
            return lit.node();
        }
        if let Some(&node) = self.negations.get(&lit.node()) {
            return node;
        }
        let op = if lit.is_constant() { Op::One } else { Op::Not };
        let node = self.push(op, [lit.node(), 0]).node();
        self.negations.insert(lit.node(), node);
        node
    }

    fn push(&mut self, op: Op, operands: [u32; 2]) -> Lit {
        let node = self.ops.len();
        if node >= MAX_NODES {
            self.refused += 1;
            return Lit::ZERO;
        }
        self.ops.push(op);
        self.operands.push(operands);
        Lit((node as u32) << 1)
    }

    /// Drops the gates on which no output depends, numbers the wires, and returns the circuit.
    ///
    /// # Errors
    /// Returns [`CircuitError::TooManyWires`] if there are 2^31 wires or more.
    pub(super) fn finish(mut self) -> Result<Circuit, CircuitError> {
        if self.refused > 0 {
            return Err(CircuitError::TooManyWires(MAX_NODES as u64 + self.refused));
        }
        if self.input_bits >= 1 << 31 {
            return Err(CircuitError::TooManyWires(self.input_bits));
        }
        let mut wires = self.live_nodes();
        let mut next = self.input_bits as Wire;
        let mut kept = 0;
        // The gates to keep are moved to the front of the same vectors, so a large circuit is never
        // in memory twice.
        for node in 0..self.ops.len() {
            if self.ops[node] == Op::Copy {
                wires[node] = self.operands[node][0];
            } else if wires[node] != DEAD {
                wires[node] = next;
                next += 1;
                let op = self.ops[node];
                let [a, b] = self.operands[node].map(|operand| wires[operand as usize]);
                self.ops[kept] = op;
                self.operands[kept] = match op {
                    Op::Xor | Op::And => [a, b],
                    Op::Not | Op::Copy => [a, 0],
                    Op::Zero | Op::One => [0; 2],
                };
                kept += 1;
            }
        }
        self.ops.truncate(kept);
        self.operands.truncate(kept);
        self.ops.shrink_to_fit();
        self.operands.shrink_to_fit();
        let outputs = (self.outputs.iter())
            .map(|&node| wires[node as usize])
            .collect();
        Circuit::from_parts(
            self.input_widths,
            self.output_widths,
            self.ops,
            self.operands,
            outputs,
        )
    }

    /// Returns, for each node, [`DEAD`] if no output depends on it, and 0 otherwise.
    fn live_nodes(&self) -> Vec<Wire> {
        let mut live = vec![DEAD; self.ops.len()];
        for &node in &self.outputs {
            live[node as usize] = 0;
        }
        for node in (0..self.ops.len()).rev() {
            if live[node] == DEAD {
                continue;
            }
            let [a, b] = self.operands[node];
            match self.ops[node] {
                Op::Xor | Op::And => {
                    live[a as usize] = 0;
                    live[b as usize] = 0;
                }
                Op::Not => live[a as usize] = 0,
                Op::Copy | Op::Zero | Op::One => {}
            }
        }
        live
    }
}
