//! Cursors over the bytes of one chunk, which are written or read gate by gate.

/// The longest table of one gate, in bytes.
const MAX_GATE_BYTES: usize = 32;

/// A buffer for the ciphertexts of one group.
type Scratch = [u8; MAX_GATE_BYTES * crate::engine::MAX_WIDTH];

/// A cursor over the chunk that a garbler writes.
pub(crate) struct TableWriter<'a> {
    ciphertexts: &'a mut [u8],
    trailer: &'a mut [u8],
    pending: u64,
    pending_bits: u32,
    scratch: Scratch,
}

impl<'a> TableWriter<'a> {
    pub(crate) fn new(chunk: &'a mut [u8], ciphertext_bytes: usize) -> Self {
        let (ciphertexts, trailer) = chunk.split_at_mut(ciphertext_bytes);
        Self {
            ciphertexts,
            trailer,
            pending: 0,
            pending_bits: 0,
            scratch: [0; _],
        }
    }

    /// Returns the buffer for the tables of the next `live` gates, `bytes` each. If `live` is less
    /// than the `width` of the group, this is a scratch buffer with room for `width` gates. Call
    /// [`TableWriter::keep`] afterwards.
    #[inline(always)]
    pub(super) fn group(&mut self, bytes: usize, live: usize, width: usize) -> &mut [u8] {
        if live == width {
            &mut self.ciphertexts[..width * bytes]
        } else {
            &mut self.scratch[..width * bytes]
        }
    }

    /// Advances past the tables of the next `live` gates. If they are in the scratch buffer, this
    /// copies them to the chunk.
    #[inline(always)]
    pub(super) fn keep(&mut self, bytes: usize, live: usize, width: usize) {
        let (done, rest) = std::mem::take(&mut self.ciphertexts).split_at_mut(live * bytes);
        if live != width {
            done.copy_from_slice(&self.scratch[..live * bytes]);
        }
        self.ciphertexts = rest;
    }

    /// Appends at most 40 bits to the trailer.
    #[inline(always)]
    pub(super) fn push_bits(&mut self, bits: u64, count: u32) {
        self.pending |= (bits & ((1 << count) - 1)) << self.pending_bits;
        self.pending_bits += count;
        if let Some((word, _)) = self.trailer.split_first_chunk_mut() {
            // This writes eight bytes, in which the bits above the pending ones are zero. Later
            // calls overwrite these zeros.
            *word = self.pending.to_le_bytes();
            let whole = self.pending_bits / 8;
            self.trailer = &mut std::mem::take(&mut self.trailer)[whole as usize..];
            self.pending >>= 8 * whole;
            self.pending_bits -= 8 * whole;
            return;
        }
        while self.pending_bits >= 8 {
            let (byte, rest) = std::mem::take(&mut self.trailer).split_at_mut(1);
            byte[0] = self.pending as u8;
            self.trailer = rest;
            self.pending >>= 8;
            self.pending_bits -= 8;
        }
        // Write the incomplete byte too, so that the trailer is complete after every call.
        if self.pending_bits > 0 {
            self.trailer[0] = self.pending as u8;
        }
    }
}

/// A cursor over the chunk that an evaluator reads.
pub(crate) struct TableReader<'a> {
    ciphertexts: &'a [u8],
    trailer: &'a [u8],
    pending: u64,
    pending_bits: u32,
    scratch: Scratch,
}

impl<'a> TableReader<'a> {
    pub(crate) fn new(chunk: &'a [u8], ciphertext_bytes: usize) -> Self {
        let (ciphertexts, trailer) = chunk.split_at(ciphertext_bytes);
        Self {
            ciphertexts,
            trailer,
            pending: 0,
            pending_bits: 0,
            scratch: [0; _],
        }
    }

    /// Returns the ciphertexts of the next `live` gates, `bytes` each, padded to a group of `width`
    /// in a scratch buffer.
    #[inline(always)]
    pub(super) fn group(&mut self, bytes: usize, live: usize, width: usize) -> &[u8] {
        let (group, rest) = self.ciphertexts.split_at(live * bytes);
        self.ciphertexts = rest;
        if live == width {
            return group;
        }
        self.scratch[..live * bytes].copy_from_slice(group);
        &self.scratch[..width * bytes]
    }

    /// Returns the next `count` bits of the trailer, at most 40.
    #[inline(always)]
    pub(super) fn take_bits(&mut self, count: u32) -> u64 {
        if self.pending_bits < count
            && let Some((word, _)) = self.trailer.split_first_chunk()
        {
            // Refills the pending bits with as many whole bytes as fit.
            let whole = (63 - self.pending_bits) / 8;
            let word = u64::from_le_bytes(*word) & ((1 << (8 * whole)) - 1);
            self.pending |= word << self.pending_bits;
            self.pending_bits += 8 * whole;
            self.trailer = &self.trailer[whole as usize..];
        }
        while self.pending_bits < count {
            let (byte, rest) = self.trailer.split_at(1);
            self.pending |= u64::from(byte[0]) << self.pending_bits;
            self.trailer = rest;
            self.pending_bits += 8;
        }
        let bits = self.pending & ((1 << count) - 1);
        self.pending >>= count;
        self.pending_bits -= count;
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trailer_is_packed_from_the_lowest_bit() {
        let mut chunk = [0; 6];
        let mut writer = TableWriter::new(&mut chunk, 1);
        writer.push_bits(0b10110, 5);
        writer.push_bits(0b01101, 5);
        writer.push_bits(u64::MAX, 25);
        assert_eq!(chunk, [0, 0b10110110, 0b11111101, 0xff, 0xff, 0b111]);
        let mut reader = TableReader::new(&chunk, 1);
        assert_eq!(reader.take_bits(5), 0b10110);
        assert_eq!(reader.take_bits(5), 0b01101);
        assert_eq!(reader.take_bits(25), (1 << 25) - 1);
    }
}
