//! Circuit files: Bristol Fashion and the older Bristol format.
//!
//! # Bristol Fashion
//!
//! ```text
//! <gates> <wires>
//! <number of input values> <bits of each>
//! <number of output values> <bits of each>
//! <inputs> <outputs> <input wires> <output wires> <operation>      one line per gate
//! ```
//!
//! The operations are:
//!
//! - `XOR` and `AND` (`2 1 a b o`);
//! - `INV` or `NOT` (`1 1 a o`);
//! - `EQ` (`1 1 c o`): the constant `c`, which is the literal 0 or 1;
//! - `EQW` (`1 1 a o`): a copy;
//! - `MAND` (`2m m`, then `m` left operands, `m` right operands and `m` outputs).
//!
//! The input values are the first wires and the output values are the last wires. Gates are in
//! topological order; the other wires may have any numbers.
//!
//! # The old Bristol format
//!
//! The second line is `<n1> <n2> <n3>`: the number of bits of the first party's input, of the
//! second party's input and of the output. There is no third line. Gates are `XOR`, `AND` and `INV`
//! (or `NOT`). The reader drops values of 0 bits, so the numbers of input values count only values
//! that have bits.
//!
//! # Syntax
//!
//! The reader detects the format from the third line that is not blank. In the old format, this
//! line is a gate, which ends in the name of an operation. In Bristol Fashion, it has only numbers.
//! Lines end in LF or CRLF, or at the end of the file. Words are separated by any number of spaces
//! and tabs. Blank lines may be anywhere. Comment lines start with `//` and may only precede the
//! header. The reader rejects all other text with the [`Position`] and the [`Problem`].
//!
//! # Limits on memory
//!
//! A file is not trusted. The reader uses one buffer and never holds the whole file. Memory is
//! bounded by three limits: the length of the file, [`ParseLimits::input_bits`], and
//! [`MAX_NUMBERS_PER_LINE`]. A header that declares more gates than the file can contain is
//! rejected before any allocation for them.

mod error;
mod header;
mod read;
mod scan;
mod text;
mod write;

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

pub use error::{BristolError, Found, Position, Problem, WriteError};
pub use write::WriteOptions;

use crate::Circuit;

/// Maximum count of numbers on one line: 2^22, enough for a `MAND` of 1.4 million gates.
pub const MAX_NUMBERS_PER_LINE: usize = 1 << 22;

/// Maximum number of bytes read from a file that is not regular, such as a pipe: 1 GiB.
///
/// The length of a pipe is not known in advance, so it is read into memory as a whole.
pub const MAX_PIPE_BYTES: u64 = 1 << 30;

/// A format of circuit files.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Format {
    /// Bristol Fashion.
    Fashion,
    /// The old Bristol format.
    Old,
}

/// Limits on sizes that even a short circuit file can declare.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParseLimits {
    /// Maximum number of input bits of the circuit; 2^24 by default.
    ///
    /// Input wires need no text, so a short header can declare any number of them. A session stores
    /// a label of 16 bytes for each input bit. At the default limit, these take 256 MiB per party.
    pub input_bits: u32,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self {
            input_bits: 1 << 24,
        }
    }
}

/// A circuit and the format of the file that it was read from.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Parsed {
    /// The circuit.
    pub circuit: Circuit,
    /// The format detected.
    pub format: Format,
}

/// Reads a circuit file of at most `length` bytes.
///
/// Gates keep the order of the file, and each gate's output gets the next wire number. A `MAND`
/// becomes one `AND` gate per output. `length` bounds the memory allocated before the gates are
/// read, so pass the exact length. `source` is read to its end and need not be buffered.
///
/// # Errors
/// Returns [`BristolError`] if `source` cannot be read or is not a circuit file within `limits`.
pub fn read(source: impl Read, length: u64, limits: &ParseLimits) -> Result<Parsed, BristolError> {
    read::read(source, length, limits)
}

/// Reads a circuit file; see [`read()`].
///
/// # Errors
/// Returns [`BristolError`]. If `path` is not a regular file and yields more than
/// [`MAX_PIPE_BYTES`], this is an I/O error.
pub fn open(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<Parsed, BristolError> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return read(file, metadata.len(), limits);
    }
    let bytes = contents(file)?;
    read(bytes.as_slice(), bytes.len() as u64, limits)
}

/// Reads a whole circuit file into memory, for callers that need its bytes as well as the circuit.
///
/// # Errors
/// The error of the system; also [`io::ErrorKind::FileTooLarge`] if `file` is not a regular file
/// and yields more than [`MAX_PIPE_BYTES`].
pub fn contents(file: File) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    let limit = if metadata.is_file() {
        metadata.len()
    } else {
        MAX_PIPE_BYTES
    };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

impl Circuit {
    /// Reads a circuit file in either format of [`bristol`](crate::bristol), with default
    /// [`ParseLimits`].
    ///
    /// # Errors
    /// Returns [`BristolError`] if the file cannot be read or is not a circuit file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BristolError> {
        Ok(open(path, &ParseLimits::default())?.circuit)
    }

    /// Reads the content of a circuit file; see [`Circuit::open`].
    ///
    /// # Errors
    /// Returns [`BristolError`] if the content is not a circuit file.
    ///
    /// # Examples
    /// ```
    /// use transpute_circuit::{Bits, Circuit};
    /// let and = Circuit::parse(b"1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n")?;
    /// assert_eq!(and.evaluate(&Bits::from_u128(0b11, 2))?.to_string(), "1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Self, BristolError> {
        Self::read(bytes, bytes.len() as u64)
    }

    /// Reads a circuit file of at most `length` bytes with default [`ParseLimits`]; see
    /// [`bristol::read`](read()).
    ///
    /// # Errors
    /// Returns [`BristolError`] if `source` cannot be read or is not a circuit file.
    pub fn read(source: impl Read, length: u64) -> Result<Self, BristolError> {
        Ok(read(source, length, &ParseLimits::default())?.circuit)
    }

    /// Writes a circuit file. The wires are renumbered so that the outputs are the last ones.
    ///
    /// A copying gate is added for an output that is also an input, or that is the same wire as an
    /// earlier output. The old format has neither copies nor constants. There, a copy becomes two
    /// inversions, 0 becomes the XOR of a wire with itself, and 1 the inversion of that.
    ///
    /// # Errors
    /// Returns [`WriteError`] if `out` cannot be written to, or if the format cannot represent the
    /// circuit: the old format has at most two input values and one output value.
    pub fn write(
        &self,
        out: impl Write,
        format: Format,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        write::write(self, out, format, options)
    }
}

#[cfg(test)]
mod tests;
