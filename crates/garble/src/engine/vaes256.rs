//! The instruction set with 256-bit registers: vector AES and AVX2.
#![expect(
    unsafe_code,
    reason = "vector intrinsics; the only way to AES instructions on stable Rust"
)]

use std::arch::{asm, x86_64::*};

use super::{
    AesNi, Vectors,
    rounds::{AesRounds, TURN_WORDS},
};
use crate::Label;

/// A proof that the CPU has vector AES, AVX2 and the features of [`AesNi`]. Values exist only after
/// a check.
#[derive(Clone, Copy)]
pub(crate) struct Vaes256(AesNi);

impl Vaes256 {
    /// Returns the proof if the CPU has the features.
    pub(crate) fn detect() -> Option<Self> {
        let vectors = is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx2");
        AesNi::detect().filter(|_| vectors).map(Self)
    }

    /// Returns the instruction set with registers of one label, which this one includes.
    pub(crate) fn narrow(self) -> AesNi {
        self.0
    }

    /// Joins two lanes.
    #[inline(always)]
    fn pair(self, low: __m128i, high: __m128i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_set_m128i(high, low) }
    }

    /// Splits a register into its two lanes.
    #[inline(always)]
    fn parts(self, reg: __m256i) -> [__m128i; 2] {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            [
                _mm256_castsi256_si128(reg),
                _mm256_extracti128_si256::<1>(reg),
            ]
        }
    }
}

impl Vectors for Vaes256 {
    const LANES: usize = 2;
    const NARROW_REST: usize = 2;
    const GROUPS: usize = 2;

    type Reg = __m256i;

    #[inline(always)]
    fn splat(self, value: u128) -> __m256i {
        let (low, high) = (value as i64, (value >> 64) as i64);
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_set_epi64x(high, low, high, low) }
    }

    #[inline(always)]
    fn counter(self, low: u64, step: u64, high: u64) -> __m256i {
        let next = low.wrapping_add(step) as i64;
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_set_epi64x(high as i64, next, high as i64, low as i64) }
    }

    #[inline(always)]
    unsafe fn gather(self, from: &[Label], index: &[u32]) -> __m256i {
        // SAFETY: the caller guarantees that the first 2 indices are below the length of `from`;
        // each call uses one.
        unsafe { self.pair(self.0.gather(from, index), self.0.gather(from, &index[1..])) }
    }

    #[inline(always)]
    unsafe fn scatter(self, reg: __m256i, to: &mut [Label], index: &[u32]) {
        let lanes = self.parts(reg);
        for i in 0..2 {
            // SAFETY: the caller guarantees that the first 2 indices are below the length of `to`;
            // each call uses one.
            unsafe { self.0.scatter(lanes[i], to, &index[i..]) };
        }
    }

    #[inline(always)]
    unsafe fn put_first(self, reg: __m256i, to: &mut [Label], slot: u32) {
        // SAFETY: the caller guarantees that `slot` is below the length of `to`.
        unsafe { self.0.put_first(self.parts(reg)[0], to, slot) }
    }

    #[inline(always)]
    fn load_labels(self, from: &[Label]) -> __m256i {
        let from = &from[..2];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 32 bytes.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_labels(self, reg: __m256i, to: &mut [Label]) {
        let to = &mut to[..2];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 32 bytes.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), reg) }
    }

    #[inline(always)]
    fn load_pairs(self, bytes: &[u8]) -> [__m256i; 2] {
        let (low, high) = (self.load(bytes, 16), self.load(&bytes[32..], 16));
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            [
                _mm256_permute2x128_si256::<0x20>(low, high),
                _mm256_permute2x128_si256::<0x31>(low, high),
            ]
        }
    }

    #[inline(always)]
    fn store_pairs(self, [first, second]: [__m256i; 2], bytes: &mut [u8]) {
        // SAFETY: the CPU has the required features, as `self` proves.
        let (low, high) = unsafe {
            (
                _mm256_permute2x128_si256::<0x20>(first, second),
                _mm256_permute2x128_si256::<0x31>(first, second),
            )
        };
        self.store(low, bytes, 16);
        self.store(high, &mut bytes[32..], 16);
    }

    #[inline(always)]
    fn load(self, bytes: &[u8], stride: usize) -> __m256i {
        if stride == 16 {
            let bytes = &bytes[..32];
            // SAFETY: the CPU has the required features, as `self` proves; the slice has 32 bytes.
            return unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        }
        self.pair(
            self.0.load(bytes, stride),
            self.0.load(&bytes[stride..], stride),
        )
    }

    #[inline(always)]
    fn store(self, reg: __m256i, bytes: &mut [u8], stride: usize) {
        if stride == 16 {
            let bytes = &mut bytes[..32];
            // SAFETY: the CPU has the required features, as `self` proves; the slice has 32 bytes.
            return unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), reg) };
        }
        let [low, high] = self.parts(reg);
        self.0.store(low, bytes, stride);
        self.0.store(high, &mut bytes[stride..], stride);
    }

    #[inline(always)]
    fn swap_lanes(self, reg: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_permute4x64_epi64::<0b01_00_11_10>(reg) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn swap(self, reg: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_shuffle_epi32::<0b01_00_11_10>(reg) }
    }

    #[inline(always)]
    fn join_low(self, low: __m256i, high: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_unpacklo_epi64(low, high) }
    }

    #[inline(always)]
    fn double_halves(self, reg: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let signs = _mm256_cmpgt_epi64(_mm256_setzero_si256(), reg);
            let carries = _mm256_and_si256(signs, _mm256_set1_epi64x(0x1b));
            _mm256_xor_si256(_mm256_add_epi64(reg, reg), carries)
        }
    }

    #[inline(always)]
    fn colour_mask(self, reg: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let signs = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<31>(reg));
            _mm256_shuffle_epi32::<0>(signs)
        }
    }

    #[inline(always)]
    fn colours(self, reg: __m256i) -> u32 {
        // SAFETY: the CPU has the required features, as `self` proves.
        let signs =
            unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_slli_epi64::<63>(reg))) };
        (signs & 1 | signs >> 1 & 2) as u32
    }

    #[inline(always)]
    fn mask(self, bits: u32) -> __m256i {
        self.pair(self.0.mask(bits), self.0.mask(bits >> 1))
    }
}

