//! The instruction set with 128-bit registers: AES-NI and SSSE3.
#![expect(
    unsafe_code,
    reason = "vector intrinsics; the only way to AES instructions on stable Rust"
)]

use std::arch::{asm, x86_64::*};

use super::{
    Vectors,
    key_expansion::expand_key,
    rounds::{AesRounds, MIDDLE_ROUNDS, TURN_WORDS},
};
use crate::Label;

/// The proof that the CPU has AES-NI and SSSE3.
#[derive(Clone, Copy)]
pub(crate) struct AesNi {
    middle_rounds: usize,
}

impl AesNi {
    /// Returns the proof if the CPU has the features.
    pub(crate) fn detect() -> Option<Self> {
        let available = is_x86_feature_detected!("aes") && is_x86_feature_detected!("ssse3");
        available.then(|| Self {
            middle_rounds: std::hint::black_box(MIDDLE_ROUNDS),
        })
    }

    /// Expands a key of 16 or 32 bytes into round keys (FIPS-197, section 5.2).
    pub(super) fn expand(self, key: &[u8], keys: &mut [u128; 15]) {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { expand(self, key, keys) }
    }
}

#[target_feature(enable = "aes,ssse3")]
fn expand(isa: AesNi, key: &[u8], keys: &mut [u128; 15]) {
    expand_key(isa, key, keys);
}

impl Vectors for AesNi {
    const LANES: usize = 1;
    const NARROW_REST: usize = 3;
    const GROUPS: usize = 1;

    type Reg = __m128i;

    #[inline(always)]
    fn splat(self, value: u128) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_set_epi64x((value >> 64) as i64, value as i64) }
    }

    #[inline(always)]
    fn counter(self, low: u64, _step: u64, high: u64) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_set_epi64x(high as i64, low as i64) }
    }

    #[inline(always)]
    unsafe fn gather(self, from: &[Label], index: &[u32]) -> __m128i {
        let at = index[0] as usize;
        debug_assert!(at < from.len());
        // SAFETY: the CPU has the features, as `self` proves; the caller guarantees that the index
        // is in bounds.
        unsafe { _mm_loadu_si128(from.as_ptr().add(at).cast()) }
    }

    #[inline(always)]
    unsafe fn scatter(self, reg: __m128i, to: &mut [Label], index: &[u32]) {
        let at = index[0] as usize;
        debug_assert!(at < to.len());
        // SAFETY: the CPU has the features, as `self` proves; the caller guarantees that the index
        // is in bounds.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().add(at).cast(), reg) }
    }

    #[inline(always)]
    unsafe fn put_first(self, reg: __m128i, to: &mut [Label], slot: u32) {
        // SAFETY: the caller guarantees that `slot` is below the length of `to`, and a register of
        // one lane uses one index.
        unsafe { self.scatter(reg, to, &[slot]) }
    }

    #[inline(always)]
    fn load_labels(self, from: &[Label]) -> __m128i {
        let from = &from[..1];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 16 bytes.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_labels(self, reg: __m128i, to: &mut [Label]) {
        let to = &mut to[..1];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 16 bytes.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), reg) }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8], _stride: usize) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 16 bytes.
        unsafe { _mm_loadu_si128(bytes[..16].as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, reg: __m128i, bytes: &mut [u8], _stride: usize) {
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 16 bytes.
        unsafe { _mm_storeu_si128(bytes[..16].as_mut_ptr().cast(), reg) }
    }

    #[inline(always)]
    fn swap_lanes(self, reg: __m128i) -> __m128i {
        reg
    }

    #[inline(always)]
    fn xor(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_and_si128(a, b) }
    }

    #[inline(always)]
    fn swap(self, reg: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_shuffle_epi32::<0b01_00_11_10>(reg) }
    }

    #[inline(always)]
    fn join_low(self, low: __m128i, high: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_unpacklo_epi64(low, high) }
    }

    #[inline(always)]
    fn double_halves(self, reg: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let signs = _mm_shuffle_epi32::<0b11_11_01_01>(_mm_srai_epi32::<31>(reg));
            let carries = _mm_and_si128(signs, _mm_set1_epi64x(0x1b));
            _mm_xor_si128(_mm_add_epi64(reg, reg), carries)
        }
    }

    #[inline(always)]
    fn colour_mask(self, reg: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_shuffle_epi32::<0>(_mm_srai_epi32::<31>(_mm_slli_epi32::<31>(reg))) }
    }

    #[inline(always)]
    fn colours(self, reg: __m128i) -> u32 {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { (_mm_cvtsi128_si32(reg) & 1) as u32 }
    }

    #[inline(always)]
    fn mask(self, bits: u32) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_set1_epi32(((bits & 1) as i32).wrapping_neg()) }
    }
}

