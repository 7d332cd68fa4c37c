//! Encoder of the parity symbols of a block.

use super::{
    FecError, LENGTH_BYTES, MAX_SEGMENT, MAX_SYMBOLS, code::coefficient, field::add_product,
    symbol_len,
};

/// Collects the segments of a block and computes its parity symbols.
///
/// Buffers are reused for the next block.
///
/// ```
/// use transpute_rudp::fec::BlockEncoder;
///
/// let mut encoder = BlockEncoder::new(1400)?;
/// assert_eq!(encoder.push(b"garbled tables")?, 0);
/// assert_eq!(encoder.push(b"and labels")?, 1);
/// assert_eq!(encoder.finish(2)?.len(), 2);
/// assert!(encoder.is_empty());
/// # Ok::<(), transpute_rudp::fec::FecError>(())
/// ```
pub struct BlockEncoder {
    max_segment: usize,
    /// The symbols, consecutive and padded with zeros to the maximum length.
    symbols: Vec<u8>,
    count: usize,
    longest: usize,
    parity: Vec<u8>,
}

impl BlockEncoder {
    /// Creates an encoder for segments of at most this many bytes.
    ///
    /// # Errors
    ///
    /// Returns [`FecError::SegmentLength`] if `max_segment` is zero or more than [`MAX_SEGMENT`].
    pub fn new(max_segment: usize) -> Result<Self, FecError> {
        check_segment(max_segment, MAX_SEGMENT)?;
        Ok(Self {
            max_segment,
            symbols: Vec::new(),
            count: 0,
            longest: 0,
            parity: Vec::new(),
        })
    }

    /// Adds a segment and returns its index.
    ///
    /// # Errors
    ///
    /// Returns [`FecError::SegmentLength`] if the segment is empty or too long, and
    /// [`FecError::BlockSize`] if the block is full. The block is unchanged then.
    pub fn push(&mut self, segment: &[u8]) -> Result<u8, FecError> {
        check_segment(segment.len(), self.max_segment)?;
        let index = self.count as u8;
        if self.count + 1 >= MAX_SYMBOLS {
            return Err(FecError::BlockSize {
                segments: self.count + 1,
                parity: 1,
            });
        }
        let stride = symbol_len(self.max_segment);
        let end = (self.count + 1) * stride;
        // The cast is lossless, because segments have at most 9,000 bytes.
        self.symbols
            .extend_from_slice(&(segment.len() as u16).to_be_bytes());
        self.symbols.extend_from_slice(segment);
        self.symbols.resize(end, 0);
        self.count += 1;
        self.longest = self.longest.max(segment.len());
        Ok(index)
    }

    /// Returns the number of segments of the block.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the block has no segments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ends the block and returns its parity symbols. The next segment starts a new block.
    ///
    /// # Errors
    ///
    /// Returns [`FecError::BlockSize`] if `parity` is not zero and there are no segments, or if
    /// there are too many symbols. The block is discarded in that case, too.
    pub fn finish(&mut self, parity: usize) -> Result<ParitySymbols<'_>, FecError> {
        let (segments, longest) = (self.count, self.longest);
        self.count = 0;
        self.longest = 0;
        let length = symbol_len(longest);
        self.parity.clear();
        let done = self.encode(segments, parity, length);
        self.symbols.clear();
        done?;
        Ok(self.parity.chunks_exact(length))
    }

    /// Discards the segments of the block.
    pub fn clear(&mut self) {
        self.count = 0;
        self.longest = 0;
        self.symbols.clear();
    }

    fn encode(&mut self, segments: usize, parity: usize, length: usize) -> Result<(), FecError> {
        if parity == 0 {
            return Ok(());
        }
        if segments == 0 || segments + parity > MAX_SYMBOLS {
            return Err(FecError::BlockSize { segments, parity });
        }
        self.parity.resize(parity * length, 0);
        let symbols = self.symbols.chunks_exact(symbol_len(self.max_segment));
        for (n, symbol) in symbols.enumerate() {
            for (index, sum) in self.parity.chunks_exact_mut(length).enumerate() {
                add_product(sum, coefficient(index, n), &symbol[..length]);
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for BlockEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockEncoder")
            .field("segments", &self.count)
            .field("longest", &self.longest)
            .finish_non_exhaustive()
    }
}

/// The parity symbols of a block, all of the same length.
pub type ParitySymbols<'a> = std::slice::ChunksExact<'a, u8>;

fn check_segment(got: usize, max: usize) -> Result<(), FecError> {
    // The length of a segment must fit its two bytes in the symbol.
    const { assert!(MAX_SEGMENT + LENGTH_BYTES < 1 << 16) };
    if got == 0 || got > max {
        return Err(FecError::SegmentLength { got, max });
    }
    Ok(())
}
