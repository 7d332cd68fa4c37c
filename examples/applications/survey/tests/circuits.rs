//! Tests of the circuits, evaluated without garbling.

use proptest::{collection::vec, prelude::*};
use transpute::{Bits, Program};

use super::table;
use crate::{
    apriori,
    file::Shares,
    generate,
    histogram::{Bins, TAG_BITS},
    mining::{self, Frequent, Search},
    support::{self, Opened},
    table::{Table, width_of},
};

/// Appends a party's input bits to `bits`: its shares of these columns, then its tag.
fn input(shares: &Shares, columns: impl IntoIterator<Item = u32>, bits: &mut Bits) {
    for column in columns {
        shares.table.append_column(column as usize, bits);
    }
    bits.extend([Bits::from_u128(shares.tag.into(), TAG_BITS)]);
}

/// Splits answers into random shares, evaluates the circuit, and returns the histogram.
fn histogram(bins: &Bins, answers: &[u32]) -> Vec<u64> {
    let shares = generate::share(&table(1, bins.width(), answers)).unwrap();
    let circuit = bins.circuit(answers.len()).unwrap();
    let mut bits = Bits::new();
    shares
        .iter()
        .for_each(|shares| input(shares, [0], &mut bits));
    let outputs = circuit.split_outputs(&circuit.evaluate(&bits).unwrap());
    let numbers: Vec<u64> = outputs
        .iter()
        .map(|bits| bits.to_u128().unwrap() as u64)
        .collect();
    let (tags_agree, counts) = numbers.split_last().unwrap();
    assert_eq!(*tags_agree, 1);
    bins.histogram(counts, answers.len() as u64).unwrap()
}

proptest! {
    #[test]
    fn choices_are_counted_like_plain_answers(
        choices in 2_u64..20,
        answers in vec(any::<u32>(), 1..60),
    ) {
        let width = width_of(choices);
        let bins = Bins::choices(choices, width).unwrap();
        let answers: Vec<u32> = answers.iter().map(|answer| answer % choices as u32).collect();
        let counted = histogram(&bins, &answers);
        for choice in 0..choices as u32 {
            let equal = answers.iter().filter(|&&answer| answer == choice).count() as u64;
            prop_assert_eq!(counted[choice as usize], equal);
        }
        prop_assert_eq!(&counted, &bins.plain(&table(1, width, &answers), 0));
    }

    #[test]
    fn every_number_counts_exactly_once(choices in 2_u64..20, answer in any::<u32>()) {
        let bins = Bins::choices(choices, width_of(choices)).unwrap();
        let answer = answer & ((1 << bins.width()) - 1);
        let counted = histogram(&bins, &[answer]);
        prop_assert_eq!(counted.iter().sum::<u64>(), 1);
        prop_assert_eq!(&counted, &bins.plain(&table(1, bins.width(), &[answer]), 0));
    }

    #[test]
    fn ranges_are_counted_like_plain_answers(
        width in 1_u32..=32,
        answers in vec(any::<u32>(), 1..40),
        bounds in vec(any::<u32>(), 1..8),
    ) {
        let fit = |number: &u32| number & (u32::MAX >> (32 - width));
        let answers: Vec<u32> = answers.iter().map(fit).collect();
        let mut bounds: Vec<u32> = bounds.iter().map(fit).map(|bound| bound.max(1)).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let bins = Bins::ranges(bounds.clone(), width).unwrap();
        let counted = histogram(&bins, &answers);
        let edges: Vec<u64> = [0].into_iter()
            .chain(bounds.iter().map(|&bound| bound.into()))
            .chain([1 << width])
            .collect();
        for (bin, edge) in edges.windows(2).enumerate() {
            let inside = |answer: &&u32| (edge[0]..edge[1]).contains(&u64::from(**answer));
            prop_assert_eq!(counted[bin], answers.iter().filter(inside).count() as u64);
        }
        prop_assert_eq!(&counted, &bins.plain(&table(1, width, &answers), 0));
    }

    #[test]
    fn frequent_sets_equal_those_of_exhaustive_search(
        items in 1_usize..7,
        cells in vec(0_u32..2, 7..120),
        threshold in 1_u64..12,
        budget in 1_usize..500,
        opens_supports in any::<bool>(),
    ) {
        let rows = cells.len() / items;
        let baskets = table(items, 1, &cells[..rows * items]);
        let opened = [Opened::Frequent, Opened::Support][usize::from(opens_supports)];
        let search = Search { threshold, opened, largest: 32, max_candidates: 1000 };
        // The frequent sets among all sets of items, found by exhaustive search.
        let mut all: Vec<Frequent> = (1_u32..1 << items).filter_map(|set| {
            let members: Vec<u32> = (0..items as u32).filter(|item| set >> item & 1 == 1).collect();
            let has_all = |row: &&[u32]| members.iter().all(|&item| row[item as usize] == 1);
            let support = baskets.iter().filter(has_all).count() as u64;
            (support >= threshold).then(|| Frequent {
                items: members.iter().map(|item| item + 1).collect(),
                support: opens_supports.then_some(support),
            })
        }).collect();
        all.sort_by_key(|one| (one.items.len(), one.items.clone()));
        prop_assert_eq!(&mining::plain(&baskets, &search).unwrap(), &all);
        prop_assert_eq!(&by_circuits(&baskets, &search, budget), &all);
    }
}

