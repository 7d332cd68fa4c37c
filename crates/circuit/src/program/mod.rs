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

/// The bit of [`ProgramGate::a`] and [`ProgramGate::b`] that marks an inverted operand of an AND
/// gate. The other bits are the slot number.
pub const INVERT: u32 = 1 << 31;

/// A circuit compiled for garbling.
///
/// A program consists of XOR and AND gates over label *slots*. Constants, copies and inversions of
/// the [`Circuit`](crate::Circuit) are folded: an inverted wire is the same label with the opposite
/// meaning. Gates that no output depends on are dropped. A slot is reused after the last read of
/// its wire. Gates are ordered so that mutually independent gates are consecutive and form a
/// [`Batch`]. An input bit gets its slot shortly before its first read, so a circuit with many
/// inputs needs few slots at a time.
///
/// # Invariants
/// * An input bit that a gate or an output reads has exactly one [`Load`]. Before this load, no
///   slot holds the label of the bit.
/// * A gate writes no slot that it reads itself, or that another gate of its batch reads or
///   writes. The kernels of garbling and evaluation may therefore process the gates of a batch in
///   any order and in any grouping.
/// * Operands of XOR gates never have [`INVERT`] set.
/// * All slots of loads, gates and outputs are below [`slot_count`](Self::slot_count).
/// * At the end of the program, the slots of the outputs hold the labels of the outputs.
/// * The order of the gates is the order of the garbled tables. It depends only on the circuit and
///   is covered by the digest.
///
/// Both constructors guarantee the invariants: [`compile`](Self::compile) by construction, and
/// [`from_bytes`](Self::from_bytes) by checking them. The unsafe code of the kernels relies on two
/// of them: the upper bound of slots, and XOR operands without [`INVERT`].
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
    /// Index of the bit among the bits of all input values, concatenated.
    pub input: u32,
    /// The slot into which the label of the bit is written.
    pub slot: u32,
}

/// The kind of the operations in a [`Batch`].
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
    /// The common kind of the operations in this batch.
    pub kind: BatchKind,
    /// The number of gates or loads in this batch, at least 1.
    pub len: u32,
}

/// The source of an output bit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutputBit {
    /// A constant, independent of the inputs.
    Constant(bool),
    /// The value of a slot.
    Slot {
        /// The number of the slot.
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

    /// Returns the number of slots: the largest number of labels that a party holds at a time.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slot_count as usize
    }

    /// Returns all gates in execution order. The XOR and AND [`batches`](Program::batches) divide
    /// them into consecutive groups.
    #[must_use]
    pub fn gates(&self) -> &[ProgramGate] {
        &self.gates
    }

    /// Returns all loads in execution order. The batches of [`BatchKind::Input`] divide them into
    /// consecutive groups.
    #[must_use]
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Returns the batches in execution order. The sum of their lengths is the number of gates
    /// plus the number of loads.
    #[must_use]
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// Returns the source of each output bit, for all output values concatenated.
    #[must_use]
    pub fn outputs(&self) -> &[OutputBit] {
        &self.outputs
    }

    /// Returns the number of AND gates. Each of them needs a garbled table.
    #[must_use]
    pub fn and_count(&self) -> u64 {
        self.and_count
    }

    /// Returns the number of XOR gates.
    #[must_use]
    pub fn xor_count(&self) -> u64 {
        self.xor_count
    }

    /// Returns the BLAKE3 hash of the bytes of [`to_bytes`](Self::to_bytes) except the last 32,
    /// which are this hash. The two parties compare their hashes.
    #[must_use]
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Splits the concatenated bits of all output values into one [`Bits`] per output value.
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
