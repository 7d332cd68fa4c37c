//! Sums of many numbers in a circuit, with one column of bits for each power of two.
//!
//! A full adder replaces three bits of a column by one bit of this column and one bit of the next.
//! It takes one AND gate and reduces the number of bits by one. So a sum takes at most one AND gate
//! for each added bit, for numbers of any widths and positions.

use std::collections::VecDeque;

use transpute::circuit::{Bit, Builder, Word};

/// The bits to be added, in one column for each power of two.
pub(crate) struct Columns<'b> {
    builder: Builder<'b>,
    columns: Vec<VecDeque<Bit<'b>>>,
}

impl<'b> Columns<'b> {
    /// Creates an empty sum.
    pub(crate) fn new(builder: Builder<'b>) -> Self {
        Self {
            builder,
            columns: Vec::new(),
        }
    }

    /// Adds `bit * 2^position`.
    pub(crate) fn add_bit(&mut self, position: usize, bit: Bit<'b>) {
        if self.columns.len() <= position {
            self.columns.resize_with(position + 1, VecDeque::new);
        }
        self.columns[position].push_back(bit);
    }

    /// Adds `number * 2^shift`.
    pub(crate) fn add(&mut self, shift: usize, number: &Word<'b>) {
        for (index, bit) in number.bits().into_iter().enumerate() {
            self.add_bit(shift + index, bit);
        }
    }

    /// Returns the sum modulo `2^width`. Takes at most one AND gate for each added bit.
    pub(crate) fn sum(mut self, width: usize) -> Word<'b> {
        let zero = self.builder.bit(false);
        // Column `width` collects the carries out of the sum, which are dropped.
        self.columns.resize_with(width + 1, VecDeque::new);
        let mut sum = Vec::with_capacity(width);
        for position in 0..width {
            let mut column = std::mem::take(&mut self.columns[position]);
            // Sums go to the end of the queue. So the adders form a tree, which is less deep than a
            // chain.
            while column.len() > 1 {
                let (a, b) = (column.pop_front(), column.pop_front());
                let [a, b, c] = [a, b, column.pop_front()].map(|bit| bit.unwrap_or(zero));
                let (low, carry) = full_adder(a, b, c);
                column.push_back(low);
                self.columns[position + 1].push_back(carry);
            }
            sum.push(column.pop_front().unwrap_or(zero));
        }
        self.builder.word_of(sum)
    }
}

/// Returns the low and the high bit of `a + b + c`. It takes one AND gate.
fn full_adder<'b>(a: Bit<'b>, b: Bit<'b>, c: Bit<'b>) -> (Bit<'b>, Bit<'b>) {
    let (ac, bc) = (a ^ c, b ^ c);
    (ac ^ b, c ^ (ac & bc))
}
