//! Expansion of input labels of instances side by side, from registers directly into their slots.

use transpute_circuit::Bits;
use zeroize::Zeroizing;

use crate::{
    LANES, Label,
    dispatch::Job,
    engine::{Isa, Schedule, Wide},
    inputs::Piece,
    seed::label_words,
};

/// A job that expands the labels of input bits of all instances under one key.
pub(crate) struct Expand<'a> {
    pub(crate) schedule: &'a Schedule,
    /// The domain separator: byte 15 of the AES input.
    pub(crate) domain: u8,
    /// The first of [`LANES`] instances.
    pub(crate) first: u64,
    pub(crate) piece: Piece<'a>,
    /// `Some` if the expanded labels are active labels: the offset and the garbler's inputs of all
    /// instances, from which the labels of value 0 are computed.
    pub(crate) active: Option<(Label, &'a [Bits])>,
    /// The slots, with the labels of the instances side by side.
    pub(crate) slots: &'a mut [Label],
}

impl Job for Expand<'_> {
    #[inline(always)]
    fn run<I: Isa, const N: usize, const M: usize, J, const P: usize, L>(
        self,
        wide: Wide<I, N>,
        _half: Wide<I, M>,
        _pair: Wide<J, P>,
        _narrow: Wide<L, 1>,
    ) where
        J: Isa<Keys = I::Keys>,
        L: Isa<Keys = I::Keys>,
    {
        const { assert!(Wide::<I, N>::WIDTH == LANES) };
        match I::GROUPS {
            8 => self.make::<I, N, 8>(wide),
            4 => self.make::<I, N, 4>(wide),
            2 => self.make::<I, N, 2>(wide),
            _ => self.make::<I, N, 1>(wide),
        }
    }
}

impl Expand<'_> {
    /// Expands the labels of `B` bits at a time.
    #[inline(always)]
    // The function uses no closures on vectors, because closures would lose the target features.
    fn make<I: Isa, const N: usize, const B: usize>(self, w: Wide<I, N>) {
        let count = self.piece.len();
        let mut inputs = InputWords::default();
        for from in (0..count).step_by(B) {
            let mut places = [(0, 0); B];
            let mut blocks = [w.splat(0); B];
            for b in 0..B {
                // The last bit is repeated to fill an incomplete last group.
                places[b] = self.piece.place((from + b).min(count - 1));
                let [low, high] = label_words(self.domain, self.first, places[b].0);
                blocks[b] = w.counter(low, 1, high);
            }
            let made = w.encrypt_scheduled(self.schedule, blocks);
            for b in 0..B {
                let (position, slot) = places[b];
                let mut labels = made[b];
                if let Some((delta, bits)) = self.active {
                    let ones = inputs.ones(bits, position as usize);
                    labels = w.xor(labels, w.and(w.splat(delta.0), w.mask(ones)));
                }
                w.store_labels(labels, &mut self.slots[slot as usize * LANES..]);
            }
        }
    }
}

/// A cached word of each instance's inputs; wiped on drop.
#[derive(Default)]
struct InputWords {
    /// The index of the cached words.
    index: Option<usize>,
    words: Zeroizing<[u64; LANES]>,
}

impl InputWords {
    /// Returns the input bits at a position; bit `i` belongs to instance `i`.
    #[inline(always)]
    fn ones(&mut self, inputs: &[Bits], position: usize) -> u32 {
        let index = position / 64;
        if self.index != Some(index) {
            for (word, bits) in self.words.iter_mut().zip(inputs) {
                *word = bits.as_words()[index];
            }
            self.index = Some(index);
        }
        let mut ones = 0;
        for (lane, word) in self.words.iter().enumerate() {
            ones |= ((word >> (position % 64) & 1) as u32) << lane;
        }
        ones
    }
}
