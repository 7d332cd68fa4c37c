//! Errors of invalid settings.

use thiserror::Error;

use crate::schemes::SchemeSet;

/// The error of a setting that is not valid.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The batch has no evaluations.
    #[error("a batch has at least one evaluation")]
    EmptyBatch,
    /// The chunk length is out of range.
    #[error("the chunk length is {found} bytes; it must be 64 to 1048576")]
    ChunkLen {
        /// The given length, in bytes.
        found: u32,
    },
    /// Several garbling schemes are allowed, but not all have free XOR and a re-key period of 1.
    #[error(
        "{allowed} cannot be left to choose from: all must be with free XOR and a re-key period of 1"
    )]
    Schemes {
        /// The allowed schemes.
        allowed: SchemeSet,
    },
    /// Direct oblivious transfer is set for more input bits than fit in one message.
    #[error("direct oblivious transfer takes at most {maximum} input bits, not {count}")]
    TooManyForDirect {
        /// The maximum number of input bits.
        maximum: u64,
        /// The number of the evaluator's input bits in the whole batch.
        count: u64,
    },
    /// A kind of oblivious transfer is set for a prepared run, which must take its transfers from
    /// the connection's pool.
    #[error("a prepared run takes its oblivious transfers from the connection: leave them to it")]
    OtOfPrepared,
    /// The number of input bits of the batch does not fit in 64 bits.
    #[error("a batch of {batch} evaluations has too many input bits")]
    TooLarge {
        /// The given batch size.
        batch: u64,
    },
}

/// The error of a word that names no value of a setting.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{found:?} is none of {expected}")]
pub struct UnknownName {
    /// The given word.
    pub(crate) found: String,
    /// The valid names.
    pub(crate) expected: &'static str,
}
