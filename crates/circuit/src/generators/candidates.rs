//! The minimum of many candidate values held by two parties: the shape of the MinCut benchmark of
//! *Transputation*.

use super::{GeneratorError, check};
use crate::{Bit, Builder, Circuit, Word};

/// The most input bits that [`min_of_candidates`] takes in all.
pub const MAX_CANDIDATE_BITS: usize = 1 << 22;

/// In which order the candidates are compared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum MinimumShape {
    /// A balanced tree: many comparisons are independent of one another.
    #[default]
    Tree,
    /// One after the other: few wires are live at a time.
    Chain,
}

/// How many XOR gates a comparison step spends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum XorProfile {
    /// As few as possible: `(4 w - 2)(N - 1)`.
    #[default]
    Lean,
    /// As many as the circuit measured in *Transputation*, `(5 w + 1)(N - 1) + w + 1`: 2,524,920 for
    /// 25,000 candidates of 20 bits. It computes the same function; the surplus gates are there
    /// for comparisons under garbling schemes in which XOR is not free.
    Paper,
}

/// Choices for [`min_of_candidates`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CandidatesOptions {
    /// In which order candidates are compared; a tree by default.
    pub shape: MinimumShape,
    /// How many XOR gates are spent; as few as possible by default.
    pub xor: XorProfile,
}

/// Computes the minimum of `count` unsigned numbers of `width` bits.
///
/// Input value 0 holds the first `count / 2` candidates (the garbler's, as a rule), value 1 the
/// others, each one candidate after the other from wire 0 on, least significant bit first:
/// the candidates 1, 2 and 3 of 4 bits are values `1` and `32`
/// for [`Bits::from_hex`](crate::Bits::from_hex). Output value 0 is the minimum.
///
/// `2 w (N - 1)` AND, and `(4 w - 2)(N - 1)` XOR in the lean profile.
///
/// # Errors
/// [`GeneratorError::OutOfRange`] unless there are 2 candidates of 1 bit or more and
/// at most [`MAX_CANDIDATE_BITS`] bits in all.
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
                level = (level.chunks(BLOCK))
                    .map(|block| smallest_of(block, &step))
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

/// Candidates of which the smallest is found before others are looked at: a power of two, so that the tree is balanced, with
/// comparisons enough to go side by side, and few enough that what they leave is still in the caches.
const BLOCK: usize = 512;

/// Returns the minimum, level by level.
fn smallest_of<'b>(
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

/// A wire that is always 0 but that no folding of constants finds out: 3 XOR.
fn hidden_zero<'b>(candidates: &[Word<'b>]) -> Bit<'b> {
    let (p, q) = (candidates[0].bit(0), candidates[1].bit(0));
    p ^ q ^ p ^ q
}

/// The minimum in `5 w + 1` XOR and `2 w` AND: no difference is used twice, the borrow chain
/// starts at a wire, and the choice passes through one XOR more.
fn paper_step<'b>(x: &Word<'b>, y: &Word<'b>, zero: Bit<'b>) -> Word<'b> {
    let mut borrow = zero;
    for (x, y) in x.bits().into_iter().zip(y.bits()) {
        borrow ^= (x ^ y) & (y ^ borrow);
    }
    let choice = borrow ^ zero;
    choice.select(x, y)
}

/// Adds the `w - 2` XOR that are left to `w + 1`.
fn pad_output<'b>(b: Builder<'b>, minimum: &Word<'b>, zero: Bit<'b>) -> Word<'b> {
    let padded = minimum.width().saturating_sub(2);
    b.word_of(
        (minimum.bits().into_iter().enumerate())
            .map(|(i, bit)| if i < padded { bit ^ zero } else { bit }),
    )
}
