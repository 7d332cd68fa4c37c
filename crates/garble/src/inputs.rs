//! Labels of the input wires.
//!
//! Under free XOR, the garbler need not send the active labels of its own inputs. Both parties
//! derive them from a public seed. This is secure, because the evaluator does not learn which value
//! such a label represents. If `X` is the public active label of an input bit `x`, the label of
//! value 0 is `X ^ x D`. The evaluator does not know the offset `D`.

use transpute_circuit::{InputSplit, Load};
use zeroize::Zeroizing;

use crate::{
    LANES, Label, Seed,
    engine::Schedule,
    seed::{BLOCKS_AT_ONCE, Instances, Purpose, Scratch, SecretPrg, expand_labels},
};

/// The owner of an input bit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Party {
    Garbler,
    Evaluator,
}

/// The owner of each input bit, and its position among the bits of that party.
pub(crate) struct Owners {
    /// The input values in wire order.
    values: Vec<Owned>,
    counts: [usize; 2],
}

/// An input value and its owner.
#[derive(Clone, Copy)]
struct Owned {
    /// One more than the number of its last wire.
    end: u32,
    party: Party,
    /// Number of a wire of this value, minus the position of its bit among the bits of the owner.
    offset: u32,
}

impl Owners {
    pub(crate) fn new(split: &InputSplit) -> Self {
        let mut counts = [0, 0];
        let mut start = 0;
        let values = (split.widths().iter().enumerate())
            .map(|(value, &width)| {
                let party = match split.is_garbler(value) {
                    true => Party::Garbler,
                    false => Party::Evaluator,
                };
                let count = &mut counts[party as usize];
                let offset = start - *count as u32;
                *count += width as usize;
                start += width;
                Owned {
                    end: start,
                    party,
                    offset,
                }
            })
            .collect();
        Self { values, counts }
    }

    /// Returns the number of a party's input bits.
    pub(crate) fn count(&self, party: Party) -> usize {
        self.counts[party as usize]
    }

    /// Returns the number of `loads` that read bits of the evaluator.
    pub(crate) fn count_evaluators(&self, loads: &[Load]) -> usize {
        let mut count = 0;
        self.pieces(loads, |party, piece| {
            if party == Party::Evaluator {
                count += piece.len();
            }
        });
        count
    }

    /// Splits `loads` where the input value changes. Calls `each` with every part and the owner of
    /// its value.
    ///
    /// # Panics
    /// Panics if a load has an input bit that does not exist.
    pub(crate) fn pieces<'l>(&self, loads: &'l [Load], mut each: impl FnMut(Party, Piece<'l>)) {
        let mut rest = loads;
        while let Some(first) = rest.first() {
            let index = self
                .values
                .partition_point(|value| value.end <= first.input);
            let Owned { end, party, offset } = self.values[index];
            let start = match index {
                0 => 0,
                _ => self.values[index - 1].end,
            };
            let is_inside = |load: &Load| (start..end).contains(&load.input);
            let length = (rest.iter().position(|load| !is_inside(load))).unwrap_or(rest.len());
            let (loads, others) = rest.split_at(length);
            each(party, Piece { loads, offset });
            rest = others;
        }
    }
}

/// Consecutive loads of one party's input bits.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'l> {
    loads: &'l [Load],
    offset: u32,
}

impl<'l> Piece<'l> {
    pub(crate) fn len(self) -> usize {
        self.loads.len()
    }

    /// Returns the loads without the first `count`.
    pub(crate) fn skip(self, count: usize) -> Self {
        let loads = self.loads.get(count..).unwrap_or_default();
        Self { loads, ..self }
    }

    /// Returns the position of a load among the bits of the party, and its slot.
    pub(crate) fn place(self, index: usize) -> (u32, u32) {
        let load = &self.loads[index];
        (load.input - self.offset, load.slot)
    }

