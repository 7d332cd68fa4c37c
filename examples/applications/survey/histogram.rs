//! Histograms of a question: the circuit, its outputs, and a plain computation.

use thiserror::Error;
use transpute::{
    Builder, Circuit,
    circuit::{Bit, CircuitError, Word},
};

use crate::table::{Table, width_of};

/// Number of bits of a table's tag. The circuit compares the tags of both parties' shares.
pub(crate) const TAG_BITS: usize = 64;

/// Maximum number of bins of a histogram.
const MAX_BINS: u64 = 256;

/// The bins of a histogram.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Bins {
    /// The number of answers equal to each choice, counted from 0.
    ///
    /// Shares may give a number that is not a choice. It is counted as the choice with the same
    /// bits except the highest one, so that every respondent is counted exactly once.
    Choices(u64),
    /// The number of answers below the first bound, between each two consecutive bounds, and from
    /// the last bound on. Each bound belongs to the bin above it.
    Ranges { bounds: Vec<u32>, width: u32 },
}

/// The reason why answers cannot be counted.
#[derive(Debug, Error)]
pub(crate) enum BinsError {
    /// The number of choices is not supported.
    #[error("expected 2 to {MAX_BINS} choices, found {found}")]
    Choices { found: u64 },
    /// The bounds are invalid.
    #[error("bounds must be ascending, from 1 and below {below}, and at most {}", MAX_BINS - 1)]
    Bounds { below: u64 },
    /// The shares have a different width.
    #[error("expected shares of {expected} bits for {choices} choices, found {found}")]
    Width {
        choices: u64,
        expected: u32,
        found: u32,
    },
}

impl Bins {
    /// Creates bins for this number of choices. `width` is the number of bits of each share.
    pub(crate) fn choices(choices: u64, width: u32) -> Result<Self, BinsError> {
        if !(2..=MAX_BINS).contains(&choices) {
            return Err(BinsError::Choices { found: choices });
        }
        match width_of(choices) {
            expected if expected == width => Ok(Self::Choices(choices)),
            expected => Err(BinsError::Width {
                choices,
                expected,
                found: width,
            }),
        }
    }

    /// Creates bins between these bounds, for numbers of `width` bits.
    pub(crate) fn ranges(bounds: Vec<u32>, width: u32) -> Result<Self, BinsError> {
        let below = 1 << width;
        let is_good = (1..MAX_BINS).contains(&(bounds.len() as u64))
            && bounds
                .iter()
                .all(|&bound| (1..below).contains(&u64::from(bound)))
            && bounds.is_sorted_by(|one, next| one < next);
        match is_good {
            true => Ok(Self::Ranges { bounds, width }),
            false => Err(BinsError::Bounds { below }),
        }
    }

    /// Returns the number of bits of an answer.
    pub(crate) fn width(&self) -> u32 {
        match self {
            Self::Choices(choices) => width_of(*choices),
            Self::Ranges { width, .. } => *width,
        }
    }

    /// Returns the name of a bin.
    pub(crate) fn name(&self, bin: usize) -> String {
        match self {
            Self::Choices(_) => bin.to_string(),
            Self::Ranges { bounds, width } => {
                let from = bin.checked_sub(1).map_or(0, |before| bounds[before]);
                let below = (bounds.get(bin)).map_or(1 << width, |&bound| u64::from(bound));
                format!("{from}..{below}")
            }
        }
    }

    /// Builds the circuit for one question with this number of answers.
    ///
    /// Input values 0 and 1 are the garbler's: its shares of the answers, and its tag. Input values
    /// 2 and 3 are the evaluator's. The outputs are one count less than there are bins, and whether
    /// the tags are equal.
    ///
    /// # Errors
    /// Returns [`CircuitError::TooManyWires`] if the circuit is too large.
    pub(crate) fn circuit(&self, answers: usize) -> Result<Circuit, CircuitError> {
        Builder::build(|b| {
            let width = self.width() as usize;
            let ours = (b.input_words(answers, width), b.input_word(TAG_BITS));
            let theirs = (b.input_words(answers, width), b.input_word(TAG_BITS));
            let mut counted = vec![Vec::with_capacity(answers); self.counts()];
            for (ours, theirs) in ours.0.iter().zip(&theirs.0) {
                let flags = self.flags(&(ours ^ theirs));
                for (column, flag) in counted.iter_mut().zip(flags) {
                    column.push(flag);
                }
            }
            for flags in counted {
                b.output(count(b, flags));
            }
            b.output(ours.1.eq(&theirs.1));
        })
    }

    /// Returns an upper bound on the AND gates of the circuit for one question.
    pub(crate) fn and_gates(&self, answers: u64) -> u64 {
        let counts = self.counts() as u64;
        let selection = match self {
            Self::Choices(choices) => *choices,
            Self::Ranges { width, .. } => counts * u64::from(*width),
        };
        answers
            .saturating_mul(selection + counts)
            .saturating_add(TAG_BITS as u64)
    }

