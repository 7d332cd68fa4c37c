//! Segments that did not come, from those that did and parity.

use std::collections::BTreeMap;

use super::{
    FecError, LENGTH_BYTES, MAX_SEGMENT, MAX_SYMBOLS,
    code::{coefficient, solve},
    field::add_product,
    symbol_len,
};

/// How much a [`DecoderStore`] may hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Blocks that are neither complete nor given up.
    pub blocks: usize,
    /// Bytes of their symbols.
    pub bytes: usize,
    /// Blocks beyond the newest whose end is remembered, so that stragglers are not taken for new
    /// blocks.
    pub remembered: u64,
    /// Bytes of a segment.
    pub max_segment: usize,
}

impl Default for Limits {
    /// 64 blocks, 32 MiB, 4,096 remembered, segments of at most 1,472 bytes.
    fn default() -> Self {
        Self {
            blocks: 64,
            bytes: 32 << 20,
            remembered: 4096,
            max_segment: 1472,
        }
    }
}

/// What became of a symbol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It waits for others.
    Stored,
    /// It is there already, or its block is complete, given up or too old.
    Ignored,
    /// The block is complete without any decoding.
    Complete,
    /// The block is complete: so many segments were recovered.
    Recovered(usize),
}

/// A bounded number of blocks under way.
///
/// Segments are copied in: the stream gives its bytes away as soon as they are in order, and a copy
/// is a small part of what receiving and decrypting a packet costs. Nothing is decoded unless a
/// segment is missing when enough symbols are there. When there is no room, the oldest block is
/// given up.
pub struct DecoderStore {
    limits: Limits,
    blocks: BTreeMap<u64, Block>,
    bytes: usize,
    /// Finished blocks, complete or given up, above the horizon.
    finished: std::collections::BTreeSet<u64>,
    /// Blocks below are finished.
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

/// What a parity symbol says about itself and its block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParityId {
    /// The number of the block.
    pub block: u64,
    /// Where its first segment begins in the stream.
    pub start: u64,
    /// How many segments it has.
    pub segments: u8,
    /// How many parity symbols were made of it.
    pub parity: u8,
    /// Which of these this one is.
    pub index: u8,
}

/// What parity tells about its block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Shape {
    start: u64,
    segments: u8,
    parity: u8,
    symbol: usize,
}

impl DecoderStore {
    /// Makes a store that is empty.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Limits {
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

    /// Returns how many bytes of symbols wait.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many blocks wait.
    #[must_use]
    pub fn held_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Takes a segment that came.
    ///
    /// If it makes its block complete, `deliver` gets each recovered segment with its offset in the
    /// stream.
    ///
    /// # Errors
    ///
    /// [`FecError`] where the segment cannot belong to the block: the peer is at fault.
    pub fn insert_data(
        &mut self,
        block: u64,
        index: u8,
        segment: &[u8],
        deliver: impl FnMut(u64, &[u8]),
    ) -> Result<Outcome, FecError> {
        let most = self.limits.max_segment;
        if segment.is_empty() || segment.len() > most {
            return Err(FecError::SegmentLength {
                got: segment.len(),
                most,
            });
        }
        if usize::from(index) + 1 >= MAX_SYMBOLS {
            return Err(FecError::BlockSize {
                segments: usize::from(index) + 1,
                parity: 1,
            });
        }
        if !self.is_open(block) {
            return Ok(Outcome::Ignored);
        }
        if let Some(held) = self.blocks.get(&block) {
            if let Some(shape) = &held.shape {
                shape.check(index, segment.len())?;
            }
            if let Some(known) = held.segments.get(&index) {
                return if known == segment {
                    Ok(Outcome::Ignored)
                } else {
                    Err(FecError::Conflict { what: "segment" })
                };
            }
        }
        if !self.make_room(block, segment.len()) {
            return Ok(Outcome::Ignored);
        }
        let copy = self.copy(segment);
        let held = self.blocks.entry(block).or_default();
        held.segments.insert(index, copy);
        self.complete(block, deliver)
    }

    /// Takes a parity symbol that came.
    ///
    /// If it makes the block complete, `deliver` gets each recovered segment with its offset in the
    /// stream.
    ///
    /// # Errors
    ///
    /// [`FecError`] where the symbol cannot belong to the block: the peer is at fault.
    pub fn insert_parity(
        &mut self,
        id: ParityId,
        symbol: &[u8],
        deliver: impl FnMut(u64, &[u8]),
    ) -> Result<Outcome, FecError> {
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
            return Ok(Outcome::Ignored);
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
                    Ok(Outcome::Ignored)
                } else {
                    Err(FecError::Conflict { what: "parity" })
                };
            }
        }
        if !self.make_room(block, symbol.len()) {
            return Ok(Outcome::Ignored);
        }
        let copy = self.copy(symbol);
        let held = self.blocks.entry(block).or_default();
        held.shape = Some(shape);
        held.parity.insert(index, copy);
        self.complete(block, deliver)
    }

    /// Gives up a block: the stream has its bytes, or no longer waits for it.
    pub fn forget(&mut self, block: u64) {
        if self.is_open(block) && block <= self.newest {
            self.finish(block);
        }
    }

    fn is_open(&self, block: u64) -> bool {
        block >= self.horizon && !self.finished.contains(&block)
    }

    /// Gives up the oldest blocks until these bytes of this block fit. `false`: it would be this
    /// one.
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
                // The oldest is this one, or newer than it.
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

    /// Recovers what is missing, if enough is there.
    fn complete(
        &mut self,
        block: u64,
        mut deliver: impl FnMut(u64, &[u8]),
    ) -> Result<Outcome, FecError> {
        let Some(held) = self.blocks.get(&block) else {
            return Ok(Outcome::Ignored);
        };
        let Some(shape) = held.shape else {
            return Ok(Outcome::Stored);
        };
        let count = usize::from(shape.segments);
        if held.segments.len() >= count {
            self.finish(block);
            return Ok(Outcome::Complete);
        }
        if held.segments.len() + held.parity.len() < count {
            return Ok(Outcome::Stored);
        }
        let recovered = decode(held, &shape, &mut deliver);
        self.finish(block);
        recovered.map(Outcome::Recovered)
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
    /// Checks that a segment fits.
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

/// Recovers all missing segments and hands them out. Returns how many.
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
        // Both were checked against the shape, so length and segment fit.
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

/// Takes a segment out of its symbol.
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
