//! Converts programs to bytes and back, so that a stored program need not be compiled again.
//!
//! The bytes are the encoding with its tag, followed by the digest (see `digest.rs`). Decoding
//! checks the digest and all invariants, and rejects trailing bytes, so it detects damage. It does
//! not detect a forgery: a forged file can contain any valid program.

use std::io::{self, Read};

use thiserror::Error;

use super::{
    Batch, BatchKind, Load, OutputBit, Program, ProgramError, ProgramGate,
    digest::{CONSTANT, Sink, TAG, batch_of},
    progress,
};

const DIGEST_BYTES: usize = 32;
pub(super) const GATE_BYTES: usize = 12;
const LOAD_BYTES: usize = 8;

/// The reason why bytes are not a valid program.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum LoadError {
    /// The bytes are not a compiled program, or another version of the encoding: they do not start
    /// with the tag of this version.
    #[error("these are not the bytes of a compiled program of this version")]
    Tag,
    /// The bytes end too early, or more bytes follow the program.
    #[error("a list of {expected} items does not fit in the remaining {left} bytes")]
    Length {
        /// The length of the list according to the bytes before it, or 0 if bytes follow the
        /// program.
        expected: u64,
        /// The number of bytes that remain for the list, or that follow the program.
        left: usize,
    },
    /// The decoded program violates an invariant of [`Program`], or its digest is wrong.
    #[error("the program is damaged: {0}")]
    Program(#[from] ProgramError),
}

impl Program {
    /// Encodes the program for [`from_bytes`](Self::from_bytes). The result has 12 bytes per gate,
    /// 8 per load, 4 per batch, per output bit and per value, and 76 more.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = self.input_widths.len()
            + self.output_widths.len()
            + self.batches.len()
            + 2 * self.loads.len()
            + self.outputs.len()
            + 6;
        let mut bytes = Vec::with_capacity(
            TAG.len() + 4 * words + GATE_BYTES * self.gates.len() + DIGEST_BYTES,
        );
        bytes.extend_from_slice(TAG);
        self.encode(&mut bytes);
        bytes.extend_from_slice(&self.digest);
        bytes
    }

    /// Decodes the bytes of [`to_bytes`](Self::to_bytes) and checks the program as
    /// [`check`](Self::check) does.
    ///
    /// # Errors
    /// Returns [`LoadError`] if the bytes are not a valid program.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        // Reading from a slice never fails with an I/O error.
        Self::read(bytes, bytes.len() as u64).unwrap_or(Err(LoadError::Tag))
    }

    /// Does the same as [`from_bytes`](Self::from_bytes) with `length` bytes of a reader, without
    /// holding all of them in memory.
    ///
    /// # Errors
    /// The outer error is an error of the reader, which includes an end before `length` bytes. The
    /// inner error is a [`LoadError`] if the bytes are not a valid program.
    pub(crate) fn read(reader: impl Read, length: u64) -> io::Result<Result<Self, LoadError>> {
        match read(reader, length) {
            Ok(program) => Ok(Ok(program)),
            Err(Failure::Content(error)) => Ok(Err(error)),
            Err(Failure::Reader(error)) => Err(error),
        }
    }
}

impl Sink for Vec<u8> {
    fn word(&mut self, word: u32) {
        self.extend_from_slice(&word.to_le_bytes());
    }

    fn gates(&mut self, gates: &[ProgramGate]) {
        let start = self.len();
        self.resize(start + GATE_BYTES * gates.len(), 0);
        for (bytes, gate) in self[start..]
            .as_chunks_mut::<GATE_BYTES>()
            .0
            .iter_mut()
            .zip(gates)
        {
            bytes[..4].copy_from_slice(&gate.a.to_le_bytes());
            bytes[4..8].copy_from_slice(&gate.b.to_le_bytes());
            bytes[8..].copy_from_slice(&gate.out.to_le_bytes());
        }
    }
}

/// The reason why reading a program failed.
enum Failure {
    Reader(io::Error),
    Content(LoadError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Reader(error)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::Content(error)
    }
}

impl From<ProgramError> for Failure {
    fn from(error: ProgramError) -> Self {
        Self::Content(error.into())
    }
}

/// Maximum number of bytes that are read, hashed and decoded together. So few bytes stay in the CPU
/// caches between the three steps. A power of two lets BLAKE3 use all SIMD lanes.
const CHUNK_BYTES: u64 = 1 << 20;

/// A reader of an encoding that hashes all bytes it reads. `left` is the number of bytes before
/// the digest that are not yet read.
struct Source<R> {
    reader: R,
    hasher: blake3::Hasher,
    left: u64,
    chunk: Vec<u8>,
}

impl<R: Read> Source<R> {
    /// Reads and hashes the next `length` bytes. `length` must not exceed [`CHUNK_BYTES`] or the
    /// number of bytes left.
    fn bytes(&mut self, length: usize) -> io::Result<&[u8]> {
        let bytes = &mut self.chunk[..length];
        self.reader.read_exact(bytes)?;
        self.hasher.update(bytes);
        self.left -= length as u64;
        Ok(bytes)
    }

