//! Reads the gates of a circuit file.

use std::io::Read;

use super::{
    BristolError, Format, ParseLimits, Parsed, Problem,
    header::Header,
    scan::{Line, Number, PlainGate, Scanner},
};
use crate::{Circuit, Op, Wire};

pub(super) fn read<R: Read>(
    source: R,
    length: u64,
    limits: &ParseLimits,
) -> Result<Parsed, BristolError> {
    let mut scanner = Scanner::new(source, length);
    let mut line = Line::default();
    let (header, mut at_gate) = Header::read(&mut scanner, length, limits, &mut line)?;
    let mut gates = Gates::new(&header);
    for found in 0..header.gates {
        // Gates in the usual spelling take this fast path. All other lines, and all lines with
        // errors, take the general path below.
        if !at_gate
            && let Some(gate) = scanner.plain_gate()
            && gates.add_plain(&gate)
        {
            scanner.take_plain(&gate);
            continue;
        }
        if !std::mem::take(&mut at_gate) && !scanner.read_line(&mut line)? {
            let expected = header.gates;
            return Err(scanner.error(Problem::MissingGates { expected, found }));
        }
        gates.add(&mut line)?;
    }
    if at_gate {
        let gates = header.gates;
        return Err(line.error_at_number(0, Problem::TrailingText { gates }));
    }
    if scanner.skip_blank_lines()?.is_some() {
        let gates = header.gates;
        return Err(scanner.error(Problem::TrailingText { gates }));
    }
    let outputs = gates.outputs(&header)?;
    let Gates { ops, operands, .. } = gates;
    let circuit = Circuit::from_parts(
        header.input_widths,
        header.output_widths,
        ops,
        operands,
        outputs,
    )
    // This cannot fail. All operands and outputs are defined wires. The number of output bits is
    // the sum of the output widths. The circuit has as many wires as the header declares, which
    // are fewer than 2^31.
    .expect("a circuit checked gate by gate");
    let format = header.format;
    Ok(Parsed { circuit, format })
}

/// The gates read so far, and the mapping from the file's wires to the circuit's wires.
struct Gates {
    format: Format,
    input_bits: u32,
    wires: u32,
    ops: Vec<Op>,
    operands: Vec<[Wire; 2]>,
    /// For each wire of the file that is not an input: the number of the circuit's wire plus 1, or
    /// 0 if no gate defines the wire yet. The vector is zeroed, because the operating system
    /// provides pages of zeroed memory only when they are used.
    defined: Vec<u32>,
}

impl Gates {
    fn new(header: &Header) -> Self {
        // The file's length bounds this allocation: `Header::read` compared it with the number.
        let outputs = (header.wires - header.input_bits) as usize;
        Self {
            format: header.format,
            input_bits: header.input_bits,
            wires: header.wires,
            ops: Vec::with_capacity(outputs),
            operands: Vec::with_capacity(outputs),
            defined: vec![0; outputs],
        }
    }

    /// Adds a gate if its operands are defined and its output is not. Returns whether it was added.
    #[inline]
    fn add_plain(&mut self, gate: &PlainGate) -> bool {
        let place = |wire: u32| match wire.checked_sub(self.input_bits) {
            None => Some(wire),
            Some(index) => self.defined.get(index as usize)?.checked_sub(1),
        };
        let [a, b] = gate.operands;
        let (Some(a), Some(b)) = (
            place(a),
            if gate.op == Op::Not {
                Some(0)
            } else {
                place(b)
            },
        ) else {
            return false;
        };
        let out = gate.out.checked_sub(self.input_bits);
        match out.and_then(|out| self.defined.get_mut(out as usize)) {
            Some(defined @ 0) => {
                self.ops.push(gate.op);
                self.operands.push([a, b]);
                *defined = self.input_bits + self.ops.len() as u32;
                true
            }
            _ => false,
        }
    }

    /// Adds the gates that a line defines. It may change the numbers in `line`.
    fn add(&mut self, line: &mut Line) -> Result<(), BristolError> {
        let operation = self.operation(line)?;
        match operation {
            Operation::Gate(op) => {
                let inputs = line.numbers.len() - 3;
                let a = self.operand(line, line.numbers[2])?;
                let b = match inputs {
                    1 => 0,
                    _ => self.operand(line, line.numbers[3])?,
                };
                self.define(line, line.numbers[2 + inputs], op, [a, b])
            }
            Operation::Constant => {
                let op = match line.numbers[2].value {
                    0 => Op::Zero,
                    1 => Op::One,
                    found => return Err(line.error_at_number(2, Problem::BadConstant { found })),
                };
                self.define(line, line.numbers[3], op, [0, 0])
            }
            Operation::ManyAnd => {
                let count = line.numbers[1].value as usize;
                // All operands are looked up before any output is defined, because gates of a MAND
                // must not read each other's outputs.
                for index in 2..2 + 2 * count {
                    line.numbers[index].value = self.operand(line, line.numbers[index])?;
                }
                for index in 2..2 + count {
                    let [a, b, out] = [0, count, 2 * count].map(|skip| line.numbers[index + skip]);
                    self.define(line, out, Op::And, [a.value, b.value])?;
                }
                Ok(())
            }
        }
    }

