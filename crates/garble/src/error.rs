//! Errors of garbling and evaluating.

use thiserror::Error;

use crate::{Backend, Scheme};

/// The reason why a garbler or an evaluator rejects a call or a message.
///
/// No variant contains a secret.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum GarbleError {
    /// The CPU lacks the instructions of the requested back end.
    #[error("the AES back end {wanted} is not available on this machine, expected one of {}", names(&Backend::available()))]
    BackendUnavailable {
        /// The back end requested.
        wanted: Backend,
    },
    /// There is no garbling scheme of this name.
    #[error("unknown garbling scheme {found:?}, expected one of {}", Scheme::ALL.map(|scheme| scheme.to_string()).join(", "))]
    UnknownScheme {
        /// The name given.
        found: String,
    },
    /// The environment variable [`Backend::VARIABLE`] does not name a back end.
    #[error("unknown AES back end {found:?} in {}, expected one of {}", Backend::VARIABLE, names(&Backend::ALL))]
    UnknownBackend {
        /// The name given.
        found: String,
    },
    /// The re-key period is not a power of two in range, or is not 1 for a scheme without
    /// re-keying.
    #[error("a re-key period of {found} does not fit {scheme}: expected {}", rekey_periods(*.scheme))]
    RekeyPeriod {
        /// The scheme.
        scheme: Scheme,
        /// The re-key period given.
        found: u32,
    },
    /// The input split does not match the widths of the program's input values.
    #[error("the input split is for values of widths {found:?}, the program takes {expected:?}")]
    SplitMismatch {
        /// Widths of the program's input values.
        expected: Vec<u32>,
        /// Widths of the split's input values.
        found: Vec<u32>,
    },
    /// The number of the garbler's input bits is wrong.
    #[error("the garbler provides {expected} input bits, not {found}")]
    InputCount {
        /// Number of the garbler's input bits in the program.
        expected: usize,
        /// Number of bits given.
        found: usize,
    },
    /// The number of input labels of a party is wrong, or labels were passed that this scheme does
    /// not send.
    #[error("expected {expected} input labels of the {party}, got {found}")]
    LabelCount {
        /// The party whose inputs the labels belong to.
        party: &'static str,
        /// Number of labels that the program needs.
        expected: usize,
        /// Number of labels given.
        found: usize,
    },
    /// The instances would use more than 2^56 tweaks, the limit for one [`Params`](crate::Params).
    #[error("instance {instance} would use gate tweaks past 2^56")]
    TooManyGates {
        /// The first instance that would exceed the limit.
        instance: u64,
    },
    /// The call is allowed only after the instances in progress are finished.
    #[error("instance {instance} is not finished")]
    Unfinished {
        /// The first instance in progress.
        instance: u64,
    },
    /// The number of instances to garble side by side is neither 1 nor [`LANES`](crate::LANES).
    #[error("1 or 8 instances can be garbled side by side, not {found}")]
    LaneCount {
        /// The number of instances given.
        found: usize,
    },
    /// No instance is in progress, so there is no next chunk.
    #[error("no instance is in progress")]
    NoInstance,
    /// No instance is finished, or all outputs of the finished instances were taken.
    #[error("no finished instance whose outputs were not taken yet")]
    NoOutputs,
    /// The maximum chunk length is too small.
    #[error("chunks need room for at least {min} bytes, not {found}")]
    ChunkLimit {
        /// The smallest allowed maximum length, in bytes.
        min: usize,
        /// The maximum length given, in bytes.
        found: usize,
    },
    /// The length of a chunk does not match the program, the scheme and the limit.
    #[error("expected a chunk of {expected} bytes, got {found}")]
    ChunkLength {
        /// Length of the next chunk, in bytes.
        expected: usize,
        /// Length of the chunk given, in bytes.
        found: usize,
    },
    /// The length of the decoding information is wrong.
    #[error("expected {expected} bytes of decoding information, got {found}")]
    DecodeLength {
        /// Length of the decoding information for the program, in bytes.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The decoding information has unused bits set.
    #[error("decoding information has unused bits set")]
    DecodePadding,
    /// The number of output colours is wrong.
    #[error("expected {expected} output colours, got {found}")]
    ColourCount {
        /// Number of output bits of the program.
        expected: usize,
        /// Number of colours given.
        found: usize,
    },
    /// An output label is neither of the garbler's two labels.
    #[error("the output labels do not belong to this garbling: tables or labels were altered")]
    OutputRejected,
    /// The evaluator claims outputs for which it does not hold the labels.
    #[error("the evaluator's output tag does not match the outputs it claims")]
    TagRejected,
}

fn rekey_periods(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::HalfGates => "a power of two from 1 to 2^20",
        _ => "1",
    }
}

fn names(backends: &[Backend]) -> String {
    let names: Vec<_> = backends.iter().map(ToString::to_string).collect();
    names.join(", ")
}
