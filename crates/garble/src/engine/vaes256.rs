//! 256-bit registers: vector AES and AVX2.
#![expect(
    unsafe_code,
    reason = "vector intrinsics; the only way to AES instructions on stable Rust"
)]

use std::arch::x86_64::*;

use super::{
    AesNi, Isa,
    rounds::{self, AesRounds, RoundKeys},
};
use crate::Label;

/// A CPU with vector AES, AVX2 and all that [`AesNi`] needs.
#[derive(Clone, Copy)]
pub(crate) struct Vaes256(AesNi);

impl Vaes256 {
    /// Asks the CPU.
    pub(crate) fn detect() -> Option<Self> {
        let vectors = is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx2");
        AesNi::detect().filter(|_| vectors).map(Self)
    }

    /// The narrower instruction set this one includes.
    pub(crate) fn narrow(self) -> AesNi {
        self.0
    }

    /// Puts two lanes together.
    #[inline(always)]
    fn pair(self, low: __m128i, high: __m128i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm256_set_m128i(high, low) }
    }

    /// Takes the two lanes apart.
    #[inline(always)]
    fn parts(self, reg: __m256i) -> [__m128i; 2] {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            [
                _mm256_castsi256_si128(reg),
                _mm256_extracti128_si256::<1>(reg),
            ]
        }
    }
}

impl Isa for Vaes256 {
    const LANES: usize = 2;
    const NARROW_REST: usize = 2;

    type Reg = __m256i;
    type Schedule = RoundKeys;

    #[inline(always)]
    fn splat(self, value: u128) -> __m256i {
        let (low, high) = (value as i64, (value >> 64) as i64);
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm256_set_epi64x(high, low, high, low) }
    }

    #[inline(always)]
    fn counter(self, low: u64, step: u64, high: u64) -> __m256i {
        let next = low.wrapping_add(step) as i64;
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm256_set_epi64x(high as i64, next, high as i64, low as i64) }
    }

    #[inline(always)]
    fn gather(self, from: &[Label], index: &[u32]) -> __m256i {
        self.pair(self.0.gather(from, index), self.0.gather(from, &index[1..]))
    }

    #[inline(always)]
    fn scatter(self, reg: __m256i, to: &mut [Label], index: &[u32]) {
        let [low, high] = self.parts(reg);
        self.0.scatter(low, to, index);
        self.0.scatter(high, to, &index[1..]);
    }

    #[inline(always)]
    fn load(self, bytes: &[u8], stride: usize) -> __m256i {
        self.pair(
            self.0.load(bytes, stride),
            self.0.load(&bytes[stride..], stride),
        )
    }

    #[inline(always)]
    fn store(self, reg: __m256i, bytes: &mut [u8], stride: usize) {
        let [low, high] = self.parts(reg);
        self.0.store(low, bytes, stride);
        self.0.store(high, &mut bytes[stride..], stride);
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn swap(self, reg: __m256i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm256_shuffle_epi32::<0b01_00_11_10>(reg) }
    }

    #[inline(always)]
    fn join_low(self, low: __m256i, high: __m256i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm256_unpacklo_epi64(low, high) }
    }

    #[inline(always)]
    fn double_halves(self, reg: __m256i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let signs = _mm256_cmpgt_epi64(_mm256_setzero_si256(), reg);
            let carries = _mm256_and_si256(signs, _mm256_set1_epi64x(0x1b));
            _mm256_xor_si256(_mm256_add_epi64(reg, reg), carries)
        }
    }

    #[inline(always)]
    fn colour_mask(self, reg: __m256i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let signs = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<31>(reg));
            _mm256_shuffle_epi32::<0>(signs)
        }
    }

    #[inline(always)]
    fn colours(self, reg: __m256i) -> u32 {
        // SAFETY: `self` proves the CPU features.
        let signs =
            unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_slli_epi64::<63>(reg))) };
        (signs & 1 | signs >> 1 & 2) as u32
    }

    #[inline(always)]
    fn mask(self, bits: u32) -> __m256i {
        self.pair(self.0.mask(bits), self.0.mask(bits >> 1))
    }

    #[inline(always)]
    fn schedule(self, key: u128) -> RoundKeys {
        self.0.schedule(key)
    }

    #[inline(always)]
    fn encrypt<const N: usize>(self, keys: &RoundKeys, blocks: [__m256i; N]) -> [__m256i; N] {
        rounds::encrypt(self, keys, blocks)
    }

    #[inline(always)]
    fn encrypt_keyed<const N: usize, const B: usize>(
        self,
        keys: [__m256i; N],
        blocks: [[__m256i; N]; B],
    ) -> [[__m256i; N]; B] {
        rounds::encrypt_keyed(self, keys, blocks)
    }
}

impl AesRounds for Vaes256 {
    #[inline(always)]
    fn encrypt_round(self, block: __m256i, key: __m256i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm256_aesenc_epi128(block, key) }
    }

    #[inline(always)]
    fn encrypt_last_round(self, block: __m256i, key: __m256i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm256_aesenclast_epi128(block, key) }
    }

    #[inline(always)]
    fn next_round_key(self, key: __m256i, constant: __m256i) -> __m256i {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let rotated = _mm256_shuffle_epi8(key, _mm256_set1_epi32(0x0c0f_0e0d));
            let substituted = _mm256_aesenclast_epi128(rotated, constant);
            let folded = _mm256_xor_si256(key, _mm256_slli_si256::<4>(key));
            let folded = _mm256_xor_si256(folded, _mm256_slli_si256::<8>(folded));
            _mm256_xor_si256(folded, substituted)
        }
    }
}
