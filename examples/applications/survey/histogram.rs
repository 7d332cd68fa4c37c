//! Histograms of a question: the circuit, what its outputs mean, and the same in the clear.

use thiserror::Error;
use transpute::{
    Builder, Circuit,
    circuit::{Bit, CircuitError, Word},
};

use crate::table::{Table, width_of};

/// Bits of the number that both parties' shares of a table have in common.
pub(crate) const TAG_BITS: usize = 64;

/// The most bars of a histogram.
const MAX_BARS: u64 = 256;

/// What is counted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Bars {
    /// How many answers equal each of so many choices, counted from 0.
    ///
    /// Choices are shared as binary numbers. What is no choice counts as the choice with the same bits but
    /// the highest, so that whatever a respondent shares counts once.
    Choices(u64),
    /// How many answers lie below the first of these bounds, between each two, and from the last on.
    Ranges { bounds: Vec<u32>, width: u32 },
}

/// Why answers cannot be counted so.
#[derive(Debug, Error)]
pub(crate) enum BarsError {
    /// A number of choices that no question has.
    #[error("{found} choices; a question has 2 to {MAX_BARS}")]
    Choices { found: u64 },
    /// Bounds that are none.
    #[error("bounds must rise, from 1 on and below {below}, and be at most {} of them", MAX_BARS - 1)]
    Bounds { below: u64 },
    /// Shares of another width.
    #[error("answers of {choices} choices are shared in {expected} bits; these have {found}")]
    Width {
        choices: u64,
        expected: u32,
        found: u32,
    },
}

impl Bars {
    /// Counts choices in numbers of `width` bits.
    pub(crate) fn choices(choices: u64, width: u32) -> Result<Self, BarsError> {
        if !(2..=MAX_BARS).contains(&choices) {
            return Err(BarsError::Choices { found: choices });
        }
        match width_of(choices) {
            expected if expected == width => Ok(Self::Choices(choices)),
            expected => Err(BarsError::Width {
                choices,
                expected,
                found: width,
            }),
        }
    }

    /// Counts ranges of numbers of `width` bits.
    pub(crate) fn ranges(bounds: Vec<u32>, width: u32) -> Result<Self, BarsError> {
        let below = 1 << width;
        let is_good = (1..MAX_BARS).contains(&(bounds.len() as u64))
            && bounds
                .iter()
                .all(|&bound| (1..below).contains(&u64::from(bound)))
            && bounds.is_sorted_by(|one, next| one < next);
        match is_good {
            true => Ok(Self::Ranges { bounds, width }),
            false => Err(BarsError::Bounds { below }),
        }
    }

    /// Bits of an answer.
    pub(crate) fn width(&self) -> u32 {
        match self {
            Self::Choices(choices) => width_of(*choices),
            Self::Ranges { width, .. } => *width,
        }
    }

    /// Returns what a bar stands for.
    pub(crate) fn name(&self, bar: usize) -> String {
        match self {
            Self::Choices(_) => bar.to_string(),
            Self::Ranges { bounds, width } => {
                let from = bar.checked_sub(1).map_or(0, |before| bounds[before]);
                let below = (bounds.get(bar)).map_or(1 << width, |&bound| u64::from(bound));
                format!("{from}..{below}")
            }
        }
    }

    /// Writes the circuit for one question with so many answers.
    ///
    /// Input values are the garbler's answers and tag, then the evaluator's. Output values are the counts of all
    /// bars but one, and whether the tags are the same.
    ///
    /// # Errors
    /// [`CircuitError::TooManyWires`].
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

    /// How many AND gates a question takes at most.
    pub(crate) fn and_gates(&self, answers: u64) -> u64 {
        let counts = self.counts() as u64;
        let telling_apart = match self {
            Self::Choices(choices) => *choices,
            Self::Ranges { width, .. } => counts * u64::from(*width),
        };
        answers
            .saturating_mul(telling_apart + counts)
            .saturating_add(TAG_BITS as u64)
    }

    /// How many counts are opened: the bars' number less one.
    fn counts(&self) -> usize {
        match self {
            // At most 256.
            Self::Choices(choices) => *choices as usize - 1,
            Self::Ranges { bounds, .. } => bounds.len(),
        }
    }

    /// Returns a bit for each count.
    fn flags<'b>(&self, answer: &Word<'b>) -> Vec<Bit<'b>> {
        match self {
            Self::Choices(choices) => {
                let mut flags = choose(&answer.bits(), *choices as usize);
                // The others tell how often the first was chosen.
                flags.remove(0);
                flags
            }
            Self::Ranges { bounds, .. } => (bounds.iter())
                .map(|&bound| answer.ge(&answer.constant(bound.into())))
                .collect(),
        }
    }

    /// Makes a histogram of the counts of a question with so many answers; `None` if they are no counts of it.
    pub(crate) fn histogram(&self, counts: &[u64], answers: u64) -> Option<Vec<u64>> {
        let mut bars = counts.to_vec();
        match self {
            Self::Choices(_) => {
                let others = counts
                    .iter()
                    .try_fold(0_u64, |sum, &count| sum.checked_add(count))?;
                bars.insert(0, answers.checked_sub(others)?);
            }
            Self::Ranges { .. } => {
                // Those from each bound on: fewer and fewer.
                bars.insert(0, answers);
                for bar in 0..counts.len() {
                    bars[bar] = bars[bar].checked_sub(bars[bar + 1])?;
                }
            }
        }
        (bars.len() == self.counts() + 1).then_some(bars)
    }

    /// Makes the histogram of a column of plain answers.
    pub(crate) fn plain(&self, table: &Table, column: usize) -> Vec<u64> {
        let mut bars = vec![0; self.counts() + 1];
        for answer in table.column(column) {
            let bar = match self {
                Self::Choices(choices) => match u64::from(answer) {
                    choice if choice < *choices => answer as usize,
                    _ => answer as usize & !(1 << (self.width() - 1)),
                },
                Self::Ranges { bounds, .. } => bounds.partition_point(|&bound| bound <= answer),
            };
            bars[bar] += 1;
        }
        bars
    }
}

/// Counts ones, in as few bits as that needs.
pub(crate) fn count<'b>(b: Builder<'b>, flags: Vec<Bit<'b>>) -> Word<'b> {
    let width = width_of(flags.len() as u64 + 1) as usize;
    // A single one is counted in one bit.
    let ones = b.word_of(flags).count_ones();
    ones.resize(width)
}

/// Returns a bit for each choice, exactly one of which is set whatever the number: one for all numbers of
/// the bits but the highest, of which the first are told apart by the highest.
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

/// Returns a bit for each value that the bits can have, in order: `2^n - n - 1` AND.
fn one_hot<'b>(bits: &[Bit<'b>]) -> Vec<Bit<'b>> {
    match bits {
        [] => Vec::new(),
        [low @ .., highest] => split(&one_hot(low), *highest),
    }
}

/// Tells each of some flags, exactly one of which is set, apart by a further bit. The last one is what the
/// others leave of the bit.
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
