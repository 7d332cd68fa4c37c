//! One label at a time on any CPU, with the constant-time `aes` crate. This is the reference for
//! all other instruction sets.
#![expect(
    unsafe_code,
    reason = "it takes the promises that vector code needs, without a need of its own"
)]

use aes::{
    Aes128Enc,
    cipher::{Array, BlockCipherEncrypt, KeyInit},
};

use super::{Block, Isa, KeyNumbers, Schedule, TweakNumbers, Vectors};
use crate::Label;

/// The instruction set that every CPU supports.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

/// The last expanded key, with its number.
pub(crate) type LastKey = Option<(u64, Aes128Enc)>;

const LOW: u128 = u64::MAX as u128;

impl Vectors for Portable {
    const LANES: usize = 1;
    const NARROW_REST: usize = usize::MAX;
    const GROUPS: usize = 8;

    type Reg = u128;

    #[inline(always)]
    fn splat(self, value: u128) -> u128 {
        value
    }

    #[inline(always)]
    fn counter(self, low: u64, _step: u64, high: u64) -> u128 {
        u128::from(high) << 64 | u128::from(low)
    }

    #[inline(always)]
    unsafe fn gather(self, from: &[Label], index: &[u32]) -> u128 {
        from[index[0] as usize].0
    }

    #[inline(always)]
    unsafe fn scatter(self, reg: u128, to: &mut [Label], index: &[u32]) {
        to[index[0] as usize].0 = reg;
    }

    #[inline(always)]
    unsafe fn put_first(self, reg: u128, to: &mut [Label], slot: u32) {
        // SAFETY: the caller guarantees that `slot` is below the length of `to`, and a register of
        // one lane uses one index.
        unsafe { self.scatter(reg, to, &[slot]) }
    }

    #[inline(always)]
    fn load_labels(self, from: &[Label]) -> u128 {
        from[0].0
    }

    #[inline(always)]
    fn store_labels(self, reg: u128, to: &mut [Label]) {
        to[0].0 = reg;
    }

    #[inline(always)]
    fn load(self, bytes: &[u8], _stride: usize) -> u128 {
        let mut block = [0; 16];
        block.copy_from_slice(&bytes[..16]);
        u128::from_le_bytes(block)
    }

    #[inline(always)]
    fn store(self, reg: u128, bytes: &mut [u8], _stride: usize) {
        bytes[..16].copy_from_slice(&reg.to_le_bytes());
    }

    #[inline(always)]
    fn swap_lanes(self, reg: u128) -> u128 {
        reg
    }

    #[inline(always)]
    fn xor(self, a: u128, b: u128) -> u128 {
        a ^ b
    }

    #[inline(always)]
    fn and(self, a: u128, b: u128) -> u128 {
        a & b
    }

    #[inline(always)]
    fn swap(self, reg: u128) -> u128 {
        reg.rotate_left(64)
    }

    #[inline(always)]
    fn join_low(self, low: u128, high: u128) -> u128 {
        low & LOW | high << 64
    }

    #[inline(always)]
    fn double_halves(self, reg: u128) -> u128 {
        let carries = (reg >> 63) & (1 << 64 | 1);
        ((reg & !(1 << 127 | 1 << 63)) << 1) ^ (carries * 0x1b)
    }

    #[inline(always)]
    fn colour_mask(self, reg: u128) -> u128 {
        (reg & 1).wrapping_neg()
    }

    #[inline(always)]
    fn colours(self, reg: u128) -> u32 {
        (reg & 1) as u32
    }

    #[inline(always)]
    fn mask(self, bits: u32) -> u128 {
        u128::from(bits & 1).wrapping_neg()
    }
}

impl Isa for Portable {
    type Keys = LastKey;

    #[inline(always)]
    fn encrypt_numbered<const N: usize, const B: usize, const K: usize>(
        self,
        cache: &mut LastKey,
        numbers: KeyNumbers,
        blocks: [[[u128; N]; B]; K],
    ) -> [[[u128; N]; B]; K] {
        let mut out = blocks;
        for n in 0..N {
            let number = numbers.gate.wrapping_add(n as u64) >> numbers.log_gates;
            let schedule = match cache {
                Some((last, schedule)) if *last == number => schedule,
                _ => {
                    let schedule = schedule(numbers.start ^ u128::from(number));
                    &mut cache.insert((number, schedule)).1
                }
            };
            for k in 0..K {
                let encrypted = encrypt(schedule, blocks[k].map(|lanes| lanes[n]));
                for (lanes, block) in out[k].iter_mut().zip(encrypted) {
                    lanes[n] = block;
                }
            }
        }
        out
    }

    #[inline(always)]
    fn tweaks_ready(self, _cache: &LastKey, _gate: u64) -> usize {
        0
    }

    #[inline(always)]
    fn prepare_tweaks(self, _cache: &mut LastKey, _numbers: TweakNumbers) {}

    #[inline(always)]
    fn encrypt_ready<const N: usize, const B: usize>(
        self,
        _cache: &LastKey,
        TweakNumbers { start, gate }: TweakNumbers,
        blocks: [[u128; N]; B],
    ) -> [[u128; N]; B] {
        let mut keys = [start; N];
        for (key, tweak) in keys.iter_mut().zip(gate.wrapping_mul(2)..) {
            *key ^= u128::from(tweak);
        }
        let [blocks] = self.encrypt_keyed([keys], [blocks]);
        blocks
    }

    #[inline(always)]
    fn encrypt_keyed<const N: usize, const B: usize, const K: usize>(
        self,
        keys: [[u128; N]; K],
        blocks: [[[u128; N]; B]; K],
    ) -> [[[u128; N]; B]; K] {
        let mut out = blocks;
        for k in 0..K {
            for n in 0..N {
                let encrypted = encrypt(&schedule(keys[k][n]), blocks[k].map(|lanes| lanes[n]));
                for (lanes, block) in out[k].iter_mut().zip(encrypted) {
                    lanes[n] = block;
                }
            }
        }
        out
    }

    #[inline(always)]
    fn encrypt_scheduled<const N: usize, const B: usize>(
        self,
        schedule: &Schedule,
        blocks: [[u128; N]; B],
    ) -> [[u128; N]; B] {
        let mut bytes = blocks.map(|group| group.map(|block| Array(block.to_le_bytes())));
        schedule.encrypt_blocks(bytes.as_flattened_mut());
        bytes.map(|group| group.map(|block: Block| u128::from_le_bytes(block.0)))
    }
}

fn schedule(key: u128) -> Aes128Enc {
    Aes128Enc::new(&Array(key.to_le_bytes()))
}

fn encrypt<const N: usize>(schedule: &Aes128Enc, blocks: [u128; N]) -> [u128; N] {
    let mut bytes = blocks.map(|block| Array(block.to_le_bytes()));
    schedule.encrypt_blocks(&mut bytes);
    bytes.map(|block| u128::from_le_bytes(block.into()))
}
