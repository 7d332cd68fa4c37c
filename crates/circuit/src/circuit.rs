//! The representation of a circuit, and its evaluation in the clear.

use thiserror::Error;

use crate::Bits;

/// The number of a wire: input bits come first in value order, then one output wire per gate in
/// gate order.
pub type Wire = u32;

/// The operation of a gate.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Op {
    /// Exclusive or of two wires.
    Xor,
    /// Conjunction of two wires.
    And,
    /// Negation of the first wire.
    Not,
    /// Copy of the first wire (Bristol Fashion `EQW`).
    Copy,
    /// The constant 0.
    Zero,
    /// The constant 1.
    One,
}

/// A gate. Its position determines its output wire; see [`Wire`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gate {
    /// The operation.
    pub op: Op,
    /// First operand; 0 and unused for constants.
    pub a: Wire,
    /// Second operand; 0 and unused for gates with fewer than two operands.
    pub b: Wire,
}

/// A Boolean circuit in topological order.
///
/// Invariant: every operand of gate `i` is below `input_bits + i`, every output wire exists, and
/// there are fewer than 2^31 wires.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Circuit {
    input_widths: Vec<u32>,
    output_widths: Vec<u32>,
    input_bits: u32,
    ops: Vec<Op>,
    /// Two operands per gate, separate from the operations: 9 bytes per gate instead of 12.
    operands: Vec<[Wire; 2]>,
    outputs: Vec<Wire>,
}

/// The reason why a circuit cannot be constructed or evaluated.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CircuitError {
    /// An operand is not an input bit or the output of an earlier gate.
    #[error("gate {gate} reads wire {wire}, which is not defined before it")]
    UndefinedOperand {
        /// Position of the gate.
        gate: usize,
        /// The wire it reads.
        wire: Wire,
    },
    /// An output wire does not exist.
    #[error("output bit {bit} is wire {wire}, which does not exist")]
    UndefinedOutput {
        /// Position of the output bit.
        bit: usize,
        /// The wire given.
        wire: Wire,
    },
    /// The widths of the output values do not add up to the number of output wires.
    #[error("the output values have {expected} bits in all, but there are {found} output wires")]
    OutputCount {
        /// Sum of the widths of the output values.
        expected: u64,
        /// Number of output wires given.
        found: usize,
    },
    /// The circuit has 2^31 wires or more.
    #[error("a circuit has at most 2^31 - 1 wires, not {0}")]
    TooManyWires(u64),
    /// The number of input bits differs from that of the circuit.
    #[error("the circuit takes {expected} input bits, not {found}")]
    InputCount {
        /// Number of input bits of the circuit.
        expected: usize,
        /// Number of bits given.
        found: usize,
    },
}

impl Circuit {
    /// Checks and constructs a circuit.
    ///
    /// # Errors
    /// Any [`CircuitError`] except [`CircuitError::InputCount`], if the invariant does not hold.
    pub fn new(
        input_widths: Vec<u32>,
        output_widths: Vec<u32>,
        gates: impl IntoIterator<Item = Gate>,
        outputs: Vec<Wire>,
    ) -> Result<Self, CircuitError> {
        let gates = gates.into_iter();
        let (mut ops, mut operands) = (
            Vec::with_capacity(gates.size_hint().0),
            Vec::with_capacity(gates.size_hint().0),
        );
        for gate in gates {
            ops.push(gate.op);
            operands.push([gate.a, gate.b]);
        }
        Self::from_parts(input_widths, output_widths, ops, operands, outputs)
    }

