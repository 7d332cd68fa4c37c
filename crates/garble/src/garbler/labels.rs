//! The garbler's labels of inputs.

use std::ops::Range;

use transpute_circuit::{Bits, Load};

use crate::{
    LANES, Label,
    dispatch::Dispatch,
    expand::Expand,
    inputs::{Owners, Party, Piece, PublicLabels, SecretLabels, store},
    read_order::LabelQueue,
    seed::{Instances, Scratch},
};

/// The generators of the input labels, from the secret seed and from the public seed.
pub(super) struct Inputs {
    pub(super) owners: Owners,
    pub(super) secret: SecretLabels,
    pub(super) public: PublicLabels,
    /// Whether the labels of the garbler's inputs are derived from the seed and sent.
    pub(super) sends_labels: bool,
    /// The garbler's inputs of the instances in progress, if the garbler's labels are public.
    pub(super) bits: Vec<Bits>,
}

/// The position in the sequence of the evaluator's input labels, which continues across instances.
#[derive(Default)]
pub(super) struct Reading {
    /// Adopted labels of value 0 that are not yet read.
    pub(super) adopted: LabelQueue,
    /// The number of the next label to be read.
    pub(super) next: u64,
}

impl Reading {
    /// Advances by `count` labels and returns how many of them were adopted. The adopted labels
    /// come first. Calls `each` with slices of them and the number of labels before each slice.
    pub(super) fn read(&mut self, count: usize, each: impl FnMut(usize, &[Label])) -> usize {
        // Discard adopted labels of input bits that no gate reads.
        self.adopted.skip_to(self.next);
        self.next += count as u64;
        self.adopted.take_each(count, each)
    }
}

impl Inputs {
    /// Returns the positions of a range of a party's input bits.
    ///
    /// # Panics
    /// Panics if `range` ends past the party's input bits.
    pub(super) fn positions(
        &self,
        party: Party,
        range: Range<usize>,
    ) -> impl Iterator<Item = (u32, usize)> + use<> {
        assert!(
            range.end <= self.owners.count(party),
            "past the inputs of the {party:?}"
        );
        // The cast is lossless, because a program has fewer than 2^31 input bits.
        range.map(|position| (position as u32, position))
    }

    /// Writes the labels of the loaded inputs into their slots, for all instances side by side. A
    /// slot has `PER_SLOT` labels.
    pub(super) fn place<const PER_SLOT: usize>(
        &self,
        loads: &[Load],
        dispatch: Dispatch,
        reading: &mut Reading,
        scratch: &mut Scratch,
        slots: &mut [Label],
        instances: Instances,
    ) {
        let lanes = instances.lanes;
        self.owners.pieces(loads, |party, piece| {
            let Some(delta) = self.secret.delta() else {
                self.place_pairs::<PER_SLOT>(party, piece, scratch, slots, instances);
                return;
            };
            let is_public = party == Party::Garbler && !self.sends_labels;
            let mut adopted = 0;
            if party == Party::Evaluator {
                adopted = reading.read(lanes * piece.len(), |done, labels| {
                    piece.put(done, labels, slots, lanes);
                });
            }
            let piece = piece.skip(adopted / lanes);
            // If the adopted labels end within a bit, only some instances have an adopted label for
            // it.
            let mut first = adopted % lanes;
            if lanes == LANES && first == 0 {
                let ((schedule, domain), active) = match is_public {
                    true => (self.public.key(), Some((delta, &*self.bits))),
                    false => (self.secret.zeros_key(party), None),
                };
                dispatch.run(Expand {
                    schedule,
                    domain,
                    first: instances.first,
                    piece,
                    active,
                    slots,
                });
                return;
            }
            if is_public {
                let positions = piece.with(|position, slot| (position, slot));
                (self.public).labels(instances, positions, scratch, |(position, slot), active| {
                    let slots = &mut slots[slot as usize * lanes..][..lanes];
                    for ((zero, active), bits) in slots.iter_mut().zip(active).zip(&self.bits) {
                        *zero = *active ^ delta.masked(bits.get(position as usize));
                    }
                });
                return;
            }
            let positions = piece.with(|_, slot| slot);
            (self.secret).zeros(party, instances, positions, scratch, |slot, zeros| {
                store(slots, slot as usize * lanes + first, &zeros[first..]);
                first = 0;
            });
        });
    }

    /// Does the same as [`place`](Self::place) for schemes without free XOR.
    fn place_pairs<const PER_SLOT: usize>(
        &self,
        party: Party,
        piece: Piece<'_>,
        scratch: &mut Scratch,
        slots: &mut [Label],
        Instances { first, lanes }: Instances,
    ) {
        for (lane, instance) in (first..).take(lanes).enumerate() {
            let positions = piece.with(|_, slot| slot);
            (self.secret).pairs(party, instance, positions, scratch, |slot, pair| {
                for (offset, label) in pair[..PER_SLOT].iter().enumerate() {
                    slots[(PER_SLOT * slot as usize + offset) * lanes + lane] = *label;
                }
            });
        }
    }
}
