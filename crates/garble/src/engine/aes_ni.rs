//! 128-bit registers: AES-NI and SSSE3.
#![expect(
    unsafe_code,
    reason = "vector intrinsics; the only way to AES instructions on stable Rust"
)]

use std::arch::x86_64::*;

use super::{
    Isa,
    rounds::{self, AesRounds, RoundKeys},
};
use crate::Label;

/// A CPU with AES-NI and SSSE3.
#[derive(Clone, Copy)]
pub(crate) struct AesNi(());

impl AesNi {
    /// Asks the CPU.
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("aes") && is_x86_feature_detected!("ssse3")).then_some(Self(()))
    }
}

impl Isa for AesNi {
    const LANES: usize = 1;
    const NARROW_REST: usize = 3;

    type Reg = __m128i;
    type Schedule = RoundKeys;

    #[inline(always)]
    fn splat(self, value: u128) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_set_epi64x((value >> 64) as i64, value as i64) }
    }

    #[inline(always)]
    fn counter(self, low: u64, _step: u64, high: u64) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_set_epi64x(high as i64, low as i64) }
    }

    #[inline(always)]
    fn gather(self, from: &[Label], index: &[u32]) -> __m128i {
        // SAFETY: `self` proves the CPU features; a reference to a label is readable for 16 bytes.
        unsafe { _mm_loadu_si128((&raw const from[index[0] as usize]).cast()) }
    }

    #[inline(always)]
    fn scatter(self, reg: __m128i, to: &mut [Label], index: &[u32]) {
        // SAFETY: `self` proves the CPU features; a reference to a label is writable for 16 bytes.
        unsafe { _mm_storeu_si128((&raw mut to[index[0] as usize]).cast(), reg) }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8], _stride: usize) -> __m128i {
        // SAFETY: `self` proves the CPU features; the slice was cut to 16 bytes.
        unsafe { _mm_loadu_si128(bytes[..16].as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, reg: __m128i, bytes: &mut [u8], _stride: usize) {
        // SAFETY: `self` proves the CPU features; the slice was cut to 16 bytes.
        unsafe { _mm_storeu_si128(bytes[..16].as_mut_ptr().cast(), reg) }
    }

    #[inline(always)]
    fn xor(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_and_si128(a, b) }
    }

    #[inline(always)]
    fn swap(self, reg: __m128i) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_shuffle_epi32::<0b01_00_11_10>(reg) }
    }

    #[inline(always)]
    fn join_low(self, low: __m128i, high: __m128i) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_unpacklo_epi64(low, high) }
    }

    #[inline(always)]
    fn double_halves(self, reg: __m128i) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let signs = _mm_shuffle_epi32::<0b11_11_01_01>(_mm_srai_epi32::<31>(reg));
            let carries = _mm_and_si128(signs, _mm_set1_epi64x(0x1b));
            _mm_xor_si128(_mm_add_epi64(reg, reg), carries)
        }
    }

    #[inline(always)]
    fn colour_mask(self, reg: __m128i) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_shuffle_epi32::<0>(_mm_srai_epi32::<31>(_mm_slli_epi32::<31>(reg))) }
    }

    #[inline(always)]
    fn colours(self, reg: __m128i) -> u32 {
        // SAFETY: `self` proves the CPU features.
        unsafe { (_mm_cvtsi128_si32(reg) & 1) as u32 }
    }

    #[inline(always)]
    fn mask(self, bits: u32) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_set1_epi32(((bits & 1) as i32).wrapping_neg()) }
    }

    #[inline(always)]
    fn schedule(self, key: u128) -> RoundKeys {
        rounds::schedule(self, key)
    }

    #[inline(always)]
    fn encrypt<const N: usize>(self, keys: &RoundKeys, blocks: [__m128i; N]) -> [__m128i; N] {
        rounds::encrypt(self, keys, blocks)
    }

    #[inline(always)]
    fn encrypt_keyed<const N: usize, const B: usize>(
        self,
        keys: [__m128i; N],
        blocks: [[__m128i; N]; B],
    ) -> [[__m128i; N]; B] {
        rounds::encrypt_keyed(self, keys, blocks)
    }
}

impl AesRounds for AesNi {
    #[inline(always)]
    fn encrypt_round(self, block: __m128i, key: __m128i) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_aesenc_si128(block, key) }
    }

    #[inline(always)]
    fn encrypt_last_round(self, block: __m128i, key: __m128i) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm_aesenclast_si128(block, key) }
    }

    #[inline(always)]
    fn next_round_key(self, key: __m128i, constant: __m128i) -> __m128i {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let rotated = _mm_shuffle_epi8(key, _mm_set1_epi32(0x0c0f_0e0d));
            let substituted = _mm_aesenclast_si128(rotated, constant);
            let folded = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
            let folded = _mm_xor_si128(folded, _mm_slli_si128::<8>(folded));
            _mm_xor_si128(folded, substituted)
        }
    }
}
