//! The minimum of many numbers ("candidates") that two parties hold. This is the MinCut benchmark
//! of *Transputation*.

use super::{GeneratorError, check};
use crate::{Bit, Builder, Circuit, Word};

/// The largest total width of all candidates of [`min_of_candidates`], in bits.
pub const MAX_CANDIDATE_BITS: usize = 1 << 22;

/// The order in which the candidates are compared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum MinimumShape {
    /// The comparisons form a balanced tree, so many of them are independent of each other.
    #[default]
    Tree,
    /// Each candidate is compared with the minimum of all candidates before it. Few wires are live
    /// at a time, but no comparison is independent of another.
    Chain,
}

/// The number of XOR gates in the circuit of [`min_of_candidates`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum XorProfile {
    /// The smallest number: `(4 w - 2)(N - 1)` XOR gates for `N` candidates of `w` bits.
    #[default]
    Lean,
    /// The number in the circuit that *Transputation* measured: `(5 w + 1)(N - 1) + w + 1`. This is
    /// 2,524,920 for 25,000 candidates of 20 bits. The outputs are the same as with `Lean`. In
    /// garbling schemes without free XOR, XOR gates cost time, so only an equal number allows a
    /// comparison with the paper's results.
    Paper,
}

/// Options of [`min_of_candidates`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct CandidatesOptions {
    /// The order in which the candidates are compared. The default is a tree.
    pub shape: MinimumShape,
    /// The number of XOR gates in the circuit. The default is the smallest number.
    pub xor: XorProfile,
}

/// Returns a circuit that computes the minimum of `count` unsigned numbers of `width` bits.
///
/// Input value 0 holds the first `count / 2` candidates, which are usually the garbler's, and input
/// value 1 holds the others. Candidates are concatenated from wire 0 on, least significant bit
/// first. For example, the candidates 1, 2 and 3 of 4 bits are the values `1` and `32` for
/// [`Bits::from_hex`](crate::Bits::from_hex). Output value 0 is the minimum.
///
/// For `N` candidates of `w` bits, the circuit has `2 w (N - 1)` AND gates, and `(4 w - 2)(N - 1)`
/// XOR gates with [`XorProfile::Lean`].
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
/// next block. A power of two keeps the tree balanced. A block of this size has enough independent
/// comparisons for long batches of gates, and its labels still fit in the CPU caches.
const BLOCK_CANDIDATES: usize = 512;

/// Returns the minimum of a block of candidates, computed in a balanced tree. `step` returns the
/// minimum of two words.
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

/// Returns a wire that is always 0, but whose value constant folding does not detect. This adds 3
/// XOR gates.
fn hidden_zero<'b>(candidates: &[Word<'b>]) -> Bit<'b> {
    let (p, q) = (candidates[0].bit(0), candidates[1].bit(0));
    p ^ q ^ p ^ q
}

/// Returns the minimum of two words of `w` bits with `5 w + 1` XOR and `2 w` AND gates, for
/// [`XorProfile::Paper`]. `zero` must be the wire of [`hidden_zero`].
///
/// It needs more XOR gates than [`Word::min`], because the comparison and the selection each
/// compute `x ^ y`. The first borrow is `zero` instead of a constant, and the choice is XORed with
/// `zero`.
fn paper_step<'b>(x: &Word<'b>, y: &Word<'b>, zero: Bit<'b>) -> Word<'b> {
    let mut borrow = zero;
    for (x, y) in x.bits().into_iter().zip(y.bits()) {
        borrow ^= (x ^ y) & (y ^ borrow);
    }
    let choice = borrow ^ zero;
    choice.select(x, y)
}

/// Returns the minimum with an XOR gate on each of its low `w - 2` bits, whose other operand is
/// `zero`. These gates and the 3 of [`hidden_zero`] are the summand `w + 1` in the number of
/// [`XorProfile::Paper`].
fn pad_output<'b>(b: Builder<'b>, minimum: &Word<'b>, zero: Bit<'b>) -> Word<'b> {
    let padded = minimum.width().saturating_sub(2);
    b.word_of(
        (minimum.bits().into_iter().enumerate())
            .map(|(i, bit)| if i < padded { bit ^ zero } else { bit }),
    )
}
