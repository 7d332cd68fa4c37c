//! Blocks of new segments, their correction symbols, and which losses are left to correction.
//!
//! A lost segment of a block is not sent again as long as symbols of its block are to come that may
//! make up for it: usually it is recovered before its loss is known here. It is sent again once
//! more is lost than the symbols can replace, or all symbols are accounted for and the segment is
//! still missing.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::fec::BlockEncoder;
use crate::frame::{BlockPlace, ParityHeader};
use crate::send_stream::SendStream;

/// Of how many blocks the fate is tracked at most; losses of older ones are sent again at once.
const MAX_FATES: usize = 4096;

/// A correction symbol that waits to be sent.
#[derive(Debug)]
pub(crate) struct Symbol {
    pub(crate) header: ParityHeader,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
struct Open {
    block: u32,
    start: u64,
    end: u64,
}

/// What is known of the symbols of a block, and which of its segments are missing.
#[derive(Debug, Default)]
struct Fate {
    closed: bool,
    unsent: usize,
    in_flight: usize,
    acked: usize,
    missing: Vec<(Range<u64>, bool)>,
}

/// The sending half of error correction.
#[derive(Debug)]
pub(crate) struct Redundancy {
    encoder: Option<BlockEncoder>,
    next_block: u32,
    open: Option<Open>,
    ready: VecDeque<Symbol>,
    fates: BTreeMap<u32, Fate>,
    /// Segments that have to be sent again after all.
    released: Vec<(Range<u64>, bool)>,
}

impl Redundancy {
    /// `encoder`: `None` switches correction off.
    pub(crate) fn new(encoder: Option<BlockEncoder>) -> Self {
        Self {
            encoder,
            next_block: 0,
            open: None,
            ready: VecDeque::new(),
            fates: BTreeMap::new(),
            released: Vec::new(),
        }
    }

    /// Adds a new segment to the open block and returns its place; `None` if it has none.
    pub(crate) fn place(&mut self, offset: u64, data: &[u8]) -> Option<BlockPlace> {
        let encoder = self.encoder.as_mut()?;
        let index = encoder.push(data).ok()?;
        let open = self.open.get_or_insert(Open {
            block: self.next_block,
            start: offset,
            end: offset,
        });
        open.end = offset + data.len() as u64;
        if index == 0 {
            self.fates.insert(open.block, Fate::default());
            while self.fates.len() > MAX_FATES {
                if let Some((_, fate)) = self.fates.pop_first() {
                    self.released.extend(fate.missing);
                }
            }
        }
        Some(BlockPlace {
            block: open.block,
            index,
        })
    }

    /// Returns what place the next segment will have.
    pub(crate) fn next_place(&self) -> Option<BlockPlace> {
        let encoder = self.encoder.as_ref()?;
        Some(BlockPlace {
            block: self
                .open
                .as_ref()
                .map_or(self.next_block, |open| open.block),
            // Blocks have at most 254 segments.
            index: u8::try_from(encoder.len()).ok()?,
        })
    }

    /// Returns how many segments the open block has.
    pub(crate) fn open_segments(&self) -> usize {
        self.encoder.as_ref().map_or(0, BlockEncoder::len)
    }

    /// Ends the open block with this many correction symbols.
    pub(crate) fn close(&mut self, parity: usize) {
        let (Some(open), Some(encoder)) = (self.open.take(), &mut self.encoder) else {
            return;
        };
        self.next_block = open.block.wrapping_add(1);
        let segments = u8::try_from(encoder.len()).unwrap_or(u8::MAX);
        let mut made = 0;
        if parity == 0 {
            encoder.clear();
        } else if let Ok(symbols) = encoder.finish(parity) {
            for (index, symbol) in symbols.enumerate() {
                self.ready.push_back(Symbol {
                    header: ParityHeader {
                        block: open.block,
                        start: open.start,
                        segments,
                        count: u8::try_from(parity).unwrap_or(u8::MAX),
                        // Segments and symbols together are at most 255.
                        index: index as u8,
                    },
                    bytes: symbol.to_vec(),
                });
                made += 1;
            }
        }
        if let Some(fate) = self.fates.get_mut(&open.block) {
            fate.closed = true;
            fate.unsent = made;
        }
        self.judge(open.block);
    }

    pub(crate) fn has_symbol(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the next symbol's length.
    pub(crate) fn next_symbol_len(&self) -> Option<usize> {
        self.ready.front().map(|symbol| symbol.bytes.len())
    }

    pub(crate) fn take_symbol(&mut self) -> Option<Symbol> {
        let symbol = self.ready.pop_front()?;
        if let Some(fate) = self.fates.get_mut(&symbol.header.block) {
            fate.unsent -= 1;
            fate.in_flight += 1;
        }
        Some(symbol)
    }

    /// Gives up the next symbol: it is too large for the path as it is now.
    pub(crate) fn drop_symbol(&mut self) {
        if let Some(symbol) = self.take_symbol() {
            self.on_symbol_lost(symbol.header.block);
        }
    }

    pub(crate) fn on_symbol_acked(&mut self, block: u32) {
        if let Some(fate) = self.fates.get_mut(&block) {
            fate.in_flight = fate.in_flight.saturating_sub(1);
            fate.acked += 1;
        }
        self.judge(block);
    }

    pub(crate) fn on_symbol_lost(&mut self, block: u32) {
        if let Some(fate) = self.fates.get_mut(&block) {
            fate.in_flight = fate.in_flight.saturating_sub(1);
        }
        self.judge(block);
    }

    /// A segment of a block is lost.
    pub(crate) fn on_segment_lost(&mut self, block: u32, range: Range<u64>, end: bool) {
        match self.fates.get_mut(&block) {
            Some(fate) => {
                fate.missing.push((range, end));
                self.judge(block);
            }
            None => self.released.push((range, end)),
        }
    }

    /// Decides about the missing segments of a block.
    fn judge(&mut self, block: u32) {
        let Some(fate) = self.fates.get_mut(&block) else {
            return;
        };
        if !fate.closed {
            return;
        }
        let to_come = fate.unsent + fate.in_flight;
        let hopeless = fate.missing.len() > to_come + fate.acked;
        if hopeless || to_come == 0 {
            self.released.append(&mut fate.missing);
        }
        if to_come == 0 {
            self.fates.remove(&block);
        }
    }

    /// Moves what has to be sent again to the stream.
    pub(crate) fn release(&mut self, stream: &mut SendStream) {
        for (range, end) in self.released.drain(..) {
            stream.on_lost(range, end);
        }
    }
}
