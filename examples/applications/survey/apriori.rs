//! Which sets of items are worth counting (Apriori), by what is public: the sets found frequent before.

use std::collections::HashSet;

/// Items by number, each once, rising.
pub(crate) type Itemset = Vec<u32>;

/// Returns the sets of one item.
pub(crate) fn singles(items: u32) -> Vec<Itemset> {
    (0..items).map(|item| vec![item]).collect()
}

/// Returns the sets of one item more that can be frequent: all subsets of one item less are. The sets given
/// are of one size and in order, and so are those returned.
///
/// # Errors
/// The number of sets reached when they become more than `most`.
pub(crate) fn larger(frequent: &[Itemset], most: usize) -> Result<Vec<Itemset>, usize> {
    let known: HashSet<&[u32]> = frequent.iter().map(Vec::as_slice).collect();
    let mut sets = Vec::new();
    for (position, one) in frequent.iter().enumerate() {
        let Some((_, stem)) = one.split_last() else {
            continue;
        };
        // In order, those with the same stem follow.
        let with_stem = |other: &&Itemset| other.starts_with(stem) && other.len() == one.len();
        for other in frequent[position + 1..].iter().take_while(with_stem) {
            let mut set = one.clone();
            set.extend(other.last());
            if subsets(&set).all(|subset| known.contains(subset.as_slice())) {
                sets.push(set);
            }
            if sets.len() > most {
                return Err(sets.len());
            }
        }
    }
    Ok(sets)
}

/// Returns the sets of one item less.
fn subsets(set: &[u32]) -> impl Iterator<Item = Itemset> {
    (0..set.len()).map(|left_out| {
        let mut subset = set.to_vec();
        subset.remove(left_out);
        subset
    })
}

/// Cuts candidates, which are in order, into groups that take about `budget` AND gates each, of so many
/// transactions: a candidate takes two for each, one more where its stem is not that of the one before.
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
        // The first item of a set is no AND, its count is.
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

/// Returns how many items both begin with.
pub(crate) fn shared(one: &[u32], other: &[u32]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}
