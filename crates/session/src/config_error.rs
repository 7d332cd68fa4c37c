//! Errors of settings.

use thiserror::Error;

use crate::schemes::SchemeSet;

/// A setting that is not valid.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The batch has no evaluations.
    #[error("a batch has at least one evaluation")]
    EmptyBatch,
    /// The chunk length is out of range.
    #[error("the chunk length is {found} bytes; it must be 64 to 1048576")]
    ChunkLen {
        /// The given length.
        found: u32,
    },
    /// A session cannot change between these garbling schemes.
    #[error(
        "{allowed} cannot be left to choose from: all must be with free XOR and a re-key period of 1"
    )]
    Schemes {
        /// The given schemes.
        allowed: SchemeSet,
    },
    /// Direct OT is set for more bits than fit in one message.
    #[error("direct oblivious transfer takes at most {maximum} input bits, not {count}")]
    TooManyForDirect {
        /// The maximum number of bits.
        maximum: u64,
        /// The evaluator's input bits of the batch.
        count: u64,
    },
    /// The kind of oblivious transfer is set for a prepared run.
    #[error("a prepared run takes its oblivious transfers from the connection: leave them to it")]
    OtOfPrepared,
    /// The batch has too many input bits to be counted.
    #[error("a batch of {batch} evaluations has too many input bits")]
    TooLarge {
        /// The given batch size.
        batch: u64,
    },
}

/// A word that is not a name of a setting's value.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{found:?} is none of {expected}")]
pub struct UnknownName {
    /// The given word.
    pub(crate) found: String,
    /// The valid names.
    pub(crate) expected: &'static str,
}