    /// Reads `count` items of `N` bytes. If fewer bytes are left, it fails before it allocates
    /// memory.
    fn list<const N: usize, T>(
        &mut self,
        count: u64,
        item: impl Fn(&[u8; N]) -> T,
    ) -> Result<Vec<T>, Failure> {
        let length = count.checked_mul(N as u64);
        let wrong = LoadError::Length {
            expected: count,
            left: self.left.try_into().unwrap_or(usize::MAX),
        };
        let mut length = length.filter(|length| *length <= self.left).ok_or(wrong)?;
        let mut items = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        while length > 0 {
            let chunk = length.min(CHUNK_BYTES - CHUNK_BYTES % N as u64);
            length -= chunk;
            items.extend(self.bytes(chunk as usize)?.as_chunks().0.iter().map(&item));
        }
        Ok(items)
    }

    fn words(&mut self, count: u64) -> Result<Vec<u32>, Failure> {
        self.list(count, |word| u32::from_le_bytes(*word))
    }

    fn word(&mut self) -> Result<u32, Failure> {
        Ok(self.words(1)?[0])
    }

    fn counted_words(&mut self) -> Result<Vec<u32>, Failure> {
        let count = self.word()?;
        self.words(count.into())
    }
}

fn read(reader: impl Read, length: u64) -> Result<Program, Failure> {
    let left = length
        .checked_sub(DIGEST_BYTES as u64)
        .ok_or(LoadError::Tag)?;
    let mut source = Source {
        reader,
        hasher: blake3::Hasher::new(),
        left,
        chunk: vec![0; left.min(CHUNK_BYTES) as usize],
    };
    if left < TAG.len() as u64 || source.bytes(TAG.len())? != TAG {
        return Err(LoadError::Tag.into());
    }
    let mut program = decode(&mut source)?;
    source.reader.read_exact(&mut program.digest)?;
    program.check_with(source.hasher.finalize().into())?;
    Ok(program)
}

/// Decodes a program without its digest, from the bytes after the tag.
fn decode(source: &mut Source<impl Read>) -> Result<Program, Failure> {
    let input_widths = source.counted_words()?;
    let output_widths = source.counted_words()?;
    let slot_count = source.word()?;
    let batches: Option<Vec<Batch>> = source.counted_words()?.into_iter().map(batch_of).collect();
    let batches = batches.ok_or(ProgramError::UnknownKind)?;
    let loads = source.word()?;
    let loads = source.list(loads.into(), |load: &[u8; LOAD_BYTES]| {
        let words = load.as_chunks().0;
        Load {
            input: u32::from_le_bytes(words[0]),
            slot: u32::from_le_bytes(words[1]),
        }
    })?;
    let gates = source.word()?;
    // The three words of a gate are not decoded in a loop: the loop took as long as the check of
    // all slots.
    let gates = source.list(gates.into(), |gate: &[u8; GATE_BYTES]| {
        let words = gate.as_chunks().0;
        ProgramGate {
            a: u32::from_le_bytes(words[0]),
            b: u32::from_le_bytes(words[1]),
            out: u32::from_le_bytes(words[2]),
        }
    })?;
    let outputs = output_widths.iter().map(|&width| u64::from(width)).sum();
    let outputs = (source.words(outputs)?.into_iter())
        .map(|word| match word.checked_sub(CONSTANT) {
            Some(bit) => OutputBit::Constant(bit == 1),
            None => OutputBit::Slot {
                slot: word >> 1,
                invert: word & 1 == 1,
            },
        })
        .collect();
    if source.left != 0 {
        return Err(LoadError::Length {
            expected: 0,
            left: source.left.try_into().unwrap_or(usize::MAX),
        }
        .into());
    }
    let count = |kind| {
        (batches.iter().filter(|batch| batch.kind == kind))
            .map(|batch| u64::from(batch.len))
            .sum()
    };
    Ok(Program {
        and_count: count(BatchKind::And),
        xor_count: count(BatchKind::Xor),
        input_widths,
        output_widths,
        slot_count,
        loads,
        gates,
        progress: progress::of(&batches),
        batches,
        outputs,
        digest: [0; DIGEST_BYTES],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Circuit, catalogue};

    fn program(name: &str) -> Program {
        let circuit: Circuit = catalogue::named(name).unwrap();
        Program::compile(&circuit)
    }

    #[test]
    fn encoded_programs_decode_to_the_same_program() {
        for name in ["aes128", "sha256", "mul:16"] {
            let program = program(name);
            let bytes = program.to_bytes();
            assert_eq!(bytes.capacity(), bytes.len(), "{name}");
            let again = Program::from_bytes(&bytes).unwrap();
            assert_eq!(again.to_bytes(), bytes, "{name}");
            assert_eq!(
                (again.and_count, again.xor_count, again.digest),
                (program.and_count, program.xor_count, program.digest)
            );
        }
    }

    #[test]
    fn every_damaged_bit_and_truncation_is_detected() {
        let bytes = program("mul:4").to_bytes();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << (place % 8);
            assert!(Program::from_bytes(&damaged).is_err(), "byte {place}");
        }
        for length in 0..bytes.len() {
            assert!(
                Program::from_bytes(&bytes[..length]).is_err(),
                "{length} bytes"
            );
        }
        assert!(Program::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn large_announced_counts_are_not_allocated() {
        for words in [
            &[u32::MAX][..],
            &[0, 0, 1, u32::MAX],
            &[0, 0, 1, 0, u32::MAX],
            &[0, 0, 1, 0, 0, u32::MAX],
        ] {
            let mut bytes = TAG.to_vec();
            words.iter().for_each(|&word| bytes.word(word));
            bytes.extend_from_slice(&[0; DIGEST_BYTES]);
            assert!(matches!(
                Program::from_bytes(&bytes),
                Err(LoadError::Length { .. })
            ));
        }
    }
}
