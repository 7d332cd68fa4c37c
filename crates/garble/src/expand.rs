//! Labels of inputs of instances side by side, made in registers and put where they are read.

use transpute_circuit::Bits;
use zeroize::Zeroizing;

use crate::{
    LANES, Label,
    dispatch::Job,
    engine::{Isa, Schedule, Wide},
    inputs::Piece,
    seed::label_words,
};

/// The blocks of input bits of all instances, under one key.
pub(crate) struct Expand<'a> {
    pub(crate) schedule: &'a Schedule,
    /// Byte 15 of the AES input.
    pub(crate) domain: u8,
    /// The first of [`LANES`] instances.
    pub(crate) first: u64,
    pub(crate) piece: Piece<'a>,
    /// Where what is made stands for the inputs of the instances, and the labels of value 0 are wanted: the offset, and
    /// those inputs.
    pub(crate) active: Option<(Label, &'a [Bits])>,
    /// The labels of the instances side by side.
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
    /// Makes the labels of `B` bits at a time.
    #[inline(always)]
    // No closures: they would lose the target features.
    fn make<I: Isa, const N: usize, const B: usize>(self, w: Wide<I, N>) {
        let count = self.piece.len();
        let mut inputs = InputWords::default();
        for from in (0..count).step_by(B) {
            let mut places = [(0, 0); B];
            let mut blocks = [w.splat(0); B];
            for b in 0..B {
                // What is missing in the last group is the last bit once more.
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

/// The inputs of all instances around the position that was last asked for; wiped on drop.
#[derive(Default)]
struct InputWords {
    /// Which words of the inputs they are.
    index: Option<usize>,
    words: Zeroizing<[u64; LANES]>,
}

impl InputWords {
    /// Returns the input bit of each instance at a position, that of instance `i` as bit `i`.
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
