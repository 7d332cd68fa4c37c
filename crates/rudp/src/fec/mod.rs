//! Forward error correction with a systematic block code.
//!
//! | module | contents |
//! | --- | --- |
//! | `encoder` | computation of the parity symbols of a block |
//! | `decoder` | recovery of missing segments from received segments and parity symbols |
//! | `code` | the coefficients of the code, and the solution of its equations |
//! | `field` | arithmetic of GF(2^8) |
//! | `policy` | the number of parity symbols |
//!
//! A block consists of consecutive segments of the stream. Its symbols are `length | data | zeros`:
//! a length of two bytes, big endian, then the segment, padded to the longest one of the block. The
//! code is a Reed-Solomon code over GF(2^8): any k of the k segments and m parity symbols recover
//! all segments (I. S. Reed, G. Solomon, *Polynomial codes over certain finite fields*, 1960).

mod code;
mod decoder;
mod encoder;
mod field;
mod policy;

pub use decoder::{DecoderLimits, DecoderStore, ParityId, SymbolOutcome};
pub use encoder::{BlockEncoder, ParitySymbols};
pub use policy::{BLOCK_SEGMENTS, BlockPlan, LossEstimate, SMALL_BLOCK};

/// The maximum number of segments and parity symbols of a block together.
pub const MAX_SYMBOLS: usize = 255;

/// The maximum length of a segment, in bytes.
pub const MAX_SEGMENT: usize = 9000;

/// The size of the length field of a symbol, in bytes.
pub const LENGTH_BYTES: usize = 2;

/// Returns the length of the symbols of a block whose longest segment has this length.
#[must_use]
pub const fn symbol_len(longest_segment: usize) -> usize {
    longest_segment + LENGTH_BYTES
}

/// Error in a block, or in a peer's description of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FecError {
    /// A segment is empty or too long.
    #[error("expected a segment of 1 to {max} bytes, got {got}")]
    SegmentLength {
        /// The length of the segment.
        got: usize,
        /// The maximum length.
        max: usize,
    },
    /// A block has no segments, or too many symbols.
    #[error(
        "expected at least one segment and at most 255 symbols, got {segments} segments and {parity} parity symbols"
    )]
    BlockSize {
        /// The number of segments.
        segments: usize,
        /// The number of parity symbols.
        parity: usize,
    },
    /// The length of a parity symbol is out of range.
    #[error("expected a parity symbol within the limits of a segment, got {got} bytes")]
    SymbolLength {
        /// The length of the parity symbol.
        got: usize,
    },
    /// Packets of one block contradict each other.
    #[error("expected packets that agree about the {what} of a block, got two that differ")]
    Conflict {
        /// The property in which they differ.
        what: &'static str,
    },
    /// The decoded bytes are not a segment: the sender encoded other bytes than it sent.
    #[error("expected a block that decodes to segments, got other bytes")]
    Corrupt,
}
