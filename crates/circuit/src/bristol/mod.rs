//! Circuit files: Bristol Fashion and the older Bristol format.
//!
//! # Bristol Fashion
//!
//! ```text
//! <gates> <wires>
//! <number of input values> <width of each value, in bits>
//! <number of output values> <width of each value, in bits>
//! <inputs> <outputs> <input wires> <output wires> <operation>      one line per gate
//! ```
//!
//! The operations are, with the numbers on their lines:
//!
//! - `XOR` and `AND` (`2 1 a b o`): wire `o` is the XOR or AND of the wires `a` and `b`.
//! - `INV` or `NOT` (`1 1 a o`): wire `o` is the inversion of wire `a`.
//! - `EQ` (`1 1 c o`): wire `o` is the constant `c`, which is the literal 0 or 1.
//! - `EQW` (`1 1 a o`): wire `o` is a copy of wire `a`.
//! - `MAND` (`2m m`, then `m` left operands, `m` right operands and `m` outputs): `m` AND gates.
//!
//! The input values are the first wires and the output values are the last wires. All other wires
//! may have any numbers. Gates are in topological order.
//!
//! # The old Bristol format
//!
//! The second line is `<n1> <n2> <n3>`: the number of bits of the first party's input, of the
//! second party's input and of the output. There is no third line. Gates are `XOR`, `AND` and `INV`
//! (or `NOT`). The reader drops input and output values of 0 bits, so input value 0 of the circuit
//! is the second party's input if the first party has none.
//!
//! # Syntax
//!
//! The reader detects the format from the third line that is not blank. In the old format, this
//! line is a gate, which ends in the name of an operation. In Bristol Fashion, it has only numbers.
//! Lines end in LF or CRLF, or at the end of the file. Words are separated by any number of spaces
//! and tabs. Blank lines may be anywhere. Comment lines start with `//` and may only precede the
//! header. The reader rejects all other text with an error that contains a [`Position`] and a
//! [`Problem`].
//!
//! # Limits on memory
//!
//! A file is not trusted. The reader never holds the whole text of a file in memory. Three limits
//! bound the memory that it allocates: the length of the file, [`ParseLimits::input_bits`], and
//! [`MAX_NUMBERS_PER_LINE`]. The reader rejects a header that declares more gates than the file can
//! contain, before it allocates memory for them.

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

/// Maximum count of numbers on a line of a circuit file: 2^22. A `MAND` can therefore have at most
/// 1.4 million gates.
pub const MAX_NUMBERS_PER_LINE: usize = 1 << 22;

/// Maximum length of a circuit file that is not a regular file, such as a pipe: 1 GiB.
///
/// The length of a pipe is not known in advance, so all of its bytes are read into memory.
pub const MAX_PIPE_BYTES: u64 = 1 << 30;

/// A format of circuit files.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Format {
    /// Bristol Fashion.
    Fashion,
    /// The old Bristol format.
    Old,
}

/// Limits on the sizes that a circuit file declares, for sizes that the file's length does not
/// bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParseLimits {
    /// Maximum number of input bits of the circuit. The default is 2^24.
    ///
    /// Input wires need no text, so a short header can declare any number of them. A session stores
    /// a label of 16 bytes for each input bit, which is 256 MiB per party at the default limit.
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
    /// The circuit that the file describes.
    pub circuit: Circuit,
    /// The format of the file, which the reader detected.
    pub format: Format,
}

/// Reads a circuit file of at most `length` bytes.
///
/// Gates keep the order of the file, and each gate's output gets the next wire number. A `MAND`
/// becomes one `AND` gate per output. `length` limits the number of gates that a header may
/// declare, so pass the exact length. `source` is read to its end and need not be buffered.
///
/// # Errors
/// Returns [`BristolError`] if `source` cannot be read or is not a circuit file within `limits`.
pub fn read(source: impl Read, length: u64, limits: &ParseLimits) -> Result<Parsed, BristolError> {
    read::read(source, length, limits)
}

/// Reads a circuit file; see [`read()`].
///
/// # Errors
/// Returns [`BristolError`] if the file cannot be read or is not a circuit file within `limits`. A
/// file that is not regular and has more than [`MAX_PIPE_BYTES`] bytes causes
/// [`BristolError::Io`].
pub fn open(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<Parsed, BristolError> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return read(file, metadata.len(), limits);
    }
    let bytes = contents(file)?;
    read(bytes.as_slice(), bytes.len() as u64, limits)
}

/// Reads the bytes of a circuit file into memory, for callers that need them in addition to the
/// circuit.
///
/// # Errors
/// Returns the I/O error of reading, or [`io::ErrorKind::FileTooLarge`] if the file grows meanwhile
/// or is not regular and has more than [`MAX_PIPE_BYTES`] bytes.
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

    /// Reads a circuit from the bytes of a circuit file, as [`Circuit::open`] does.
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

    /// Writes a circuit file. The wires get new numbers, so that the outputs are the last wires.
    ///
    /// The file gets an additional copy gate for each output that is also an input, or that is the
    /// same wire as an earlier output. The old format has neither copies nor constants. There, a
    /// copy becomes two inversions, the constant 0 the XOR of input bit 0 with itself, and the
    /// constant 1 the inversion of such an XOR.
    ///
    /// # Errors
    /// Returns [`WriteError`] if `out` cannot be written to, or if the format cannot represent the
    /// circuit. For example, the old format has at most two input values and one output value.
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
