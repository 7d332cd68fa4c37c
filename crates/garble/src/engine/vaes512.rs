//! 512-bit registers: vector AES and AVX-512.
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

/// A CPU with vector AES, AVX-512 F, BW, DQ and VL, and all that [`AesNi`] needs.
#[derive(Clone, Copy)]
pub(crate) struct Vaes512(AesNi);

impl Vaes512 {
    /// Asks the CPU.
    pub(crate) fn detect() -> Option<Self> {
        let vectors = is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        AesNi::detect().filter(|_| vectors).map(Self)
    }

    /// The narrower instruction set this one includes.
    pub(crate) fn narrow(self) -> AesNi {
        self.0
    }

    /// Puts four lanes together.
    #[inline(always)]
    fn join(self, lanes: [__m128i; 4]) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let reg = _mm512_castsi128_si512(lanes[0]);
            let reg = _mm512_inserti32x4::<1>(reg, lanes[1]);
            let reg = _mm512_inserti32x4::<2>(reg, lanes[2]);
            _mm512_inserti32x4::<3>(reg, lanes[3])
        }
    }

    /// Takes the four lanes apart.
    #[inline(always)]
    fn parts(self, reg: __m512i) -> [__m128i; 4] {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            [
                _mm512_castsi512_si128(reg),
                _mm512_extracti32x4_epi32::<1>(reg),
                _mm512_extracti32x4_epi32::<2>(reg),
                _mm512_extracti32x4_epi32::<3>(reg),
            ]
        }
    }
}

impl Isa for Vaes512 {
    const LANES: usize = 4;
    const NARROW_REST: usize = 1;

    type Reg = __m512i;
    type Schedule = RoundKeys;

    #[inline(always)]
    fn splat(self, value: u128) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm512_broadcast_i32x4(self.0.splat(value)) }
    }

    #[inline(always)]
    fn counter(self, low: u64, step: u64, high: u64) -> __m512i {
        let step = step as i64;
        let first = self.splat(u128::from(high) << 64 | u128::from(low));
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let steps = _mm512_set_epi64(0, 3 * step, 0, 2 * step, 0, step, 0, 0);
            _mm512_add_epi64(first, steps)
        }
    }

    #[inline(always)]
    fn gather(self, from: &[Label], index: &[u32]) -> __m512i {
        self.join([
            self.0.gather(from, index),
            self.0.gather(from, &index[1..]),
            self.0.gather(from, &index[2..]),
            self.0.gather(from, &index[3..]),
        ])
    }

    #[inline(always)]
    fn scatter(self, reg: __m512i, to: &mut [Label], index: &[u32]) {
        let lanes = self.parts(reg);
        for i in 0..4 {
            self.0.scatter(lanes[i], to, &index[i..]);
        }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8], stride: usize) -> __m512i {
        self.join([
            self.0.load(bytes, stride),
            self.0.load(&bytes[stride..], stride),
            self.0.load(&bytes[2 * stride..], stride),
            self.0.load(&bytes[3 * stride..], stride),
        ])
    }

    #[inline(always)]
    fn store(self, reg: __m512i, bytes: &mut [u8], stride: usize) {
        let lanes = self.parts(reg);
        for i in 0..4 {
            self.0.store(lanes[i], &mut bytes[i * stride..], stride);
        }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn swap(self, reg: __m512i) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm512_shuffle_epi32::<0b01_00_11_10>(reg) }
    }

    #[inline(always)]
    fn join_low(self, low: __m512i, high: __m512i) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm512_unpacklo_epi64(low, high) }
    }

    #[inline(always)]
    fn double_halves(self, reg: __m512i) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let signs = _mm512_srai_epi64::<63>(reg);
            let carries = _mm512_and_si512(signs, _mm512_set1_epi64(0x1b));
            _mm512_xor_si512(_mm512_add_epi64(reg, reg), carries)
        }
    }

    #[inline(always)]
    fn colour_mask(self, reg: __m512i) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let signs = _mm512_srai_epi32::<31>(_mm512_slli_epi32::<31>(reg));
            _mm512_shuffle_epi32::<0>(signs)
        }
    }

    #[inline(always)]
    fn colours(self, reg: __m512i) -> u32 {
        // SAFETY: `self` proves the CPU features.
        let halves = unsafe { _mm512_test_epi64_mask(reg, _mm512_set1_epi64(1)) };
        // Keep the bits of the low halves and close the gaps.
        let bits = u32::from(halves) & 0b0101_0101;
        let bits = (bits | bits >> 1) & 0b0011_0011;
        (bits | bits >> 2) & 0b1111
    }

    #[inline(always)]
    fn mask(self, bits: u32) -> __m512i {
        // Two mask bits per lane.
        let bits = bits & 0b1111;
        let bits = (bits | bits << 2) & 0b0011_0011;
        let bits = (bits | bits << 1) & 0b0101_0101;
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm512_movm_epi64((bits * 3) as __mmask8) }
    }

    #[inline(always)]
    fn schedule(self, key: u128) -> RoundKeys {
        self.0.schedule(key)
    }

    #[inline(always)]
    fn encrypt<const N: usize>(self, keys: &RoundKeys, blocks: [__m512i; N]) -> [__m512i; N] {
        rounds::encrypt(self, keys, blocks)
    }

    #[inline(always)]
    fn encrypt_keyed<const N: usize, const B: usize>(
        self,
        keys: [__m512i; N],
        blocks: [[__m512i; N]; B],
    ) -> [[__m512i; N]; B] {
        rounds::encrypt_keyed(self, keys, blocks)
    }
}

impl AesRounds for Vaes512 {
    #[inline(always)]
    fn encrypt_round(self, block: __m512i, key: __m512i) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm512_aesenc_epi128(block, key) }
    }

    #[inline(always)]
    fn encrypt_last_round(self, block: __m512i, key: __m512i) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe { _mm512_aesenclast_epi128(block, key) }
    }

    #[inline(always)]
    fn next_round_key(self, key: __m512i, constant: __m512i) -> __m512i {
        // SAFETY: `self` proves the CPU features.
        unsafe {
            let rotated = _mm512_shuffle_epi8(key, _mm512_set1_epi32(0x0c0f_0e0d));
            let substituted = _mm512_aesenclast_epi128(rotated, constant);
            // Words (w0, w0^w1, w2, w2^w3), then w0^w1 into the upper two: one shift and one
            // masked shuffle, which go to different ports, instead of two shuffles.
            let folded = _mm512_xor_si512(key, _mm512_slli_epi64::<32>(key));
            let carried = _mm512_maskz_shuffle_epi32::<0b01_01_00_00>(0xcccc, folded);
            _mm512_ternarylogic_epi32::<0x96>(folded, carried, substituted)
        }
    }
}
