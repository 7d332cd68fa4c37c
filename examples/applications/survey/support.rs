//! The circuit that counts how many transactions have all items of a set.

use transpute::{
    Builder, Circuit,
    circuit::{Bit, CircuitError, Word},
};

use crate::{
    apriori::{Itemset, shared},
    histogram::{TAG_BITS, count},
};

/// What is opened of a candidate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Opened {
    /// Whether it is frequent.
    Frequent,
    /// In how many transactions it is.
    Support,
}

/// Returns the items of candidates, each once, rising.
pub(crate) fn items(candidates: &[Itemset]) -> Vec<u32> {
    let mut items: Vec<u32> = candidates.iter().flatten().copied().collect();
    items.sort_unstable();
    items.dedup();
    items
}

/// Writes the circuit for some candidates, in order, each of one item at least.
///
/// Input values are the garbler's shares of the columns of [`items`], one after the other, and its tag, then the
/// evaluator's. Output values are one for each candidate, whether its support is `threshold` at least or the
/// support itself, and then whether the tags are the same.
///
/// # Errors
/// [`CircuitError::TooManyWires`].
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
            // What the candidate begins with may be there from the one before.
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
        // No number of this width is as large.
        threshold if threshold >> number.width() != 0 => number.bit(0) ^ number.bit(0),
        threshold => number.ge(&number.constant(threshold)),
    }
}
