//! Forward error correction: a systematic block code, so that what is lost need not be asked for.
//!
//! | module | idea |
//! | --- | --- |
//! | `encoder` | parity of a block of segments |
//! | `decoder` | segments that did not come, from those that did and parity |
//! | `code` | the coefficients of parity, and how to solve for what is missing |
//! | `field` | the arithmetic of that |
//! | `policy` | how much parity is worth its bytes |
//!
//! A block is a run of consecutive segments of the stream. Its symbols are `length | data | zeros`:
//! two bytes of length, big endian, then the segment, padded to the longest of the block. Parity is
//! a Reed-Solomon code over GF(2^8) of the symbols: of k segments and m parity symbols, any k give
//! back all (I. S. Reed, G. Solomon, *Polynomial codes over certain finite fields*, 1960).

mod code;
mod decoder;
mod encoder;
mod field;
mod policy;

pub use decoder::{DecoderStore, Limits, Outcome, ParityId};
pub use encoder::{BlockEncoder, ParitySymbols};
pub use policy::{BLOCK_SEGMENTS, LossEstimate, Plan, SMALL_BLOCK};

/// Segments and parity symbols of a block together are no more than this.
pub const MAX_SYMBOLS: usize = 255;

/// No segment is longer.
pub const MAX_SEGMENT: usize = 9000;

/// Bytes before the segment in a symbol.
pub const LENGTH_BYTES: usize = 2;

/// Returns how long the symbols of a block are whose longest segment has this length.
#[must_use]
pub const fn symbol_len(longest_segment: usize) -> usize {
    longest_segment + LENGTH_BYTES
}

/// What is wrong with a block, or with what a peer says about one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FecError {
    /// A segment is empty, or longer than what fits.
    #[error("a segment of {got} bytes: expected 1 to {most}")]
    SegmentLength {
        /// What came.
        got: usize,
        /// The most that fits.
        most: usize,
    },
    /// A block has no segments, or too many with its parity.
    #[error(
        "a block of {segments} segments and {parity} parity symbols: expected at least one, and 255 together"
    )]
    BlockSize {
        /// Segments.
        segments: usize,
        /// Parity symbols.
        parity: usize,
    },
    /// The length of a parity symbol is out of range.
    #[error("a parity symbol of {got} bytes")]
    SymbolLength {
        /// What came.
        got: usize,
    },
    /// Packets of one block disagree about it.
    #[error("two packets disagree about the {what} of a block")]
    Conflict {
        /// About what.
        what: &'static str,
    },
    /// What the code gave back is no symbol: somebody encoded other bytes than were sent.
    #[error("a block decodes to something that is not a segment")]
    Corrupt,
}
