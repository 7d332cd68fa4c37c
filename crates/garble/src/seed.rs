//! The garbler's secret and everything expanded from it.

use aes::cipher::Array;
use rand::Rng;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::{
    Label,
    engine::{Block, Schedule},
};

/// The secret of one garbling: the offset, all labels and all random bits are expanded from it.
///
/// One seed serves one [`Garbler`](crate::Garbler): a seed that garbles two circuits gives the
/// evaluator both labels of a wire, and with them every input. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Draws a fresh seed from the generator of the `rand` crate that the operating system seeds.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn random() -> Self {
        let mut seed = Self([0; 32]);
        rand::rng().fill_bytes(&mut seed.0);
        seed
    }

    /// Takes a seed from outside, for tests and benchmarks that must be reproducible.
    ///
    /// Using one seed twice is fatal, see [`Seed`].
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// What a pseudorandom block is for; byte 15 of the AES input.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Purpose {
    /// The free-XOR offset.
    Delta = 0x10,
    /// The label of value 0 of an evaluator's input bit.
    EvaluatorZero = 0x11,
    /// The label of value 1 of an evaluator's input bit, where there is no offset.
    EvaluatorOne = 0x12,
    /// The labels of a garbler's input bit, where they are sent.
    GarblerZero = 0x13,
    GarblerOne = 0x14,
    /// Random bits, one per gate: the first dice of three-halves, the permute bits of prf.
    FirstDice = 0x15,
    /// The second dice of three-halves.
    SecondDice = 0x16,
}

/// Random-access pseudorandom labels and bits: AES-256 under the seed, a different input block for
/// every value.
///
/// Input of a label: bytes 0-7 the instance, bytes 8-11 the position among one party's input bits,
/// byte 15 the [`Purpose`]. Input of 128 bits for gates: bytes 0-7 the block number. All integers
/// are little-endian, all other bytes zero.
pub(crate) struct SecretPrg(Schedule);

impl SecretPrg {
    pub(crate) fn new(seed: &Seed) -> Self {
        Self(Schedule::aes256(&seed.0))
    }

    /// Returns the offset: its colour is set, so that the two labels of a wire differ in colour.
    pub(crate) fn delta(&self) -> Label {
        let mut delta = [Label::ZERO];
        let scratch = &mut Scratch::default();
        let one = Instances::one(0);
        self.labels(Purpose::Delta, one, [(0, ())], scratch, |(), labels| {
            delta[0] = labels[0];
        });
        delta[0].with_colour(true)
    }

    /// Returns the key of everything.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.0
    }

    /// Hands out the labels of positions for one purpose, those of all instances together, with what came with their position.
    pub(crate) fn labels<T: Copy + Default>(
        &self,
        purpose: Purpose,
        instances: Instances,
        positions: impl IntoIterator<Item = (u32, T)>,
        scratch: &mut Scratch,
        each: impl FnMut(T, &[Label]),
    ) {
        expand_labels(&self.0, purpose as u8, instances, positions, scratch, each);
    }
}

/// The widest back end of the `aes` crate needs so many blocks in a call for its full speed.
pub(crate) const BLOCKS_AT_ONCE: usize = 64;

/// Instances whose labels are made together, one or [`LANES`](crate::LANES).
#[derive(Clone, Copy)]
pub(crate) struct Instances {
    pub(crate) first: u64,
    pub(crate) lanes: usize,
}

impl Instances {
    pub(crate) fn one(instance: u64) -> Self {
        Self {
            first: instance,
            lanes: 1,
        }
    }
}

/// Blocks on their way through a cipher, and the labels that they become; wiped on drop, which takes longer than to fill a few of
/// them.
pub(crate) struct Scratch {
    blocks: [Block; BLOCKS_AT_ONCE],
    labels: [Label; BLOCKS_AT_ONCE],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            blocks: [Array([0; 16]); BLOCKS_AT_ONCE],
            labels: [Label::ZERO; BLOCKS_AT_ONCE],
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for block in &mut self.blocks {
            block.0.zeroize();
        }
        self.labels.zeroize();
    }
}

/// Hands out the labels that a key makes of positions for one domain, those of all instances together, with what came with their
/// position.
pub(crate) fn expand_labels<T: Copy + Default>(
    schedule: &Schedule,
    domain: u8,
    Instances { first, lanes }: Instances,
    positions: impl IntoIterator<Item = (u32, T)>,
    Scratch { blocks, labels }: &mut Scratch,
    mut each: impl FnMut(T, &[Label]),
) {
    let mut tags = [T::default(); BLOCKS_AT_ONCE];
    let mut positions = positions.into_iter();
    loop {
        let mut count = 0;
        let places = blocks.chunks_exact_mut(lanes).zip(&mut tags);
        for ((blocks, kept), (position, tag)) in places.zip(positions.by_ref()) {
            for (instance, block) in (first..).zip(blocks) {
                let [low, high] = label_words(domain, instance, position);
                block.0 = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
            }
            *kept = tag;
            count += 1;
        }
        if count == 0 {
            break;
        }
        let blocks = &mut blocks[..count * lanes];
        schedule.encrypt_blocks(blocks);
        for (label, block) in labels.iter_mut().zip(blocks) {
            *label = Label::from_bytes(block.0);
        }
        for (tag, labels) in tags[..count].iter().zip(labels.chunks_exact(lanes)) {
            each(*tag, labels);
        }
    }
}

/// The input block of a label: its bytes 0-7, and its bytes 8-15.
#[inline(always)]
pub(crate) fn label_words(domain: u8, instance: u64, position: u32) -> [u64; 2] {
    [instance, u64::from(domain) << 56 | u64::from(position)]
}

