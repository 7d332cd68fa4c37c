//! Errors of reading and writing circuit files.

use std::{fmt, io};

use thiserror::Error;

use super::{Format, MAX_NUMBERS_PER_LINE};

/// The reason why a circuit file cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BristolError {
    /// The file cannot be read.
    #[error("cannot read the circuit file")]
    Io(#[from] io::Error),
    /// The content is not a valid circuit.
    #[error("{position}: {problem}")]
    Invalid {
        /// The place of the error.
        position: Position,
        /// The error at that place.
        problem: Problem,
    },
}

/// A place in a text.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Position {
    /// Line, counted from 1.
    pub line: u64,
    /// Column, counted in bytes from 1.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The reason why the content of a file is not a valid circuit.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The text at this position is not the expected token.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// The expected token.
        expected: &'static str,
        /// The token or byte found.
        found: Found,
    },
    /// A number exceeds 2^31.
    #[error("numbers are at most 2^31")]
    NumberTooLarge,
    /// A line has more than [`MAX_NUMBERS_PER_LINE`] numbers.
    #[error("a line has at most {MAX_NUMBERS_PER_LINE} numbers")]
    LineTooLong,
    /// The number of values differs from the number of widths that follow it.
    #[error("{expected} {what} values are announced, but {found} widths follow")]
    ValueCount {
        /// `input` or `output`.
        what: &'static str,
        /// The number of values in the file.
        expected: u32,
        /// The number of widths after it.
        found: usize,
    },
    /// The input widths add up to more than
    /// [`ParseLimits::input_bits`](super::ParseLimits::input_bits).
    #[error("the circuit has at least {found} input bits, the limit is {limit}")]
    TooManyInputs {
        /// Sum of the input widths read so far.
        found: u64,
        /// The limit on input bits.
        limit: u32,
    },
    /// The header has 2^31 wires or more.
    #[error("a circuit has at most 2^31 - 1 wires, not {found}")]
    TooManyWires {
        /// The number of wires in the header.
        found: u32,
    },
    /// The header's number of wires differs from the sum of input bits and gate outputs.
    #[error("the header has {found} wires, but the inputs and gates make {expected}")]
    WireCount {
        /// Number of input bits and gate outputs counted so far.
        expected: u64,
        /// The number of wires in the header.
        found: u32,
    },
    /// The file is too short for the number of wires in the header.
    #[error("the header has {outputs} gate outputs, too many for a file of {bytes} bytes")]
    FileTooShort {
        /// Number of wires in the header that are not inputs.
        outputs: u32,
        /// Length of the file, in bytes.
        bytes: u64,
    },
    /// The output widths add up to more than the number of wires.
    #[error("there are at least {found} output bits, but {wires} wires")]
    TooManyOutputs {
        /// Sum of the output widths read so far.
        found: u64,
        /// The number of wires.
        wires: u32,
    },
    /// The format has no operation of this name.
    #[error("{format:?} format has no operation {found:?}")]
    UnknownOperation {
        /// The name found.
        found: String,
        /// The format of the file.
        format: Format,
    },
    /// The numbers of inputs and outputs of a gate do not match its operation.
    #[error(
        "{operation} has {} inputs and {} outputs, not {} and {}",
        expected[0], expected[1], found[0], found[1]
    )]
    Arity {
        /// Name of the operation.
        operation: String,
        /// Numbers of inputs and outputs of the operation. For `MAND`, the inputs match the outputs
        /// found.
        expected: [u32; 2],
        /// Numbers of inputs and outputs found.
        found: [u32; 2],
    },
    /// The number of wires on a gate's line differs from its numbers of inputs and outputs.
    #[error("the gate announces {expected} wires, but has {found}")]
    OperandCount {
        /// The sum of the line's numbers of inputs and outputs.
        expected: u64,
        /// The number of wires on the line.
        found: usize,
    },
    /// The operand of `EQ` is not 0 or 1.
    #[error("the constant of EQ is 0 or 1, not {found}")]
    BadConstant {
        /// The number found.
        found: u32,
    },
    /// A wire number is not below the number of wires.
    #[error("wire {wire} does not exist, there are {wires}")]
    WireRange {
        /// The wire.
        wire: u32,
        /// The number of wires.
        wires: u32,
    },
    /// A wire is read before a gate defines it.
    #[error("wire {wire} is read before it is defined")]
    UndefinedWire {
        /// The wire.
        wire: u32,
    },
    /// A wire is defined twice, or a gate defines an input wire.
    #[error("wire {wire} is defined already")]
    RedefinedWire {
        /// The wire.
        wire: u32,
    },
    /// An output wire is not defined by any gate.
    #[error("no gate defines the output wire {wire}")]
    UndefinedOutput {
        /// The wire.
        wire: u32,
    },
    /// The file ends before the last of the gates that the header declares.
    #[error("the header has {expected} gates, but the file ends after {found}")]
    MissingGates {
        /// The number of gates in the header.
        expected: u32,
        /// The number of gates found.
        found: u32,
    },
    /// Text follows the last gate.
    #[error("the header has {gates} gates, but more text follows them")]
    TrailingText {
        /// The number of gates in the header.
        gates: u32,
    },
}

/// The token or byte found where another one was expected.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Found {
    /// The end of the file.
    EndOfFile,
    /// The end of the line.
    EndOfLine,
    /// A number.
    Number(u32),
    /// A word, cut after 16 bytes.
    Word(String),
    /// A byte that starts or continues no number and no word.
    Byte(u8),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndOfFile => f.write_str("the end of the file"),
            Self::EndOfLine => f.write_str("the end of the line"),
            Self::Number(number) => write!(f, "the number {number}"),
            Self::Word(word) => write!(f, "{word:?}"),
            Self::Byte(byte) => write!(f, "'{}'", byte.escape_ascii()),
        }
    }
}

/// The reason why a circuit cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file cannot be written.
    #[error("cannot write the circuit file")]
    Io(#[from] io::Error),
    /// The old format has no more than two input values and one output value.
    #[error("old format has at most {limit} {what} values, the circuit has {found}")]
    TooManyValues {
        /// `input` or `output`.
        what: &'static str,
        /// The maximum number of values in the format.
        limit: usize,
        /// The number of values of the circuit.
        found: usize,
    },
    /// The old format derives constants from an input bit, and the circuit has none.
    #[error("old format has no constants, and no input bit to make one from")]
    Constant,
    /// The file would have 2^31 wires or more.
    #[error("a file has at most 2^31 - 1 wires, the circuit needs {found}")]
    TooManyWires {
        /// The number of wires that the format needs.
        found: u64,
    },
}
