//! The numbering of oblivious transfers by input bits and evaluations.
//!
//! Transfers are numbered in the order in which tables read the evaluator's labels. The numbers run
//! through the groups of evaluations that are garbled together. In a group, they run through the
//! input bits in the order of [`ReadOrder`], and for each bit through the evaluations.

use std::{cell::OnceCell, ops::Range, sync::Arc};

use transpute_circuit::{Bits, InputSplit, Program};
use transpute_garble::{Garbler, Label, ReadOrder};
use zeroize::Zeroizing;

use crate::{Inputs, SessionError, inputs::fetch, layout::Layout, terms::RunTerms};

/// Converts a label to a block, the string of an oblivious transfer.
pub(crate) fn block(label: Label) -> u128 {
    u128::from_le_bytes(label.to_bytes())
}

/// The numbering of the transfers of a batch.
pub(crate) struct Transfers {
    program: Arc<Program>,
    split: InputSplit,
    layout: Layout,
    per_instance: usize,
    order: OnceCell<ReadOrder>,
}

impl Transfers {
    pub(crate) fn new(terms: &RunTerms, layout: Layout) -> Self {
        Self {
            program: terms.program.clone(),
            split: terms.split.clone(),
            layout,
            per_instance: terms.choices,
            order: OnceCell::new(),
        }
    }

    /// Fetches the evaluator's inputs of the group of evaluations that starts at `instance`.
    pub(crate) fn fetch(
        &self,
        inputs: &mut dyn Inputs,
        instance: u64,
    ) -> Result<Vec<Bits>, SessionError> {
        let lanes = self.layout.lanes(instance) as u64;
        (instance..instance + lanes)
            .map(|instance| fetch(inputs, instance, self.per_instance))
            .collect()
    }

    /// Appends the choice bits of some transfers of a group to `choices`. `fetched` are the inputs
    /// from [`fetch`](Self::fetch). The transfers are numbered within the group.
    pub(crate) fn choose(&self, fetched: &[Bits], transfers: Range<usize>, choices: &mut Bits) {
        let lanes = fetched.len();
        let mut number = transfers.start;
        while number < transfers.end {
            let position = self.order().positions()[number / lanes] as usize;
            let (first, end) = (
                number % lanes,
                lanes.min(number % lanes + transfers.end - number),
            );
            let mut word = 0;
            for (i, bits) in fetched[first..end].iter().enumerate() {
                word |= (bits.as_words()[position / 64] >> (position % 64) & 1) << i;
            }
            choices.push_word(word, end - first);
            number += end - first;
        }
    }

    /// Returns both labels of the transfers `first..first + n`. The garbler must not have adopted
    /// these labels from transfers.
    pub(crate) fn label_pairs(
        &self,
        garbler: &Garbler,
        first: u64,
        n: usize,
    ) -> Zeroizing<Vec<[u128; 2]>> {
        let mut pairs = Zeroizing::new(vec![[0; 2]; n]);
        self.labels(garbler, first, n, |number, pair| {
            pairs[number] = pair.map(block);
        });
        pairs
    }

    /// Returns the labels of value 0 of the transfers `first..first + n`. The garbler must not have
    /// adopted these labels from transfers.
    pub(crate) fn zero_labels(
        &self,
        garbler: &Garbler,
        first: u64,
        n: usize,
    ) -> Zeroizing<Vec<u128>> {
        let mut zeros = Zeroizing::new(vec![0; n]);
        self.labels(garbler, first, n, |number, [zero, _]| {
            zeros[number] = block(zero);
        });
        zeros
    }

    fn labels(
        &self,
        garbler: &Garbler,
        first: u64,
        n: usize,
        mut each: impl FnMut(usize, [Label; 2]),
    ) {
        for part in self.parts(first, n) {
            let order = self.order().positions();
            for (lane, instance) in (part.instance..).take(part.lanes).enumerate() {
                let positions = part.of_lane(lane).map(|(bit, number)| (order[bit], number));
                garbler.evaluator_labels(instance, positions, &mut each);
            }
        }
    }

