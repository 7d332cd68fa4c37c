//! A single wire of a circuit under construction.

use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Not};

use super::{Builder, Value, gates::Lit};

/// One bit of a circuit under construction. The operators `&` and `|` cost 1 AND gate, `^` and `!`
/// cost none.
#[derive(Clone, Copy)]
pub struct Bit<'b> {
    pub(super) builder: Builder<'b>,
    pub(super) lit: Lit,
}

impl<'b> Bit<'b> {
    /// Returns `if_one` if this bit is 1, and `if_zero` otherwise. This costs 1 AND gate per bit of
    /// the value.
    ///
    /// # Panics
    /// Panics if the two values differ in width.
    #[must_use]
    pub fn select<T: Value<'b>>(self, if_one: &T, if_zero: &T) -> T {
        let (mut ones, mut zeros) = (Vec::new(), Vec::new());
        if_one.append_bits(&mut ones);
        if_zero.append_bits(&mut zeros);
        assert_eq!(
            ones.len(),
            zeros.len(),
            "width mismatch: select between {} and {} bits",
            ones.len(),
            zeros.len()
        );
        let bits: Vec<Self> = (ones.iter().zip(&zeros))
            .map(|(&one, &zero)| self.mux(one, zero))
            .collect();
        if_one.with_bits(&bits)
    }

    /// Returns 1 if the two bits are equal, and 0 otherwise. This costs no AND gate.
    #[must_use]
    pub fn eq(self, other: Self) -> Self {
        !(self ^ other)
    }

    /// Returns the builder of the circuit to which this bit belongs.
    #[must_use]
    pub fn builder(self) -> Builder<'b> {
        self.builder
    }

    /// Returns the same bit. If it has a pending negation, a NOT gate is added for it (see
    /// `Word::materialize`).
    pub(crate) fn materialize(self) -> Self {
        self.make(|gates| gates.materialize(self.lit))
    }

    fn mux(self, if_one: Self, if_zero: Self) -> Self {
        self.make(|gates| gates.mux(self.lit, if_one.lit, if_zero.lit))
    }

    fn make(self, function: impl FnOnce(&mut super::Gates) -> Lit) -> Self {
        Self {
            builder: self.builder,
            lit: self.builder.with(function),
        }
    }
}

impl Not for Bit<'_> {
    type Output = Self;
    fn not(self) -> Self {
        Self {
            builder: self.builder,
            lit: self.lit.negate(),
        }
    }
}

macro_rules! bit_operator {
    ($trait:ident $method:ident $assign_trait:ident $assign:ident $gate:ident) => {
        impl $trait for Bit<'_> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                self.make(|gates| gates.$gate(self.lit, other.lit))
            }
        }

        impl $assign_trait for Bit<'_> {
            fn $assign(&mut self, other: Self) {
                *self = self.$method(other);
            }
        }
    };
}

bit_operator!(BitAnd bitand BitAndAssign bitand_assign and);
bit_operator!(BitOr bitor BitOrAssign bitor_assign or);
bit_operator!(BitXor bitxor BitXorAssign bitxor_assign xor);
