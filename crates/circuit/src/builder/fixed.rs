//! Numbers with a width that is fixed at compile time.

use std::ops;

use super::{
    Bit, Builder, Word, arith,
    gates::Lit,
    multiply,
    number::{self, Number, number_methods, unsigned_methods},
    operators::number_operators,
    value::{FixedValue, Value, check_width, fixed_shape},
};

/// An unsigned number of `N` bits, where `N` is at least 1.
///
/// | operation | AND gates |
/// | --- | --- |
/// | `+`, `-` (modulo `2^N`) | `N - 1` |
/// | unary `-` | `N - 2` |
/// | `*` (modulo `2^N`) | `N^2 - N + 1`, fewer from 32 bits on (32: 975, 64: 3,620, 128: 12,595) |
/// | `/` | `N (N + 1) / 2 + 2 N - 3` |
/// | `%` | `2 N - 1` more than `/` |
/// | <code>&</code>, <code>\|</code> | `N` |
/// | `^`, `!`, `<<`, `>>` by a public distance | 0 |
///
/// The counts hold for `N >= 2`. All bits of `x / 0` are 1, and `x % 0` is `x`. The right operand
/// may also be a `u128` constant, with which most operations need fewer AND gates. The operator
/// panics if the constant does not fit in `N` bits.
#[derive(Clone, Copy)]
pub struct UInt<'b, const N: usize> {
    builder: Builder<'b>,
    lits: [Lit; N],
}

/// A signed number of `N` bits in two's complement, where `N` is at least 1.
///
/// The operators have the same results and costs as for [`UInt`], with these exceptions. `/` rounds
/// toward zero, `%` has the sign of the dividend, and each costs `3 N - 3` more AND gates. The
/// smallest number divided by -1 is the smallest number. `x / 0` is -1 for `x >= 0` and 1 for
/// `x < 0`. `>>` shifts in copies of the sign. A constant right operand is an `i128`.
#[derive(Clone, Copy)]
pub struct Int<'b, const N: usize> {
    builder: Builder<'b>,
    lits: [Lit; N],
}

impl<'b, const N: usize> UInt<'b, N> {
    /// Returns the constant `value`.
    ///
    /// # Panics
    /// Panics if `value` does not fit in `N` bits.
    #[must_use]
    pub fn new(builder: Builder<'b>, value: u128) -> Self {
        Self::of_lits(builder, &number::unsigned_constant(value, N))
    }

    /// Returns the constant `value`, of the same type and builder as this number.
    ///
    /// # Panics
    /// Panics if `value` does not fit in `N` bits.
    #[must_use]
    pub fn constant(&self, value: u128) -> Self {
        Self::new(self.builder, value)
    }

    /// Returns the number with `M` bits: zeros are appended at the top, or high bits are dropped.
    #[must_use]
    pub fn resize<const M: usize>(self) -> UInt<'b, M> {
        let bit = |i: usize| self.lits.get(i).copied().unwrap_or(Lit::ZERO);
        UInt {
            builder: self.builder,
            lits: std::array::from_fn(bit),
        }
    }

    /// Returns the same bits, interpreted in two's complement.
    #[must_use]
    pub fn as_int(self) -> Int<'b, N> {
        Int {
            builder: self.builder,
            lits: self.lits,
        }
    }
}

impl<'b, const N: usize> Int<'b, N> {
    /// Returns the constant `value`.
    ///
    /// # Panics
    /// Panics if `value` does not fit in `N` bits with its sign.
    #[must_use]
    pub fn new(builder: Builder<'b>, value: i128) -> Self {
        Self::of_lits(builder, &number::signed_constant(value, N))
    }

    /// Returns the constant `value`, of the same type and builder as this number.
    ///
    /// # Panics
    /// Panics if `value` does not fit in `N` bits with its sign.
    #[must_use]
    pub fn constant(&self, value: i128) -> Self {
        Self::new(self.builder, value)
    }

    /// Returns the number with `M` bits: copies of the sign are appended at the top, or high bits
    /// are dropped.
    #[must_use]
    pub fn resize<const M: usize>(self) -> Int<'b, M> {
        Int {
            builder: self.builder,
            lits: std::array::from_fn(|i| self.lits[i.min(N - 1)]),
        }
    }

    /// Returns the same bits, interpreted as an unsigned number.
    #[must_use]
    pub fn as_uint(self) -> UInt<'b, N> {
        UInt {
            builder: self.builder,
            lits: self.lits,
        }
    }

    /// Returns 1 if the number is below zero, and 0 otherwise. This costs no gate.
    #[must_use]
    pub fn is_negative(&self) -> Bit<'b> {
        self.bit(N - 1)
    }

    /// Returns the absolute value, which always fits in `N` unsigned bits. This costs `N - 1` AND
    /// gates.
    #[must_use]
    pub fn unsigned_abs(&self) -> UInt<'b, N> {
        self.unary(|g, bits| arith::negate_if(g, bits, bits[N - 1]))
            .as_uint()
    }
}

macro_rules! fixed_number {
    ($type:ident, $constant:ty, $signed:literal) => {
        impl<'b, const N: usize> $type<'b, N> {
            /// Returns the same bits as a [`Word`].
            #[must_use]
            pub fn to_word(&self) -> Word<'b> {
                Word::new(self.builder, self.lits.to_vec())
            }

            /// Returns the number that consists of the first `N` literals. Panics if there are
            /// fewer.
            fn of_lits(builder: Builder<'b>, lits: &[Lit]) -> Self {
                const { assert!(N > 0, "a number has at least one bit") };
                Self {
                    builder,
                    lits: std::array::from_fn(|i| lits[i]),
                }
            }
        }

        impl<'b, const N: usize> Number<'b> for $type<'b, N> {
            fn builder_of(&self) -> Builder<'b> {
                self.builder
            }

            fn lits(&self) -> &[Lit] {
                &self.lits
            }

            fn like(&self, lits: Vec<Lit>) -> Self {
                Self::of_lits(self.builder, &lits)
            }
        }

        impl<'b, const N: usize> Value<'b> for $type<'b, N> {
            fixed_shape!();

            fn append_bits(&self, bits: &mut Vec<Bit<'b>>) {
                bits.extend(self.bits());
            }
        }

        impl<'b, const N: usize> FixedValue<'b> for $type<'b, N> {
            const WIDTH: usize = N;

            fn from_bits(bits: &[Bit<'b>]) -> Self {
                const { assert!(N > 0, "a number has at least one bit") };
                check_width(bits, N);
                Self {
                    builder: bits[0].builder,
                    lits: std::array::from_fn(|i| bits[i].lit),
                }
            }
        }

        number_methods!(['b, const N: usize] $type<'b, N>, 'b, $signed);
        number_operators!(['b, const N: usize] $type<'b, N>, $constant, $signed);
    };
}

fixed_number!(UInt, u128, false);
fixed_number!(Int, i128, true);
unsigned_methods!(['b, const N: usize] UInt<'b, N>, 'b);
