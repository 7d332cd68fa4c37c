//! The vector operations on labels that gate kernels use.
//!
//! [`Isa`] is an instruction set: registers of one, two or four labels, and AES on them. [`Wide`]
//! groups several registers, so that one kernel works for every instruction set. A value of an
//! `Isa` type proves that the CPU has the instructions: it can only be constructed after a check,
//! and that makes its methods safe to call.
//!
//! Everything here is `#[inline(always)]`: intrinsics compile to instructions only if they are
//! inlined into a function that enables the target features. Each back end has one such function;
//! see [`Dispatch`](crate::dispatch::Dispatch).

#![expect(
    unsafe_code,
    reason = "label slots are checked once per program, not at every gate"
)]

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod aes;
#[cfg(target_arch = "x86_64")]
mod aes_ni;
#[cfg(target_arch = "aarch64")]
mod arm_aes;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod expanded_keys;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod key_expansion;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod numbered;
mod portable;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod rounds;
mod schedule;
#[cfg(target_arch = "x86_64")]
mod vaes256;
#[cfg(target_arch = "x86_64")]
mod vaes512;
mod wide;

#[cfg(target_arch = "aarch64")]
pub(crate) use arm_aes::ArmAes;
#[cfg(target_arch = "x86_64")]
pub(crate) use {aes_ni::AesNi, vaes256::Vaes256, vaes512::Vaes512};
pub(crate) use {
    portable::Portable,
    schedule::{Block, Schedule},
    wide::{Lanes, Wide},
};

use crate::Label;

/// The instruction set that expands a single AES key.
#[cfg(target_arch = "x86_64")]
use aes_ni::AesNi as KeyExpander;
#[cfg(target_arch = "aarch64")]
use arm_aes::ArmAes as KeyExpander;

/// The largest number of gates that a kernel processes together.
pub(crate) const MAX_WIDTH: usize = 8;

/// The slots of one operand of a group of gates; entries past the width are unused.
pub(crate) type Index = [u32; MAX_WIDTH];

/// The vector operations of an instruction set, on registers of [`Vectors::LANES`] labels.
///
/// The *low* and *high* halves of a label are its bytes 0-7 and 8-15.
pub(crate) trait Vectors: Copy {
    /// Number of labels in a register.
    const LANES: usize;

    /// The maximum number of remaining gates of a batch that are processed one by one. More
    /// remaining gates are padded to a group.
    const NARROW_REST: usize;

    /// Number of groups of [`MAX_WIDTH`] blocks to encrypt together under one key for the best
    /// throughput.
    const GROUPS: usize;

    /// One register.
    type Reg: Copy;

    /// Returns `value` in every lane.
    fn splat(self, value: u128) -> Self::Reg;

    /// Returns `high << 64 | low + i * step` in lane `i`.
    fn counter(self, low: u64, step: u64, high: u64) -> Self::Reg;

    /// Returns `from[index[i]]` in lane `i`.
    ///
    /// # Safety
    /// The first [`Vectors::LANES`] numbers of `index` are below the length of `from`.
    unsafe fn gather(self, from: &[Label], index: &[u32]) -> Self::Reg;

    /// Writes lane `i` to `to[index[i]]`.
    ///
    /// # Safety
    /// The first [`Vectors::LANES`] numbers of `index` are below the length of `to`.
    unsafe fn scatter(self, reg: Self::Reg, to: &mut [Label], index: &[u32]);

    /// Writes lane 0 to `to[slot]`.
    ///
    /// # Safety
    /// `slot` is below the length of `to`.
    unsafe fn put_first(self, reg: Self::Reg, to: &mut [Label], slot: u32);

    /// Returns `from[i]` in lane `i`.
    fn load_labels(self, from: &[Label]) -> Self::Reg;

    /// Writes lane `i` to `to[i]`.
    fn store_labels(self, reg: Self::Reg, to: &mut [Label]);

    /// Returns the 16 bytes from `i * stride` in lane `i`.
    fn load(self, bytes: &[u8], stride: usize) -> Self::Reg;

    /// Writes lane `i` to the 16 bytes from `i * stride`.
    fn store(self, reg: Self::Reg, bytes: &mut [u8], stride: usize);

    /// Returns two registers with alternating lanes: lane `i` of the first has the 16 bytes from
    /// `32 i`, lane `i` of the second those from `32 i + 16`.
    #[inline(always)]
    fn load_pairs(self, bytes: &[u8]) -> [Self::Reg; 2] {
        [self.load(bytes, 32), self.load(&bytes[16..], 32)]
    }

    /// Writes the bytes that [`Vectors::load_pairs`] reads.
    #[inline(always)]
    fn store_pairs(self, pair: [Self::Reg; 2], bytes: &mut [u8]) {
        self.store(pair[0], bytes, 32);
        self.store(pair[1], &mut bytes[16..], 32);
    }

