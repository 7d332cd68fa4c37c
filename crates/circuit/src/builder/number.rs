//! The methods that [`Word`](super::Word), [`UInt`](super::UInt) and [`Int`](super::Int) share.

use super::{
    Builder,
    gates::{Gates, Lit},
};

/// A number type. A number has a builder and one literal per bit, least significant first.
pub(super) trait Number<'b>: Sized {
    fn builder_of(&self) -> Builder<'b>;
    fn lits(&self) -> &[Lit];

    /// Returns a number of the same builder as `self` that consists of `lits`.
    fn like(&self, lits: Vec<Lit>) -> Self;

    fn unary(&self, function: impl FnOnce(&mut Gates, &[Lit]) -> Vec<Lit>) -> Self {
        self.like(self.builder_of().with(|g| function(g, self.lits())))
    }

    fn binary<T>(&self, other: &Self, function: impl FnOnce(&mut Gates, &[Lit], &[Lit]) -> T) -> T {
        let (a, b) = (self.lits(), other.lits());
        assert_eq!(
            a.len(),
            b.len(),
            "width mismatch: operands of {} and {} bits",
            a.len(),
            b.len()
        );
        self.builder_of().with(|g| function(g, a, b))
    }
}

/// Returns the bits of an unsigned constant, least significant first.
///
/// # Panics
/// Panics if `value` does not fit in `width` bits.
pub(super) fn unsigned_constant(value: u128, width: usize) -> Vec<Lit> {
    assert!(
        width >= 128 || value >> width == 0,
        "width mismatch: {value} does not fit in {width} bits"
    );
    (0..width)
        .map(|i| Lit::constant(i < 128 && value >> i & 1 == 1))
        .collect()
}

/// Returns the bits of a constant in two's complement, least significant first.
///
/// # Panics
/// Panics if `value` does not fit in `width` bits, sign included.
pub(super) fn signed_constant(value: i128, width: usize) -> Vec<Lit> {
    let spare = value.unsigned_abs().leading_zeros() as usize;
    let is_lowest = value < 0 && value.unsigned_abs().is_power_of_two();
    let needed = 129 - spare - usize::from(is_lowest);
    assert!(
        width >= needed || value == 0,
        "width mismatch: {value} does not fit in {width} bits with a sign"
    );
    (0..width)
        .map(|i| Lit::constant(value >> i.min(127) & 1 == 1))
        .collect()
}

/// Shifts the bits left by `distance`. Zeros become the low bits.
pub(super) fn shift_left(bits: &[Lit], distance: usize) -> Vec<Lit> {
    let distance = distance.min(bits.len());
    let mut shifted = vec![Lit::ZERO; distance];
    shifted.extend_from_slice(&bits[..bits.len() - distance]);
    shifted
}

/// Shifts the bits right by `distance`. Copies of `fill` become the high bits.
pub(super) fn shift_right(bits: &[Lit], distance: usize, fill: Lit) -> Vec<Lit> {
    let mut shifted = bits[distance.min(bits.len())..].to_vec();
    shifted.resize(bits.len(), fill);
    shifted
}