impl AesRounds for Vaes256 {
    #[inline(always)]
    fn start(self, block: __m256i, key: __m256i) -> __m256i {
        self.xor(block, key)
    }

    #[inline(always)]
    fn encrypt_round(self, block: __m256i, _before: __m256i, key: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_aesenc_epi128(block, key) }
    }

    #[inline(always)]
    fn encrypt_last_round(self, block: __m256i, _before: __m256i, key: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_aesenclast_epi128(block, key) }
    }

    #[inline(always)]
    fn next_round_key(self, key: __m256i, constant: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let rotated = _mm256_shuffle_epi8(key, _mm256_set1_epi32(0x0c0f_0e0d));
            let substituted = _mm256_aesenclast_epi128(rotated, constant);
            let folded = _mm256_xor_si256(key, _mm256_slli_si256::<4>(key));
            let folded = _mm256_xor_si256(folded, _mm256_slli_si256::<8>(folded));
            _mm256_xor_si256(folded, substituted)
        }
    }

    #[inline(always)]
    fn substitute_words(self, words: __m256i, constant: __m256i) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves; the constant is readable for
        // 16 bytes.
        unsafe {
            let turn = _mm_loadu_si128(TURN_WORDS.as_ptr().cast());
            let turned = _mm256_shuffle_epi8(words, _mm256_broadcastsi128_si256(turn));
            _mm256_aesenclast_epi128(turned, constant)
        }
    }

    #[inline(always)]
    fn middle_rounds(self) -> usize {
        self.0.middle_rounds()
    }

    #[inline(always)]
    fn splat_words(self, word: u32) -> __m256i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm256_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn xor3(self, a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        self.xor(self.xor(a, b), c)
    }

    #[inline(always)]
    fn transpose(self, rows: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let low = [
                _mm256_unpacklo_epi32(rows[0], rows[1]),
                _mm256_unpacklo_epi32(rows[2], rows[3]),
            ];
            let high = [
                _mm256_unpackhi_epi32(rows[0], rows[1]),
                _mm256_unpackhi_epi32(rows[2], rows[3]),
            ];
            [
                _mm256_unpacklo_epi64(low[0], low[1]),
                _mm256_unpackhi_epi64(low[0], low[1]),
                _mm256_unpacklo_epi64(high[0], high[1]),
                _mm256_unpackhi_epi64(high[0], high[1]),
            ]
        }
    }

    #[inline(always)]
    fn in_order(self, first: __m256i, rows: [__m256i; 4]) -> (__m256i, [__m256i; 4]) {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { in_order(first, rows) }
    }

    #[inline(always)]
    fn splat_split(self, first: u128, second: u128, _split: usize) -> __m256i {
        self.pair(self.0.splat(first), self.0.splat(second))
    }
}

/// Implements [`AesRounds::in_order`].
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(mut first: __m256i, rows: [__m256i; 4]) -> (__m256i, [__m256i; 4]) {
    let [mut w0, mut w1, mut w2, mut w3] = rows;
    // SAFETY: the assembly contains no instructions, so it changes no state.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} */",
            inout(ymm_reg) first,
            inout(ymm_reg) w0,
            inout(ymm_reg) w1,
            inout(ymm_reg) w2,
            inout(ymm_reg) w3,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    (first, [w0, w1, w2, w3])
}
