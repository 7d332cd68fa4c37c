//! The circuit that the two servers evaluate. It computes masked statistics from shares of the
//! figures.
//!
//! | part | approximate AND gates for n companies |
//! | --- | --- |
//! | figures from their shares (XOR) | 0 |
//! | sum | 32 n |
//! | sum of squares, by Karatsuba's method on the sum of all squares | 704 n |
//! | maximum, by a tree of comparisons | 64 n |
//! | median, by counting | 96 n |
//! | the smallest figure of the top quarter, by counting | 96 n |
//! | sum of the top quarter | 96 n |
//! | masking the results (XOR) | 0 |
//!
//! The median and the smallest figure of the top quarter are found without sorting. For each bit
//! from the top down, the circuit counts the candidates in which this bit is 1. That costs as much
//! as 1.5 comparators of a sorting network for each figure. Batcher's sorting network for 1,024
//! numbers has 24,063 comparators, which is 24 for each figure.

use transpute::{
    Builder, Circuit, CircuitError,
    circuit::{Bit, Word},
};

use crate::{
    columns::Columns,
    statistics::{FIGURE_BITS, Layout, bit_length},
};

/// Width of numbers, in bits, from which squaring by halves (Karatsuba's method) takes fewer AND
/// gates than squaring bit by bit.
const HALVING_WIDTH: usize = 12;

/// Builds the circuit for this number of companies, which is at least 1.
///
/// Input value 0 is the garbler's: its share of each figure, then the mask. Input value 1 is the
/// evaluator's share of each figure. The output value consists of the results in the order of
/// [`Layout`], XORed with the mask.
///
/// # Errors
/// Returns [`CircuitError`] if the circuit is too large, which happens for millions of companies.
pub(crate) fn circuit(companies: usize) -> Result<Circuit, CircuitError> {
    let layout = Layout::new(companies);
    Builder::build(|b| {
        let shares = companies * FIGURE_BITS;
        let garbler = b.input_word(shares + layout.width());
        let mask = garbler.slice(shares..shares + layout.width());
        let figures: Vec<Word<'_>> = (b.input_words(companies, FIGURE_BITS).iter().enumerate())
            .map(|(i, share)| garbler.slice(i * FIGURE_BITS..(i + 1) * FIGURE_BITS) ^ share)
            .collect();
        let parts = [
            sum(b, &figures, layout.sum),
            sum_of_squares(b, &figures).resize(layout.squares),
            kth_largest(b, &figures, layout.above_median()),
            maximum(&figures),
            top_sum(b, &figures, &layout),
        ];
        let results = (parts.iter().skip(1)).fold(parts[0].clone(), |all, part| all.concat(part));
        b.output(results ^ mask);
    })
}

fn sum<'b>(b: Builder<'b>, figures: &[Word<'b>], width: usize) -> Word<'b> {
    let mut columns = Columns::new(b);
    for figure in figures {
        columns.add(0, figure);
    }
    columns.sum(width)
}

/// Returns the sum of the squares of numbers of width `w`. Takes at most `w^2` AND gates for each
/// number.
///
/// With x = l + h 2^k, the term `2 l h` is (l + h)^2 - l^2 - h^2, as in Karatsuba's method. The two
/// subtractions are done once on the sums over all numbers, not for each number.
fn sum_of_squares<'b>(b: Builder<'b>, numbers: &[Word<'b>]) -> Word<'b> {
    let width = numbers.iter().map(Word::width).max().unwrap_or(0);
    let largest = (1_u128 << width) - 1;
    let sum_width = bit_length(numbers.len() as u128 * largest * largest);
    let mut columns = Columns::new(b);
    if width < HALVING_WIDTH {
        for number in numbers {
            let bits = number.bits();
            for (i, &x) in bits.iter().enumerate() {
                columns.add_bit(2 * i, x);
                for (j, &y) in bits.iter().enumerate().skip(i + 1) {
                    columns.add_bit(i + j + 1, x & y);
                }
            }
        }
        return columns.sum(sum_width);
    }
    let half = width / 2;
    let low: Vec<_> = numbers.iter().map(|x| x.slice(0..half)).collect();
    let high: Vec<_> = numbers.iter().map(|x| x.slice(half..width)).collect();
    let both: Vec<_> = (low.iter().zip(&high))
        .map(|(low, high)| {
            let (sum, carry) = high.carrying_add(&low.resize(width - half));
            sum.concat(&carry.into())
        })
        .collect();
    let [low, high, both] = [low, high, both].map(|part| sum_of_squares(b, &part));
    let crossed = both.width();
    let cross = both - low.resize(crossed) - high.resize(crossed);
    columns.add(0, &low);
    columns.add(half, &cross);
    columns.add(2 * half, &high);
    columns.sum(sum_width)
}

/// Returns the largest figure, found by a balanced tree of comparisons. It takes 2 AND gates per
/// bit for each figure after the first.
fn maximum<'b>(figures: &[Word<'b>]) -> Word<'b> {
    let mut level = figures.to_vec();
    while level.len() > 1 {
        level = (level.chunks(2))
            .map(|pair| match pair {
                [x, y] => x.max(y),
                _ => pair[0].clone(),
            })
            .collect();
    }
    level.swap_remove(0)
}

/// Returns the figure at index `above`, counted from 0, of the figures in descending order. It
/// takes 3 AND gates per bit for each figure.
///
/// The candidates are the figures that agree with the result in the bits chosen so far. If more
/// than `above` candidates have a 1 in the next place, the result has a 1 too, and the others are
/// dropped. Otherwise the candidates with a 1 are larger than the result, and `above` decreases by
/// their number.
fn kth_largest<'b>(b: Builder<'b>, figures: &[Word<'b>], above: usize) -> Word<'b> {
    let width = figures.iter().map(Word::width).max().unwrap_or(0);
    let count_width = bit_length(figures.len() as u128);
    let mut possible: Vec<Bit<'b>> = vec![b.bit(true); figures.len()];
    let mut above = b.word(above as u128, count_width);
    let mut result = Vec::with_capacity(width);
    for position in (0..width).rev() {
        let ones: Vec<Bit<'b>> = (possible.iter().zip(figures))
            .map(|(&possible, figure)| possible & figure.bit(position))
            .collect();
        let mut count = Columns::new(b);
        for &one in &ones {
            count.add_bit(0, one);
        }
        let (fewer, is_one) = above.borrowing_sub(&count.sum(count_width));
        above = is_one.select(&above, &fewer);
        for (possible, one) in possible.iter_mut().zip(ones) {
            *possible ^= one ^ (is_one & *possible);
        }
        result.push(is_one);
    }
    b.word_of(result.into_iter().rev())
}

/// Returns the sum of the `layout.top` largest figures. If t is the smallest of them, the sum is
/// `top` times t, plus the difference x - t for each figure x above t. Figures equal to t add
/// nothing, so ties need no special case.
fn top_sum<'b>(b: Builder<'b>, figures: &[Word<'b>], layout: &Layout) -> Word<'b> {
    let least = kth_largest(b, figures, layout.top - 1);
    let mut columns = Columns::new(b);
    for position in (0..usize::BITS as usize).filter(|position| layout.top >> position & 1 == 1) {
        columns.add(position, &least);
    }
    for figure in figures {
        let (more, is_less) = figure.borrowing_sub(&least);
        for (position, bit) in more.bits().into_iter().enumerate() {
            columns.add_bit(position, bit & !is_less);
        }
    }
    columns.sum(layout.top_sum)
}
