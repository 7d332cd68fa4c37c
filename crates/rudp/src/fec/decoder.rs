//! Recovery of missing segments from received segments and parity symbols.

use std::collections::BTreeMap;

use super::{
    FecError, LENGTH_BYTES, MAX_SEGMENT, MAX_SYMBOLS,
    code::{coefficient, solve},
    field::add_product,
    symbol_len,
};

/// The limits of a [`DecoderStore`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DecoderLimits {
    /// The maximum number of blocks that are neither complete nor given up.
    pub blocks: usize,
    /// The maximum number of bytes of symbols in the store.
    pub bytes: usize,
    /// A finished block is remembered until its number is this far behind the newest one, so that
    /// late packets do not start it again.
    pub remembered: u64,
    /// The maximum size of a segment, in bytes.
    pub max_segment: usize,
}

impl Default for DecoderLimits {
    /// Returns limits of 64 blocks, 32 MiB, 4,096 remembered blocks and segments of at most 1,472
    /// bytes.
    fn default() -> Self {
        Self {
            blocks: 64,
            bytes: 32 << 20,
            remembered: 4096,
            max_segment: 1472,
        }
    }
}

/// The effect of adding a segment or parity symbol to a [`DecoderStore`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SymbolOutcome {
    /// The symbol was stored, and more symbols are needed.
    Stored,
    /// The symbol is a duplicate, or its block is complete, given up or too old.
    Ignored,
    /// The block is complete without any decoding.
    Complete,
    /// The block is complete: this number of segments was recovered.
    Recovered(usize),
}

/// A bounded store of incomplete blocks.
///
/// Segments are copied into the store, because the stream releases its bytes as soon as they are in
/// order. A copy costs little compared with receiving and decrypting a packet. Decoding happens
/// only if a segment is missing when there are enough symbols. If a limit is reached, the oldest
/// block is given up.
pub struct DecoderStore {
    limits: DecoderLimits,
    blocks: BTreeMap<u64, Block>,
    bytes: usize,
    /// Finished blocks, complete or given up, above the horizon.
    finished: std::collections::BTreeSet<u64>,
    /// All blocks below this number are finished.
    horizon: u64,
    newest: u64,
    spare: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Block {
    /// Segments by index.
    segments: BTreeMap<u8, Vec<u8>>,
    parity: BTreeMap<u8, Vec<u8>>,
    shape: Option<Shape>,
}

/// The identity of a parity symbol and the shape of its block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParityId {
    /// The number of the block.
    pub block: u64,
    /// The offset of the block's first segment in the stream.
    pub start: u64,
    /// The number of segments of the block.
    pub segments: u8,
    /// The number of parity symbols of the block.
    pub parity: u8,
    /// The index of this parity symbol.
    pub index: u8,
}

/// The shape of a block, as its parity symbols describe it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Shape {
    start: u64,
    segments: u8,
    parity: u8,
    symbol: usize,
}