/// One secret random bit per gate, by gate id.
pub(crate) struct Dice {
    purpose: Purpose,
    /// Number of the first word held.
    first: Option<u64>,
    words: [u64; DICE_WORDS],
}

/// Words of random bits made at a time.
const DICE_WORDS: usize = 16;

impl Dice {
    pub(crate) fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            first: None,
            words: [0; DICE_WORDS],
        }
    }

    /// Dice that show `value` for all gates below 1024.
    #[cfg(test)]
    pub(crate) fn loaded(value: bool) -> Self {
        Self {
            purpose: Purpose::FirstDice,
            first: Some(0),
            words: [u64::from(value).wrapping_neg(); DICE_WORDS],
        }
    }

    /// Returns the bits of the gates `id..id + 8`; bit `i` belongs to gate `id + i`.
    pub(crate) fn eight(&mut self, prg: &SecretPrg, id: u64) -> u32 {
        let low = self.word(prg, id / 64) >> (id % 64);
        if id % 64 <= 56 {
            return (low & 0xff) as u32;
        }
        let high = self.word(prg, id / 64 + 1) << (64 - id % 64);
        ((low | high) & 0xff) as u32
    }

    fn word(&mut self, prg: &SecretPrg, index: u64) -> u64 {
        let first = index - index % DICE_WORDS as u64;
        if self.first != Some(first) {
            self.fill(prg, first);
        }
        self.words[(index - first) as usize]
    }

    #[cold]
    fn fill(&mut self, prg: &SecretPrg, first: u64) {
        let mut blocks = [Array([0; 16]); DICE_WORDS / 2];
        for (i, block) in blocks.iter_mut().enumerate() {
            block[..8].copy_from_slice(&(first / 2 + i as u64).to_le_bytes());
            block[15] = self.purpose as u8;
        }
        prg.0.encrypt_blocks(&mut blocks);
        for (i, block) in blocks.iter_mut().enumerate() {
            let bits = u128::from_le_bytes((*block).into());
            self.words[2 * i] = bits as u64;
            self.words[2 * i + 1] = (bits >> 64) as u64;
            block.0.zeroize();
        }
        self.first = Some(first);
    }
}

impl Drop for Dice {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn labels_do_not_depend_on_how_positions_are_cut() {
        let prg = SecretPrg::new(&Seed::from_bytes([7; 32]));
        let labels = |range: std::ops::Range<u32>| {
            let mut labels = Vec::new();
            let positions = range.map(|i| (i, i));
            let scratch = &mut Scratch::default();
            let three = Instances::one(3);
            prg.labels(
                Purpose::EvaluatorZero,
                three,
                positions,
                scratch,
                |i, made| {
                    labels.push((i, made[0].0));
                },
            );
            labels
        };
        let whole = labels(0..129);
        let cut = [0..1, 1..12, 12..12, 12..77, 77..129].map(labels).concat();
        assert_eq!(whole, cut);
    }

    #[test]
    fn labels_do_not_depend_on_what_is_made_together() {
        let prg = SecretPrg::new(&Seed::from_bytes([7; 32]));
        let scratch = &mut Scratch::default();
        let labels = |instances: Instances, scratch: &mut Scratch| {
            let mut made = Vec::new();
            let positions = (0..21).map(|i| (i, i));
            prg.labels(
                Purpose::EvaluatorZero,
                instances,
                positions,
                scratch,
                |i, labels| {
                    for (lane, label) in labels.iter().enumerate() {
                        made.push((lane, i, label.0));
                    }
                },
            );
            made.sort_unstable();
            made
        };
        let together = labels(Instances { first: 5, lanes: 8 }, scratch);
        let mut alone = Vec::new();
        for lane in 0..8 {
            let of_lane = labels(Instances::one(5 + lane as u64), scratch);
            alone.extend(of_lane.into_iter().map(|(_, i, label)| (lane, i, label)));
        }
        assert_eq!(together, alone);
    }

    #[test]
    fn purposes_instances_and_positions_give_different_labels() {
        let prg = SecretPrg::new(&Seed::from_bytes([7; 32]));
        let mut seen = HashSet::new();
        for purpose in [
            Purpose::EvaluatorZero,
            Purpose::EvaluatorOne,
            Purpose::GarblerZero,
            Purpose::GarblerOne,
        ] {
            for instance in [0, 1, 1 << 40] {
                let positions = (0..20).map(|i| (i, ()));
                let scratch = &mut Scratch::default();
                let instance = Instances::one(instance);
                prg.labels(purpose, instance, positions, scratch, |(), labels| {
                    assert!(seen.insert(labels[0].0));
                });
            }
        }
        assert!(seen.insert(prg.delta().0));
        assert!(prg.delta().colour());
    }

    #[test]
    fn dice_do_not_depend_on_where_they_are_read_from() {
        let prg = SecretPrg::new(&Seed::from_bytes([9; 32]));
        let mut forward = Dice::new(Purpose::FirstDice);
        let bits: Vec<u32> = (0..3000).map(|id| forward.eight(&prg, id) & 1).collect();
        for id in (0..2900).rev() {
            let byte = Dice::new(Purpose::FirstDice).eight(&prg, id);
            let expected = (0..8).fold(0, |byte, i| byte | bits[id as usize + i] << i);
            assert_eq!(byte, expected, "gate {id}");
        }
        let ones: u32 = bits.iter().sum();
        assert!((1300..1700).contains(&ones), "{ones} of 3000 bits are set");
        assert_ne!(
            forward.eight(&prg, 0),
            Dice::new(Purpose::SecondDice).eight(&prg, 0)
        );
    }

    #[test]
    fn no_two_random_seeds_are_equal() {
        let seeds: HashSet<[u8; 32]> = (0..10_000).map(|_| Seed::random().0).collect();
        assert_eq!(seeds.len(), 10_000);
    }
}
