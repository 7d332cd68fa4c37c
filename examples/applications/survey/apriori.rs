//! Candidates of the Apriori algorithm: sets of items that may be frequent. They depend only on
//! public data, the frequent sets that were opened before.

use std::collections::HashSet;

/// A set of items, as unique item numbers in ascending order.
pub(crate) type Itemset = Vec<u32>;

/// Returns one set for each of the items 0 to `items` - 1.
pub(crate) fn single_items(items: u32) -> Vec<Itemset> {
    (0..items).map(|item| vec![item]).collect()
}

/// Returns the candidates that have one item more than the given frequent sets. A set is a
/// candidate if all its subsets with one item less are frequent. The given sets must have the same
/// size and be sorted. The candidates are sorted too.
///
/// # Errors
/// Returns the number of candidates found so far, as soon as it exceeds `max_candidates`.
pub(crate) fn candidates_from(
    frequent: &[Itemset],
    max_candidates: usize,
) -> Result<Vec<Itemset>, usize> {
    let known: HashSet<&[u32]> = frequent.iter().map(Vec::as_slice).collect();
    let mut sets = Vec::new();
    for (position, one) in frequent.iter().enumerate() {
        let Some((_, stem)) = one.split_last() else {
            continue;
        };
        // The sets are sorted, so those with the same prefix are consecutive.
        let with_stem = |other: &&Itemset| other.starts_with(stem) && other.len() == one.len();
        for other in frequent[position + 1..].iter().take_while(with_stem) {
            let mut set = one.clone();
            set.extend(other.last());
            if subsets(&set).all(|subset| known.contains(subset.as_slice())) {
                sets.push(set);
            }
            if sets.len() > max_candidates {
                return Err(sets.len());
            }
        }
    }
    Ok(sets)
}

/// Returns the subsets that have one item less than `set`.
fn subsets(set: &[u32]) -> impl Iterator<Item = Itemset> {
    (0..set.len()).map(|left_out| {
        let mut subset = set.to_vec();
        subset.remove(left_out);
        subset
    })
}

/// Splits sorted candidates into groups of about `budget` AND gates each. For each transaction, a
/// candidate takes one gate for its count, and one for each item beyond the prefix that it shares
/// with the candidate before.
pub(crate) fn groups(
    candidates: &[Itemset],
    transactions: usize,
    budget: usize,
) -> Vec<&[Itemset]> {
    let mut groups = Vec::new();
    let (mut start, mut gates) = (0, 0_usize);
    for (index, set) in candidates.iter().enumerate() {
        let new = match index > start {
            true => set.len() - shared(&candidates[index - 1], set),
            false => set.len(),
        };
        // The first item needs no product, but counting takes a gate.
        let needed = transactions.saturating_mul(new.max(1));
        if index > start && gates.saturating_add(needed) > budget {
            groups.push(&candidates[start..index]);
            (start, gates) = (index, 0);
        }
        gates = gates.saturating_add(needed).saturating_add(transactions);
    }
    if start < candidates.len() {
        groups.push(&candidates[start..]);
    }
    groups
}

/// Returns the number of items in the common prefix of two sets.
pub(crate) fn shared(one: &[u32], other: &[u32]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}
