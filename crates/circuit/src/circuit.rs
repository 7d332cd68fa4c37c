//! The representation of a circuit, and its evaluation on plaintext bits.

use thiserror::Error;

use crate::Bits;

/// The number of a wire, counted from 0. The bits of all input values have the smallest numbers, in
/// the order of the values. The output wires of the gates follow, one per gate, in gate order.
pub type Wire = u32;

/// The operation of a gate.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Op {
    /// The exclusive or of both operands.
    Xor,
    /// The conjunction of both operands.
    And,
    /// The negation of the first operand.
    Not,
    /// A copy of the first operand, called `EQW` in Bristol Fashion.
    Copy,
    /// The constant 0.
    Zero,
    /// The constant 1.
    One,
}

/// A gate. Its index among the gates determines its output wire (see [`Wire`]).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gate {
    /// The operation of the gate.
    pub op: Op,
    /// The first operand, which is ignored for constants.
    pub a: Wire,
    /// The second operand, which is ignored unless the operation is XOR or AND.
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
    /// The two operands of each gate. They are separate from `ops`, because a [`Gate`] takes 12
    /// bytes instead of 9.
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
        /// Index of the gate.
        gate: usize,
        /// The undefined wire that the gate reads.
        wire: Wire,
    },
    /// An output wire does not exist.
    #[error("output bit {bit} is wire {wire}, which does not exist")]
    UndefinedOutput {
        /// Index of the output bit, in the concatenation of all output values.
        bit: usize,
        /// The wire that does not exist.
        wire: Wire,
    },
    /// The widths of the output values do not add up to the number of output wires.
    #[error("the output values have {expected} bits in all, but there are {found} output wires")]
    OutputCount {
        /// Sum of the widths of the output values.
        expected: u64,
        /// Number of output wires that the caller passed.
        found: usize,
    },
    /// The circuit has 2^31 wires or more.
    #[error("a circuit has at most 2^31 - 1 wires, not {0}")]
    TooManyWires(u64),
    /// The evaluation got more or fewer input bits than the circuit has.
    #[error("the circuit takes {expected} input bits, not {found}")]
    InputCount {
        /// Number of input bits of the circuit.
        expected: usize,
        /// Number of bits that the caller passed.
        found: usize,
    },
}

impl Circuit {
    /// Constructs a circuit. `outputs` has the output wires of all output values, concatenated.
    ///
    /// # Errors
    /// Returns a [`CircuitError`] other than [`CircuitError::InputCount`] if the invariant of
    /// [`Circuit`] does not hold, or if the number of output wires is not the sum of
    /// `output_widths`.
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

    /// Returns the number of input bits, which is also the wire number of the first gate's output.
    #[must_use]
    pub fn input_bits(&self) -> u32 {
        self.input_bits
    }

    /// Returns the output wires of all output values, concatenated.
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

    /// Returns the gate with this index.
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

    /// Evaluates the circuit on plaintext bits. `inputs` and the result are the concatenations of
    /// all input values and all output values.
    ///
    /// # Errors
    /// Returns [`CircuitError::InputCount`] if the length of `inputs` differs from the number of
    /// input bits.
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

    /// Splits the concatenated bits of all output values into one [`Bits`] per output value.
    ///
    /// # Panics
    /// Panics if the length of `bits` differs from the number of output bits.
    #[must_use]
    pub fn split_outputs(&self, bits: &Bits) -> Vec<Bits> {
        split_values(&self.output_widths, bits)
    }
}

/// Splits concatenated bits into one [`Bits`] per width. Panics if the widths do not add up to the
/// number of bits.
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
