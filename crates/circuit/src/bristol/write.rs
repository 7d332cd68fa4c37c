//! Writes circuit files.

use std::{
    io::{self, Write},
    ops::Range,
};

use super::{Format, WriteError, text::Text};
use crate::{Circuit, Gate, Op, Wire};

/// Options for writing a circuit file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Whether to write consecutive AND gates that are independent of each other as one `MAND`. The
    /// default is `false`, because only readers of the extended Bristol Fashion accept `MAND`. In
    /// the old format, which has no `MAND`, this option has no effect.
    pub group_ands: bool,
}

/// Maximum number of gates in one `MAND`. It keeps each line shorter than 2.2 MB: 3 numbers of at
/// most 10 digits per gate.
const MAX_GROUP: usize = 1 << 16;

pub(super) fn write(
    circuit: &Circuit,
    out: impl Write,
    format: Format,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    let numbering = Numbering::new(circuit, format)?;
    let writer = Writer {
        circuit,
        out: Text::new(out),
        next_helper: numbering.first_helper,
        numbering,
    };
    match format {
        Format::Fashion => writer.write_fashion(options.group_ands)?,
        Format::Old => writer.write_old()?,
    }
    Ok(())
}

/// The numbers that the wires of a circuit have in the file. An input wire keeps its number.
struct Numbering {
    /// For each gate of the circuit, the number of its output wire in the file.
    gates: Vec<u32>,
    /// The wires that the file copies, because they are input wires or occur more than once among
    /// the outputs, each with the number of its copy.
    copies: Vec<(Wire, u32)>,
    /// The smallest number of the auxiliary wires, which the old format needs for copies and for
    /// the constant 1.
    first_helper: u32,
    wires: u32,
}

/// The entry in [`Numbering::gates`] for a wire that has no number yet.
const UNNUMBERED: u32 = u32::MAX;

impl Numbering {
    fn new(circuit: &Circuit, format: Format) -> Result<Self, WriteError> {
        let inputs = circuit.input_bits();
        let outputs = circuit.outputs();
        let mut helpers = match format {
            Format::Fashion => 0,
            Format::Old => {
                check_old(circuit)?;
                circuit.count(Op::Copy) as u64 + circuit.count(Op::One) as u64
            }
        };
        let last = (circuit.wire_count() as usize).checked_sub(outputs.len());
        let in_place = helpers == 0
            && last
                .is_some_and(|first| (first..).zip(outputs).all(|(i, &wire)| i == wire as usize));
        let mut gates = vec![UNNUMBERED; circuit.gate_count()];
        let mut copies = Vec::new();
        if !in_place {
            for (bit, &wire) in (0..).zip(outputs) {
                let number = (wire.checked_sub(inputs)).map(|gate| &mut gates[gate as usize]);
                match number {
                    Some(number) if *number == UNNUMBERED => *number = bit,
                    _ => copies.push((wire, bit)),
                }
            }
        }
        if format == Format::Old {
            helpers += copies.len() as u64;
        }
        let found = u64::from(circuit.wire_count()) + copies.len() as u64 + helpers;
        if found >= 1 << 31 {
            return Err(WriteError::TooManyWires { found });
        }
        let wires = found as u32;
        // So far, the numbers in `gates` and `copies` are indices among the outputs. In the file,
        // the outputs are the last wires. The loops below assign the final numbers.
        let first_output = wires - if in_place { 0 } else { outputs.len() as u32 };
        let mut next = inputs;
        for number in &mut gates {
            if *number == UNNUMBERED {
                *number = next;
                next += 1;
            } else {
                *number += first_output;
            }
        }
        for (_, number) in &mut copies {
            *number += first_output;
        }
        Ok(Self {
            gates,
            copies,
            first_helper: next,
            wires,
        })
    }

    /// Returns the number that a wire of the circuit has in the file.
    fn number(&self, circuit: &Circuit, wire: Wire) -> u32 {
        match wire.checked_sub(circuit.input_bits()) {
            None => wire,
            Some(gate) => self.gates[gate as usize],
        }
    }
}

/// Checks that the old format can represent the circuit.
fn check_old(circuit: &Circuit) -> Result<(), WriteError> {
    for (what, limit, found) in [
        ("input", 2, circuit.input_widths().len()),
        ("output", 1, circuit.output_widths().len()),
    ] {
        if found > limit {
            return Err(WriteError::TooManyValues { what, limit, found });
        }
    }
    if circuit.input_bits() == 0
        && circuit
            .gates()
            .any(|gate| matches!(gate.op, Op::Zero | Op::One))
    {
        return Err(WriteError::Constant);
    }
    Ok(())
}

struct Writer<'a, W> {
    circuit: &'a Circuit,
    out: Text<W>,
    numbering: Numbering,
    next_helper: u32,
}

