//! Boolean circuits for two-party computation: representation, construction, circuit files, and
//! compilation for garbling.
//!
//! * [`Circuit`] is a list of gates over single-bit wires, in topological order.
//! * [`Builder`] makes circuits from Rust functions over typed values. [`generators`] and
//!   [`catalogue`] have ready-made circuits.
//! * [`bristol`] reads and writes circuit files in Bristol Fashion and in the older Bristol format.
//! * [`Program`] is a circuit compiled for garbling: constants and inversions are folded, wires
//!   share reusable slots, and independent gates are grouped into batches.
//! * [`ProgramCache`] stores compiled programs in files, so that a circuit is read and compiled
//!   only once.
//! * [`Bits`] is a packed string of bits, such as an input or output value.
//! * [`InputSplit`] assigns each input value to the garbler or the evaluator.
//!
//! The crate does no I/O except for circuit files and program files. Garbling and the network
//! protocol are in other crates.
//!
//! # Examples
//!
//! Build a circuit, compile it, and evaluate both forms on plaintext bits:
//!
//! ```
//! use transpute_circuit::{Bits, Builder, Program, UInt};
//!
//! let circuit = Builder::build(|b| {
//!     let (x, y) = (b.input::<UInt<8>>(), b.input::<UInt<8>>());
//!     b.output(x + y);
//! })?;
//! let program = Program::compile(&circuit);
//! assert_eq!(program.and_count(), 7);
//!
//! let mut inputs = Bits::from_decimal("40", 8)?;
//! inputs.extend([Bits::from_decimal("2", 8)?]);
//! assert_eq!(circuit.evaluate(&inputs)?.to_u128(), Some(42));
//! assert_eq!(program.evaluate(&inputs).to_u128(), Some(42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
    Batch, BatchKind, CompileProgress, INVERT, Load, LoadError, OutputBit, Program, ProgramError,
    ProgramGate,
};
pub use split::{InputSplit, SplitError};
