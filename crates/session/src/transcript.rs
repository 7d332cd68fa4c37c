//! The running hash of one direction of a session.

use crc_fast::CrcAlgorithm;

use crate::wire::FrameKind;

/// The running hash of the frames of one direction of a run, in order.
///
/// Tables are nearly all of the traffic, so their bytes are not hashed. The hash includes their
/// headers and, over an unencrypted link, a checksum of their bytes. A checksum suffices over an
/// unencrypted link, because an attacker on the path could also change the hash when it is sent. An
/// encrypted link authenticates all bytes.
pub(crate) struct Transcript {
    hasher: blake3::Hasher,
    /// Bytes that are not hashed yet, fewer than [`STRIDE`].
    staged: Vec<u8>,
    covers_tables: bool,
}

/// The checksum of tables, of 64 bits. With carry-less multiplication instructions, it is as fast
/// as reading memory.
const CHECKSUM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

fn checksum(tables: &[u8]) -> u64 {
    crc_fast::checksum(CHECKSUM, tables)
}

/// The transcript entry of a frame of tables that is ignored, because the garbler will start again.
#[derive(Clone, Copy)]
pub(crate) struct Skipped {
    /// Length of the payload, in bytes.
    pub(crate) len: u32,
    checksum: u64,
}

impl Skipped {
    pub(crate) fn new(payload: &[u8]) -> Self {
        Self {
            // The cast is exact, because a frame is at most about 1 MiB.
            len: payload.len() as u32,
            checksum: checksum(payload),
        }
    }
}

/// Number of bytes that are passed to the hash at once. BLAKE3 hashes 16 KiB in parallel, 1 KiB in
/// each lane of the widest registers, if they start at a multiple of 16 KiB. It hashes other input
/// in shorter steps, at worst 1 KiB at a tenth of the speed. Frames have any length, so their bytes
/// are collected first.
const STRIDE: usize = 16 << 10;

impl Transcript {
    pub(crate) fn new(covers_tables: bool) -> Self {
        let hasher = blake3::Hasher::new_derive_key("transpute 1 transcript of one direction");
        Self {
            hasher,
            staged: Vec::new(),
            covers_tables,
        }
    }

    /// Adds one frame.
    pub(crate) fn add(&mut self, kind: FrameKind, payload: &[u8]) {
        self.update(&[kind as u8]);
        self.update(&(payload.len() as u32).to_le_bytes());
        match kind {
            FrameKind::Tables if self.covers_tables => {
                self.update(&checksum(payload).to_le_bytes());
            }
            FrameKind::Tables => {}
            _ => self.update(payload),
        }
    }

    /// Adds a frame of tables that was ignored.
    pub(crate) fn add_skipped(&mut self, skipped: &Skipped) {
        self.update(&[FrameKind::Tables as u8]);
        self.update(&skipped.len.to_le_bytes());
        if self.covers_tables {
            self.update(&skipped.checksum.to_le_bytes());
        }
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
        let mut cut = Transcript::new(true);
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
    fn tables_count_by_their_checksum_where_nothing_authenticates_them() {
        let hash = |covers_tables, tables: &[u8]| {
            let mut transcript = Transcript::new(covers_tables);
            transcript.add(FrameKind::Tables, tables);
            transcript.hash()
        };
        // The check value of CRC-64/NVME, from the NVM Express specification.
        let mut expected = documented();
        expected.update(&[FrameKind::Tables as u8]);
        expected.update(&9_u32.to_le_bytes());
        expected.update(&0xae8b_1486_0a79_9888_u64.to_le_bytes());
        assert_eq!(hash(true, b"123456789"), *expected.finalize().as_bytes());

        let mut tables = vec![5; 70_000];
        let before = [false, true].map(|covers_tables| hash(covers_tables, &tables));
        tables[50_001] ^= 0x40;
        let after = [false, true].map(|covers_tables| hash(covers_tables, &tables));
        assert_eq!(before[0], after[0]);
        assert_ne!(before[1], after[1]);
    }
}
