//! Bytes of a stream between two places, in chunks that come and go.

use std::collections::VecDeque;
use std::ops::Range;

/// How many bytes one allocation holds.
const CHUNK: u64 = 65_536;

/// How many free chunks are kept for reuse: as much as a writer that was woken writes at once, and
/// more.
const SPARE_CHUNKS: usize = 16;

/// A sparse buffer over the places of a stream from [`start`](Self::start) on.
///
/// Chunks are allocated where something is written. The caller knows what it has written: other
/// places read as whatever was there before, and never as another connection's bytes.
#[derive(Debug, Default)]
pub(crate) struct ChunkBuffer {
    /// What [`release`](Self::release) was called with last.
    start: u64,
    /// Number of the first chunk.
    first: u64,
    chunks: VecDeque<Option<Box<[u8]>>>,
    spare: Vec<Box<[u8]>>,
}

impl ChunkBuffer {
    /// Returns the first place that is still held.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Writes bytes at a place. What lies before the start is left out.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let skipped = self.start.saturating_sub(offset).min(data.len() as u64);
        let (mut offset, mut data) = (offset + skipped, &data[skipped as usize..]);
        while !data.is_empty() {
            let (index, within) = self.locate(offset);
            let take = data.len().min(CHUNK as usize - within);
            while self.chunks.len() <= index {
                self.chunks.push_back(None);
            }
            let spare = &mut self.spare;
            let chunk = self.chunks[index].get_or_insert_with(|| {
                (spare.pop()).unwrap_or_else(|| vec![0; CHUNK as usize].into_boxed_slice())
            });
            chunk[within..within + take].copy_from_slice(&data[..take]);
            data = &data[take..];
            offset += take as u64;
        }
    }

    /// Calls back with the pieces that make up a range, in order.
    ///
    /// Pieces that were never written, or are released, are left out.
    pub(crate) fn read(&self, range: Range<u64>, mut piece: impl FnMut(&[u8])) {
        let mut offset = range.start.max(self.start);
        while offset < range.end {
            let (index, within) = self.locate(offset);
            let take = (range.end - offset).min(CHUNK - within as u64);
            if let Some(Some(chunk)) = self.chunks.get(index) {
                piece(&chunk[within..within + take as usize]);
            }
            offset += take;
        }
    }

    /// Forgets everything before this place.
    pub(crate) fn release(&mut self, start: u64) {
        self.start = self.start.max(start);
        while self.first < self.start / CHUNK {
            let Some(chunk) = self.chunks.pop_front() else {
                self.first = self.start / CHUNK;
                break;
            };
            self.first += 1;
            if let Some(chunk) = chunk
                && self.spare.len() < SPARE_CHUNKS
            {
                self.spare.push(chunk);
            }
        }
    }

    fn locate(&self, offset: u64) -> (usize, usize) {
        // Offsets never lie before the start, and the span is bounded by windows far below the
        // range of usize.
        (
            (offset / CHUNK - self.first) as usize,
            (offset % CHUNK) as usize,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_across_chunks_and_after_release() {
        let mut buffer = ChunkBuffer::default();
        let data: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        // Out of order, with an overlap.
        buffer.write(100_000, &data[100_000..]);
        buffer.write(0, &data[..100_010]);
        let collect = |buffer: &ChunkBuffer, range| {
            let mut out = Vec::new();
            buffer.read(range, |piece| out.extend_from_slice(piece));
            out
        };
        assert_eq!(collect(&buffer, 0..200_000), data);
        buffer.release(131_073);
        assert_eq!(buffer.start(), 131_073);
        assert_eq!(buffer.chunks.len(), 2);
        assert_eq!(collect(&buffer, 131_073..200_000), data[131_073..]);
        assert_eq!(collect(&buffer, 0..131_074), data[131_073..131_074]);
        // A late duplicate does no harm.
        buffer.write(131_000, &data[131_000..131_100]);
        assert_eq!(collect(&buffer, 131_073..200_000), data[131_073..]);
        buffer.release(1_000_000);
        buffer.write(1_000_000, &[7]);
        assert_eq!(collect(&buffer, 1_000_000..1_000_001), [7]);
        assert_eq!(buffer.chunks.len(), 1);
    }
}
