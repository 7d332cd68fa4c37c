//! Numbers with a width that is chosen at run time.

use std::ops::{self, Range};

use super::{
    Bit, Builder, arith,
    gates::Lit,
    multiply,
    number::{self, Number, number_methods, unsigned_methods},
    operators::number_operators,
    value::{Value, check_width},
};

/// An unsigned number whose width is chosen at run time, or a vector of bits.
///
/// The operators and their costs are the same as for [`UInt`](super::UInt). An operator panics if
/// its operands differ in width. The methods whose names end in `_signed` interpret the bits in
/// two's complement.
#[derive(Clone)]
pub struct Word<'b> {
    builder: Builder<'b>,
    lits: Vec<Lit>,
}

impl<'b> Word<'b> {
    pub(super) fn new(builder: Builder<'b>, lits: Vec<Lit>) -> Self {
        Self { builder, lits }
    }

    /// Returns the constant `value` as a word of the same width and builder as this one.
    ///
    /// # Panics
    /// Panics if `value` does not fit in the width.
    #[must_use]
    pub fn constant(&self, value: u128) -> Self {
        self.builder.word(value, self.width())
    }

    /// Returns the bits in `range` as a new word.
    ///
    /// # Panics
    /// Panics if the range ends past the width.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self::new(self.builder, self.lits[range].to_vec())
    }

    /// Returns a word with this word as the low bits and `high` as the high bits.
    #[must_use]
    pub fn concat(&self, high: &Self) -> Self {
        let lits = [self.lits.as_slice(), &high.lits].concat();
        Self::new(self.builder, lits)
    }

    /// Returns this word with a new width: zeros are appended at the top, or high bits are dropped.
    #[must_use]
    pub fn resize(&self, width: usize) -> Self {
        let mut lits = self.lits.clone();
        lits.resize(width, Lit::ZERO);
        Self::new(self.builder, lits)
    }

    /// Returns this word with a new width: copies of the top bit are appended at the top, or high
    /// bits are dropped.
    #[must_use]
    pub fn resize_signed(&self, width: usize) -> Self {
        let mut lits = self.lits.clone();
        lits.resize(width, lits.last().copied().unwrap_or(Lit::ZERO));
        Self::new(self.builder, lits)
    }

    /// Returns the same word. For each bit with a pending negation, a NOT gate is added. Otherwise,
    /// the negation would propagate through XOR gates to many bits, and each of these would need
    /// its own NOT gate if an AND gate reads it.
    pub(crate) fn materialize(&self) -> Self {
        self.unary(|g, bits| bits.iter().map(|&bit| g.materialize(bit)).collect())
    }

    /// Returns 1 if this number is less than the other, both in two's complement. This costs `n`
    /// AND gates for words of `n` bits.
    ///
    /// # Panics
    /// Panics if the operands differ in width.
    #[must_use]
    pub fn lt_signed(&self, other: &Self) -> Bit<'b> {
        self.as_bit(self.binary(other, |g, a, b| arith::less(g, a, b, true)))
    }

    /// Returns the quotient and the remainder of two numbers in two's complement. The results and
    /// the costs are the same as for [`Int::div_rem`](super::Int::div_rem).
    ///
    /// # Panics
    /// Panics if the operands differ in width.
    #[must_use]
    pub fn div_rem_signed(&self, divisor: &Self) -> (Self, Self) {
        let (quotient, remainder) = self.binary(divisor, multiply::divide_signed);
        (self.like(quotient), self.like(remainder))
    }

    /// Returns the sum of words of `n` bits, modulo `2^n`. Each word after the first costs at most
    /// `n - 1` AND gates. The AND depth grows with the logarithm of the number of words.
    ///
    /// # Panics
    /// Panics if `words` is empty or the words differ in width.
    #[must_use]
    pub fn sum(words: &[Self]) -> Self {
        let Some(first) = words.first() else {
            panic!("a sum has at least one word");
        };
        let numbers = words.iter().map(|word| word.lits.clone()).collect();
        for word in words {
            assert_eq!(
                word.width(),
                first.width(),
                "width mismatch: operands of {} and {} bits",
                first.width(),
                word.width()
            );
        }
        first.unary(|g, bits| arith::sum(g, numbers, bits.len()))
    }
}

impl<'b> From<Bit<'b>> for Word<'b> {
    fn from(bit: Bit<'b>) -> Self {
        Self::new(bit.builder, vec![bit.lit])
    }
}

impl<'b> Value<'b> for Word<'b> {
    fn width(&self) -> usize {
        Self::width(self)
    }

    fn append_bits(&self, bits: &mut Vec<Bit<'b>>) {
        bits.extend(self.bits());
    }

    fn with_bits(&self, bits: &[Bit<'b>]) -> Self {
        check_width(bits, self.width());
        self.builder().word_of(bits.iter().copied())
    }
}

impl<'b> Number<'b> for Word<'b> {
    fn builder_of(&self) -> Builder<'b> {
        self.builder
    }

    fn lits(&self) -> &[Lit] {
        &self.lits
    }

    fn like(&self, lits: Vec<Lit>) -> Self {
        Self::new(self.builder, lits)
    }
}

number_methods!(['b] Word<'b>, 'b, false);
number_operators!(['b] Word<'b>, u128, false);
unsigned_methods!(['b] Word<'b>, 'b);