/// Defines the methods of all number types.
macro_rules! number_methods {
    ([$($generics:tt)*] $type:ty, $lifetime:lifetime, $signed:literal) => {
        impl<$($generics)*> $type {
            /// Returns the builder of the circuit to which this number belongs.
            #[must_use]
            pub fn builder(&self) -> Builder<$lifetime> {
                self.builder_of()
            }

            /// Returns the number of bits, which is called `n` in the costs of the other methods.
            #[must_use]
            pub fn width(&self) -> usize {
                self.lits().len()
            }

            /// Returns the bit with this index. Bit 0 is the least significant.
            ///
            /// # Panics
            /// Panics if `index` is not below the width.
            #[must_use]
            pub fn bit(&self, index: usize) -> Bit<$lifetime> {
                assert!(index < self.width(), "bit {index} of {}", self.width());
                Bit { builder: self.builder_of(), lit: self.lits()[index] }
            }

            /// Returns the bits, the least significant first.
            #[must_use]
            pub fn bits(&self) -> Vec<Bit<$lifetime>> {
                let builder = self.builder_of();
                self.lits().iter().map(|&lit| Bit { builder, lit }).collect()
            }

            /// Returns 1 if the numbers are equal, and 0 otherwise. This costs `n - 1` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn eq(&self, other: &Self) -> Bit<$lifetime> {
                self.as_bit(self.binary(other, arith::equal))
            }

            /// Returns 1 if the numbers differ, and 0 otherwise. This costs `n - 1` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn ne(&self, other: &Self) -> Bit<$lifetime> {
                !self.eq(other)
            }

            /// Returns 1 if this number is less than the other. This costs `n` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn lt(&self, other: &Self) -> Bit<$lifetime> {
                self.as_bit(self.binary(other, |g, a, b| arith::less(g, a, b, $signed)))
            }

            /// Returns 1 if this number is greater than the other. This costs `n` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn gt(&self, other: &Self) -> Bit<$lifetime> {
                other.lt(self)
            }

            /// Returns 1 if this number is at most the other. This costs `n` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn le(&self, other: &Self) -> Bit<$lifetime> {
                !other.lt(self)
            }

            /// Returns 1 if this number is at least the other. This costs `n` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn ge(&self, other: &Self) -> Bit<$lifetime> {
                !self.lt(other)
            }

            /// Returns 1 if the number is zero. This costs `n - 1` AND gates.
            #[must_use]
            pub fn is_zero(&self) -> Bit<$lifetime> {
                let inverted = self.lits().iter().map(|bit| bit.negate()).collect();
                self.as_bit(self.builder_of().with(|g| arith::all(g, inverted)))
            }

            /// Returns the smaller of two numbers. This costs `2 n` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn min(&self, other: &Self) -> Self {
                self.min_with(other).0
            }

            /// Returns the smaller of two numbers, and a bit that is 1 if this number is strictly
            /// smaller than the other. This costs `2 n` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn min_with(&self, other: &Self) -> (Self, Bit<$lifetime>) {
                let (minimum, is_self) =
                    self.binary(other, |g, a, b| arith::minimum(g, a, b, $signed));
                (self.like(minimum), self.as_bit(is_self))
            }

            /// Returns the larger of two numbers. This costs `2 n` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn max(&self, other: &Self) -> Self {
                self.like(self.binary(other, |g, a, b| {
                    let less = arith::less(g, a, b, $signed);
                    arith::select(g, less, b, a)
                }))
            }

            /// Returns the results of the operators `/` and `%`, which together cost as much as `%`
            /// alone.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn div_rem(&self, divisor: &Self) -> (Self, Self) {
                let divide = if $signed { multiply::divide_signed } else { multiply::divide };
                let (quotient, remainder) = self.binary(divisor, divide);
                (self.like(quotient), self.like(remainder))
            }

            /// Rotates the bits left by `distance` modulo `n`. This costs no gate.
            #[must_use]
            pub fn rotate_left(&self, distance: usize) -> Self {
                self.unary(|_, bits| {
                    let mut bits = bits.to_vec();
                    let width = bits.len().max(1);
                    bits.rotate_right(distance % width);
                    bits
                })
            }

            /// Rotates the bits right by `distance` modulo `n`. This costs no gate.
            #[must_use]
            pub fn rotate_right(&self, distance: usize) -> Self {
                self.unary(|_, bits| {
                    let mut bits = bits.to_vec();
                    let width = bits.len().max(1);
                    bits.rotate_left(distance % width);
                    bits
                })
            }

            fn as_bit(&self, lit: Lit) -> Bit<$lifetime> {
                Bit { builder: self.builder_of(), lit }
            }
        }
    };
}

/// Defines the methods of the unsigned number types.
macro_rules! unsigned_methods {
    ([$($generics:tt)*] $type:ty, $lifetime:lifetime) => {
        impl<$($generics)*> $type {
            /// Returns the sum modulo `2^n` and the carry out. This costs `n` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn carrying_add(&self, other: &Self) -> (Self, Bit<$lifetime>) {
                let (sum, carry) = self.binary(other, |g, a, b| arith::add(g, a, b, Lit::ZERO));
                (self.like(sum), self.as_bit(carry))
            }

            /// Returns the difference modulo `2^n` and the borrow out, which is 1 if this number is
            /// less than the other. This costs `n` AND gates.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn borrowing_sub(&self, other: &Self) -> (Self, Bit<$lifetime>) {
                let (difference, borrow) = self.binary(other, arith::subtract);
                (self.like(difference), self.as_bit(borrow))
            }

            /// Returns the low and the high half of the product, which has `2 n` bits. This costs
            /// `2 n^2 - n` AND gates for less than 16 bits, and fewer than that from 16 bits on:
            /// 1,608 for 32 bits, 5,229 for 64 and 16,466 for 128.
            ///
            /// # Panics
            /// Panics if the operands differ in width.
            #[must_use]
            pub fn widening_mul(&self, other: &Self) -> (Self, Self) {
                let mut low = self.binary(other, multiply::multiply_wide);
                let high = low.split_off(self.width());
                (self.like(low), self.like(high))
            }

            /// Returns the number of ones, as a number of the same width. This costs `n` AND gates,
            /// minus the number of ones in the binary notation of `n`.
            #[must_use]
            pub fn count_ones(&self) -> Self {
                self.unary(|g, bits| {
                    let mut count = arith::count_ones(g, bits);
                    // The count of n bits needs at most n bits.
                    count.resize(bits.len(), Lit::ZERO);
                    count
                })
            }
        }
    };
}

pub(super) use {number_methods, unsigned_methods};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_constants_fit_exactly_their_range() {
        for width in 1..=10_usize {
            for value in -600_i128..600 {
                let fits = (-(1 << (width - 1))..1 << (width - 1)).contains(&value);
                let made = std::panic::catch_unwind(|| signed_constant(value, width));
                assert_eq!(made.is_ok(), fits, "{value} in {width} bits");
            }
        }
        assert!(signed_constant(i128::MIN, 128)[127] == Lit::ONE);
        assert!(signed_constant(i128::MAX, 130)[129] == Lit::ZERO);
        assert!(signed_constant(-1, 130).iter().all(|&bit| bit == Lit::ONE));
    }
}