impl DecoderStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new(limits: DecoderLimits) -> Self {
        Self {
            limits: DecoderLimits {
                max_segment: limits.max_segment.clamp(1, MAX_SEGMENT),
                ..limits
            },
            blocks: BTreeMap::new(),
            bytes: 0,
            finished: std::collections::BTreeSet::new(),
            horizon: 0,
            newest: 0,
            spare: Vec::new(),
        }
    }

    /// Returns the number of bytes of symbols in the store.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of blocks in the store.
    #[must_use]
    pub fn held_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a received segment.
    ///
    /// If it completes its block, `deliver` is called with each recovered segment and its offset in
    /// the stream.
    ///
    /// # Errors
    ///
    /// Returns a [`FecError`] if the segment cannot belong to the block, which is an error of the
    /// peer.
    pub fn insert_data(
        &mut self,
        block: u64,
        index: u8,
        segment: &[u8],
        deliver: impl FnMut(u64, &[u8]),
    ) -> Result<SymbolOutcome, FecError> {
        let max = self.limits.max_segment;
        if segment.is_empty() || segment.len() > max {
            return Err(FecError::SegmentLength {
                got: segment.len(),
                max,
            });
        }
        if usize::from(index) + 1 >= MAX_SYMBOLS {
            return Err(FecError::BlockSize {
                segments: usize::from(index) + 1,
                parity: 1,
            });
        }
        if !self.is_open(block) {
            return Ok(SymbolOutcome::Ignored);
        }
        if let Some(held) = self.blocks.get(&block) {
            if let Some(shape) = &held.shape {
                shape.check(index, segment.len())?;
            }
            if let Some(known) = held.segments.get(&index) {
                return if known == segment {
                    Ok(SymbolOutcome::Ignored)
                } else {
                    Err(FecError::Conflict { what: "segment" })
                };
            }
        }
        if !self.make_room(block, segment.len()) {
            return Ok(SymbolOutcome::Ignored);
        }
        let copy = self.copy(segment);
        let held = self.blocks.entry(block).or_default();
        held.segments.insert(index, copy);
        self.complete(block, deliver)
    }

    /// Adds a received parity symbol.
    ///
    /// If it completes the block, `deliver` is called with each recovered segment and its offset in
    /// the stream.
    ///
    /// # Errors
    ///
    /// Returns a [`FecError`] if the symbol cannot belong to the block, which is an error of the
    /// peer.
    pub fn insert_parity(
        &mut self,
        id: ParityId,
        symbol: &[u8],
        deliver: impl FnMut(u64, &[u8]),
    ) -> Result<SymbolOutcome, FecError> {
        let ParityId { block, index, .. } = id;
        let (count, parity) = (usize::from(id.segments), usize::from(id.parity));
        if count == 0 || index >= id.parity || count + parity > MAX_SYMBOLS {
            return Err(FecError::BlockSize {
                segments: count,
                parity,
            });
        }
        let longest = symbol_len(self.limits.max_segment);
        if symbol.len() <= LENGTH_BYTES || symbol.len() > longest {
            return Err(FecError::SymbolLength { got: symbol.len() });
        }
        if !self.is_open(block) {
            return Ok(SymbolOutcome::Ignored);
        }
        let shape = Shape {
            start: id.start,
            segments: id.segments,
            parity: id.parity,
            symbol: symbol.len(),
        };
        if let Some(held) = self.blocks.get(&block) {
            match &held.shape {
                Some(known) if *known != shape => return Err(FecError::Conflict { what: "shape" }),
                Some(_) => {}
                None => {
                    for (&index, segment) in &held.segments {
                        shape.check(index, segment.len())?;
                    }
                }
            }
            if let Some(known) = held.parity.get(&index) {
                return if known == symbol {
                    Ok(SymbolOutcome::Ignored)
                } else {
                    Err(FecError::Conflict { what: "parity" })
                };
            }
        }
        if !self.make_room(block, symbol.len()) {
            return Ok(SymbolOutcome::Ignored);
        }
        let copy = self.copy(symbol);
        let held = self.blocks.entry(block).or_default();
        held.shape = Some(shape);
        held.parity.insert(index, copy);
        self.complete(block, deliver)
    }

    /// Gives up a block, because the stream has its bytes or no longer needs them.
    pub fn forget(&mut self, block: u64) {
        if self.is_open(block) && block <= self.newest {
            self.finish(block);
        }
    }

    fn is_open(&self, block: u64) -> bool {
        block >= self.horizon && !self.finished.contains(&block)
    }

    /// Gives up the oldest blocks until `bytes` more bytes fit for `block`. Returns `false` if they
    /// do not fit without giving up `block` itself.
    fn make_room(&mut self, block: u64, bytes: usize) -> bool {
        if bytes > self.limits.bytes || self.limits.blocks == 0 {
            return false;
        }
        self.newest = self.newest.max(block);
        let horizon = self.newest.saturating_sub(self.limits.remembered);
        while let Some((&oldest, _)) = self.blocks.first_key_value() {
            let blocks = self.blocks.len() + usize::from(!self.blocks.contains_key(&block));
            let fits = blocks <= self.limits.blocks && self.bytes + bytes <= self.limits.bytes;
            if fits && oldest >= horizon {
                break;
            }
            if oldest >= block {
                // Only this block and newer ones are left, so this block is given up.
                self.finish(block);
                return false;
            }
            self.finish(oldest);
        }
        if horizon > self.horizon {
            self.horizon = horizon;
            self.finished = self.finished.split_off(&horizon);
        }
        block >= self.horizon
    }

    fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        self.bytes += copy.len();
        copy
    }

    fn finish(&mut self, block: u64) {
        if let Some(held) = self.blocks.remove(&block) {
            for buffer in held.segments.into_values().chain(held.parity.into_values()) {
                self.bytes -= buffer.len();
                if self.spare.len() < 2 * MAX_SYMBOLS {
                    self.spare.push(buffer);
                }
            }
        }
        self.finished.insert(block);
    }

    /// Recovers the missing segments, if there are enough symbols.
    fn complete(
        &mut self,
        block: u64,
        mut deliver: impl FnMut(u64, &[u8]),
    ) -> Result<SymbolOutcome, FecError> {
        let Some(held) = self.blocks.get(&block) else {
            return Ok(SymbolOutcome::Ignored);
        };
        let Some(shape) = held.shape else {
            return Ok(SymbolOutcome::Stored);
        };
        let count = usize::from(shape.segments);
        if held.segments.len() >= count {
            self.finish(block);
            return Ok(SymbolOutcome::Complete);
        }
        if held.segments.len() + held.parity.len() < count {
            return Ok(SymbolOutcome::Stored);
        }
        let recovered = decode(held, &shape, &mut deliver);
        self.finish(block);
        recovered.map(SymbolOutcome::Recovered)
    }
}

