//! Settings that cannot work.

use thiserror::Error;

use crate::schemes::SchemeSet;

/// A setting that cannot work.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// No evaluations.
    #[error("a batch has at least one evaluation")]
    EmptyBatch,
    /// A chunk length out of range.
    #[error("the chunk length is {found} bytes; it must be 64 to 1048576")]
    ChunkLen {
        /// The length given.
        found: u32,
    },
    /// Several garbling schemes that a session cannot change between.
    #[error(
        "{allowed} cannot be left to choose from: all must be with free XOR and a re-key period of 1"
    )]
    Schemes {
        /// The schemes given.
        allowed: SchemeSet,
    },
    /// Direct OT for more bits than fit in one message.
    #[error("direct oblivious transfer takes at most {maximum} input bits, not {count}")]
    TooManyForDirect {
        /// How many there may be.
        maximum: u64,
        /// Evaluator input bits of the batch.
        count: u64,
    },
    /// A demand on the oblivious transfers of a prepared run.
    #[error("a prepared run takes its oblivious transfers from the connection: leave them to it")]
    OtOfPrepared,
    /// More input bits in the whole batch than can be counted.
    #[error("a batch of {batch} evaluations has too many input bits")]
    TooLarge {
        /// The batch size given.
        batch: u64,
    },
}

/// A word that is none of the names of a setting.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{found:?} is none of {expected}")]
pub struct UnknownName {
    /// The word given.
    pub(crate) found: String,
    /// The names there are.
    pub(crate) expected: &'static str,
}