    /// Does the same as [`Circuit::new`], with operations and operands in separate vectors.
    pub(crate) fn from_parts(
        input_widths: Vec<u32>,
        output_widths: Vec<u32>,
        ops: Vec<Op>,
        operands: Vec<[Wire; 2]>,
        outputs: Vec<Wire>,
    ) -> Result<Self, CircuitError> {
        let sum = |widths: &[u32]| widths.iter().map(|&width| u64::from(width)).sum::<u64>();
        let input_bits = sum(&input_widths);
        let wires = input_bits + ops.len() as u64;
        if wires >= 1 << 31 {
            return Err(CircuitError::TooManyWires(wires));
        }
        if sum(&output_widths) != outputs.len() as u64 {
            return Err(CircuitError::OutputCount {
                expected: sum(&output_widths),
                found: outputs.len(),
            });
        }
        for (gate, (op, [a, b])) in ops.iter().zip(&operands).enumerate() {
            let defined = input_bits + gate as u64;
            let read = match op {
                Op::Xor | Op::And => (*a).max(*b),
                Op::Not | Op::Copy => *a,
                Op::Zero | Op::One => continue,
            };
            if u64::from(read) >= defined {
                return Err(CircuitError::UndefinedOperand { gate, wire: read });
            }
        }
        if let Some((bit, &wire)) =
            (outputs.iter().enumerate()).find(|&(_, &wire)| u64::from(wire) >= wires)
        {
            return Err(CircuitError::UndefinedOutput { bit, wire });
        }
        Ok(Self {
            input_widths,
            output_widths,
            input_bits: input_bits as u32,
            ops,
            operands,
            outputs,
        })
    }

    /// Returns the width of each input value, in bits.
    #[must_use]
    pub fn input_widths(&self) -> &[u32] {
        &self.input_widths
    }

    /// Returns the width of each output value, in bits.
    #[must_use]
    pub fn output_widths(&self) -> &[u32] {
        &self.output_widths
    }

    /// Returns the number of input bits, which is also the output wire of the first gate.
    #[must_use]
    pub fn input_bits(&self) -> u32 {
        self.input_bits
    }

    /// Returns the output wires, value by value.
    #[must_use]
    pub fn outputs(&self) -> &[Wire] {
        &self.outputs
    }

    /// Returns the number of gates.
    #[must_use]
    pub fn gate_count(&self) -> usize {
        self.ops.len()
    }

    /// Returns the number of wires: input bits plus gates.
    #[must_use]
    pub fn wire_count(&self) -> u32 {
        self.input_bits + self.ops.len() as u32
    }

    /// Returns gate `index`.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Circuit::gate_count`].
    #[must_use]
    pub fn gate(&self, index: usize) -> Gate {
        let [a, b] = self.operands[index];
        Gate {
            op: self.ops[index],
            a,
            b,
        }
    }

    /// Iterates over the gates in topological order.
    pub fn gates(&self) -> impl ExactSizeIterator<Item = Gate> + DoubleEndedIterator + '_ {
        (self.ops.iter().zip(&self.operands)).map(|(&op, &[a, b])| Gate { op, a, b })
    }

    /// Returns the number of gates with operation `op`.
    #[must_use]
    pub fn count(&self, op: Op) -> usize {
        self.ops.iter().filter(|&&o| o == op).count()
    }

    /// Evaluates the circuit in the clear; the result is the concatenation of all output values.
    ///
    /// # Errors
    /// Returns [`CircuitError::InputCount`] unless `inputs` is the concatenation of all input
    /// values.
    pub fn evaluate(&self, inputs: &Bits) -> Result<Bits, CircuitError> {
        if inputs.len() != self.input_bits as usize {
            return Err(CircuitError::InputCount {
                expected: self.input_bits as usize,
                found: inputs.len(),
            });
        }
        let mut wires = inputs.clone();
        for Gate { op, a, b } in self.gates() {
            let (a, b) = (a as usize, b as usize);
            wires.push(match op {
                Op::Xor => wires.get(a) ^ wires.get(b),
                Op::And => wires.get(a) & wires.get(b),
                Op::Not => !wires.get(a),
                Op::Copy => wires.get(a),
                Op::Zero => false,
                Op::One => true,
            });
        }
        Ok((self.outputs.iter())
            .map(|&wire| wires.get(wire as usize))
            .collect())
    }

    /// Splits concatenated output bits into the output values.
    ///
    /// # Panics
    /// Panics if the length of `bits` differs from the number of output bits.
    #[must_use]
    pub fn split_outputs(&self, bits: &Bits) -> Vec<Bits> {
        split_values(&self.output_widths, bits)
    }
}

/// Splits concatenated bits into values of the given widths.
pub(crate) fn split_values(widths: &[u32], bits: &Bits) -> Vec<Bits> {
    let total: usize = widths.iter().map(|&width| width as usize).sum();
    assert_eq!(bits.len(), total, "bits of {} values", widths.len());
    let mut start = 0;
    widths
        .iter()
        .map(|&width| {
            start += width as usize;
            bits.slice(start - width as usize..start)
        })
        .collect()
}