impl std::fmt::Debug for DecoderStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecoderStore")
            .field("blocks", &self.blocks.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Shape {
    /// Checks that a segment matches the shape of its block.
    fn check(&self, index: u8, length: usize) -> Result<(), FecError> {
        if index >= self.segments {
            return Err(FecError::Conflict { what: "size" });
        }
        if length + LENGTH_BYTES > self.symbol {
            return Err(FecError::Conflict {
                what: "symbol length",
            });
        }
        Ok(())
    }
}

/// Recovers all missing segments and delivers them. Returns their number.
fn decode(
    block: &Block,
    shape: &Shape,
    deliver: &mut impl FnMut(u64, &[u8]),
) -> Result<usize, FecError> {
    let absent: Vec<_> = (0..shape.segments)
        .filter(|index| !block.segments.contains_key(index))
        .map(usize::from)
        .collect();
    let parity = block.parity.iter().take(absent.len());
    let (rows, mut sides): (Vec<_>, Vec<_>) = parity
        .map(|(&index, symbol)| (usize::from(index), symbol.clone()))
        .unzip();
    for (&index, segment) in &block.segments {
        // The length of the segment was checked against the shape, so both fit.
        let length = (segment.len() as u16).to_be_bytes();
        for (&row, side) in rows.iter().zip(&mut sides) {
            let factor = coefficient(row, usize::from(index));
            let (first, rest) = side.split_at_mut(LENGTH_BYTES);
            add_product(first, factor, &length);
            add_product(&mut rest[..segment.len()], factor, segment);
        }
    }
    let solved = solve(&absent, &rows, &sides).ok_or(FecError::Corrupt)?;
    let mut solved = solved.iter();
    let mut missing = Vec::new();
    let mut offset = shape.start;
    for index in 0..shape.segments {
        let length = if let Some(segment) = block.segments.get(&index) {
            segment.len()
        } else {
            let symbol = solved.next().ok_or(FecError::Corrupt)?;
            let segment = segment_of(symbol)?;
            missing.push((offset, segment));
            segment.len()
        };
        offset = offset.checked_add(length as u64).ok_or(FecError::Corrupt)?;
    }
    for (offset, segment) in &missing {
        deliver(*offset, segment);
    }
    Ok(missing.len())
}

/// Returns the segment that a symbol contains, without its length field and padding.
fn segment_of(symbol: &[u8]) -> Result<&[u8], FecError> {
    let (length, rest) = symbol
        .split_first_chunk::<LENGTH_BYTES>()
        .ok_or(FecError::Corrupt)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (segment, padding) = rest.split_at_checked(length).ok_or(FecError::Corrupt)?;
    if segment.is_empty() || padding.iter().any(|&byte| byte != 0) {
        return Err(FecError::Corrupt);
    }
    Ok(segment)
}
