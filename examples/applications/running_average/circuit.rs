//! The circuit of one or more rounds, which adds distances to a running sum.

use clap::ValueEnum;
use serde::Serialize;
use transpute::{
    Bits, Builder, Circuit,
    circuit::{CircuitError, Word},
};

/// Number of bits of a distance.
pub(crate) const DISTANCE_BITS: usize = 32;

/// Number of bits of the running sum: enough for the sum of [`MAX_ROUNDS`] distances.
pub(crate) const SUM_BITS: usize = 48;

/// Maximum number of rounds.
pub(crate) const MAX_ROUNDS: u64 = 1 << (SUM_BITS - DISTANCE_BITS);

/// The times at which the statistics server learns the running sum.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Opened {
    /// The server learns the sum after every round, as in the paper.
    #[default]
    Round,
    /// The server learns the sum after the last round of a batch.
    Batch,
}

/// Builds the circuit that adds `rounds` distances to the running sum.
///
/// Input value 0 is the device's distances, input value 1 the server's running sum. The output is
/// the running sum after each round, or only after the last one, depending on `opened`.
///
/// # Errors
/// Returns [`CircuitError::TooManyWires`] if the circuit is too large.
pub(crate) fn circuit(rounds: usize, opened: Opened) -> Result<Circuit, CircuitError> {
    Builder::build(|b| {
        let distances = b.input_words(rounds, DISTANCE_BITS);
        let sum = b.input_word(SUM_BITS);
        let mut terms: Vec<Word<'_>> = (distances.iter())
            .map(|distance| distance.resize(SUM_BITS))
            .collect();
        match opened {
            Opened::Round => {
                let mut sums = Vec::with_capacity(rounds);
                let mut last = sum;
                for term in &terms {
                    last = &last + term;
                    sums.push(last.clone());
                }
                b.output(sums);
            }
            Opened::Batch => {
                // The distances are added first and the running sum last, because the upper bits of
                // distances are the constant 0, whose addition needs no gates.
                terms.push(sum);
                b.output(Word::sum(&terms));
            }
        }
    })
}

/// Converts distances to the device's input bits.
pub(crate) fn distances_to_bits(distances: &[u32]) -> Bits {
    let mut bits = Bits::with_capacity(distances.len() * DISTANCE_BITS);
    for &distance in distances {
        bits.extend([Bits::from_u128(distance.into(), DISTANCE_BITS)]);
    }
    bits
}

/// Converts the running sum to the server's input bits.
pub(crate) fn sum_to_bits(sum: u64) -> Bits {
    Bits::from_u128(sum.into(), SUM_BITS)
}

/// Parses sums from output bits. Returns `None` if the number of bits is not a multiple of a sum's
/// width.
pub(crate) fn sums_from_bits(bits: &Bits) -> Option<Vec<u64>> {
    if !bits.len().is_multiple_of(SUM_BITS) {
        return None;
    }
    (0..bits.len() / SUM_BITS)
        .map(|place| {
            let bits = bits.slice(place * SUM_BITS..(place + 1) * SUM_BITS);
            u64::try_from(bits.to_u128()?).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use transpute::Program;

    use super::*;

    fn sums(start: u64, distances: &[u32], opened: Opened) -> Vec<u64> {
        let circuit = circuit(distances.len(), opened).unwrap();
        let mut input = distances_to_bits(distances);
        input.extend([sum_to_bits(start)]);
        sums_from_bits(&circuit.evaluate(&input).unwrap()).unwrap()
    }

    fn plain(start: u64, distances: &[u32]) -> Vec<u64> {
        let mut sum = start;
        (distances.iter())
            .map(|&distance| {
                sum += u64::from(distance);
                sum
            })
            .collect()
    }

    proptest! {
        #[test]
        fn sums_equal_plain_addition(
            start in 0..1_u64 << 47,
            distances in vec(any::<u32>(), 1..40),
        ) {
            let expected = plain(start, &distances);
            prop_assert_eq!(&sums(start, &distances, Opened::Round), &expected);
            prop_assert_eq!(sums(start, &distances, Opened::Batch), &expected[expected.len() - 1..]);
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        for opened in [Opened::Round, Opened::Batch] {
            assert_eq!(sums(0, &[0], opened), [0]);
            // The largest possible sum: this is round MAX_ROUNDS, and all distances are u32::MAX.
            let before = (MAX_ROUNDS - 1) * u64::from(u32::MAX);
            let expected = MAX_ROUNDS * u64::from(u32::MAX);
            assert_eq!(sums(before, &[u32::MAX], opened), [expected]);
        }
    }

    #[test]
    fn a_round_takes_less_than_one_and_gate_per_bit_of_the_sum() {
        let and_gates =
            |rounds, opened| Program::compile(&circuit(rounds, opened).unwrap()).and_count();
        assert_eq!(and_gates(1, Opened::Round), 47);
        assert_eq!(and_gates(100, Opened::Round), 4700);
        assert!(and_gates(100, Opened::Batch) < 4000);
    }

    #[test]
    fn incomplete_sums_are_rejected() {
        assert_eq!(sums_from_bits(&Bits::zeros(47)), None);
        assert_eq!(sums_from_bits(&Bits::zeros(96)), Some(vec![0, 0]));
    }
}
