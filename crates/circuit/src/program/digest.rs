//! The digest that two parties compare to know that they garble and evaluate the same program.

use sha2::{Digest, Sha256};

use super::{BatchKind, OutputBit, Program, ProgramGate};

/// Names the encoding; changes with it.
const TAG: &[u8; 20] = b"transpute program v1";

impl Program {
    /// Hashes the canonical encoding.
    ///
    /// The encoding is the 20 bytes of [`TAG`] and then 32-bit little-endian integers:
    ///
    /// 1. the number of input values and the width of each, the same for the output values;
    /// 2. the number of slots;
    /// 3. the number of batches, and for each `2 * len` for XOR and `2 * len + 1` for AND;
    /// 4. the number of gates, and for each `a`, `b` and `out` with their inversion marks;
    /// 5. for each output bit `2 * slot + invert`, or `2^32 - 2 + bit` for a constant.
    ///
    /// A count precedes each list (that of the output bits is the sum of the widths), so two
    /// programs with the same encoding are the same. No number overflows: a program has fewer
    /// than 2^31 gates and slots.
    pub(super) fn compute_digest(&self) -> [u8; 32] {
        let mut hasher = Hasher::new();
        for widths in [&self.input_widths, &self.output_widths] {
            hasher.word(widths.len() as u32);
            widths.iter().for_each(|&width| hasher.word(width));
        }
        hasher.word(self.slot_count);
        hasher.word(self.batches.len() as u32);
        for batch in &self.batches {
            hasher.word(batch.len << 1 | u32::from(batch.kind == BatchKind::And));
        }
        hasher.word(self.gates.len() as u32);
        hasher.gates(&self.gates);
        for &output in &self.outputs {
            hasher.word(match output {
                OutputBit::Slot { slot, invert } => slot << 1 | u32::from(invert),
                OutputBit::Constant(bit) => 0xffff_fffe | u32::from(bit),
            });
        }
        hasher.finish()
    }
}

/// Collects words, since hashing them one by one costs more than the hash.
struct Hasher {
    hasher: Sha256,
    buffer: Vec<u8>,
}

const BUFFER: usize = 1 << 14;

impl Hasher {
    fn new() -> Self {
        Self {
            hasher: Sha256::new_with_prefix(TAG),
            buffer: Vec::with_capacity(BUFFER),
        }
    }

    fn word(&mut self, word: u32) {
        if self.buffer.len() == BUFFER {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(&word.to_le_bytes());
    }

    fn gates(&mut self, gates: &[ProgramGate]) {
        self.hasher.update(&self.buffer);
        self.buffer.clear();
        let mut words = [[0; 12]; BUFFER / 16];
        for gates in gates.chunks(words.len()) {
            for (words, gate) in words.iter_mut().zip(gates) {
                words[..4].copy_from_slice(&gate.a.to_le_bytes());
                words[4..8].copy_from_slice(&gate.b.to_le_bytes());
                words[8..].copy_from_slice(&gate.out.to_le_bytes());
            }
            self.hasher.update(words[..gates.len()].as_flattened());
        }
    }

    fn finish(mut self) -> [u8; 32] {
        self.hasher.update(&self.buffer);
        self.hasher.finalize().into()
    }
}