    /// Iterates over the positions of the loads among the bits of the party.
    pub(crate) fn positions(self) -> impl Iterator<Item = u32> + 'l {
        (self.loads.iter()).map(move |load| load.input - self.offset)
    }

    /// Writes labels into the slots of these loads, after the `done` labels that earlier calls
    /// wrote. The labels of `lanes` instances of each bit are adjacent.
    pub(crate) fn put(self, done: usize, labels: &[Label], slots: &mut [Label], lanes: usize) {
        // If the number of lanes is a constant, the compiler replaces the divisions by it.
        match lanes {
            LANES => self.put_among(done, labels, slots, LANES),
            _ => self.put_among(done, labels, slots, lanes),
        }
    }

    #[inline(always)]
    fn put_among(self, mut done: usize, labels: &[Label], slots: &mut [Label], lanes: usize) {
        let mut rest = labels;
        while !rest.is_empty() {
            let (load, lane) = (self.loads[done / lanes], done % lanes);
            let (now, later) = rest.split_at(rest.len().min(lanes - lane));
            store(slots, load.slot as usize * lanes + lane, now);
            done += now.len();
            rest = later;
        }
    }

    /// Iterates over the loads. Each item is the position among the bits of the party, and
    /// `tag(position, slot)`.
    pub(crate) fn with<T>(self, tag: impl Fn(u32, u32) -> T) -> impl Iterator<Item = (u32, T)> {
        (self.loads.iter()).map(move |load| {
            let position = load.input - self.offset;
            (position, tag(position, load.slot))
        })
    }
}

/// Copies labels into slots from index `at` on. For common numbers of labels, the length is a
/// compile-time constant.
#[inline(always)]
pub(crate) fn store(slots: &mut [Label], at: usize, labels: &[Label]) {
    let slots = &mut slots[at..];
    if let [label] = labels {
        slots[0] = *label;
    } else if let (Some(slots), Some(labels)) =
        (slots.first_chunk_mut(), labels.first_chunk::<LANES>())
    {
        *slots = *labels;
    } else {
        slots[..labels.len()].copy_from_slice(labels);
    }
}

/// The labels that only the garbler knows.
pub(crate) struct SecretLabels {
    prg: SecretPrg,
    delta: Option<Zeroizing<Label>>,
}

impl SecretLabels {
    pub(crate) fn new(seed: &Seed, free_xor: bool) -> Self {
        let prg = SecretPrg::new(seed);
        let delta = free_xor.then(|| Zeroizing::new(prg.delta()));
        Self { prg, delta }
    }

    pub(crate) fn prg(&self) -> &SecretPrg {
        &self.prg
    }

    /// Returns the offset between the two labels of every wire, under free XOR.
    pub(crate) fn delta(&self) -> Option<Label> {
        self.delta.as_deref().copied()
    }

    fn purposes(party: Party) -> [Purpose; 2] {
        match party {
            Party::Garbler => [Purpose::GarblerZero, Purpose::GarblerOne],
            Party::Evaluator => [Purpose::EvaluatorZero, Purpose::EvaluatorOne],
        }
    }

    /// Returns the AES key and the domain separator that generate the labels of value 0 of a
    /// party's input bits.
    pub(crate) fn zeros_key(&self, party: Party) -> (&Schedule, u8) {
        let [zero, _] = Self::purposes(party);
        (self.prg.schedule(), zero as u8)
    }

    /// For each `(position, tag)`, calls `each(tag, labels)`. `labels` are the labels of value 0 of
    /// the party's input bit at `position`, one per instance.
    pub(crate) fn zeros<T: Copy + Default>(
        &self,
        party: Party,
        instances: Instances,
        positions: impl IntoIterator<Item = (u32, T)>,
        scratch: &mut Scratch,
        each: impl FnMut(T, &[Label]),
    ) {
        let [zero, _] = Self::purposes(party);
        self.prg.labels(zero, instances, positions, scratch, each);
    }