/// Finds the frequent sets like the protocol, but evaluates the circuits without garbling.
fn by_circuits(baskets: &Table, search: &Search, budget: usize) -> Vec<Frequent> {
    let shares = generate::share(baskets).unwrap();
    let mut frequent = Vec::new();
    let mut candidates = apriori::single_items(baskets.columns() as u32);
    while !candidates.is_empty() {
        let mut sets = Vec::new();
        for group in apriori::groups(&candidates, baskets.rows(), budget) {
            let circuit =
                support::circuit(group, baskets.rows(), search.threshold, search.opened).unwrap();
            let mut bits = Bits::new();
            for shares in &shares {
                input(shares, support::items(group), &mut bits);
            }
            let outputs = circuit.split_outputs(&circuit.evaluate(&bits).unwrap());
            for (set, output) in group.iter().zip(&outputs) {
                let opened = output.to_u128().unwrap() as u64;
                if let Some(found) = search.frequent(set, opened) {
                    sets.push(set.clone());
                    let items = set.iter().map(|item| item + 1).collect();
                    frequent.push(Frequent { items, ..found });
                }
            }
        }
        candidates = apriori::candidates_from(&sets, search.max_candidates).unwrap();
    }
    frequent
}

#[test]
fn an_answer_to_five_choices_takes_six_and_gates() {
    let and_gates =
        |bins: &Bins, answers| Program::compile(&bins.circuit(answers).unwrap()).and_count();
    let choices = Bins::choices(5, 3).unwrap();
    // 2 gates per answer select the choice. Counting 1,000 flags takes 1,000 less 6, the ones in
    // its binary form. Comparing the tags takes 63.
    assert_eq!(and_gates(&choices, 1000), 2 * 1000 + 4 * (1000 - 6) + 63);
    let ranges = Bins::ranges(vec![51, 102, 153, 204], 8).unwrap();
    assert!(and_gates(&ranges, 1000) < 32 * 1000);
    for (bins, answers) in [(&choices, 1000), (&ranges, 1000)] {
        assert!(and_gates(bins, answers) <= bins.and_gates(answers as u64));
    }
}

#[test]
fn extremes_are_counted() {
    let choices = Bins::choices(5, 3).unwrap();
    assert_eq!(histogram(&choices, &[4]), [0, 0, 0, 0, 1]);
    assert_eq!(histogram(&choices, &[0; 130]), [130, 0, 0, 0, 0]);
    let ranges = Bins::ranges(vec![u32::MAX], 32).unwrap();
    assert_eq!(histogram(&ranges, &[u32::MAX, u32::MAX - 1, 0]), [2, 1]);
    assert_eq!(ranges.name(0), "0..4294967295");
    assert_eq!(ranges.name(1), "4294967295..4294967296");
    let two = Bins::choices(2, 1).unwrap();
    assert_eq!(histogram(&two, &[1, 0, 1]), [1, 2]);
}

#[test]
fn invalid_bins_are_rejected() {
    for wrong in [
        Bins::choices(1, 1),
        Bins::choices(257, 9),
        Bins::choices(5, 8),
        Bins::ranges(vec![], 8),
        Bins::ranges(vec![0], 8),
        Bins::ranges(vec![256], 8),
        Bins::ranges(vec![7, 7], 8),
        Bins::ranges(vec![9, 7], 8),
        Bins::ranges((1..=256).collect(), 16),
    ] {
        assert!(wrong.is_err(), "{wrong:?}");
    }
    let bins = Bins::choices(3, 2).unwrap();
    assert_eq!(bins.histogram(&[2, 2], 3), None);
    assert_eq!(bins.histogram(&[1], 3), None);
    let ranges = Bins::ranges(vec![1, 2], 2).unwrap();
    assert_eq!(ranges.histogram(&[1, 2], 3), None);
}

#[test]
fn candidates_are_grouped_in_order() {
    let candidates = apriori::candidates_from(&apriori::single_items(9), 100).unwrap();
    assert_eq!(candidates.len(), 36);
    assert_eq!(
        apriori::candidates_from(&apriori::single_items(9), 20),
        Err(21)
    );
    for budget in [0, 1, 5000, usize::MAX] {
        let groups = apriori::groups(&candidates, 1000, budget);
        assert_eq!(groups.concat(), candidates);
        assert_eq!(groups.len() == 1, budget == usize::MAX);
    }
    assert!(apriori::groups(&[], 1000, 1).is_empty());
}
