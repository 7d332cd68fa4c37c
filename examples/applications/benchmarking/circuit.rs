//! The function that the two servers compute: from shares of the figures to masked statistics.
//!
//! | part | AND gates for n companies, about |
//! | --- | --- |
//! | figures from their shares (XOR) | 0 |
//! | sum | 32 n |
//! | sum of squares, after Karatsuba on the sum as a whole | 704 n |
//! | maximum, in a tree | 64 n |
//! | median, by counting | 96 n |
//! | the least of the top quarter, by counting | 96 n |
//! | sum of the top quarter | 96 n |
//! | masking the results (XOR) | 0 |
//!
//! The median and the least of the top quarter are found without sorting: bit by bit from the top, counting how many of the
//! figures that are still possible have a 1 there. That costs as much as comparing and exchanging each figure one and a half
//! times, where Batcher's network for 1,024 numbers has 24,063 comparators: 24 for each.

use transpute::{
    Builder, Circuit, CircuitError,
    circuit::{Bit, Word},
};

use crate::{
    columns::Columns,
    statistics::{FIGURE_BITS, Layout, bit_length},
};

/// Narrower numbers are squared bit by bit, wider ones in two halves: from here on that spends fewer AND gates.
const HALVING_WIDTH: usize = 12;

/// Makes the circuit for so many companies, at least 1.
///
/// Input value 0 is the garbler's: its share of each figure, then the mask. Input value 1 is the evaluator's: its
/// shares. The output value is the results, as [`Layout`] says, under the mask.
///
/// # Errors
/// [`CircuitError`] for millions of companies.
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

/// Returns the sum of the squares of numbers of one width `w`: `w^2` AND each, fewer for wide ones.
///
/// With x = l + h 2^k for each number, the sums of l^2, h^2 and (l + h)^2 give the sum of x^2: `2 l h` is what the third has
/// more than the other two. So what Karatsuba subtracts is subtracted once, and not for each number.
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

/// Returns the largest, in a balanced tree: 2 AND per bit for each figure after the first.
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

/// Returns the figure that has `above` figures before it when the largest comes first: 3 AND per bit for each.
///
/// From the top bit down: of the figures that agree with the result so far, if more than `above` have a 1, the result has one
/// too, and the others are out; otherwise those with a 1 are larger than the result, and there are so many fewer to find.
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

/// Returns the sum of the largest figures: with t the least of them, as often t as there are of them, and of each figure what
/// it has more than t. Figures equal to t count as often as they have to.
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
