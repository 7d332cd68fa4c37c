//! Eight elements of the field of order `2^255 - 19`, one per 64-bit lane, in five limbs of radix
//! `2^51`.
//!
//! The multiplier uses the low 52 bits of every limb. A limb of at most `2^51 + 2^15` is called
//! *reduced* below; every function takes and returns reduced elements. A sum of two reduced limbs
//! needs more than 52 bits, so additions propagate carries too.

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpeq_epi64_mask, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_mask_blend_epi64, _mm512_or_si512, _mm512_set_epi64,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srli_epi64,
    _mm512_sub_epi64, _mm512_test_epi64_mask,
};

use zeroize::Zeroize;

use super::LANES;

/// A set of lanes, one bit per lane.
pub(super) type Mask = u8;

const LIMBS: usize = 5;
const LIMB_BITS: u32 = 51;
const LOW: u64 = (1 << LIMB_BITS) - 1;

/// Twice the prime, whose limbs are at least as large as any reduced limb.
const TWICE_P: [u64; LIMBS] = [2 * (LOW - 18), 2 * LOW, 2 * LOW, 2 * LOW, 2 * LOW];

/// One field element in limbs, for constants and conversions.
pub(super) type Limbs = [u64; LIMBS];

/// Eight field elements, one per lane.
#[derive(Clone, Copy)]
pub(super) struct Field([__m512i; LIMBS]);

impl Zeroize for Field {
    fn zeroize(&mut self) {
        // SAFETY: vectors consist of words, all bit patterns are valid, and `self` is borrowed
        // exclusively.
        let words: &mut [u64; LIMBS * LANES] = unsafe { &mut *(&raw mut self.0).cast() };
        words.zeroize();
    }
}

