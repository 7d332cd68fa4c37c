//! Why a circuit file cannot be read or written.

use std::{fmt, io};

use thiserror::Error;

use super::{Format, MAX_NUMBERS_PER_LINE};

/// Why a circuit file cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BristolError {
    /// The file cannot be read.
    #[error("cannot read the circuit file")]
    Io(#[from] io::Error),
    /// The content is no circuit.
    #[error("{position}: {problem}")]
    Invalid {
        /// Where.
        position: Position,
        /// Why.
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

/// Why the content of a file is no circuit.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// Something else should be here.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What should be here.
        expected: &'static str,
        /// What is here.
        found: Found,
    },
    /// A number above 2^31.
    #[error("numbers are at most 2^31")]
    NumberTooLarge,
    /// A line with more than [`MAX_NUMBERS_PER_LINE`] numbers.
    #[error("a line has at most {MAX_NUMBERS_PER_LINE} numbers")]
    LineTooLong,
    /// The number of values and the list of their widths differ.
    #[error("{expected} {what} values are announced, but {found} widths follow")]
    ValueCount {
        /// `input` or `output`.
        what: &'static str,
        /// Values announced.
        expected: u32,
        /// Widths that follow.
        found: usize,
    },
    /// More input bits than [`Limits::input_bits`](super::Limits::input_bits).
    #[error("the circuit has at least {found} input bits, the limit is {limit}")]
    TooManyInputs {
        /// Sum of the widths up to here.
        found: u64,
        /// The limit.
        limit: u32,
    },
    /// More wires than a circuit can have.
    #[error("a circuit has at most 2^31 - 1 wires, not {found}")]
    TooManyWires {
        /// The number in the header.
        found: u32,
    },
    /// The header's number of wires is not that of the inputs and the outputs of the gates.
    #[error("the header has {found} wires, but the inputs and gates make {expected}")]
    WireCount {
        /// Input bits and gate outputs, as far as known.
        expected: u64,
        /// The number in the header.
        found: u32,
    },
    /// The file is too short for the wires of the header.
    #[error("the header has {outputs} gate outputs, too many for a file of {bytes} bytes")]
    FileTooShort {
        /// Wires of the header that are no inputs.
        outputs: u32,
        /// Length of the file.
        bytes: u64,
    },
    /// More output bits than wires.
    #[error("there are at least {found} output bits, but {wires} wires")]
    TooManyOutputs {
        /// Sum of the widths up to here.
        found: u64,
        /// The number of wires.
        wires: u32,
    },
    /// An operation that the format does not have.
    #[error("{format:?} format has no operation {found:?}")]
    UnknownOperation {
        /// The name.
        found: String,
        /// The format of the file.
        format: Format,
    },
    /// The numbers of inputs and outputs of a gate do not suit its operation.
    #[error(
        "{operation} has {} inputs and {} outputs, not {} and {}",
        expected[0], expected[1], found[0], found[1]
    )]
    Arity {
        /// Name of the operation.
        operation: String,
        /// Inputs and outputs it has; for `MAND` those that would suit the given outputs.
        expected: [u32; 2],
        /// Inputs and outputs given.
        found: [u32; 2],
    },
    /// A gate has more or fewer wires than it announces.
    #[error("the gate announces {expected} wires, but has {found}")]
    OperandCount {
        /// Inputs and outputs announced.
        expected: u64,
        /// Numbers that follow.
        found: usize,
    },
    /// The literal of `EQ` is not 0 or 1.
    #[error("the constant of EQ is 0 or 1, not {found}")]
    BadConstant {
        /// The number found.
        found: u32,
    },
    /// A wire that does not exist.
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
    /// A wire is defined twice, or is an input and defined by a gate.
    #[error("wire {wire} is defined already")]
    RedefinedWire {
        /// The wire.
        wire: u32,
    },
    /// No gate defines an output wire.
    #[error("no gate defines the output wire {wire}")]
    UndefinedOutput {
        /// The wire.
        wire: u32,
    },
    /// The file ends before the last gate.
    #[error("the header has {expected} gates, but the file ends after {found}")]
    MissingGates {
        /// Gates of the header.
        expected: u32,
        /// Gates found.
        found: u32,
    },
    /// Something follows the last gate.
    #[error("the header has {gates} gates, but more text follows them")]
    TrailingText {
        /// Gates of the header.
        gates: u32,
    },
}

/// What a text has where something else should be.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Found {
    /// The end of the file.
    EndOfFile,
    /// The end of the line.
    EndOfLine,
    /// A number.
    Number(u32),
    /// A word; its first 16 bytes.
    Word(String),
    /// A byte that begins or continues nothing.
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

/// Why a circuit cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file cannot be written.
    #[error("cannot write the circuit file")]
    Io(#[from] io::Error),
    /// The old format has no room for so many values.
    #[error("old format has at most {limit} {what} values, the circuit has {found}")]
    TooManyValues {
        /// `input` or `output`.
        what: &'static str,
        /// The most there may be.
        limit: usize,
        /// Values of the circuit.
        found: usize,
    },
    /// The old format makes constants from an input bit, and there is none.
    #[error("old format has no constants, and no input bit to make one from")]
    Constant,
    /// More wires than a file can number.
    #[error("a file has at most 2^31 - 1 wires, the circuit needs {found}")]
    TooManyWires {
        /// Wires that the format needs.
        found: u64,
    },
}
