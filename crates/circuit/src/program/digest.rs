//! The canonical encoding of a program and its digest, which the two parties compare before they
//! garble and evaluate.

use super::{Batch, BatchKind, OutputBit, Program, ProgramGate, file::GATE_BYTES};

/// Tag of the encoding; changes with every change of the encoding.
pub(super) const TAG: &[u8; 20] = b"transpute program v4";

/// Receives the words of an encoding.
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

    /// Writes the canonical encoding without its tag.
    ///
    /// The encoding is the 20 bytes of [`TAG`], followed by 32-bit little-endian integers:
    ///
    /// 1. the number of input values and the width of each, and the same for the output values;
    /// 2. the number of slots;
    /// 3. the number of batches, and for each `4 * len` for XOR, `4 * len + 1` for AND and `4 * len
    ///    + 2` for inputs;
    /// 4. the number of loads, and for each `input` and `slot`;
    /// 5. the number of gates, and for each `a`, `b` and `out` with their inversion marks;
    /// 6. for each output bit `2 * slot + invert`, or `2^32 - 2 + bit` for a constant.
    ///
    /// A count precedes each list, and the widths give the number of output bits, so programs with
    /// the same encoding are equal. No integer overflows: a program has fewer than 2^31 gates and
    /// slots, and a batch has at most twice as many gates as a window of the compiler.
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

/// Decodes a batch; returns `None` for an unknown kind.
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

/// The encoding of a constant output bit, plus its value; slot numbers are smaller.
pub(super) const CONSTANT: u32 = 0xffff_fffe;

/// Buffers the words, because hashing each word separately would cost more than the hash itself.
struct Hasher {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

/// Size of the buffer, in bytes. BLAKE3 hashes a power of two of chunks in parallel, so a much
/// smaller buffer would leave SIMD lanes unused.
const BUFFER_BYTES: usize = 1 << 17;

impl Hasher {
    fn new() -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(TAG);
        Self {
            hasher,
            buffer: Vec::with_capacity(BUFFER_BYTES),
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
        if self.buffer.len() == BUFFER_BYTES {
            self.flush();
        }
        self.buffer.word(word);
    }

    fn gates(&mut self, gates: &[ProgramGate]) {
        self.flush();
        for gates in gates.chunks(BUFFER_BYTES / GATE_BYTES) {
            self.buffer.gates(gates);
            self.flush();
        }
    }
}