    /// Returns the number of counts that are opened: one less than the number of bins.
    fn counts(&self) -> usize {
        match self {
            // The cast is lossless, because there are at most 256 choices.
            Self::Choices(choices) => *choices as usize - 1,
            Self::Ranges { bounds, .. } => bounds.len(),
        }
    }

    /// Returns, for one answer, the bit that is added to each opened count.
    fn flags<'b>(&self, answer: &Word<'b>) -> Vec<Bit<'b>> {
        match self {
            Self::Choices(choices) => {
                let mut flags = choose(&answer.bits(), *choices as usize);
                // The first choice is not counted: its count is the number of answers minus the
                // other counts.
                flags.remove(0);
                flags
            }
            Self::Ranges { bounds, .. } => (bounds.iter())
                .map(|&bound| answer.ge(&answer.constant(bound.into())))
                .collect(),
        }
    }

    /// Computes the histogram from the counts of a question. Returns `None` if the counts are
    /// inconsistent.
    pub(crate) fn histogram(&self, counts: &[u64], answers: u64) -> Option<Vec<u64>> {
        let mut bins = counts.to_vec();
        match self {
            Self::Choices(_) => {
                let others = counts
                    .iter()
                    .try_fold(0_u64, |sum, &count| sum.checked_add(count))?;
                bins.insert(0, answers.checked_sub(others)?);
            }
            Self::Ranges { .. } => {
                // The circuit counts the answers from each bound on. Differences of consecutive
                // counts give the bins.
                bins.insert(0, answers);
                for bin in 0..counts.len() {
                    bins[bin] = bins[bin].checked_sub(bins[bin + 1])?;
                }
            }
        }
        (bins.len() == self.counts() + 1).then_some(bins)
    }

    /// Computes the histogram of a column of plain answers.
    pub(crate) fn plain(&self, table: &Table, column: usize) -> Vec<u64> {
        let mut bins = vec![0; self.counts() + 1];
        for answer in table.column(column) {
            let bin = match self {
                Self::Choices(choices) => match u64::from(answer) {
                    choice if choice < *choices => answer as usize,
                    _ => answer as usize & !(1 << (self.width() - 1)),
                },
                Self::Ranges { bounds, .. } => bounds.partition_point(|&bound| bound <= answer),
            };
            bins[bin] += 1;
        }
        bins
    }
}

/// Returns the number of flags that are set, as a word of the minimum width for that number.
pub(crate) fn count<'b>(b: Builder<'b>, flags: Vec<Bit<'b>>) -> Word<'b> {
    let width = width_of(flags.len() as u64 + 1) as usize;
    // For a single flag, the sum has one bit.
    let ones = b.word_of(flags).count_ones();
    ones.resize(width)
}

/// Returns a flag for each choice. Exactly one flag is set, for any number in `bits`. The bits
/// except the highest one select a choice below 2^(n - 1). The highest bit, if set, replaces choice
/// c by c + 2^(n - 1) if that choice exists.
fn choose<'b>(bits: &[Bit<'b>], choices: usize) -> Vec<Bit<'b>> {
    let Some((&highest, low)) = bits.split_last() else {
        return Vec::new();
    };
    let mut flags = one_hot(low);
    if flags.len().max(1) * 2 == choices {
        return split(&flags, highest);
    }
    for choice in 0..choices - flags.len() {
        let with = flags[choice] & highest;
        flags[choice] ^= with;
        flags.push(with);
    }
    flags
}

/// Returns a flag for each value that `n` bits can have, in ascending order. Exactly one flag is
/// set. This takes `2^n - n - 1` AND gates.
fn one_hot<'b>(bits: &[Bit<'b>]) -> Vec<Bit<'b>> {
    match bits {
        [] => Vec::new(),
        [low @ .., highest] => split(&one_hot(low), *highest),
    }
}

/// Splits each flag into two: one that is set if `bit` is 0, and one that is set if `bit` is 1.
/// Exactly one of `flags` must be set. So the last product with `bit` needs no AND gate: it is the
/// XOR of `bit` and the other products.
fn split<'b>(flags: &[Bit<'b>], bit: Bit<'b>) -> Vec<Bit<'b>> {
    let Some((_, others)) = flags.split_last() else {
        return vec![!bit, bit];
    };
    let mut set: Vec<Bit<'b>> = others.iter().map(|&flag| flag & bit).collect();
    let left = set.iter().fold(bit, |left, &with| left ^ with);
    set.push(left);
    let mut all: Vec<Bit<'b>> = (flags.iter().zip(&set))
        .map(|(&flag, &with)| flag ^ with)
        .collect();
    all.extend(set);
    all
}
