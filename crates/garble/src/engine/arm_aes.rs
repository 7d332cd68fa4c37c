//! The instruction set with 128-bit registers of ARM64: NEON and the AES instructions of ARMv8.
#![expect(
    unsafe_code,
    reason = "vector intrinsics; the only way to AES instructions on stable Rust"
)]

use std::{
    arch::{aarch64::*, asm, is_aarch64_feature_detected},
    mem::transmute,
};

use super::{
    Vectors,
    key_expansion::expand_key,
    rounds::{AesRounds, MIDDLE_ROUNDS, TURN_WORDS},
};
use crate::Label;

/// The proof that the CPU has the AES instructions and is little-endian. NEON belongs to all ARM64
/// targets of the standard library.
#[derive(Clone, Copy)]
pub(crate) struct ArmAes {
    middle_rounds: usize,
}

impl ArmAes {
    /// Returns the proof if the CPU has the features.
    pub(crate) fn detect() -> Option<Self> {
        // Words are reinterpreted as bytes, which gives other bytes on a big-endian CPU.
        let available = cfg!(target_endian = "little") && is_aarch64_feature_detected!("aes");
        available.then(|| Self {
            middle_rounds: std::hint::black_box(MIDDLE_ROUNDS),
        })
    }

    /// Expands a key of 16 or 32 bytes into round keys (FIPS-197, section 5.2).
    pub(super) fn expand(self, key: &[u8], keys: &mut [u128; 15]) {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { expand(self, key, keys) }
    }

    /// Returns SubBytes of every byte, after ShiftRows.
    #[inline(always)]
    fn substitute(self, reg: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { aese(reg, vdupq_n_u8(0)) }
    }
}

#[target_feature(enable = "neon,aes")]
fn expand(isa: ArmAes, key: &[u8], keys: &mut [u128; 15]) {
    expand_key(isa, key, keys);
}

impl Vectors for ArmAes {
    const LANES: usize = 1;
    const NARROW_REST: usize = 3;
    // Sixteen blocks fill half of the registers and hide the latency of a round.
    const GROUPS: usize = 2;

    type Reg = uint8x16_t;

    #[inline(always)]
    fn splat(self, value: u128) -> uint8x16_t {
        // SAFETY: both types have 16 bytes, and every value of them is valid.
        unsafe { transmute::<u128, uint8x16_t>(value) }
    }

    #[inline(always)]
    fn counter(self, low: u64, _step: u64, high: u64) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high))) }
    }

    #[inline(always)]
    unsafe fn gather(self, from: &[Label], index: &[u32]) -> uint8x16_t {
        let at = index[0] as usize;
        debug_assert!(at < from.len());
        // SAFETY: the CPU has the features, as `self` proves; the caller guarantees that the index
        // is in bounds.
        unsafe { vld1q_u8(from.as_ptr().add(at).cast()) }
    }

    #[inline(always)]
    unsafe fn scatter(self, reg: uint8x16_t, to: &mut [Label], index: &[u32]) {
        let at = index[0] as usize;
        debug_assert!(at < to.len());
        // SAFETY: the CPU has the features, as `self` proves; the caller guarantees that the index
        // is in bounds.
        unsafe { vst1q_u8(to.as_mut_ptr().add(at).cast(), reg) }
    }

    #[inline(always)]
    unsafe fn put_first(self, reg: uint8x16_t, to: &mut [Label], slot: u32) {
        // SAFETY: the caller guarantees that `slot` is below the length of `to`, and a register of
        // one lane uses one index.
        unsafe { self.scatter(reg, to, &[slot]) }
    }

    #[inline(always)]
    fn load_labels(self, from: &[Label]) -> uint8x16_t {
        let from = &from[..1];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 16 bytes.
        unsafe { vld1q_u8(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_labels(self, reg: uint8x16_t, to: &mut [Label]) {
        let to = &mut to[..1];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 16 bytes.
        unsafe { vst1q_u8(to.as_mut_ptr().cast(), reg) }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8], _stride: usize) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 16 bytes.
        unsafe { vld1q_u8(bytes[..16].as_ptr()) }
    }

    #[inline(always)]
    fn store(self, reg: uint8x16_t, bytes: &mut [u8], _stride: usize) {
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 16 bytes.
        unsafe { vst1q_u8(bytes[..16].as_mut_ptr(), reg) }
    }

    #[inline(always)]
    fn swap_lanes(self, reg: uint8x16_t) -> uint8x16_t {
        reg
    }

    #[inline(always)]
    fn xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { veorq_u8(a, b) }
    }

    #[inline(always)]
    fn and(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { vandq_u8(a, b) }
    }

    #[inline(always)]
    fn swap(self, reg: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { vextq_u8::<8>(reg, reg) }
    }

    #[inline(always)]
    fn join_low(self, low: uint8x16_t, high: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            vreinterpretq_u8_u64(vzip1q_u64(
                vreinterpretq_u64_u8(low),
                vreinterpretq_u64_u8(high),
            ))
        }
    }

    #[inline(always)]
    fn double_halves(self, reg: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let signs = vshrq_n_s64::<63>(vreinterpretq_s64_u8(reg));
            let carries = vandq_u64(vreinterpretq_u64_s64(signs), vdupq_n_u64(0x1b));
            let shifted = vshlq_n_u64::<1>(vreinterpretq_u64_u8(reg));
            vreinterpretq_u8_u64(veorq_u64(shifted, carries))
        }
    }

    #[inline(always)]
    fn colour_mask(self, reg: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { vtstq_u8(vdupq_laneq_u8::<0>(reg), vdupq_n_u8(1)) }
    }

    #[inline(always)]
    fn colours(self, reg: uint8x16_t) -> u32 {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { vgetq_lane_u32::<0>(vreinterpretq_u32_u8(reg)) & 1 }
    }

    #[inline(always)]
    fn mask(self, bits: u32) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { vreinterpretq_u8_u32(vdupq_n_u32((bits & 1).wrapping_neg())) }
    }
}