    /// For each `(position, tag)`, calls `each(tag, labels)`. `labels` are both labels of the
    /// party's input bit at `position`, indexed by value. Under free XOR, only labels of the
    /// evaluator's inputs, and of garbler's inputs whose labels are sent, are generated in this
    /// way.
    pub(crate) fn pairs<T: Copy + Default>(
        &self,
        party: Party,
        instance: u64,
        positions: impl IntoIterator<Item = (u32, T)>,
        scratch: &mut Scratch,
        mut each: impl FnMut(T, [Label; 2]),
    ) {
        let [zero, one] = Self::purposes(party);
        let instance = Instances::one(instance);
        if let Some(delta) = self.delta() {
            self.prg
                .labels(zero, instance, positions, scratch, |tag, zeros| {
                    each(tag, [zeros[0], zeros[0] ^ delta]);
                });
            return;
        }
        let mut ones = Zeroizing::new([Label::ZERO; BLOCKS_AT_ONCE]);
        let mut positions = positions.into_iter();
        let mut piece = Vec::with_capacity(BLOCKS_AT_ONCE);
        loop {
            piece.clear();
            piece.extend(positions.by_ref().take(BLOCKS_AT_ONCE));
            if piece.is_empty() {
                break;
            }
            let places = || {
                piece
                    .iter()
                    .zip(0..)
                    .map(|((position, _), i)| (*position, i))
            };
            self.prg
                .labels(one, instance, places(), scratch, |i: usize, made| {
                    ones[i] = made[0];
                });
            self.prg
                .labels(zero, instance, places(), scratch, |i: usize, zeros| {
                    let zero = zeros[0];
                    each(piece[i].1, [zero, ones[i].with_colour(!zero.colour())]);
                });
        }
    }
}

/// The domain separator of public labels: byte 15 of the AES input.
const DOMAIN: u8 = 0x20;

/// Public labels with random access: AES-128 under the public seed, one block per label.
///
/// The input block has the instance in bytes 0-7, the position among the garbler's input bits in
/// bytes 8-11 and `0x20` in byte 15; integers are little-endian.
pub(crate) struct PublicLabels(Schedule);

impl PublicLabels {
    pub(crate) fn new(seed: [u8; 16]) -> Self {
        Self(Schedule::aes128(&seed))
    }

    /// Returns the AES key and the domain separator that generate the labels.
    pub(crate) fn key(&self) -> (&Schedule, u8) {
        (&self.0, DOMAIN)
    }

    /// For each `(position, tag)`, calls `each(tag, labels)`. `labels` are the public labels of the
    /// garbler's input bit at `position`, one per instance.
    pub(crate) fn labels<T: Copy + Default>(
        &self,
        instances: Instances,
        positions: impl IntoIterator<Item = (u32, T)>,
        scratch: &mut Scratch,
        each: impl FnMut(T, &[Label]),
    ) {
        expand_labels(&self.0, DOMAIN, instances, positions, scratch, each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_parties_and_positions() {
        // Wires 0 to 2 and 5 to 6 are the garbler's, 3 to 4 are the evaluator's; one value has no
        // bits.
        let split = InputSplit::new(&[3, 0, 2, 2], &[0, 3]).unwrap();
        let owners = Owners::new(&split);
        assert_eq!(owners.count(Party::Garbler), 5);
        assert_eq!(owners.count(Party::Evaluator), 2);
        let loads = [6, 5, 0, 2, 3, 1, 4].map(|input| Load {
            input,
            slot: 10 + input,
        });
        let mut seen = Vec::new();
        owners.pieces(&loads, |party, piece| {
            let positions = piece.with(|position, slot| (position, slot)).collect();
            seen.push((party, positions));
        });
        let (garbler, evaluator) = (Party::Garbler, Party::Evaluator);
        let same = |position, slot| (position, (position, slot));
        let expected: [(Party, Vec<_>); 5] = [
            (garbler, vec![same(4, 16), same(3, 15)]),
            (garbler, vec![same(0, 10), same(2, 12)]),
            (evaluator, vec![same(0, 13)]),
            (garbler, vec![same(1, 11)]),
            (evaluator, vec![same(1, 14)]),
        ];
        assert_eq!(seen, expected);
    }
}
