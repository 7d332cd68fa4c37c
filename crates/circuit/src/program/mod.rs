//! A circuit compiled for garbling.

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
pub use progress::Progress;

use crate::{Bits, circuit::split_values};

/// Marks an inverted operand of an AND gate in [`ProgramGate::a`] and [`ProgramGate::b`]; the slot
/// is in the other bits.
pub const INVERT: u32 = 1 << 31;

/// A circuit compiled for garbling.
///
/// What is left of a [`Circuit`](crate::Circuit) is XOR and AND gates over label *slots*:
/// constants, copies and inversions are folded (an inverted wire is the same label read with the
/// opposite meaning), gates that reach no output are dropped, and a slot is used again when its
/// wire is dead. Gates are ordered so that runs of mutually independent gates form [`Batch`]es.
/// Input bits get slots shortly before they are read, so that labels in use lie close together however many inputs there are.
///
/// # Invariants
/// * An input bit is in no slot before its [`Load`], and there is one for each bit that a gate or an output reads.
/// * Within a batch no gate reads or writes a slot that another gate of the batch writes, and no
///   gate writes a slot that any gate of the batch reads: a kernel may do a batch in any order and
///   in any grouping.
/// * Operands of XOR gates never carry [`INVERT`].
/// * No slot that a load, a gate or an output names is past [`slot_count`](Self::slot_count).
/// * Slots named by `outputs` keep their label to the end.
/// * The order of the gates is the order of the garbled tables and a function of the circuit
///   alone, covered by the digest.
///
/// Whatever makes a program sees to them: [`compile`](Self::compile), or [`from_bytes`](Self::from_bytes), which checks. Unsafe
/// code of kernels relies on the slots and on the operands of XOR gates.
#[derive(Debug)]
pub struct Program {
    pub(crate) input_widths: Vec<u32>,
    pub(crate) output_widths: Vec<u32>,
    pub(crate) slot_count: u32,
    pub(crate) loads: Vec<Load>,
    pub(crate) gates: Vec<ProgramGate>,
    pub(crate) batches: Vec<Batch>,
    progress: Vec<Progress>,
    pub(crate) outputs: Vec<OutputBit>,
    pub(crate) and_count: u64,
    pub(crate) xor_count: u64,
    pub(crate) digest: [u8; 32],
}

/// One gate over slots. For AND gates [`INVERT`] in an operand means its negation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProgramGate {
    /// Slot of the first operand, with [`INVERT`] perhaps.
    pub a: u32,
    /// Slot of the second operand, with [`INVERT`] perhaps.
    pub b: u32,
    /// Slot of the output.
    pub out: u32,
}

/// Puts an input bit where gates read it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Load {
    /// Position of the bit among all input bits.
    pub input: u32,
    /// The slot that holds it from there on.
    pub slot: u32,
}

/// What a [`Batch`] consists of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BatchKind {
    /// XOR gates.
    Xor,
    /// AND gates.
    And,
    /// Input bits that get their slots.
    Input,
}

/// A run of mutually independent gates of one kind, or of loads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Batch {
    /// The kind of all of them.
    pub kind: BatchKind,
    /// How many there are; at least 1.
    pub len: u32,
}

/// Where an output bit comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutputBit {
    /// It does not depend on the inputs.
    Constant(bool),
    /// It is the bit in a slot.
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

    /// Returns how many slots a party needs: the peak number of live wires.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slot_count as usize
    }

    /// Returns all gates; the [`Program::batches`] of gates cut this slice into runs.
    #[must_use]
    pub fn gates(&self) -> &[ProgramGate] {
        &self.gates
    }

    /// Returns where input bits go, likewise cut by the batches of [`BatchKind::Input`].
    #[must_use]
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Returns the batches in order; their lengths add up to the number of gates and loads.
    #[must_use]
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// Returns where each output bit comes from, all output values concatenated.
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

    /// Cuts concatenated output bits into the output values.
    ///
    /// # Panics
    /// If `bits` has not as many bits as the program has outputs.
    #[must_use]
    pub fn split_outputs(&self, bits: &Bits) -> Vec<Bits> {
        split_values(&self.output_widths, bits)
    }
}

#[cfg(test)]
mod tests;
