//! Programs as bytes: what is kept instead of compiling again.
//!
//! The bytes are the canonical encoding, tag included, that the digest is of, and the digest. Reading checks the digest, all
//! invariants and that nothing is left over, so that damage never becomes a wrong garbling. Bytes that somebody made on
//! purpose can be those of any program, as a circuit file can.

use thiserror::Error;

use super::{
    Batch, BatchKind, OutputBit, Program, ProgramError, ProgramGate,
    digest::{CONSTANT, Sink, TAG},
};

const DIGEST: usize = 32;
pub(super) const GATE: usize = 12;

/// Why bytes are no program.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum LoadError {
    /// They begin otherwise, as those of another version do.
    #[error("these are not the bytes of a compiled program of this version")]
    Tag,
    /// There are too few or too many.
    #[error("a list of {expected} does not fit in the {left} bytes that are left")]
    Length {
        /// What a count says.
        expected: u64,
        /// Bytes that are left.
        left: usize,
    },
    /// The program does not keep what programs promise.
    #[error("the program is damaged: {0}")]
    Program(#[from] ProgramError),
}

impl Program {
    /// Returns the program as bytes, for [`from_bytes`](Self::from_bytes): 12 per gate and some.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = self.input_widths.len()
            + self.output_widths.len()
            + self.batches.len()
            + self.outputs.len()
            + 5;
        let mut bytes =
            Vec::with_capacity(TAG.len() + 4 * words + GATE * self.gates.len() + DIGEST);
        bytes.extend_from_slice(TAG);
        self.encode(&mut bytes);
        bytes.extend_from_slice(&self.digest);
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote, and checks it as [`check`](Self::check) does.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        let (encoding, digest) = bytes.split_last_chunk().ok_or(LoadError::Tag)?;
        let rest = encoding.strip_prefix(TAG).ok_or(LoadError::Tag)?;
        let program = decode(rest, *digest)?;
        program.check_with(blake3::hash(encoding).into())?;
        Ok(program)
    }
}

impl Sink for Vec<u8> {
    fn word(&mut self, word: u32) {
        self.extend_from_slice(&word.to_le_bytes());
    }

    fn gates(&mut self, gates: &[ProgramGate]) {
        let start = self.len();
        self.resize(start + GATE * gates.len(), 0);
        for (bytes, gate) in self[start..]
            .as_chunks_mut::<GATE>()
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

/// What is left to read.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn word(&mut self) -> Result<u32, LoadError> {
        let (word, rest) = self.0.split_first_chunk().ok_or(LoadError::Length {
            expected: 1,
            left: self.0.len(),
        })?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*word))
    }

    /// Returns that many items of `N` bytes. What they claim to be is bounded by what is there before anything is allocated.
    fn list<const N: usize>(&mut self, count: u64) -> Result<&'a [[u8; N]], LoadError> {
        let wrong = LoadError::Length {
            expected: count,
            left: self.0.len(),
        };
        let bytes = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(N));
        let (list, rest) = bytes
            .and_then(|bytes| self.0.split_at_checked(bytes))
            .ok_or(wrong)?;
        self.0 = rest;
        Ok(list.as_chunks().0)
    }

    fn words(&mut self, count: u64) -> Result<impl Iterator<Item = u32> + use<'a>, LoadError> {
        Ok(self
            .list::<4>(count)?
            .iter()
            .map(|word| u32::from_le_bytes(*word)))
    }

    fn counted(&mut self) -> Result<impl Iterator<Item = u32> + use<'a>, LoadError> {
        let count = self.word()?;
        self.words(count.into())
    }
}

fn decode(bytes: &[u8], digest: [u8; 32]) -> Result<Program, LoadError> {
    let mut source = Source(bytes);
    let input_widths = source.counted()?.collect();
    let output_widths: Vec<u32> = source.counted()?.collect();
    let slot_count = source.word()?;
    let batches: Vec<Batch> = (source.counted()?)
        .map(|word| Batch {
            kind: if word & 1 == 1 {
                BatchKind::And
            } else {
                BatchKind::Xor
            },
            len: word >> 1,
        })
        .collect();
    let gates = source.word()?;
    let gates = (source.list::<GATE>(gates.into())?.iter())
        .map(|gate| {
            let [a, b, out] = [0, 4, 8]
                .map(|at| u32::from_le_bytes([gate[at], gate[at + 1], gate[at + 2], gate[at + 3]]));
            ProgramGate { a, b, out }
        })
        .collect();
    let outputs = output_widths.iter().map(|&width| u64::from(width)).sum();
    let outputs = (source.words(outputs)?)
        .map(|word| match word.checked_sub(CONSTANT) {
            Some(bit) => OutputBit::Constant(bit == 1),
            None => OutputBit::Slot {
                slot: word >> 1,
                invert: word & 1 == 1,
            },
        })
        .collect();
    if !source.0.is_empty() {
        return Err(LoadError::Length {
            expected: 0,
            left: source.0.len(),
        });
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
        gates,
        batches,
        outputs,
        digest,
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
    fn a_program_survives_its_bytes() {
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
    fn no_damage_goes_unnoticed() {
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
    fn what_is_claimed_is_not_allocated() {
        for words in [
            &[u32::MAX][..],
            &[0, 0, 1, u32::MAX],
            &[0, 0, 1, 0, u32::MAX],
        ] {
            let mut bytes = TAG.to_vec();
            words.iter().for_each(|&word| bytes.word(word));
            bytes.extend_from_slice(&[0; DIGEST]);
            assert!(matches!(
                Program::from_bytes(&bytes),
                Err(LoadError::Length { .. })
            ));
        }
    }
}
