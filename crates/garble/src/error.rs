//! What can go wrong while garbling and evaluating.

use thiserror::Error;

use crate::{Backend, Scheme};

/// Why a garbler or an evaluator refuses to go on.
///
/// No variant carries a secret.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum GarbleError {
    /// The CPU lacks the instructions of the wanted back end.
    #[error("the AES back end {wanted} is not available on this machine, expected one of {}", names(&Backend::available()))]
    BackendUnavailable {
        /// The back end asked for.
        wanted: Backend,
    },
    /// No scheme has this name.
    #[error("unknown garbling scheme {found:?}, expected one of {}", Scheme::ALL.map(|scheme| scheme.to_string()).join(", "))]
    UnknownScheme {
        /// The name given.
        found: String,
    },
    /// The environment variable [`Backend::VARIABLE`] names no back end.
    #[error("unknown AES back end {found:?} in {}, expected one of {}", Backend::VARIABLE, names(&Backend::ALL))]
    UnknownBackend {
        /// The name given.
        found: String,
    },
    /// The re-key period is no power of two in range, or not 1 for a scheme that has none.
    #[error("a re-key period of {found} does not fit {scheme}: expected {}", rekey_periods(*.scheme))]
    RekeyPeriod {
        /// The scheme.
        scheme: Scheme,
        /// The period given.
        found: u32,
    },
    /// The input split was made for input values of other widths than the program has.
    #[error("the input split is for values of widths {found:?}, the program takes {expected:?}")]
    SplitMismatch {
        /// Widths of the program's input values.
        expected: Vec<u32>,
        /// Widths the split was made for.
        found: Vec<u32>,
    },
    /// The wrong number of input bits of the garbler.
    #[error("the garbler provides {expected} input bits, not {found}")]
    InputCount {
        /// Bits the program takes from the garbler.
        expected: usize,
        /// Bits given.
        found: usize,
    },
    /// The wrong number of input labels of one party, or labels where none are sent.
    #[error("expected {expected} input labels of the {party}, got {found}")]
    LabelCount {
        /// Whose inputs the labels are for.
        party: &'static str,
        /// Labels the program takes.
        expected: usize,
        /// Labels given.
        found: usize,
    },
    /// More gate tweaks than one offset and start value may serve.
    #[error("instance {instance} would use gate tweaks past 2^56")]
    TooManyGates {
        /// The instance that does not fit any more.
        instance: u64,
    },
    /// An instance is begun before the one before is finished.
    #[error("instance {instance} is not finished")]
    Unfinished {
        /// The instance in progress.
        instance: u64,
    },
    /// A number of instances that cannot be garbled side by side.
    #[error("1 or 8 instances can be garbled side by side, not {found}")]
    LaneCount {
        /// The number given.
        found: usize,
    },
    /// A chunk is asked for or handed in while no instance is in progress.
    #[error("no instance is in progress")]
    NoInstance,
    /// There are no outputs to take: none finished, or taken already.
    #[error("no finished instance whose outputs were not taken yet")]
    NoOutputs,
    /// The longest chunk allowed is too short for one gate.
    #[error("chunks need room for at least {min} bytes, not {found}")]
    ChunkLimit {
        /// Smallest limit.
        min: usize,
        /// The limit given.
        found: usize,
    },
    /// A chunk of another length than the program, the scheme and the limit say.
    #[error("expected a chunk of {expected} bytes, got {found}")]
    ChunkLength {
        /// Length of the next chunk.
        expected: usize,
        /// Length of the chunk given.
        found: usize,
    },
    /// Decoding information of the wrong length.
    #[error("expected {expected} bytes of decoding information, got {found}")]
    DecodeLength {
        /// Bytes the program has.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// Decoding information with bits set that mean nothing.
    #[error("decoding information has bits set past the last output")]
    DecodePadding,
    /// The wrong number of output colours.
    #[error("expected {expected} output colours, got {found}")]
    ColourCount {
        /// Output bits of the program.
        expected: usize,
        /// Colours given.
        found: usize,
    },
    /// An output label is neither of the two the garbler made.
    #[error("the output labels do not belong to this garbling: tables or labels were altered")]
    OutputRejected,
    /// The evaluator claims outputs it holds no labels for.
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
