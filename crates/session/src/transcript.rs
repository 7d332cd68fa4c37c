//! The running hash of one direction of a session.

use crate::wire::{FrameKind, HEADER_LEN};

/// Hashes the frames of one direction in order.
///
/// Over a link that is not encrypted the hash covers every byte; over an encrypted link the link
/// already authenticates the tables, which are nearly all of the traffic, so only their headers
/// are hashed.
pub(crate) struct Transcript {
    hasher: blake3::Hasher,
    covers_tables: bool,
}

impl Transcript {
    pub(crate) fn new(covers_tables: bool) -> Self {
        let hasher = blake3::Hasher::new_derive_key("transpute 1 transcript of one direction");
        Self {
            hasher,
            covers_tables,
        }
    }

    /// Adds one frame as it stands in the stream, header included.
    pub(crate) fn add_frame(&mut self, frame: &[u8]) {
        let (header, payload) = frame.split_at(HEADER_LEN);
        self.hasher.update(header);
        if self.covers_tables || header[0] != FrameKind::Tables as u8 {
            self.hasher.update(payload);
        }
    }

    /// Adds one received frame.
    pub(crate) fn add(&mut self, kind: FrameKind, payload: &[u8]) {
        self.hasher.update(&[kind as u8]);
        self.hasher.update(&(payload.len() as u32).to_le_bytes());
        if self.covers_tables || kind != FrameKind::Tables {
            self.hasher.update(payload);
        }
    }

    /// Returns the hash of all frames so far.
    pub(crate) fn hash(&self) -> [u8; 32] {
        *self.hasher.finalize().as_bytes()
    }
}