/// AESE is AddRoundKey, SubBytes and ShiftRows; AESMC is MixColumns. A pair of both is adjacent and
/// works on one register, so CPUs fuse it to one operation.
impl AesRounds for ArmAes {
    // 16 registers of blocks and the round keys of eight gates fit into the 32 vector registers.
    // With 32 registers of blocks, the compiler writes some of them to the stack in each round, and
    // no longer places each AESMC directly after its AESE.
    const MAX_TOGETHER: usize = 16;

    #[inline(always)]
    fn start(self, block: uint8x16_t, _key: uint8x16_t) -> uint8x16_t {
        // The next round adds the key.
        block
    }

    #[inline(always)]
    fn encrypt_round(self, block: uint8x16_t, before: uint8x16_t, _key: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { aesmc(aese(block, before)) }
    }

    #[inline(always)]
    fn encrypt_last_round(
        self,
        block: uint8x16_t,
        before: uint8x16_t,
        key: uint8x16_t,
    ) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { veorq_u8(aese(block, before), key) }
    }

    #[inline(always)]
    fn next_round_key(self, key: uint8x16_t, constant: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let zero = vdupq_n_u8(0);
            let rotate_last = vreinterpretq_u8_u32(vdupq_n_u32(0x0c0f_0e0d));
            let substituted = self.substitute(vqtbl1q_u8(key, rotate_last));
            let folded = veorq_u8(key, vextq_u8::<12>(zero, key));
            let folded = veorq_u8(folded, vextq_u8::<8>(zero, folded));
            // The constant is added to the value that is ready first.
            veorq_u8(veorq_u8(folded, constant), substituted)
        }
    }

    #[inline(always)]
    fn substitute_words(self, words: uint8x16_t, constant: uint8x16_t) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves; the constant is readable for
        // 16 bytes.
        unsafe {
            let turn = vld1q_u8(TURN_WORDS.as_ptr());
            veorq_u8(self.substitute(vqtbl1q_u8(words, turn)), constant)
        }
    }

    #[inline(always)]
    fn middle_rounds(self) -> usize {
        self.middle_rounds
    }

    #[inline(always)]
    fn splat_words(self, word: u32) -> uint8x16_t {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { vreinterpretq_u8_u32(vdupq_n_u32(word)) }
    }

    #[inline(always)]
    fn xor3(self, a: uint8x16_t, b: uint8x16_t, c: uint8x16_t) -> uint8x16_t {
        self.xor(self.xor(a, b), c)
    }

    #[inline(always)]
    fn transpose(self, rows: [uint8x16_t; 4]) -> [uint8x16_t; 4] {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { transpose(rows) }
    }

    #[inline(always)]
    fn in_order(self, first: uint8x16_t, rows: [uint8x16_t; 4]) -> (uint8x16_t, [uint8x16_t; 4]) {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { in_order(first, rows) }
    }

    #[inline(always)]
    fn splat_split(self, first: u128, _second: u128, _split: usize) -> uint8x16_t {
        self.splat(first)
    }
}

// The compiler warns of calls of the two intrinsics in functions that are `#[inline(always)]` and
// lack the feature, so these wrappers are between them.

/// Performs AddRoundKey, ShiftRows and SubBytes.
#[inline]
#[target_feature(enable = "neon,aes")]
fn aese(block: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
    vaeseq_u8(block, key)
}

/// Performs MixColumns.
#[inline]
#[target_feature(enable = "neon,aes")]
fn aesmc(block: uint8x16_t) -> uint8x16_t {
    vaesmcq_u8(block)
}

/// Implements [`AesRounds::transpose`].
#[inline]
#[target_feature(enable = "neon")]
fn transpose(rows: [uint8x16_t; 4]) -> [uint8x16_t; 4] {
    let [a, b] = interleave(rows[0], rows[1]);
    let [c, d] = interleave(rows[2], rows[3]);
    [
        vreinterpretq_u8_u64(vtrn1q_u64(a, c)),
        vreinterpretq_u8_u64(vtrn1q_u64(b, d)),
        vreinterpretq_u8_u64(vtrn2q_u64(a, c)),
        vreinterpretq_u8_u64(vtrn2q_u64(b, d)),
    ]
}

/// Returns the even words of both arguments, alternating, and the odd words.
#[inline]
#[target_feature(enable = "neon")]
fn interleave(a: uint8x16_t, b: uint8x16_t) -> [uint64x2_t; 2] {
    let (a, b) = (vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
    [
        vreinterpretq_u64_u32(vtrn1q_u32(a, b)),
        vreinterpretq_u64_u32(vtrn2q_u32(a, b)),
    ]
}

/// Implements [`AesRounds::in_order`].
#[inline]
#[target_feature(enable = "neon")]
fn in_order(mut first: uint8x16_t, rows: [uint8x16_t; 4]) -> (uint8x16_t, [uint8x16_t; 4]) {
    let [mut w0, mut w1, mut w2, mut w3] = rows;
    // SAFETY: the assembly contains no instructions, so it changes no state.
    unsafe {
        asm!(
            "/* {0:q} {1:q} {2:q} {3:q} {4:q} */",
            inout(vreg) first,
            inout(vreg) w0,
            inout(vreg) w1,
            inout(vreg) w2,
            inout(vreg) w3,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    (first, [w0, w1, w2, w3])
}
