//! The canonical encoding of a program, and its digest, which two parties compare to know that they garble and evaluate
//! the same one.

use super::{Batch, BatchKind, OutputBit, Program, ProgramGate, file::GATE};

/// Names the encoding; changes with it.
pub(super) const TAG: &[u8; 20] = b"transpute program v4";

/// Takes the words of an encoding.
pub(super) trait Sink {
    fn word(&mut self, word: u32);

    fn gates(&mut self, gates: &[ProgramGate]);
}

impl Program {
    /// Hashes the canonical encoding.
    pub(super) fn compute_digest(&self) -> [u8; 32] {
        let mut hasher = Hasher::new();
        self.encode(&mut hasher);
        hasher.finish()
    }

    /// Writes the canonical encoding, but for its tag.
    ///
    /// The encoding is the 20 bytes of [`TAG`] and then 32-bit little-endian integers:
    ///
    /// 1. the number of input values and the width of each, the same for the output values;
    /// 2. the number of slots;
    /// 3. the number of batches, and for each `4 * len` for XOR, `4 * len + 1` for AND and `4 * len + 2` for inputs;
    /// 4. the number of loads, and for each `input` and `slot`;
    /// 5. the number of gates, and for each `a`, `b` and `out` with their inversion marks;
    /// 6. for each output bit `2 * slot + invert`, or `2^32 - 2 + bit` for a constant.
    ///
    /// A count precedes each list (that of the output bits is the sum of the widths), so two
    /// programs with the same encoding are the same. No number overflows: a program has fewer
    /// than 2^31 gates and slots, and a batch at most twice as many as a window of the compiler.
    pub(super) fn encode(&self, sink: &mut impl Sink) {
        for widths in [&self.input_widths, &self.output_widths] {
            sink.word(widths.len() as u32);
            widths.iter().for_each(|&width| sink.word(width));
        }
        sink.word(self.slot_count);
        sink.word(self.batches.len() as u32);
        for batch in &self.batches {
            sink.word(word_of(*batch));
        }
        sink.word(self.loads.len() as u32);
        for load in &self.loads {
            sink.word(load.input);
            sink.word(load.slot);
        }
        sink.word(self.gates.len() as u32);
        sink.gates(&self.gates);
        for &output in &self.outputs {
            sink.word(match output {
                OutputBit::Slot { slot, invert } => slot << 1 | u32::from(invert),
                OutputBit::Constant(bit) => CONSTANT | u32::from(bit),
            });
        }
    }
}

fn word_of(batch: Batch) -> u32 {
    let kind = match batch.kind {
        BatchKind::Xor => 0,
        BatchKind::And => 1,
        BatchKind::Input => 2,
    };
    batch.len << 2 | kind
}

/// Does the opposite; nothing if there is no such kind.
pub(super) fn batch_of(word: u32) -> Option<Batch> {
    let kind = match word & 3 {
        0 => BatchKind::Xor,
        1 => BatchKind::And,
        2 => BatchKind::Input,
        _ => return None,
    };
    Some(Batch {
        kind,
        len: word >> 2,
    })
}

/// An output bit that is constant, to which its value is added: no slot has so high a number.
pub(super) const CONSTANT: u32 = 0xffff_fffe;

/// Collects words, since hashing them one by one costs more than the hash.
struct Hasher {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

/// The hash takes the largest power of two of chunks at a time: much less leaves its lanes empty.
const BUFFER: usize = 1 << 17;

impl Hasher {
    fn new() -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(TAG);
        Self {
            hasher,
            buffer: Vec::with_capacity(BUFFER),
        }
    }

    fn flush(&mut self) {
        self.hasher.update(&self.buffer);
        self.buffer.clear();
    }

    fn finish(mut self) -> [u8; 32] {
        self.flush();
        self.hasher.finalize().into()
    }
}

impl Sink for Hasher {
    fn word(&mut self, word: u32) {
        if self.buffer.len() == BUFFER {
            self.flush();
        }
        self.buffer.word(word);
    }

    fn gates(&mut self, gates: &[ProgramGate]) {
        self.flush();
        for gates in gates.chunks(BUFFER / GATE) {
            self.buffer.gates(gates);
            self.flush();
        }
    }
}
