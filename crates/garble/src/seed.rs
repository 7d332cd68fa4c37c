//! The garbler's secret and the values expanded from it.

use aes::cipher::Array;
use rand::Rng;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::{
    Label,
    engine::{Block, Schedule},
};

/// The secret of one garbling, from which the offset, all labels and all random bits are expanded.
///
/// Use a seed for one [`Garbler`](crate::Garbler) only. A seed that garbles two circuits reveals
/// both labels of a wire to the evaluator, and thereby every input. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Returns a fresh seed from the `rand` crate's generator, which the operating system seeds.
    ///
    /// # Panics
    /// Panics if the operating system cannot provide randomness.
    #[must_use]
    pub fn random() -> Self {
        let mut seed = Self([0; 32]);
        rand::rng().fill_bytes(&mut seed.0);
        seed
    }

    /// Returns a seed with a given value, for reproducible tests and benchmarks.
    ///
    /// Using one seed twice breaks security, see [`Seed`].
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// The purpose of a pseudorandom block, which is byte 15 of the AES input.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Purpose {
    /// The free-XOR offset.
    Delta = 0x10,
    /// The label of value 0 of an evaluator's input bit.
    EvaluatorZero = 0x11,
    /// The label of value 1 of an evaluator's input bit, for schemes without an offset.
    EvaluatorOne = 0x12,
    /// The label of value 0 of a garbler's input bit, if labels are sent.
    GarblerZero = 0x13,
    /// The label of value 1 of a garbler's input bit, for schemes without an offset.
    GarblerOne = 0x14,
    /// One random bit per gate: `rho0` of three-halves, the permute bits of prf.
    FirstGateBits = 0x15,
    /// One random bit per gate: `rho1` of three-halves.
    SecondGateBits = 0x16,
}

/// A pseudorandom generator of labels and bits with random access: AES-256 under the seed, with a
/// different input block for every value.
///
/// The input block of a label has the instance in bytes 0-7, the position among one party's input
/// bits in bytes 8-11 and the [`Purpose`] in byte 15. The input block of 128 random bits for gates
/// has the block number in bytes 0-7 and the [`Purpose`] in byte 15. All integers are
/// little-endian, all other bytes zero.
pub(crate) struct SecretPrg(Schedule);

impl SecretPrg {
    pub(crate) fn new(seed: &Seed) -> Self {
        Self(Schedule::aes256(&seed.0))
    }

    /// Returns the offset. Its colour is 1, so that the two labels of a wire differ in colour.
    pub(crate) fn delta(&self) -> Label {
        let mut delta = [Label::ZERO];
        let scratch = &mut Scratch::default();
        let one = Instances::one(0);
        self.labels(Purpose::Delta, one, [(0, ())], scratch, |(), labels| {
            delta[0] = labels[0];
        });
        delta[0].with_colour(true)
    }

    /// Returns the AES schedule of the seed.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.0
    }

    /// For each `(position, tag)`, calls `each(tag, labels)`. `labels` are the labels of `purpose`
    /// of the input bit at `position`, one per instance.
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

/// Number of blocks per call at which the widest back end of the `aes` crate reaches its full
/// speed.
pub(crate) const BLOCKS_AT_ONCE: usize = 64;

/// Instances whose labels are generated together, one or [`LANES`](crate::LANES).
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

/// Buffers for AES blocks and the labels computed from them; wiped on drop. Callers reuse one
/// value, because wiping takes longer than filling a few blocks.
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

/// For each `(position, tag)`, calls `each(tag, labels)`. `labels` are computed with AES under
/// `schedule` from `domain`, the instance and `position`, one per instance.
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

/// Returns the input block of a label, as bytes 0-7 and bytes 8-15.
#[inline(always)]
pub(crate) fn label_words(domain: u8, instance: u64, position: u32) -> [u64; 2] {
    [instance, u64::from(domain) << 56 | u64::from(position)]
}

/// A stream of secret random bits, one per gate id.
pub(crate) struct RandomBits {
    purpose: Purpose,
    /// Index of the first buffered 64-bit word in the stream of bits, or `None` if the buffer is
    /// empty.
    first: Option<u64>,
    words: [u64; RANDOM_WORDS],
}

/// Number of 64-bit words of random bits that are generated at a time.
const RANDOM_WORDS: usize = 16;

impl RandomBits {
    pub(crate) fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            first: None,
            words: [0; RANDOM_WORDS],
        }
    }

    /// Returns bits that are all `value`, for gates below 1024.
    #[cfg(test)]
    pub(crate) fn constant(value: bool) -> Self {
        Self {
            purpose: Purpose::FirstGateBits,
            first: Some(0),
            words: [u64::from(value).wrapping_neg(); RANDOM_WORDS],
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
        let first = index - index % RANDOM_WORDS as u64;
        if self.first != Some(first) {
            self.fill(prg, first);
        }
        self.words[(index - first) as usize]
    }

    #[cold]
    fn fill(&mut self, prg: &SecretPrg, first: u64) {
        let mut blocks = [Array([0; 16]); RANDOM_WORDS / 2];
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

impl Drop for RandomBits {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn labels_do_not_depend_on_the_ranges_requested() {
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
    fn labels_do_not_depend_on_the_number_of_lanes() {
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
    fn random_bits_do_not_depend_on_the_order_of_reading() {
        let prg = SecretPrg::new(&Seed::from_bytes([9; 32]));
        let mut forward = RandomBits::new(Purpose::FirstGateBits);
        let bits: Vec<u32> = (0..3000).map(|id| forward.eight(&prg, id) & 1).collect();
        for id in (0..2900).rev() {
            let byte = RandomBits::new(Purpose::FirstGateBits).eight(&prg, id);
            let expected = (0..8).fold(0, |byte, i| byte | bits[id as usize + i] << i);
            assert_eq!(byte, expected, "gate {id}");
        }
        let ones: u32 = bits.iter().sum();
        assert!((1300..1700).contains(&ones), "{ones} of 3000 bits are set");
        assert_ne!(
            forward.eight(&prg, 0),
            RandomBits::new(Purpose::SecondGateBits).eight(&prg, 0)
        );
    }

    #[test]
    fn no_two_random_seeds_are_equal() {
        let seeds: HashSet<[u8; 32]> = (0..10_000).map(|_| Seed::random().0).collect();
        assert_eq!(seeds.len(), 10_000);
    }
}
