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
        /// The position in the file at which the problem was found.
        position: Position,
        /// The reason why the text at this position is not valid.
        problem: Problem,
    },
}

/// A position in a circuit file.
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
    /// The text at the position is not the token that the format requires there.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// The description of the token that the format requires.
        expected: &'static str,
        /// The token or byte in the file.
        found: Found,
    },
    /// A number exceeds 2^31.
    #[error("numbers are at most 2^31")]
    NumberTooLarge,
    /// A line has more than [`MAX_NUMBERS_PER_LINE`] numbers.
    #[error("a line has at most {MAX_NUMBERS_PER_LINE} numbers")]
    LineTooLong,
    /// A header line begins with a number of input or output values, but a different number of
    /// widths follows on the line.
    #[error("{expected} {what} values are announced, but {found} widths follow")]
    ValueCount {
        /// The kind of the values: `input` or `output`.
        what: &'static str,
        /// The number of values at the beginning of the line.
        expected: u32,
        /// The number of widths on the rest of the line.
        found: usize,
    },
    /// The input widths add up to more than
    /// [`ParseLimits::input_bits`](super::ParseLimits::input_bits).
    #[error("the circuit has at least {found} input bits, the limit is {limit}")]
    TooManyInputs {
        /// Sum of the input widths up to the one that exceeds the limit, in bits.
        found: u64,
        /// The largest number of input bits that the reader accepts.
        limit: u32,
    },
    /// The header declares 2^31 wires or more.
    #[error("a circuit has at most 2^31 - 1 wires, not {found}")]
    TooManyWires {
        /// The number of wires in the header.
        found: u32,
    },
    /// The header's number of wires differs from the number of input bits plus gate outputs.
    #[error("the header has {found} wires, but the inputs and gates make {expected}")]
    WireCount {
        /// Number of input bits and gate outputs counted so far.
        expected: u64,
        /// The number of wires in the header.
        found: u32,
    },
    /// The file is too short to define all wires that the header declares.
    #[error("the header has {outputs} gate outputs, too many for a file of {bytes} bytes")]
    FileTooShort {
        /// The header's number of wires, less the number of input bits.
        outputs: u32,
        /// Length of the file, in bytes.
        bytes: u64,
    },
    /// The output widths add up to more than the number of wires.
    #[error("there are at least {found} output bits, but {wires} wires")]
    TooManyOutputs {
        /// Sum of the output widths up to the one that exceeds the number of wires, in bits.
        found: u64,
        /// The number of wires in the header.
        wires: u32,
    },
    /// The format has no operation of this name.
    #[error("{format:?} format has no operation {found:?}")]
    UnknownOperation {
        /// The name of the operation in the file.
        found: String,
        /// The format of the file.
        format: Format,
    },
    /// The numbers of inputs and outputs on a gate's line do not match its operation.
    #[error(
        "{operation} has {} inputs and {} outputs, not {} and {}",
        expected[0], expected[1], found[0], found[1]
    )]
    Arity {
        /// Name of the operation.
        operation: String,
        /// The numbers of inputs and outputs that the operation has. For `MAND`, which has no fixed
        /// numbers, the number of inputs is twice the number of outputs in the file.
        expected: [u32; 2],
        /// The numbers of inputs and outputs in the file.
        found: [u32; 2],
    },
    /// A gate's line does not list as many wires as its numbers of inputs and outputs require.
    #[error("the gate announces {expected} wires, but has {found}")]
    OperandCount {
        /// The sum of the line's numbers of inputs and outputs.
        expected: u64,
        /// The number of wires that the line lists.
        found: usize,
    },
    /// The operand of `EQ` is not 0 or 1.
    #[error("the constant of EQ is 0 or 1, not {found}")]
    BadConstant {
        /// The operand of `EQ` in the file.
        found: u32,
    },
    /// A wire number is not below the number of wires.
    #[error("wire {wire} does not exist, there are {wires}")]
    WireRange {
        /// The wire number in the file.
        wire: u32,
        /// The number of wires in the header.
        wires: u32,
    },
    /// A wire is read before a gate defines it.
    #[error("wire {wire} is read before it is defined")]
    UndefinedWire {
        /// The number of the wire that is read.
        wire: u32,
    },
    /// Two gates define the same wire, or a gate defines an input wire.
    #[error("wire {wire} is defined already")]
    RedefinedWire {
        /// The number of the wire that is already defined.
        wire: u32,
    },
    /// No gate defines an output wire that is not an input wire.
    #[error("no gate defines the output wire {wire}")]
    UndefinedOutput {
        /// The number of the output wire.
        wire: u32,
    },
    /// The file ends before the last of the gates that the header declares.
    #[error("the header has {expected} gates, but the file ends after {found}")]
    MissingGates {
        /// The number of gates in the header.
        expected: u32,
        /// The number of gates in the file.
        found: u32,
    },
    /// Text follows the last gate.
    #[error("the header has {gates} gates, but more text follows them")]
    TrailingText {
        /// The number of gates in the header.
        gates: u32,
    },
}

/// The token or byte that the file has in place of a required token.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Found {
    /// The end of the file.
    EndOfFile,
    /// The end of the line.
    EndOfLine,
    /// A number.
    Number(u32),
    /// The first 16 bytes of a word.
    Word(String),
    /// A byte that is not part of a number or word.
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
    /// The circuit has more than two input values or more than one output value, which the old
    /// format cannot represent.
    #[error("old format has at most {limit} {what} values, the circuit has {found}")]
    TooManyValues {
        /// The kind of the values: `input` or `output`.
        what: &'static str,
        /// The largest number of such values in the old format.
        limit: usize,
        /// The number of such values in the circuit.
        found: usize,
    },
    /// The circuit has a constant but no input bit. In the old format, the constant 0 is the XOR of
    /// an input bit with itself, and 1 is the inversion of 0.
    #[error("old format has no constants, and no input bit to make one from")]
    Constant,
    /// The file would have 2^31 wires or more.
    #[error("a file has at most 2^31 - 1 wires, the circuit needs {found}")]
    TooManyWires {
        /// The number of wires that the file would have.
        found: u64,
    },
}
