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
//! The operations are `XOR` and `AND` (`2 1 a b o`), `INV` or `NOT` (`1 1 a o`), `EQ` (`1 1 c o`:
//! the literal `c`, 0 or 1, is the constant), `EQW` (`1 1 a o`: a copy) and `MAND` (`2m m` and `m`
//! left operands, `m` right operands, `m` outputs). The input values are the first wires and the
//! output values the last ones; gates come in topological order, but the wires between may be
//! numbered at will.
//!
//! # Bristol, the old format
//!
//! The second line is `<n1> <n2> <n3>`, the bits of the first party, the second party and the
//! output; there is no third. Gates are `XOR`, `AND` and `INV` (or `NOT`). A value of 0 bits is
//! dropped, so that input value numbers count values that have bits.
//!
//! # What is read
//!
//! The two formats are told apart by the third line that is not blank: a gate, which ends in an
//! operation, or numbers only. Lines end in LF or CRLF, or with the file. Blanks are spaces and
//! tabs, as many as there are, before, between and after words; blank lines may be anywhere, and
//! lines that start with `//` before the header. Everything else is refused, at its
//! [`Position`]: see [`Problem`].
//!
//! # Bounds
//!
//! A file is not trusted. It is read through one buffer and never held as a whole. Memory is
//! bounded by its length (a header that promises more gates than the bytes of the file can say is
//! refused before anything is allocated for them), by [`Limits::input_bits`], and by
//! [`MAX_NUMBERS_PER_LINE`].

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

/// The most numbers on one line: 2^22, for a `MAND` of 1.4 million gates.
pub const MAX_NUMBERS_PER_LINE: usize = 1 << 22;

/// The most bytes that are read from what is no regular file, such as a pipe: 1 GiB.
///
/// The length of a pipe is not known beforehand, so it is read as a whole.
pub const MAX_PIPE_BYTES: u64 = 1 << 30;

/// A format of circuit files.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Format {
    /// Bristol Fashion.
    Fashion,
    /// The old Bristol format.
    Old,
}

/// What a circuit file may ask for beyond what its own length bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The most input bits in all; 2^24 unless set.
    ///
    /// Input wires cost no text, so a few bytes can declare any number of them, while a session
    /// spends 16 bytes per party on the label of each: 256 MiB at the default.
    pub input_bits: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            input_bits: 1 << 24,
        }
    }
}

/// A circuit and the format of the file it comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Parsed {
    /// The circuit.
    pub circuit: Circuit,
    /// The format that was found.
    pub format: Format,
}

/// Reads a circuit file of at most `length` bytes.
///
/// Gates keep the order of the file and get the wires that the order says; a `MAND` becomes as
/// many `AND` gates. `length` bounds what is allocated before the gates are seen, so pass what is
/// there and not more; `source` is read through a buffer of its own, to its end.
///
/// # Errors
/// [`BristolError`] where `source` cannot be read or is no circuit file within `limits`.
pub fn read(source: impl Read, length: u64, limits: &Limits) -> Result<Parsed, BristolError> {
    read::read(source, length, limits)
}

/// Reads a circuit file; see [`read()`].
///
/// # Errors
/// [`BristolError`]; an I/O error too where `path` is no regular file and yields more than
/// [`MAX_PIPE_BYTES`].
pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Parsed, BristolError> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return read(file, metadata.len(), limits);
    }
    let bytes = contents(file)?;
    read(bytes.as_slice(), bytes.len() as u64, limits)
}

/// Reads the whole of a circuit file, for those who need its bytes besides the circuit.
///
/// # Errors
/// That of the system; also where `file` is no regular file and yields more than [`MAX_PIPE_BYTES`].
pub fn contents(file: File) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    let most = if metadata.is_file() {
        metadata.len()
    } else {
        MAX_PIPE_BYTES
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

impl Circuit {
    /// Reads a circuit file in either format of [`bristol`](crate::bristol), with default
    /// [`Limits`].
    ///
    /// # Errors
    /// [`BristolError`] where the file cannot be read or is no circuit file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BristolError> {
        Ok(open(path, &Limits::default())?.circuit)
    }

    /// Reads the content of a circuit file; see [`Circuit::open`].
    ///
    /// # Errors
    /// [`BristolError`] where the content is no circuit file.
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

    /// Reads a circuit file of at most `length` bytes with default [`Limits`]; see
    /// [`bristol::read`](read()).
    ///
    /// # Errors
    /// [`BristolError`] where `source` cannot be read or is no circuit file.
    pub fn read(source: impl Read, length: u64) -> Result<Self, BristolError> {
        Ok(read(source, length, &Limits::default())?.circuit)
    }

    /// Writes a circuit file. The wires are renumbered so that the outputs are the last ones.
    ///
    /// An output that is an input, or the same wire as an earlier output, gets a copying gate.
    /// The old format has neither copies nor constants: a copy becomes two inversions, 0 the XOR
    /// of a wire with itself, and 1 its inversion.
    ///
    /// # Errors
    /// [`WriteError`] where `out` cannot be written to or the format cannot say what the circuit
    /// is: the old one has at most two input values and one output value.
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
