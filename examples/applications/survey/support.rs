//! The circuit that computes the supports of itemsets: the number of transactions with all items.

use transpute::{
    Builder, Circuit,
    circuit::{Bit, CircuitError, Word},
};

use crate::{
    apriori::{Itemset, shared},
    histogram::{TAG_BITS, count},
};

/// The value that is opened for a candidate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Opened {
    /// One bit: whether the candidate is frequent.
    Frequent,
    /// The number of transactions with all items of the candidate.
    Support,
}

/// Returns the items that occur in the candidates, without repetition, in ascending order.
pub(crate) fn items(candidates: &[Itemset]) -> Vec<u32> {
    let mut items: Vec<u32> = candidates.iter().flatten().copied().collect();
    items.sort_unstable();
    items.dedup();
    items
}

/// Builds the circuit for sorted candidates, each with at least one item.
///
/// Input values 0 and 1 are the garbler's: its shares of the columns of [`items`], and its tag.
/// Input values 2 and 3 are the evaluator's. There is one output for each candidate: whether its
/// support is at least `threshold`, or the support itself. The last output is whether the tags are
/// equal.
///
/// # Errors
/// Returns [`CircuitError::TooManyWires`] if the circuit is too large.
pub(crate) fn circuit(
    candidates: &[Itemset],
    transactions: usize,
    threshold: u64,
    opened: Opened,
) -> Result<Circuit, CircuitError> {
    let items = items(candidates);
    Builder::build(|b| {
        let ours = (
            b.input_words(items.len(), transactions),
            b.input_word(TAG_BITS),
        );
        let theirs = (
            b.input_words(items.len(), transactions),
            b.input_word(TAG_BITS),
        );
        let columns: Vec<Word<'_>> = (ours.0.iter().zip(&theirs.0))
            .map(|(ours, theirs)| ours ^ theirs)
            .collect();
        let column = |item: &u32| items.binary_search(item).ok().map(|place| &columns[place]);
        let mut covers: Vec<Word<'_>> = Vec::new();
        let mut before: &[u32] = &[];
        for set in candidates {
            // The products for the prefix that this set shares with the previous one are reused.
            covers.truncate(shared(before, set));
            for column in set[covers.len()..].iter().filter_map(column) {
                covers.push(match covers.last() {
                    Some(cover) => cover & column,
                    None => column.clone(),
                });
            }
            before = set;
            let flags: Vec<Bit<'_>> = covers.last().map(Word::bits).unwrap_or_default();
            let support = count(b, flags);
            match opened {
                Opened::Support => b.output(support),
                Opened::Frequent => b.output(at_least(&support, threshold)),
            }
        }
        b.output(ours.1.eq(&theirs.1));
    })
}

fn at_least<'b>(number: &Word<'b>, threshold: u64) -> Bit<'b> {
    match u128::from(threshold) {
        // A threshold with more bits than the count is never reached, so the output is the constant
        // 0.
        threshold if threshold >> number.width() != 0 => number.bit(0) ^ number.bit(0),
        threshold => number.ge(&number.constant(threshold)),
    }
}
