//! Boolean circuits for two-party computation: what they are, where they come from, and how they
//! are prepared for garbling.
//!
//! * [`Circuit`] is the plain representation: gates in topological order over single-bit wires.
//! * [`Program`] is a circuit compiled for garbling: constants and inversions folded away, wires
//!   renumbered to reusable slots, independent gates grouped into batches.
//! * [`Builder`] makes circuits out of Rust functions over typed values.
//! * [`Bits`] is a packed string of bits: the value of inputs and outputs.
//!
//! * [`ProgramCache`] keeps programs in files, for circuits that take long to read and compile.
//!
//! The crate does no I/O beyond reading and writing circuits and programs and knows nothing about labels,
//! keys or networks.

#![forbid(unsafe_code)]

mod bits;
pub mod bristol;
pub mod builder;
mod cache;
pub mod catalogue;
mod circuit;
pub mod generators;
mod hex;
mod program;
mod split;
#[cfg(test)]
mod testing;

pub use bits::{Bits, BitsError};
pub use bristol::BristolError;
pub use builder::{Bit, Builder, FixedValue, Int, UInt, Value, Word};
pub use cache::{CacheError, ProgramCache, SourceKey};
pub use circuit::{Circuit, CircuitError, Gate, Op, Wire};
pub use hex::hex;
pub use program::{
    Batch, BatchKind, INVERT, Load, LoadError, OutputBit, Program, ProgramError, ProgramGate,
    Progress,
};
pub use split::{InputSplit, SplitError};
