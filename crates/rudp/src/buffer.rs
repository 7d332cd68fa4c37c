//! A buffer for a range of a stream, allocated in chunks.

use std::collections::VecDeque;
use std::ops::Range;

/// The size of a chunk, in bytes.
const CHUNK_BYTES: u64 = 65_536;

/// The maximum number of free chunks that are kept for reuse: more than a writer fills after one
/// wake-up.
const MAX_SPARE_CHUNKS: usize = 16;

/// A sparse buffer for the offsets of a stream from [`start`](Self::start) on.
///
/// A chunk is allocated at the first write to it. The caller keeps track of the written ranges:
/// other ranges read as whatever the chunk contained before, which is never data of another
/// connection.
#[derive(Debug, Default)]
pub(crate) struct ChunkBuffer {
    /// The first offset that is still held.
    start: u64,
    /// The number of the first chunk: its offset divided by [`CHUNK_BYTES`].
    first: u64,
    chunks: VecDeque<Option<Box<[u8]>>>,
    spare: Vec<Box<[u8]>>,
}

impl ChunkBuffer {
    /// Returns the first offset that is still held.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Writes bytes at an offset. Bytes before the start are ignored.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let skipped = self.start.saturating_sub(offset).min(data.len() as u64);
        let (mut offset, mut data) = (offset + skipped, &data[skipped as usize..]);
        while !data.is_empty() {
            let (index, within) = self.locate(offset);
            let take = data.len().min(CHUNK_BYTES as usize - within);
            while self.chunks.len() <= index {
                self.chunks.push_back(None);
            }
            let spare = &mut self.spare;
            let chunk = self.chunks[index].get_or_insert_with(|| {
                (spare.pop()).unwrap_or_else(|| vec![0; CHUNK_BYTES as usize].into_boxed_slice())
            });
            chunk[within..within + take].copy_from_slice(&data[..take]);
            data = &data[take..];
            offset += take as u64;
        }
    }

    /// Calls `piece` with the contents of a range, in order.
    ///
    /// Chunks that were never written or are released are skipped.
    pub(crate) fn read(&self, range: Range<u64>, mut piece: impl FnMut(&[u8])) {
        let mut offset = range.start.max(self.start);
        while offset < range.end {
            let (index, within) = self.locate(offset);
            let take = (range.end - offset).min(CHUNK_BYTES - within as u64);
            if let Some(Some(chunk)) = self.chunks.get(index) {
                piece(&chunk[within..within + take as usize]);
            }
            offset += take;
        }
    }

    /// Releases all bytes before this offset.
    pub(crate) fn release(&mut self, start: u64) {
        self.start = self.start.max(start);
        while self.first < self.start / CHUNK_BYTES {
            let Some(chunk) = self.chunks.pop_front() else {
                self.first = self.start / CHUNK_BYTES;
                break;
            };
            self.first += 1;
            if let Some(chunk) = chunk
                && self.spare.len() < MAX_SPARE_CHUNKS
            {
                self.spare.push(chunk);
            }
        }
    }

    fn locate(&self, offset: u64) -> (usize, usize) {
        // Callers pass offsets at or after `start`. Flow-control windows limit the distance from
        // `start`, so the casts to usize are lossless.
        (
            (offset / CHUNK_BYTES - self.first) as usize,
            (offset % CHUNK_BYTES) as usize,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_read_across_chunks_and_after_a_release() {
        let mut buffer = ChunkBuffer::default();
        let data: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        // The writes are out of order, with an overlap.
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
        // A late duplicate does not change the contents.
        buffer.write(131_000, &data[131_000..131_100]);
        assert_eq!(collect(&buffer, 131_073..200_000), data[131_073..]);
        buffer.release(1_000_000);
        buffer.write(1_000_000, &[7]);
        assert_eq!(collect(&buffer, 1_000_000..1_000_001), [7]);
        assert_eq!(buffer.chunks.len(), 1);
    }
}