    /// Swaps lanes `2 i` and `2 i + 1`; the register has at least two lanes.
    fn swap_lanes(self, reg: Self::Reg) -> Self::Reg;

    fn xor(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;

    fn and(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;

    /// Swaps the halves of every lane.
    fn swap(self, reg: Self::Reg) -> Self::Reg;

    /// Returns the low half of `low` in the low half and the low half of `high` in the high half.
    fn join_low(self, low: Self::Reg, high: Self::Reg) -> Self::Reg;

    /// Multiplies both halves by `x` in GF(2^64) modulo `x^64 + x^4 + x^3 + x + 1`.
    fn double_halves(self, reg: Self::Reg) -> Self::Reg;

    /// Returns all ones in the lanes whose lowest bit is set and zero in the others.
    fn colour_mask(self, reg: Self::Reg) -> Self::Reg;

    /// Returns the lowest bit of lane `i` as bit `i`.
    fn colours(self, reg: Self::Reg) -> u32;

    /// Returns bit 64 of lane `i` as bit `i`.
    #[inline(always)]
    fn high_colours(self, reg: Self::Reg) -> u32 {
        self.colours(self.swap(reg))
    }

    /// Returns all ones in lane `i` where bit `i` is set and zero elsewhere.
    fn mask(self, bits: u32) -> Self::Reg;

    /// Returns bit `i` of `bits`, for each `i` below [`MAX_WIDTH`], as bit `stride * i`.
    ///
    /// Like all operations here, it has no branch and no table lookup that depends on the bits.
    #[inline(always)]
    fn spread(self, bits: u32, stride: u32) -> u64 {
        let mut out = 0;
        for i in 0..MAX_WIDTH as u32 {
            out |= u64::from(bits >> i & 1) << (stride * i);
        }
        out
    }

    /// Returns bit `stride * i` of `packed`, for each `i` below [`MAX_WIDTH`], as bit `i`.
    #[inline(always)]
    fn collect(self, packed: u64, stride: u32) -> u32 {
        let mut out = 0;
        for i in 0..MAX_WIDTH as u32 {
            out |= ((packed >> (stride * i) & 1) as u32) << i;
        }
        out
    }
}

/// An instruction set: its vector operations, and AES on its registers.
///
/// Instruction sets with AES rounds get an implementation from [`AesRounds`](rounds::AesRounds).
pub(crate) trait Isa: Vectors {
    /// A cache of expanded AES-128 keys, which is kept between groups of gates.
    type Keys: Default;

    /// Encrypts lane `i` of `blocks[k][b][n]` under the key of gate `n * LANES + i` according to
    /// `numbers`.
    fn encrypt_numbered<const N: usize, const B: usize, const K: usize>(
        self,
        cache: &mut Self::Keys,
        numbers: KeyNumbers,
        blocks: [[[Self::Reg; N]; B]; K],
    ) -> [[[Self::Reg; N]; B]; K];

    /// Returns the number of gates from `gate` on for which the keys of both tweaks are expanded.
    fn tweaks_ready(self, cache: &Self::Keys, gate: u64) -> usize;

    /// Expands the keys of the first gate and of some following gates, unless they are expanded.
    fn prepare_tweaks(self, cache: &mut Self::Keys, numbers: TweakNumbers);

    /// Encrypts `blocks[b]` of one gate, whose keys are expanded: the first of two lanes under the
    /// key of the first tweak, the second under that of the second tweak.
    fn encrypt_ready<const N: usize, const B: usize>(
        self,
        cache: &Self::Keys,
        numbers: TweakNumbers,
        blocks: [[Self::Reg; N]; B],
    ) -> [[Self::Reg; N]; B];

    /// Encrypts `blocks[k][b][n]` under the keys in the lanes of `keys[k][n]`.
    fn encrypt_keyed<const N: usize, const B: usize, const K: usize>(
        self,
        keys: [[Self::Reg; N]; K],
        blocks: [[[Self::Reg; N]; B]; K],
    ) -> [[[Self::Reg; N]; B]; K];

    /// Encrypts all blocks under one key.
    fn encrypt_scheduled<const N: usize, const B: usize>(
        self,
        schedule: &Schedule,
        blocks: [[Self::Reg; N]; B],
    ) -> [[Self::Reg; N]; B];
}

/// Public keys that each serve `2^log_gates` gates. Gate `i` of a group has the key
/// `start ^ ((gate + i) >> log_gates)`.
#[derive(Clone, Copy)]
pub(crate) struct KeyNumbers {
    pub(crate) start: u128,
    pub(crate) gate: u64,
    pub(crate) log_gates: u32,
}

/// Public keys that each serve one tweak: tweak `k`, 0 or 1, of gate `i` of a group has the key
/// `start ^ (2 (gate + i) + k)`.
#[derive(Clone, Copy)]
pub(crate) struct TweakNumbers {
    pub(crate) start: u128,
    pub(crate) gate: u64,
}

#[cfg(test)]
mod tests;
