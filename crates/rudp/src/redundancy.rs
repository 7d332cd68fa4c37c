//! The sender's side of forward error correction: blocks of new segments, their parity symbols, and
//! the choice between parity and retransmission for lost segments.
//!
//! A lost segment of a block is not retransmitted while parity symbols that are still expected to
//! arrive may replace it. Usually the segment has been recovered before its loss is detected here.
//! It is retransmitted in two cases: more segments are lost than the symbols can replace, or the
//! outcome of all symbols is known and the segment is still missing.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::fec::BlockEncoder;
use crate::frame::{BlockPlace, ParityHeader};
use crate::send_stream::SendStream;

/// The maximum number of blocks whose state is kept. Lost segments of older blocks are
/// retransmitted at once.
const MAX_BLOCKS: usize = 4096;

/// A parity symbol that waits to be sent.
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

/// The state of a block: the numbers of its symbols that are unsent, in flight and acknowledged,
/// and its missing segments.
#[derive(Debug, Default)]
struct BlockState {
    closed: bool,
    unsent: usize,
    in_flight: usize,
    acked: usize,
    missing: Vec<(Range<u64>, bool)>,
}

/// The sender's state of forward error correction.
#[derive(Debug)]
pub(crate) struct Redundancy {
    encoder: Option<BlockEncoder>,
    next_block: u32,
    open: Option<Open>,
    ready: VecDeque<Symbol>,
    blocks: BTreeMap<u32, BlockState>,
    /// Segments to be retransmitted: the range in the stream, and `true` if the stream ends after
    /// it.
    released: Vec<(Range<u64>, bool)>,
}

impl Redundancy {
    /// Creates the state for an encoder. `None` disables forward error correction.
    pub(crate) fn new(encoder: Option<BlockEncoder>) -> Self {
        Self {
            encoder,
            next_block: 0,
            open: None,
            ready: VecDeque::new(),
            blocks: BTreeMap::new(),
            released: Vec::new(),
        }
    }

    /// Adds a new segment to the open block. Returns its place, or `None` if the segment is not
    /// protected.
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
            self.blocks.insert(open.block, BlockState::default());
            while self.blocks.len() > MAX_BLOCKS {
                if let Some((_, state)) = self.blocks.pop_first() {
                    self.released.extend(state.missing);
                }
            }
        }
        Some(BlockPlace {
            block: open.block,
            index,
        })
    }

    /// Returns the place in a block that the next segment will get.
    pub(crate) fn next_place(&self) -> Option<BlockPlace> {
        let encoder = self.encoder.as_ref()?;
        Some(BlockPlace {
            block: self
                .open
                .as_ref()
                .map_or(self.next_block, |open| open.block),
            // `try_from` does not fail, because blocks have at most 254 segments.
            index: u8::try_from(encoder.len()).ok()?,
        })
    }

    /// Returns the number of segments of the open block.
    pub(crate) fn open_segments(&self) -> usize {
        self.encoder.as_ref().map_or(0, BlockEncoder::len)
    }

    /// Closes the open block with this many parity symbols.
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
                        // The cast is lossless, because a block has at most 255 segments and parity
                        // symbols together.
                        index: index as u8,
                    },
                    bytes: symbol.to_vec(),
                });
                made += 1;
            }
        }
        if let Some(state) = self.blocks.get_mut(&open.block) {
            state.closed = true;
            state.unsent = made;
        }
        self.update(open.block);
    }

    pub(crate) fn has_symbol(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the length of the next symbol.
    pub(crate) fn next_symbol_len(&self) -> Option<usize> {
        self.ready.front().map(|symbol| symbol.bytes.len())
    }

    pub(crate) fn take_symbol(&mut self) -> Option<Symbol> {
        let symbol = self.ready.pop_front()?;
        if let Some(state) = self.blocks.get_mut(&symbol.header.block) {
            state.unsent -= 1;
            state.in_flight += 1;
        }
        Some(symbol)
    }

    /// Discards the next symbol, because it is larger than the current packet size.
    pub(crate) fn drop_symbol(&mut self) {
        if let Some(symbol) = self.take_symbol() {
            self.on_symbol_lost(symbol.header.block);
        }
    }

    pub(crate) fn on_symbol_acked(&mut self, block: u32) {
        if let Some(state) = self.blocks.get_mut(&block) {
            state.in_flight = state.in_flight.saturating_sub(1);
            state.acked += 1;
        }
        self.update(block);
    }

    pub(crate) fn on_symbol_lost(&mut self, block: u32) {
        if let Some(state) = self.blocks.get_mut(&block) {
            state.in_flight = state.in_flight.saturating_sub(1);
        }
        self.update(block);
    }

    /// Records that a segment of a block was lost.
    pub(crate) fn on_segment_lost(&mut self, block: u32, range: Range<u64>, end: bool) {
        match self.blocks.get_mut(&block) {
            Some(state) => {
                state.missing.push((range, end));
                self.update(block);
            }
            None => self.released.push((range, end)),
        }
    }

    /// Decides whether the missing segments of a block are retransmitted.
    fn update(&mut self, block: u32) {
        let Some(state) = self.blocks.get_mut(&block) else {
            return;
        };
        if !state.closed {
            return;
        }
        let to_come = state.unsent + state.in_flight;
        let hopeless = state.missing.len() > to_come + state.acked;
        if hopeless || to_come == 0 {
            self.released.append(&mut state.missing);
        }
        if to_come == 0 {
            self.blocks.remove(&block);
        }
    }

    /// Passes the segments to be retransmitted to the stream.
    pub(crate) fn release(&mut self, stream: &mut SendStream) {
        for (range, end) in self.released.drain(..) {
            stream.on_lost(range, end);
        }
    }
}