    /// Returns the operation of a gate's line, after a check that the line has as many numbers as
    /// the operation needs.
    fn operation(&self, line: &Line) -> Result<Operation, BristolError> {
        let Some(word) = line.word() else {
            return Err(line.unexpected(line.numbers.len(), "an operation"));
        };
        let [inputs, outputs, ref wires @ ..] = line.numbers[..] else {
            let expected = "the numbers of inputs and outputs of the gate";
            return Err(line.unexpected(line.numbers.len(), expected));
        };
        let found = [inputs.value, outputs.value];
        let fashion = self.format == Format::Fashion;
        let (operation, expected) = match word {
            b"XOR" => (Operation::Gate(Op::Xor), [2, 1]),
            b"AND" => (Operation::Gate(Op::And), [2, 1]),
            b"INV" | b"NOT" => (Operation::Gate(Op::Not), [1, 1]),
            b"EQW" if fashion => (Operation::Gate(Op::Copy), [1, 1]),
            b"EQ" if fashion => (Operation::Constant, [1, 1]),
            b"MAND" if fashion => {
                let outputs = outputs.value.max(1);
                (Operation::ManyAnd, [outputs.saturating_mul(2), outputs])
            }
            _ => {
                let problem = Problem::UnknownOperation {
                    found: String::from_utf8_lossy(word).into_owned(),
                    format: self.format,
                };
                return Err(line.error_at_number(line.numbers.len(), problem));
            }
        };
        if found != expected {
            let wrong = usize::from(found[0] == expected[0]);
            let problem = Problem::Arity {
                operation: String::from_utf8_lossy(word).into_owned(),
                expected,
                found,
            };
            return Err(line.error_at_number(wrong, problem));
        }
        let expected = u64::from(found[0]) + u64::from(found[1]);
        if expected != wires.len() as u64 {
            // The error's position is the first surplus number, or the operation if numbers are
            // missing.
            let index = (expected as usize).saturating_add(2);
            let found = wires.len();
            return Err(line.error_at_number(index, Problem::OperandCount { expected, found }));
        }
        Ok(operation)
    }

    /// Returns the circuit's wire for a wire of the file that a gate reads.
    fn operand(&self, line: &Line, number: Number) -> Result<Wire, BristolError> {
        let wire = number.value;
        if wire < self.input_bits {
            return Ok(wire);
        }
        let problem = match self.defined.get((wire - self.input_bits) as usize) {
            Some(0) => Problem::UndefinedWire { wire },
            Some(defined) => return Ok(defined - 1),
            None => self.range(wire),
        };
        Err(line.error(number.column, problem))
    }

    /// Appends a gate whose output is wire `number` of the file.
    fn define(
        &mut self,
        line: &Line,
        number: Number,
        op: Op,
        operands: [Wire; 2],
    ) -> Result<(), BristolError> {
        let wire = number.value;
        let range = self.range(wire);
        let slot = (wire.checked_sub(self.input_bits)).map(|i| self.defined.get_mut(i as usize));
        let problem = match slot {
            Some(Some(defined @ 0)) => {
                self.ops.push(op);
                self.operands.push(operands);
                *defined = self.input_bits + self.ops.len() as u32;
                return Ok(());
            }
            Some(None) => range,
            Some(Some(_)) | None => Problem::RedefinedWire { wire },
        };
        Err(line.error(number.column, problem))
    }

    fn range(&self, wire: u32) -> Problem {
        let wires = self.wires;
        Problem::WireRange { wire, wires }
    }

    /// Returns the circuit's wires for the outputs, which are the last wires of the file. Checks
    /// that the file defines as many wires as its header declares.
    fn outputs(&self, header: &Header) -> Result<Vec<Wire>, BristolError> {
        let first = header.wires - header.output_bits;
        let mut outputs = Vec::with_capacity(header.output_bits as usize);
        for wire in first..header.wires {
            outputs.push(match wire.checked_sub(self.input_bits) {
                None => wire,
                Some(index) => match self.defined[index as usize] {
                    0 => {
                        let problem = Problem::UndefinedOutput { wire };
                        return Err(header.output_error((wire - first).into(), problem));
                    }
                    defined => defined - 1,
                },
            });
        }
        let expected = u64::from(self.input_bits) + self.ops.len() as u64;
        if expected != u64::from(header.wires) {
            return Err(BristolError::Invalid {
                position: header.wires_position,
                problem: Problem::WireCount {
                    expected,
                    found: header.wires,
                },
            });
        }
        Ok(outputs)
    }
}

/// The operation on a gate's line.
enum Operation {
    /// One gate whose operands are wires: `XOR`, `AND`, `INV`, `NOT` or `EQW`.
    Gate(Op),
    /// `EQ`, whose operand is a constant.
    Constant,
    /// `MAND`, which becomes several AND gates.
    ManyAnd,
}
