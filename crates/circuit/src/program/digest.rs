//! The binary encoding of a program, and its digest. Before they garble and evaluate, the two
//! parties compare their digests.

use super::{Batch, BatchKind, OutputBit, Program, ProgramGate, file::GATE_BYTES};

/// The first bytes of every encoding. Change them with every change of the encoding.
pub(super) const TAG: &[u8; 20] = b"transpute program v4";

/// A destination of the 32-bit words of an encoding: a hasher or a byte vector.
pub(super) trait Sink {
    fn word(&mut self, word: u32);

    fn gates(&mut self, gates: &[ProgramGate]);
}

impl Program {
    /// Hashes [`TAG`] and the words that [`encode`](Self::encode) writes.
    pub(super) fn compute_digest(&self) -> [u8; 32] {
        let mut hasher = Hasher::new();
        self.encode(&mut hasher);
        hasher.finish()
    }

    /// Writes the encoding of the program without [`TAG`].
    ///
    /// The whole encoding is the 20 bytes of [`TAG`], followed by 32-bit little-endian integers:
    ///
    /// 1. the number of input values and the width of each, and the same for the output values;
    /// 2. the number of slots;
    /// 3. the number of batches, and for each batch `4 * len + kind`, where `kind` is 0 for XOR, 1
    ///    for AND and 2 for loads;
    /// 4. the number of loads, and for each load `input` and `slot`;
    /// 5. the number of gates, and for each gate `a`, `b` and `out`, with [`INVERT`](super::INVERT)
    ///    in `a` and `b`;
    /// 6. for each output bit `2 * slot + invert`, or `2^32 - 2 + bit` for a constant.
    ///
    /// Programs with the same encoding are equal: a count precedes each list except the last, and
    /// the output widths give the length of the last. No integer overflows: a program has fewer
    /// than 2^31 gates and slots, and the compiler limits the number of gates in a batch.
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

/// Decodes a batch from `4 * len + kind`, or returns `None` for an unknown kind.
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

/// The encoding of a constant output bit 0. The encoding of a constant 1 is one more. No encoding
/// of a slot is as large, because slot numbers are below 2^31 - 1.
pub(super) const CONSTANT: u32 = 0xffff_fffe;

/// A [`Sink`] that hashes the encoding. It buffers words, because one call of BLAKE3 for each word
/// would take longer than the hashing itself.
struct Hasher {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

/// Size of the hasher's buffer, in bytes. BLAKE3 hashes several 1 KiB chunks of one call in
/// parallel, so a much smaller buffer would leave SIMD lanes unused.
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
