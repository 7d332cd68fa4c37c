//! The running hash of one direction of a session.

use crate::wire::FrameKind;

/// The running hash of the frames of one direction of a run, in order.
///
/// Tables are nearly all of the traffic, so only the headers of their frames are hashed. An
/// encrypted link authenticates the tables themselves. In plaintext, the check of the outputs finds
/// a change that would change an output, unless this check is disabled.
pub(crate) struct Transcript {
    hasher: blake3::Hasher,
    /// Bytes that are not hashed yet, fewer than [`STRIDE`].
    staged: Vec<u8>,
}

/// Number of bytes that are passed to the hash at once. BLAKE3 hashes 16 KiB in parallel, 1 KiB in
/// each lane of the widest registers, if they start at a multiple of 16 KiB. It hashes other input
/// in shorter steps, at worst 1 KiB at a tenth of the speed. Frames have any length, so their bytes
/// are collected first.
const STRIDE: usize = 16 << 10;

impl Transcript {
    pub(crate) fn new() -> Self {
        let hasher = blake3::Hasher::new_derive_key("transpute 1 transcript of one direction");
        Self {
            hasher,
            staged: Vec::new(),
        }
    }

    /// Adds one frame.
    pub(crate) fn add(&mut self, kind: FrameKind, payload: &[u8]) {
        self.add_header(kind, payload.len() as u32);
        if kind != FrameKind::Tables {
            self.update(payload);
        }
    }

    /// Adds the header of a frame whose payload has `len` bytes.
    pub(crate) fn add_header(&mut self, kind: FrameKind, len: u32) {
        self.update(&[kind as u8]);
        self.update(&len.to_le_bytes());
    }

    /// Returns the hash of all frames so far.
    pub(crate) fn hash(&self) -> [u8; 32] {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.staged);
        *hasher.finalize().as_bytes()
    }

    fn update(&mut self, mut bytes: &[u8]) {
        if !self.staged.is_empty() {
            let (first, rest) = bytes.split_at(bytes.len().min(STRIDE - self.staged.len()));
            self.staged.extend_from_slice(first);
            if self.staged.len() < STRIDE {
                return;
            }
            self.hasher.update(&self.staged);
            self.staged.clear();
            bytes = rest;
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % STRIDE);
        if !whole.is_empty() {
            self.hasher.update(whole);
        }
        self.staged.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the hash of the empty input, as docs/protocol.md defines it.
    fn documented() -> blake3::Hasher {
        blake3::Hasher::new_derive_key("transpute 1 transcript of one direction")
    }

    #[test]
    fn the_hash_does_not_depend_on_where_frames_end() {
        let bytes: Vec<u8> = (0..6 * STRIDE).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut whole = documented();
        let mut cut = Transcript::new();
        let lengths = [0, 1, STRIDE - 1, STRIDE, STRIDE + 1, 5, 2 * STRIDE - 7, 13];
        let mut rest = &bytes[..];
        for len in lengths {
            let (part, behind) = rest.split_at(len);
            rest = behind;
            cut.add(FrameKind::GarblerLabels, part);
            whole.update(&[FrameKind::GarblerLabels as u8]);
            whole.update(&(len as u32).to_le_bytes());
            whole.update(part);
            assert_eq!(cut.hash(), *whole.finalize().as_bytes(), "up to {len}");
        }
    }

    #[test]
    fn tables_count_by_their_length() {
        let hash = |tables: &[u8]| {
            let mut transcript = Transcript::new();
            transcript.add(FrameKind::Tables, tables);
            transcript.hash()
        };
        let mut expected = documented();
        expected.update(&[FrameKind::Tables as u8]);
        expected.update(&9_u32.to_le_bytes());
        assert_eq!(hash(b"123456789"), *expected.finalize().as_bytes());
        assert_eq!(hash(b"987654321"), hash(b"123456789"));
        assert_ne!(hash(b"12345678"), hash(b"123456789"));
    }
}
