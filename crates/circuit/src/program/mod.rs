//! The compiled form of a circuit.

mod check;
mod compile;
mod digest;
mod evaluate;
mod file;
mod fold;
mod progress;
mod schedule;
mod window;

pub use check::ProgramError;
pub use file::LoadError;
pub use progress::CompileProgress;

use crate::{Bits, circuit::split_values};

/// Marks an inverted operand of an AND gate in [`ProgramGate::a`] and [`ProgramGate::b`]; the other
/// bits are the slot.
pub const INVERT: u32 = 1 << 31;

/// A circuit compiled for garbling.
///
/// A program consists of XOR and AND gates over label *slots*. Constants, copies and inversions of
/// the [`Circuit`](crate::Circuit) are folded: an inverted wire is the same label with the opposite
/// meaning. Gates that reach no output are dropped, and a slot is reused when its wire is dead.
/// Gates are ordered so that mutually independent gates are consecutive and form a [`Batch`]. Input
/// bits get slots shortly before they are read, so the labels in use stay close together for any
/// number of inputs.
///
/// # Invariants
/// * An input bit that a gate or an output reads has exactly one [`Load`], and it is in no slot
///   before that.
/// * Within a batch, no gate reads or writes a slot that another gate of the batch writes, and no
///   gate writes a slot that any gate of the batch reads. A kernel may therefore process a batch in
///   any order and in any grouping.
/// * Operands of XOR gates never have [`INVERT`] set.
/// * All slots of loads, gates and outputs are below [`slot_count`](Self::slot_count).
/// * The slots of the outputs keep their labels to the end.
/// * The order of the gates is the order of the garbled tables. It depends only on the circuit and
///   is covered by the digest.
///
/// Both constructors guarantee the invariants: [`compile`](Self::compile) by construction, and
/// [`from_bytes`](Self::from_bytes) by checking them. The unsafe code of the kernels relies on the
/// ranges of slots and on the operands of XOR gates.
#[derive(Debug)]
pub struct Program {
    pub(crate) input_widths: Vec<u32>,
    pub(crate) output_widths: Vec<u32>,
    pub(crate) slot_count: u32,
    pub(crate) loads: Vec<Load>,
    pub(crate) gates: Vec<ProgramGate>,
    pub(crate) batches: Vec<Batch>,
    progress: Vec<CompileProgress>,
    pub(crate) outputs: Vec<OutputBit>,
    pub(crate) and_count: u64,
    pub(crate) xor_count: u64,
    pub(crate) digest: [u8; 32],
}

/// A gate whose operands and output are slots. An AND gate negates an operand that has [`INVERT`]
/// set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProgramGate {
    /// Slot of the first operand, possibly with [`INVERT`].
    pub a: u32,
    /// Slot of the second operand, possibly with [`INVERT`].
    pub b: u32,
    /// Slot of the output.
    pub out: u32,
}

/// The assignment of an input bit to a slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Load {
    /// Position of the bit among all input bits.
    pub input: u32,
    /// The slot that has the label of the bit from this batch on.
    pub slot: u32,
}

/// The kind of operations in a [`Batch`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BatchKind {
    /// XOR gates.
    Xor,
    /// AND gates.
    And,
    /// Loads of input bits.
    Input,
}

/// Consecutive gates of one kind that do not depend on each other, or consecutive loads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Batch {
    /// The kind of all operations.
    pub kind: BatchKind,
    /// The number of operations, at least 1.
    pub len: u32,
}

/// The source of an output bit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutputBit {
    /// A constant, independent of the inputs.
    Constant(bool),
    /// The value of a slot.
    Slot {
        /// The slot.
        slot: u32,
        /// Whether the output is the negation of the bit in the slot.
        invert: bool,
    },
}

impl Program {
    /// Returns the width of each input value, in bits.
    #[must_use]
    pub fn input_widths(&self) -> &[u32] {
        &self.input_widths
    }

    /// Returns the width of each output value, in bits.
    #[must_use]
    pub fn output_widths(&self) -> &[u32] {
        &self.output_widths
    }

    /// Returns the number of input bits.
    #[must_use]
    pub fn input_bits(&self) -> usize {
        self.input_widths.iter().map(|&width| width as usize).sum()
    }

    /// Returns the number of slots that a party needs: the peak number of live wires.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slot_count as usize
    }

    /// Returns all gates; the XOR and AND [`batches`](Program::batches) split this slice into runs.
    #[must_use]
    pub fn gates(&self) -> &[ProgramGate] {
        &self.gates
    }

    /// Returns all loads; the batches of [`BatchKind::Input`] split this slice into runs.
    #[must_use]
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Returns the batches in order; their lengths add up to the number of gates and loads.
    #[must_use]
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// Returns the source of each output bit, for all output values concatenated.
    #[must_use]
    pub fn outputs(&self) -> &[OutputBit] {
        &self.outputs
    }

    /// Returns the number of AND gates to garble.
    #[must_use]
    pub fn and_count(&self) -> u64 {
        self.and_count
    }

    /// Returns the number of XOR gates.
    #[must_use]
    pub fn xor_count(&self) -> u64 {
        self.xor_count
    }

    /// Returns the BLAKE3 digest of the canonical encoding.
    #[must_use]
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Splits concatenated output bits into the output values.
    ///
    /// # Panics
    /// Panics if the length of `bits` differs from the number of output bits.
    #[must_use]
    pub fn split_outputs(&self, bits: &Bits) -> Vec<Bits> {
        split_values(&self.output_widths, bits)
    }
}

#[cfg(test)]
mod tests;
