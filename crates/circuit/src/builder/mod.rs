//! Builds circuits from Rust functions over typed values.
//!
//! The function takes a [`Builder`], declares inputs, computes with Rust's operators, and declares
//! outputs:
//!
//! ```
//! use transpute_circuit::{Bits, Builder, UInt};
//!
//! // The millionaires' problem: the output bit is 1 if the first party is richer.
//! let circuit = Builder::build(|b| {
//!     let alice = b.input::<UInt<32>>();
//!     let bob = b.input::<UInt<32>>();
//!     b.output(alice.gt(&bob));
//! })?;
//!
//! let mut wealth = Bits::from_u128(1_000_001, 32);
//! wealth.extend([Bits::from_u128(1_000_000, 32)]);
//! assert_eq!(circuit.evaluate(&wealth)?.to_string(), "1");
//! # Ok::<(), transpute_circuit::CircuitError>(())
//! ```
//!
//! Values are handles to wires. [`Bit`], [`UInt<N>`](UInt) and [`Int<N>`](Int) are `Copy`.
//! [`Word`], whose width is chosen at run time, is `Clone`. Each call of an input or output method
//! declares one input or output value of the circuit, also for an array or a tuple. The first wire
//! of a number is its bit 0, which is the least significant.
//!
//! In most garbling schemes, only AND gates need communication, so each operation documents its
//! number of AND gates. These numbers are upper bounds, because constants are folded and gates on
//! which no output depends are dropped.
//!
//! Handles of one circuit cannot be used in another circuit, because their lifetimes differ:
//!
//! ```compile_fail
//! use transpute_circuit::{Bit, Builder};
//! Builder::build(|outer| {
//!     let bit = outer.input::<Bit>();
//!     Builder::build(|inner| inner.output(bit)).unwrap();
//! });
//! ```

use std::{cell::RefCell, marker::PhantomData};

use crate::{Circuit, CircuitError};

mod arith;
mod bit;
mod fixed;
mod gates;
mod multiply;
mod number;
mod operators;
mod value;
mod word;

pub use bit::Bit;
pub use fixed::{Int, UInt};
pub use value::{FixedValue, Value};
pub use word::Word;

use gates::{Gates, Lit};

/// Builds a [`Circuit`] from a function; see the [module documentation](self).
///
/// A builder is a handle that may be copied. Its lifetime identifies the circuit: a value can only
/// be used with the builder that has the same lifetime.
#[derive(Clone, Copy)]
pub struct Builder<'b> {
    gates: &'b RefCell<Gates>,
    /// Makes the lifetime invariant, so that the use of another builder's value is a type error.
    circuit: PhantomData<fn(&'b ()) -> &'b ()>,
}

impl Builder<'_> {
    /// Runs `function` and returns the circuit that it built.
    ///
    /// # Errors
    /// Returns [`CircuitError::TooManyWires`] if the circuit has 2^31 wires or more.
    pub fn build(function: impl for<'b> FnOnce(Builder<'b>)) -> Result<Circuit, CircuitError> {
        let gates = RefCell::new(Gates::new());
        function(Builder {
            gates: &gates,
            circuit: PhantomData,
        });
        gates.into_inner().finish()
    }
}

impl<'b> Builder<'b> {
    /// Declares an input value of a type with a fixed width, such as `UInt<32>` or `[Bit; 5]`.
    pub fn input<T: FixedValue<'b>>(self) -> T {
        T::from_bits(&self.input_word(T::WIDTH).bits())
    }

    /// Declares an input value of `width` bits.
    #[must_use]
    pub fn input_word(self, width: usize) -> Word<'b> {
        Word::new(self, self.with(|gates| gates.input(width)))
    }

    /// Declares one input value that holds `count` words of `width` bits, the first word first.
    #[must_use]
    pub fn input_words(self, count: usize, width: usize) -> Vec<Word<'b>> {
        let all = self.with(|gates| gates.input(count.saturating_mul(width)));
        (0..count)
            .map(|i| Word::new(self, all[i * width..][..width].to_vec()))
            .collect()
    }

    /// Declares an output value of the circuit that consists of the bits of `value`.
    pub fn output(self, value: impl Value<'b>) {
        let mut bits = Vec::with_capacity(value.width());
        value.append_bits(&mut bits);
        self.with(|gates| gates.output(bits.iter().map(|bit| bit.lit)));
    }

    /// Returns the constant `value` as a bit, which costs no gate unless it becomes an output.
    #[must_use]
    pub fn bit(self, value: bool) -> Bit<'b> {
        Bit {
            builder: self,
            lit: Lit::constant(value),
        }
    }

    /// Returns the constant `value` as a word of `width` bits.
    ///
    /// # Panics
    /// Panics if `value` does not fit in `width` bits.
    #[must_use]
    pub fn word(self, value: u128, width: usize) -> Word<'b> {
        Word::new(self, number::unsigned_constant(value, width))
    }

    /// Returns the word that consists of `bits`, the least significant first.
    #[must_use]
    pub fn word_of(self, bits: impl IntoIterator<Item = Bit<'b>>) -> Word<'b> {
        Word::new(self, bits.into_iter().map(|bit| bit.lit).collect())
    }

    /// Returns a bit that is always 0, but that constant folding treats as a variable. Generators
    /// use it for circuits that must have a given number of gates.
    pub(crate) fn opaque_zero(self) -> Bit<'b> {
        Bit {
            builder: self,
            lit: self.with(Gates::opaque_zero),
        }
    }

    fn with<T>(self, function: impl FnOnce(&mut Gates) -> T) -> T {
        // No closure passed here calls user code, so the cell is never borrowed twice.
        function(&mut self.gates.borrow_mut())
    }
}