impl Field {
    /// Returns the same element in every lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn splat(limbs: &Limbs) -> Self {
        let mut element = [_mm512_setzero_si512(); LIMBS];
        for (vector, limb) in element.iter_mut().zip(limbs) {
            *vector = _mm512_set1_epi64(*limb as i64);
        }
        Self(element)
    }

    /// Returns a small number in every lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn small(value: u64) -> Self {
        Self::splat(&[value, 0, 0, 0, 0])
    }

    /// Loads 32 little-endian bytes per lane; bit 255 is ignored.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn load(bytes: &[[u8; 32]; LANES]) -> Self {
        let mut lanes = [[0; LIMBS]; LANES];
        for (limbs, bytes) in lanes.iter_mut().zip(bytes) {
            let (words, _) = bytes.as_chunks::<8>();
            let word = |i: usize| u64::from_le_bytes(words[i]);
            *limbs = [
                word(0) & LOW,
                (word(0) >> 51 | word(1) << 13) & LOW,
                (word(1) >> 38 | word(2) << 26) & LOW,
                (word(2) >> 25 | word(3) << 39) & LOW,
                word(3) >> 12 & LOW,
            ];
        }
        let mut element = [_mm512_setzero_si512(); LIMBS];
        for (i, vector) in element.iter_mut().enumerate() {
            let lane = |lane: usize| lanes[lane][i] as i64;
            *vector = _mm512_set_epi64(
                lane(7),
                lane(6),
                lane(5),
                lane(4),
                lane(3),
                lane(2),
                lane(1),
                lane(0),
            );
        }
        lanes.zeroize();
        Self(element)
    }

    /// Returns the canonical 32 bytes of every lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn store(&self) -> [[u8; 32]; LANES] {
        let canonical = self.canonical();
        let limbs = canonical.0.each_ref().map(words);
        std::array::from_fn(|lane| {
            let limb = |i: usize| limbs[i][lane];
            let mut bytes = [0; 32];
            let words = [
                limb(0) | limb(1) << 51,
                limb(1) >> 13 | limb(2) << 38,
                limb(2) >> 26 | limb(3) << 25,
                limb(3) >> 39 | limb(4) << 12,
            ];
            let (chunks, _) = bytes.as_chunks_mut::<8>();
            for (chunk, word) in chunks.iter_mut().zip(words) {
                *chunk = word.to_le_bytes();
            }
            bytes
        })
    }

    /// Carries the bits above 51 of each limb to the next limb. The result is reduced if the limbs
    /// are below 2^63.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn carried(limbs: [__m512i; LIMBS]) -> Self {
        let low = _mm512_set1_epi64(LOW as i64);
        let mut carried = [_mm512_setzero_si512(); LIMBS];
        for (carried, limb) in carried.iter_mut().zip(&limbs) {
            *carried = _mm512_and_si512(*limb, low);
        }
        for i in 1..LIMBS {
            let carry = _mm512_srli_epi64::<LIMB_BITS>(limbs[i - 1]);
            carried[i] = _mm512_add_epi64(carried[i], carry);
        }
        // The top carry has the weight 2^255, which is 19 modulo the prime.
        let carry = _mm512_srli_epi64::<LIMB_BITS>(limbs[LIMBS - 1]);
        carried[0] = _mm512_madd52lo_epu64(carried[0], carry, _mm512_set1_epi64(19));
        Self(carried)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn add(&self, other: &Self) -> Self {
        let mut sum = self.0;
        for (sum, other) in sum.iter_mut().zip(&other.0) {
            *sum = _mm512_add_epi64(*sum, *other);
        }
        Self::carried(sum)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn sub(&self, other: &Self) -> Self {
        let mut sum = other.complement();
        for (sum, this) in sum.iter_mut().zip(&self.0) {
            *sum = _mm512_add_epi64(*sum, *this);
        }
        Self::carried(sum)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn neg(&self) -> Self {
        Self::carried(self.complement())
    }

    /// Returns twice the prime minus this element, limb by limb; the limbs are under 52 bits but
    /// not reduced.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn complement(&self) -> [__m512i; LIMBS] {
        let mut limbs = self.0;
        for (limb, twice) in limbs.iter_mut().zip(TWICE_P) {
            *limb = _mm512_sub_epi64(_mm512_set1_epi64(twice as i64), *limb);
        }
        limbs
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn mul(&self, other: &Self) -> Self {
        let (a, b) = (&self.0, &other.0);
        // The high part of a product has the weight 2^52 relative to its limb, which is twice the
        // weight of the next limb. So it is doubled.
        let mut sums = [_mm512_setzero_si512(); 2 * LIMBS];
        for i in 0..LIMBS {
            for j in 0..LIMBS {
                sums[i + j + 1] = _mm512_madd52hi_epu64(sums[i + j + 1], a[i], b[j]);
            }
        }
        for sum in &mut sums {
            *sum = _mm512_add_epi64(*sum, *sum);
        }
        for i in 0..LIMBS {
            for j in 0..LIMBS {
                sums[i + j] = _mm512_madd52lo_epu64(sums[i + j], a[i], b[j]);
            }
        }
        Self::folded(&sums)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn square(&self) -> Self {
        let a = &self.0;
        // The product of two different limbs occurs twice, so it is doubled.
        let mut sums = [_mm512_setzero_si512(); 2 * LIMBS];
        for i in 0..LIMBS {
            for j in i + 1..LIMBS {
                sums[i + j + 1] = _mm512_madd52hi_epu64(sums[i + j + 1], a[i], a[j]);
            }
        }
        for sum in &mut sums {
            *sum = _mm512_add_epi64(*sum, *sum);
        }
        for i in 0..LIMBS {
            sums[2 * i + 1] = _mm512_madd52hi_epu64(sums[2 * i + 1], a[i], a[i]);
            for j in i + 1..LIMBS {
                sums[i + j] = _mm512_madd52lo_epu64(sums[i + j], a[i], a[j]);
            }
        }
        for sum in &mut sums {
            *sum = _mm512_add_epi64(*sum, *sum);
        }
        for i in 0..LIMBS {
            sums[2 * i] = _mm512_madd52lo_epu64(sums[2 * i], a[i], a[i]);
        }
        Self::folded(&sums)
    }

    /// Reduces a product modulo the prime; every sum is at most 15 * 2^52.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn folded(sums: &[__m512i; 2 * LIMBS]) -> Self {
        let mut limbs = [_mm512_setzero_si512(); LIMBS];
        for (i, limb) in limbs.iter_mut().enumerate() {
            // 2^255 is 19 modulo the prime, so 19 times the upper half is added. The total is at
            // most 2^61.
            let upper = sums[i + LIMBS];
            let thrice = _mm512_add_epi64(_mm512_add_epi64(upper, upper), upper);
            let nineteen = _mm512_add_epi64(_mm512_slli_epi64::<4>(upper), thrice);
            *limb = _mm512_add_epi64(sums[i], nineteen);
        }
        Self::carried(limbs)
    }

    /// Returns this element to the power of `2^times`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn squared(&self, times: usize) -> Self {
        let mut power = *self;
        for _ in 0..times {
            power = power.square();
        }
        power
    }

    /// Returns this element to the powers `2^250 - 1` and 11.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn ones(&self) -> (Self, Self) {
        let nine = self.squared(1).squared(2).mul(self);
        let eleven = nine.mul(&self.square());
        let ones5 = eleven.square().mul(&nine);
        let ones10 = ones5.squared(5).mul(&ones5);
        let ones20 = ones10.squared(10).mul(&ones10);
        let ones40 = ones20.squared(20).mul(&ones20);
        let ones50 = ones40.squared(10).mul(&ones10);
        let ones100 = ones50.squared(50).mul(&ones50);
        let ones200 = ones100.squared(100).mul(&ones100);
        (ones200.squared(50).mul(&ones50), eleven)
    }

    /// Returns the inverse, or 0 for 0, as the power `p - 2 = 2^255 - 21`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn invert(&self) -> Self {
        let (ones250, eleven) = self.ones();
        ones250.squared(5).mul(&eleven)
    }

    /// Returns this element to the power `(p - 5) / 8 = 2^252 - 3`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn power_p58(&self) -> Self {
        self.ones().0.squared(2).mul(self)
    }

    /// Returns the representative below the prime, with limbs of 51 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn canonical(&self) -> Self {
        let low = _mm512_set1_epi64(LOW as i64);
        let nineteen = _mm512_set1_epi64(19);
        // A reduced element is less than twice the prime, so the quotient is 0 or 1.
        let mut quotient = nineteen;
        for limb in &self.0 {
            quotient = _mm512_srli_epi64::<LIMB_BITS>(_mm512_add_epi64(*limb, quotient));
        }
        let mut limbs = self.0;
        let mut carry = _mm512_madd52lo_epu64(_mm512_setzero_si512(), quotient, nineteen);
        for limb in &mut limbs {
            let sum = _mm512_add_epi64(*limb, carry);
            carry = _mm512_srli_epi64::<LIMB_BITS>(sum);
            *limb = _mm512_and_si512(sum, low);
        }
        Self(limbs)
    }

    /// Returns the lanes that are odd, which RFC 9496 calls negative.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn is_negative(&self) -> Mask {
        _mm512_test_epi64_mask(self.canonical().0[0], _mm512_set1_epi64(1))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn is_zero(&self) -> Mask {
        let canonical = self.canonical();
        let mut any = canonical.0[0];
        for limb in &canonical.0[1..] {
            any = _mm512_or_si512(any, *limb);
        }
        _mm512_cmpeq_epi64_mask(any, _mm512_setzero_si512())
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn equals(&self, other: &Self) -> Mask {
        self.sub(other).is_zero()
    }

    /// Replaces the lanes in `mask` by those of `other`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn replace(&mut self, mask: Mask, other: &Self) {
        for (this, other) in self.0.iter_mut().zip(&other.0) {
            *this = _mm512_mask_blend_epi64(mask, *this, *other);
        }
    }

    /// Negates the lanes in `mask`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn negate(&mut self, mask: Mask) {
        let negative = self.neg();
        self.replace(mask, &negative);
    }

    /// Returns the absolute value of RFC 9496: negates the odd lanes, so that all lanes are even.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn abs(mut self) -> Self {
        let negative = self.is_negative();
        self.negate(negative);
        self
    }
}

/// Returns the words of a vector, lane 0 first.
fn words(vector: &__m512i) -> [u64; LANES] {
    // SAFETY: both types have 64 bytes, and all bit patterns are valid words.
    unsafe { std::mem::transmute(*vector) }
}

#[cfg(test)]
mod tests;
