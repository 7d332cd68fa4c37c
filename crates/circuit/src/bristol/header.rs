//! Reads the header of a circuit file and detects the file's format.

use std::io::Read;

use super::{
    BristolError, Format, Found, ParseLimits, Position, Problem,
    scan::{Line, Number, Scanner},
};

/// Minimum number of bytes in the file per gate output. A `MAND` has the shortest text: two
/// operands and one output wire per output, each with a digit and a blank.
const MIN_BYTES_PER_OUTPUT: u64 = 6;

/// The header of a circuit file, after all checks that do not need the gates.
pub(super) struct Header {
    pub(super) format: Format,
    pub(super) gates: u32,
    pub(super) wires: u32,
    pub(super) input_widths: Vec<u32>,
    pub(super) output_widths: Vec<u32>,
    pub(super) input_bits: u32,
    pub(super) output_bits: u32,
    /// The position in the file of the number of wires, for error messages.
    pub(super) wires_position: Position,
    /// The header line that ends in the output widths, for error messages.
    outputs_line: Line,
}

impl Header {
    /// Reads the header. The old format is recognized only by its first gate. If the file has that
    /// format and a gate, the gate's line is then in `line` and the returned flag is `true`.
    pub(super) fn read<R: Read>(
        scanner: &mut Scanner<R>,
        length: u64,
        limits: &ParseLimits,
        line: &mut Line,
    ) -> Result<(Self, bool), BristolError> {
        scanner.skip_comments()?;
        let totals = numbers_line(scanner, "the number of gates")?;
        let [gates, wires] = totals.numbers[..] else {
            return Err(match totals.numbers.len() {
                1 => totals.unexpected(1, "the number of wires"),
                _ => totals.unexpected(2, "the end of the line"),
            });
        };
        let inputs = numbers_line(scanner, "the widths of the inputs")?;
        let more = scanner.read_line(line)?;
        let mut header = Self {
            format: Format::Fashion,
            gates: gates.value,
            wires: wires.value,
            input_widths: Vec::new(),
            output_widths: Vec::new(),
            input_bits: 0,
            output_bits: 0,
            wires_position: Position {
                line: totals.line,
                column: wires.column.into(),
            },
            outputs_line: Line::default(),
        };
        let old = if more {
            line.word().is_some()
        } else {
            header.gates == 0 && inputs.numbers.len() == 3
        };
        let first_input;
        if old {
            header.format = Format::Old;
            if inputs.numbers.len() != 3 {
                let index = inputs.numbers.len().min(3);
                return Err(inputs.unexpected(index, "the bits of two inputs and one output"));
            }
            first_input = 0;
            header.input_widths = widths(&inputs.numbers[..2]);
            header.output_widths = widths(&inputs.numbers[2..]);
        } else if more {
            first_input = 1;
            header.input_widths = announced_widths(&inputs, "input")?;
            header.output_widths = announced_widths(line, "output")?;
        } else {
            let (expected, found) = ("the widths of the outputs or a gate", Found::EndOfFile);
            return Err(scanner.error(Problem::Unexpected { expected, found }));
        }
        header.check_inputs(&inputs, first_input, limits)?;
        header.check_wires(length)?;
        header.outputs_line = if old { inputs } else { std::mem::take(line) };
        header.check_outputs()?;
        if old {
            // The old format writes a width of 0 for a party that has no input.
            header.input_widths.retain(|&width| width > 0);
            header.output_widths.retain(|&width| width > 0);
        }
        Ok((header, old && more))
    }

    /// Returns an error whose position is the width of the output value that contains output bit
    /// `bit`.
    pub(super) fn output_error(&self, bit: u64, problem: Problem) -> BristolError {
        let mut end = 0;
        let value = self.output_widths.iter().position(|&width| {
            end += u64::from(width);
            bit < end
        });
        let first = self.outputs_line.numbers.len() - self.output_widths.len();
        let index = first + value.unwrap_or(0);
        self.outputs_line.error_at_number(index, problem)
    }

    fn check_inputs(
        &mut self,
        line: &Line,
        first: usize,
        limits: &ParseLimits,
    ) -> Result<(), BristolError> {
        let mut found = 0;
        for (index, &width) in (first..).zip(&self.input_widths) {
            found += u64::from(width);
            if found > limits.input_bits.into() {
                let limit = limits.input_bits;
                return Err(line.error_at_number(index, Problem::TooManyInputs { found, limit }));
            }
        }
        self.input_bits = found as u32;
        Ok(())
    }

    fn check_wires(&self, length: u64) -> Result<(), BristolError> {
        // The smallest valid number of wires, because every gate has at least one output.
        let expected = u64::from(self.input_bits) + u64::from(self.gates);
        let problem = if self.wires >= 1 << 31 {
            Problem::TooManyWires { found: self.wires }
        } else if u64::from(self.wires) < expected {
            Problem::WireCount {
                expected,
                found: self.wires,
            }
        } else if u64::from(self.wires - self.input_bits) > length / MIN_BYTES_PER_OUTPUT {
            Problem::FileTooShort {
                outputs: self.wires - self.input_bits,
                bytes: length,
            }
        } else {
            return Ok(());
        };
        Err(BristolError::Invalid {
            position: self.wires_position,
            problem,
        })
    }

    fn check_outputs(&mut self) -> Result<(), BristolError> {
        let mut found = 0;
        for &width in &self.output_widths {
            found += u64::from(width);
            if found > self.wires.into() {
                let wires = self.wires;
                return Err(self.output_error(found - 1, Problem::TooManyOutputs { found, wires }));
            }
        }
        self.output_bits = found as u32;
        Ok(())
    }
}

/// Reads a line that has only numbers. If the file has ended, the error names `expected` as the
/// missing text.
fn numbers_line<R: Read>(
    scanner: &mut Scanner<R>,
    expected: &'static str,
) -> Result<Line, BristolError> {
    let mut line = Line::default();
    if !scanner.read_line(&mut line)? {
        let found = Found::EndOfFile;
        return Err(scanner.error(Problem::Unexpected { expected, found }));
    }
    if line.word().is_some() {
        return Err(line.unexpected(line.numbers.len(), "a number"));
    }
    Ok(line)
}

fn widths(numbers: &[Number]) -> Vec<u32> {
    numbers.iter().map(|number| number.value).collect()
}

/// Returns the widths on a header line of Bristol Fashion, whose first number is the number of
/// widths.
fn announced_widths(line: &Line, what: &'static str) -> Result<Vec<u32>, BristolError> {
    // `Line` is never blank, so a line without numbers starts with a word.
    let (count, rest) = match &line.numbers[..] {
        [count, rest @ ..] => (count.value, rest),
        [] => return Err(line.unexpected(0, "the number of values")),
    };
    if count as usize != rest.len() {
        let problem = Problem::ValueCount {
            what,
            expected: count,
            found: rest.len(),
        };
        return Err(line.error_at_number(0, problem));
    }
    Ok(widths(rest))
}