impl AesRounds for AesNi {
    #[inline(always)]
    fn start(self, block: __m128i, key: __m128i) -> __m128i {
        self.xor(block, key)
    }

    #[inline(always)]
    fn encrypt_round(self, block: __m128i, _before: __m128i, key: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_aesenc_si128(block, key) }
    }

    #[inline(always)]
    fn encrypt_last_round(self, block: __m128i, _before: __m128i, key: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_aesenclast_si128(block, key) }
    }

    #[inline(always)]
    fn next_round_key(self, key: __m128i, constant: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let rotated = _mm_shuffle_epi8(key, _mm_set1_epi32(0x0c0f_0e0d));
            let substituted = _mm_aesenclast_si128(rotated, constant);
            let folded = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
            let folded = _mm_xor_si128(folded, _mm_slli_si128::<8>(folded));
            _mm_xor_si128(folded, substituted)
        }
    }

    #[inline(always)]
    fn substitute_words(self, words: __m128i, constant: __m128i) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves; the constant is readable for
        // 16 bytes.
        unsafe {
            let turn = _mm_loadu_si128(TURN_WORDS.as_ptr().cast());
            _mm_aesenclast_si128(_mm_shuffle_epi8(words, turn), constant)
        }
    }

    #[inline(always)]
    fn middle_rounds(self) -> usize {
        self.middle_rounds
    }

    #[inline(always)]
    fn splat_words(self, word: u32) -> __m128i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn xor3(self, a: __m128i, b: __m128i, c: __m128i) -> __m128i {
        self.xor(self.xor(a, b), c)
    }

    #[inline(always)]
    fn transpose(self, rows: [__m128i; 4]) -> [__m128i; 4] {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let low = [
                _mm_unpacklo_epi32(rows[0], rows[1]),
                _mm_unpacklo_epi32(rows[2], rows[3]),
            ];
            let high = [
                _mm_unpackhi_epi32(rows[0], rows[1]),
                _mm_unpackhi_epi32(rows[2], rows[3]),
            ];
            [
                _mm_unpacklo_epi64(low[0], low[1]),
                _mm_unpackhi_epi64(low[0], low[1]),
                _mm_unpacklo_epi64(high[0], high[1]),
                _mm_unpackhi_epi64(high[0], high[1]),
            ]
        }
    }

    #[inline(always)]
    fn in_order(self, first: __m128i, rows: [__m128i; 4]) -> (__m128i, [__m128i; 4]) {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { in_order(first, rows) }
    }

    #[inline(always)]
    fn splat_split(self, first: u128, _second: u128, _split: usize) -> __m128i {
        self.splat(first)
    }
}

/// Implements [`AesRounds::in_order`].
#[inline]
#[target_feature(enable = "sse2")]
fn in_order(mut first: __m128i, rows: [__m128i; 4]) -> (__m128i, [__m128i; 4]) {
    let [mut w0, mut w1, mut w2, mut w3] = rows;
    // SAFETY: the assembly contains no instructions, so it changes no state.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} */",
            inout(xmm_reg) first,
            inout(xmm_reg) w0,
            inout(xmm_reg) w1,
            inout(xmm_reg) w2,
            inout(xmm_reg) w3,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    (first, [w0, w1, w2, w3])
}