impl<W: Write> Writer<'_, W> {
    fn write_fashion(mut self, group_ands: bool) -> io::Result<()> {
        let lines = runs(self.circuit, group_ands).count() + self.numbering.copies.len();
        self.out.line([lines as u32, self.numbering.wires], "")?;
        for widths in [self.circuit.input_widths(), self.circuit.output_widths()] {
            let count = widths.len() as u32;
            (self.out).line(std::iter::once(count).chain(widths.iter().copied()), "")?;
        }
        self.out.line([], "")?;
        for run in runs(self.circuit, group_ands) {
            match run.len() {
                1 => self.write_fashion_gate(run.start)?,
                _ => self.write_group(run)?,
            }
        }
        for (wire, number) in std::mem::take(&mut self.numbering.copies) {
            self.out.line([1, 1, self.number(wire), number], "EQW")?;
        }
        self.out.finish()
    }

    fn write_fashion_gate(&mut self, index: usize) -> io::Result<()> {
        let Gate { op, a, b } = self.circuit.gate(index);
        let number = self.numbering.gates[index];
        match op {
            Op::Xor => self.write_binary(a, b, number, "XOR"),
            Op::And => self.write_binary(a, b, number, "AND"),
            Op::Not => self.out.line([1, 1, self.number(a), number], "INV"),
            Op::Copy => self.out.line([1, 1, self.number(a), number], "EQW"),
            Op::Zero => self.out.line([1, 1, 0, number], "EQ"),
            Op::One => self.out.line([1, 1, 1, number], "EQ"),
        }
    }

    fn write_group(&mut self, run: Range<usize>) -> io::Result<()> {
        let (circuit, numbering) = (self.circuit, &self.numbering);
        let count = run.len() as u32;
        let gates = || run.clone().map(|index| circuit.gate(index));
        let left = gates().map(|gate| numbering.number(circuit, gate.a));
        let right = gates().map(|gate| numbering.number(circuit, gate.b));
        let outputs = numbering.gates[run.clone()].iter().copied();
        let numbers = [2 * count, count].into_iter().chain(left);
        self.out.line(numbers.chain(right).chain(outputs), "MAND")
    }

    fn write_old(mut self) -> io::Result<()> {
        // Every gate of the old format defines one wire, so there are as many gates as wires that
        // are not inputs.
        let gates = self.numbering.wires - self.circuit.input_bits();
        self.out.line([gates, self.numbering.wires], "")?;
        let (inputs, outputs) = (self.circuit.input_widths(), self.circuit.output_widths());
        let widths = [inputs.first(), inputs.get(1), outputs.first()];
        self.out
            .line(widths.map(|width| width.copied().unwrap_or(0)), "")?;
        self.out.line([], "")?;
        for (index, Gate { op, a, b }) in self.circuit.gates().enumerate() {
            let number = self.numbering.gates[index];
            match op {
                Op::Xor => self.write_binary(a, b, number, "XOR")?,
                Op::And => self.write_binary(a, b, number, "AND")?,
                Op::Not => self.out.line([1, 1, self.number(a), number], "INV")?,
                Op::Copy => self.write_old_copy(a, number)?,
                Op::Zero => self.out.line([2, 1, 0, 0, number], "XOR")?,
                Op::One => {
                    let zero = self.helper();
                    self.out.line([2, 1, 0, 0, zero], "XOR")?;
                    self.out.line([1, 1, zero, number], "INV")?;
                }
            }
        }
        for (wire, number) in std::mem::take(&mut self.numbering.copies) {
            self.write_old_copy(wire, number)?;
        }
        self.out.finish()
    }

    fn write_old_copy(&mut self, wire: Wire, number: u32) -> io::Result<()> {
        let inverse = self.helper();
        self.out.line([1, 1, self.number(wire), inverse], "INV")?;
        self.out.line([1, 1, inverse, number], "INV")
    }

    fn write_binary(&mut self, a: Wire, b: Wire, number: u32, name: &str) -> io::Result<()> {
        (self.out).line([2, 1, self.number(a), self.number(b), number], name)
    }

    fn helper(&mut self) -> u32 {
        self.next_helper += 1;
        self.next_helper - 1
    }

    fn number(&self, wire: Wire) -> u32 {
        self.numbering.number(self.circuit, wire)
    }
}

/// Splits the gates into runs, one per line of the file. A run has one gate, or several independent
/// AND gates if `group_ands` is set.
fn runs(circuit: &Circuit, group_ands: bool) -> impl Iterator<Item = Range<usize>> {
    let count = circuit.gate_count();
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = start;
        if first == count {
            return None;
        }
        start += 1;
        if group_ands && circuit.gate(first).op == Op::And {
            let wire = circuit.input_bits() + first as u32;
            let joins = |gate: Gate| gate.op == Op::And && gate.a.max(gate.b) < wire;
            while start < count && start - first < MAX_GROUP && joins(circuit.gate(start)) {
                start += 1;
            }
        }
        Some(first..start)
    })
}