    fn order(&self) -> &ReadOrder {
        (self.order).get_or_init(|| ReadOrder::new(&self.program, &self.split))
    }

    /// Splits transfers `first..first + n` into parts that belong to one group each.
    fn parts(&self, first: u64, n: usize) -> impl Iterator<Item = Part> {
        let per_instance = self.per_instance as u64;
        let mut before = 0;
        std::iter::from_fn(move || {
            if before == n {
                return None;
            }
            let number = first + before as u64;
            let evaluation = number / per_instance;
            let lanes = self.layout.lanes(evaluation);
            let instance = evaluation - evaluation % lanes as u64;
            let start = (number - instance * per_instance) as usize;
            let end = (start + n - before).min(lanes * self.per_instance);
            let part = Part {
                instance,
                lanes,
                start,
                end,
                before,
            };
            before += end - start;
            Some(part)
        })
    }
}

/// The evaluator's choice bits of a batch, in the order of transfers.
#[derive(Default)]
pub(crate) struct Choices {
    /// Choices that were put back, and how many of them were taken again.
    made: (Bits, usize),
    /// The fetched inputs of a group, and the number of its choices that were taken.
    fetched: (Vec<Bits>, usize),
    /// Number of evaluations whose inputs were fetched.
    evaluations: u64,
}

impl Choices {
    /// Puts back the choices that were taken last. [`take`](Self::take) returns them again.
    pub(crate) fn put_back(&mut self, taken: &Bits) {
        let (made, used) = &self.made;
        let mut again = Bits::with_capacity(taken.len() + made.len() - used);
        again.append(taken, 0..taken.len());
        again.append(made, *used..made.len());
        self.made = (again, 0);
    }

    /// Takes the next `n` choices.
    pub(crate) fn take(
        &mut self,
        n: usize,
        inputs: &mut dyn Inputs,
        transfers: &Transfers,
    ) -> Result<Bits, SessionError> {
        let mut taken = Bits::with_capacity(n);
        let (made, used) = &mut self.made;
        let end = made.len().min(*used + n);
        taken.append(made, *used..end);
        *used = end;
        while taken.len() < n {
            let (fetched, used) = &mut self.fetched;
            let all = fetched.len() * transfers.per_instance;
            if *used == all {
                *fetched = transfers.fetch(inputs, self.evaluations)?;
                *used = 0;
                self.evaluations += fetched.len() as u64;
                continue;
            }
            let end = all.min(*used + n - taken.len());
            transfers.choose(fetched, *used..end, &mut taken);
            *used = end;
        }
        Ok(taken)
    }
}

/// Some transfers of one group.
struct Part {
    /// The group's first evaluation.
    instance: u64,
    lanes: usize,
    /// Number of the first transfer within the group.
    start: usize,
    end: usize,
    /// Number of transfers in all earlier parts.
    before: usize,
}

impl Part {
    /// Iterates over the input bits of one evaluation of the group. Each item is the bit's position
    /// in the read order and the number of its transfer.
    fn of_lane(&self, lane: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Self {
            lanes,
            start,
            end,
            before,
            ..
        } = *self;
        let place = |number: usize| number.saturating_sub(lane).div_ceil(lanes);
        (place(start)..place(end)).map(move |bit| (bit, before + bit * lanes + lane - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_share_out_the_transfers_of_a_part() {
        for lanes in [1, 8] {
            for (start, end) in [(0, 3), (5, 40), (13, 14), (8, 8)] {
                let part = Part {
                    instance: 0,
                    lanes,
                    start,
                    end,
                    before: 100,
                };
                let mut seen: Vec<(usize, usize)> = (0..lanes)
                    .flat_map(|lane| {
                        let of_lane = part.of_lane(lane);
                        of_lane.map(move |(bit, number)| (number, bit * lanes + lane))
                    })
                    .collect();
                seen.sort_unstable();
                let expected: Vec<_> = (100..).zip(start..end).collect();
                assert_eq!(seen, expected, "{lanes} lanes, {start}..{end}");
            }
        }
    }
}
