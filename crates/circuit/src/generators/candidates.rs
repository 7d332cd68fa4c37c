//! The minimum of many candidate values held by two parties: the MinCut benchmark of
//! *Transputation*.

use super::{GeneratorError, check};
use crate::{Bit, Builder, Circuit, Word};

/// The largest sum of the input widths of [`min_of_candidates`], in bits.
pub const MAX_CANDIDATE_BITS: usize = 1 << 22;

/// The order in which the candidates are compared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum MinimumShape {
    /// A balanced tree, in which many comparisons are independent of each other.
    #[default]
    Tree,
    /// One comparison after the other, with few live wires.
    Chain,
}

/// The number of XOR gates per comparison.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum XorProfile {
    /// The smallest number: `(4 w - 2)(N - 1)` XOR for `N` candidates of `w` bits.
    #[default]
    Lean,
    /// The number of the circuit measured in *Transputation*: `(5 w + 1)(N - 1) + w + 1`, which is
    /// 2,524,920 for 25,000 candidates of 20 bits. The circuit computes the same function. With the
    /// same number of XOR gates, schemes without free XOR can be compared fairly with the paper.
    Paper,
}

/// Options of [`min_of_candidates`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CandidatesOptions {
    /// The order in which candidates are compared; by default a tree.
    pub shape: MinimumShape,
    /// The number of XOR gates per comparison; by default the smallest.
    pub xor: XorProfile,
}

/// Returns a circuit that computes the minimum of `count` unsigned numbers of `width` bits.
///
/// Input value 0 holds the first `count / 2` candidates, which are usually the garbler's, and input
/// value 1 holds the others. Candidates are concatenated from wire 0 on, least significant bit
/// first. For example, the candidates 1, 2 and 3 of 4 bits are the values `1` and `32` for
/// [`Bits::from_hex`](crate::Bits::from_hex). Output value 0 is the minimum.
///
/// The circuit has `2 w (N - 1)` AND, and `(4 w - 2)(N - 1)` XOR with [`XorProfile::Lean`].
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless there are at least 2 candidates of at least 1 bit
/// and at most [`MAX_CANDIDATE_BITS`] bits in total.
pub fn min_of_candidates(
    count: usize,
    width: usize,
    options: CandidatesOptions,
) -> Result<Circuit, GeneratorError> {
    check("candidate width in bits", width, 1..=MAX_CANDIDATE_BITS / 2)?;
    check(
        "number of candidates",
        count,
        2..=MAX_CANDIDATE_BITS / width,
    )?;
    Ok(Builder::build(|b| {
        let mut candidates = b.input_words(count / 2, width);
        candidates.extend(b.input_words(count - count / 2, width));
        let minimum = match options.xor {
            XorProfile::Lean => reduce(candidates, options.shape, |x, y| x.min(y)),
            XorProfile::Paper => {
                let zero = hidden_zero(&candidates);
                let minimum = reduce(candidates, options.shape, |x, y| paper_step(x, y, zero));
                pad_output(b, &minimum, zero)
            }
        };
        b.output(minimum);
    })?)
}

fn reduce<'b>(
    candidates: Vec<Word<'b>>,
    shape: MinimumShape,
    step: impl Fn(&Word<'b>, &Word<'b>) -> Word<'b>,
) -> Word<'b> {
    let mut level = candidates;
    match shape {
        MinimumShape::Tree => {
            while level.len() > 1 {
                level = (level.chunks(BLOCK_CANDIDATES))
                    .map(|block| block_minimum(block, &step))
                    .collect();
            }
            level.swap_remove(0)
        }
        MinimumShape::Chain => {
            let first = level.swap_remove(0);
            level.iter().fold(first, |best, next| step(&best, next))
        }
    }
}

/// Number of candidates per block. The circuit computes the minimum of a block before it reads the
/// next block. A power of two keeps the tree balanced. With this value, there are enough
/// independent comparisons for long batches, and the intermediate results stay in the caches.
const BLOCK_CANDIDATES: usize = 512;

/// Returns the minimum of a block, computed in a balanced tree.
fn block_minimum<'b>(
    candidates: &[Word<'b>],
    step: impl Fn(&Word<'b>, &Word<'b>) -> Word<'b>,
) -> Word<'b> {
    let mut level = candidates.to_vec();
    while level.len() > 1 {
        level = (level.chunks(2))
            .map(|pair| match pair {
                [x, y] => step(x, y),
                _ => pair[0].clone(),
            })
            .collect();
    }
    level.swap_remove(0)
}

/// Returns a wire that is always 0 but that constant folding does not detect: 3 XOR.
fn hidden_zero<'b>(candidates: &[Word<'b>]) -> Bit<'b> {
    let (p, q) = (candidates[0].bit(0), candidates[1].bit(0));
    p ^ q ^ p ^ q
}

/// Returns the minimum of two words with `5 w + 1` XOR and `2 w` AND. Compared with [`Word::min`],
/// it shares no difference, starts the borrow chain at the wire `zero`, and passes the choice
/// through one extra XOR.
fn paper_step<'b>(x: &Word<'b>, y: &Word<'b>, zero: Bit<'b>) -> Word<'b> {
    let mut borrow = zero;
    for (x, y) in x.bits().into_iter().zip(y.bits()) {
        borrow ^= (x ^ y) & (y ^ borrow);
    }
    let choice = borrow ^ zero;
    choice.select(x, y)
}

/// Adds `w - 2` XOR gates to the output. Together with the 3 of `hidden_zero`, these are the `w +
/// 1` of [`XorProfile::Paper`].
fn pad_output<'b>(b: Builder<'b>, minimum: &Word<'b>, zero: Bit<'b>) -> Word<'b> {
    let padded = minimum.width().saturating_sub(2);
    b.word_of(
        (minimum.bits().into_iter().enumerate())
            .map(|(i, bit)| if i < padded { bit ^ zero } else { bit }),
    )
}
