//! The assignment of input values to the two parties.

use std::ops::Range;

use thiserror::Error;

/// Assigns each input value of a circuit to its owner: the garbler or the evaluator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InputSplit {
    widths: Vec<u32>,
    garbler: Vec<bool>,
}

/// The error of [`InputSplit::new`] for an index of an input value that the circuit does not have.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error(
    "input value {index} does not exist: the circuit has {values} input values, counted from 0"
)]
pub struct SplitError {
    /// The index that the caller passed, counted from 0.
    pub index: usize,
    /// The number of input values of the circuit.
    pub values: usize,
}

impl InputSplit {
    /// Assigns input value 0 to the garbler and all others to the evaluator. `widths` has the width
    /// of each input value, in bits.
    #[must_use]
    pub fn first_to_garbler(widths: &[u32]) -> Self {
        Self {
            widths: widths.to_vec(),
            garbler: (0..widths.len()).map(|i| i == 0).collect(),
        }
    }

    /// Assigns the input values with the indices `garbler_values` to the garbler and all others to
    /// the evaluator. `widths` has the width of each input value, in bits.
    ///
    /// # Errors
    /// Returns [`SplitError`] if an index is not below the number of input values.
    pub fn new(widths: &[u32], garbler_values: &[usize]) -> Result<Self, SplitError> {
        let mut garbler = vec![false; widths.len()];
        for &index in garbler_values {
            *garbler.get_mut(index).ok_or(SplitError {
                index,
                values: widths.len(),
            })? = true;
        }
        Ok(Self {
            widths: widths.to_vec(),
            garbler,
        })
    }

    /// Returns whether input value `index` is the garbler's.
    ///
    /// # Panics
    /// Panics if `index` is not below the number of input values.
    #[must_use]
    pub fn is_garbler(&self, index: usize) -> bool {
        self.garbler[index]
    }

    /// Returns the width of each input value, in bits.
    #[must_use]
    pub fn widths(&self) -> &[u32] {
        &self.widths
    }

    /// Iterates over the wire ranges of one party's input values, in wire order: the garbler's if
    /// `of_garbler` is set, otherwise the evaluator's.
    pub fn ranges(&self, of_garbler: bool) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut start = 0;
        self.widths
            .iter()
            .zip(&self.garbler)
            .map(move |(&width, &garbler)| {
                let range = start..start + width;
                start += width;
                (range, garbler)
            })
            .filter(move |(_, garbler)| *garbler == of_garbler)
            .map(|(range, _)| range)
    }

    /// Returns the number of the garbler's input bits.
    #[must_use]
    pub fn garbler_bits(&self) -> usize {
        self.ranges(true).map(|range| range.len()).sum()
    }

    /// Returns the number of the evaluator's input bits.
    #[must_use]
    pub fn evaluator_bits(&self) -> usize {
        self.ranges(false).map(|range| range.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_the_values_of_each_party() {
        let split = InputSplit::new(&[3, 4, 5], &[2, 0]).unwrap();
        assert_eq!(split.ranges(true).collect::<Vec<_>>(), [0..3, 7..12]);
        assert!(split.ranges(false).eq(std::iter::once(3..7)));
        assert_eq!((split.garbler_bits(), split.evaluator_bits()), (8, 4));
    }

    #[test]
    fn the_error_contains_the_missing_input_value() {
        let error = InputSplit::new(&[1, 1], &[2]).unwrap_err();
        assert_eq!(
            error,
            SplitError {
                index: 2,
                values: 2
            }
        );
    }
}
