//! The instruction set with 512-bit registers: vector AES and AVX-512.
#![expect(
    unsafe_code,
    reason = "vector intrinsics; the only way to AES instructions on stable Rust"
)]

use std::arch::{asm, x86_64::*};

use super::{
    AesNi, MAX_WIDTH, Vaes256, Vectors,
    rounds::{AesRounds, TURN_WORDS},
};
use crate::Label;

/// A proof that the CPU has vector AES, AVX-512 F, BW, DQ and VL, BMI2, and the features of
/// [`AesNi`]. Values exist only after a check.
#[derive(Clone, Copy)]
pub(crate) struct Vaes512 {
    narrow: AesNi,
    pair: Vaes256,
}

impl Vaes512 {
    /// Returns the proof if the CPU has the features.
    pub(crate) fn detect() -> Option<Self> {
        let vectors = is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("bmi2");
        let (narrow, pair) = (AesNi::detect()?, Vaes256::detect()?);
        vectors.then_some(Self { narrow, pair })
    }

    /// Returns the instruction set with registers of one label, which this one includes.
    pub(crate) fn narrow(self) -> AesNi {
        self.narrow
    }

    /// Returns the instruction set with registers of two labels, which this one includes.
    pub(crate) fn pair(self) -> Vaes256 {
        self.pair
    }

    /// Joins four lanes.
    #[inline(always)]
    fn join(self, lanes: [__m128i; 4]) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let reg = _mm512_castsi128_si512(lanes[0]);
            let reg = _mm512_inserti32x4::<1>(reg, lanes[1]);
            let reg = _mm512_inserti32x4::<2>(reg, lanes[2]);
            _mm512_inserti32x4::<3>(reg, lanes[3])
        }
    }

    /// Splits a register into its four lanes.
    #[inline(always)]
    fn parts(self, reg: __m512i) -> [__m128i; 4] {
        // SAFETY: the CPU has the required features, as `self` proves.
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

/// Returns a mask with the bits `stride * i` for all `i` below [`MAX_WIDTH`].
#[inline(always)]
const fn every(stride: u32) -> u64 {
    let (mut bits, mut i) = (0, 0);
    while i < MAX_WIDTH as u32 {
        bits |= 1 << (stride * i);
        i += 1;
    }
    bits
}

impl Vectors for Vaes512 {
    const LANES: usize = 4;
    const NARROW_REST: usize = 1;
    const GROUPS: usize = 4;

    type Reg = __m512i;

    #[inline(always)]
    fn splat(self, value: u128) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_broadcast_i32x4(self.narrow.splat(value)) }
    }

    #[inline(always)]
    fn counter(self, low: u64, step: u64, high: u64) -> __m512i {
        let step = step as i64;
        let first = self.splat(u128::from(high) << 64 | u128::from(low));
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let steps = _mm512_set_epi64(0, 3 * step, 0, 2 * step, 0, step, 0, 0);
            _mm512_add_epi64(first, steps)
        }
    }

    #[inline(always)]
    unsafe fn gather(self, from: &[Label], index: &[u32]) -> __m512i {
        // SAFETY: the caller guarantees that the first 4 indices are below the length of `from`;
        // each call uses one.
        unsafe {
            self.join([
                self.narrow.gather(from, index),
                self.narrow.gather(from, &index[1..]),
                self.narrow.gather(from, &index[2..]),
                self.narrow.gather(from, &index[3..]),
            ])
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, reg: __m512i, to: &mut [Label], index: &[u32]) {
        let lanes = self.parts(reg);
        for i in 0..4 {
            // SAFETY: the caller guarantees that the first 4 indices are below the length of `to`;
            // each call uses one.
            unsafe { self.narrow.scatter(lanes[i], to, &index[i..]) };
        }
    }

    #[inline(always)]
    unsafe fn put_first(self, reg: __m512i, to: &mut [Label], slot: u32) {
        // SAFETY: the caller guarantees that `slot` is below the length of `to`.
        unsafe { self.narrow.put_first(self.parts(reg)[0], to, slot) }
    }

    #[inline(always)]
    fn load_labels(self, from: &[Label]) -> __m512i {
        let from = &from[..4];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 64 bytes.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_labels(self, reg: __m512i, to: &mut [Label]) {
        let to = &mut to[..4];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 64 bytes.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), reg) }
    }

    #[inline(always)]
    fn load_pairs(self, bytes: &[u8]) -> [__m512i; 2] {
        let bytes = &bytes[..128];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 128 bytes.
        unsafe {
            let low = _mm512_loadu_si512(bytes.as_ptr().cast());
            let high = _mm512_loadu_si512(bytes[64..].as_ptr().cast());
            let even = _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13);
            let odd = _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15);
            [
                _mm512_permutex2var_epi64(low, even, high),
                _mm512_permutex2var_epi64(low, odd, high),
            ]
        }
    }

    #[inline(always)]
    fn store_pairs(self, [first, second]: [__m512i; 2], bytes: &mut [u8]) {
        let bytes = &mut bytes[..128];
        // SAFETY: the CPU has the required features, as `self` proves; the slice has 128 bytes.
        unsafe {
            let low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
            let high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
            let low = _mm512_permutex2var_epi64(first, low, second);
            let high = _mm512_permutex2var_epi64(first, high, second);
            _mm512_storeu_si512(bytes.as_mut_ptr().cast(), low);
            _mm512_storeu_si512(bytes[64..].as_mut_ptr().cast(), high);
        }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8], stride: usize) -> __m512i {
        if stride == 16 {
            let bytes = &bytes[..64];
            // SAFETY: the CPU has the required features, as `self` proves; the slice has 64 bytes.
            return unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
        }
        self.join([
            self.narrow.load(bytes, stride),
            self.narrow.load(&bytes[stride..], stride),
            self.narrow.load(&bytes[2 * stride..], stride),
            self.narrow.load(&bytes[3 * stride..], stride),
        ])
    }

    #[inline(always)]
    fn store(self, reg: __m512i, bytes: &mut [u8], stride: usize) {
        if stride == 16 {
            let bytes = &mut bytes[..64];
            // SAFETY: the CPU has the required features, as `self` proves; the slice has 64 bytes.
            return unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), reg) };
        }
        let lanes = self.parts(reg);
        for i in 0..4 {
            self.narrow
                .store(lanes[i], &mut bytes[i * stride..], stride);
        }
    }

    #[inline(always)]
    fn swap_lanes(self, reg: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_permutex_epi64::<0b01_00_11_10>(reg) }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn swap(self, reg: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_shuffle_epi32::<0b01_00_11_10>(reg) }
    }

    #[inline(always)]
    fn join_low(self, low: __m512i, high: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_unpacklo_epi64(low, high) }
    }

    #[inline(always)]
    fn double_halves(self, reg: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let signs = _mm512_srai_epi64::<63>(reg);
            let carries = _mm512_and_si512(signs, _mm512_set1_epi64(0x1b));
            _mm512_xor_si512(_mm512_add_epi64(reg, reg), carries)
        }
    }

    #[inline(always)]
    fn colour_mask(self, reg: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let signs = _mm512_srai_epi32::<31>(_mm512_slli_epi32::<31>(reg));
            _mm512_shuffle_epi32::<0>(signs)
        }
    }

    #[inline(always)]
    fn colours(self, reg: __m512i) -> u32 {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let halves = _mm512_test_epi64_mask(reg, _mm512_set1_epi64(1));
            _pext_u32(halves.into(), 0b0101_0101)
        }
    }

    #[inline(always)]
    fn high_colours(self, reg: __m512i) -> u32 {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let halves = _mm512_test_epi64_mask(reg, _mm512_set1_epi64(1));
            _pext_u32(halves.into(), 0b1010_1010)
        }
    }

    #[inline(always)]
    fn spread(self, bits: u32, stride: u32) -> u64 {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _pdep_u64(bits.into(), every(stride)) }
    }

    #[inline(always)]
    fn collect(self, packed: u64, stride: u32) -> u32 {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _pext_u64(packed, every(stride)) as u32 }
    }

    #[inline(always)]
    fn mask(self, bits: u32) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            // The mask has two bits per lane.
            let bits = _pdep_u32(bits, 0b0101_0101) * 3;
            _mm512_movm_epi64(bits as __mmask8)
        }
    }
}

impl AesRounds for Vaes512 {
    #[inline(always)]
    fn start(self, block: __m512i, key: __m512i) -> __m512i {
        self.xor(block, key)
    }

    #[inline(always)]
    fn encrypt_round(self, block: __m512i, _before: __m512i, key: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_aesenc_epi128(block, key) }
    }

    #[inline(always)]
    fn encrypt_last_round(self, block: __m512i, _before: __m512i, key: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_aesenclast_epi128(block, key) }
    }

    #[inline(always)]
    fn next_round_key(self, key: __m512i, constant: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let rotated = _mm512_shuffle_epi8(key, _mm512_set1_epi32(0x0c0f_0e0d));
            let substituted = _mm512_aesenclast_epi128(rotated, constant);
            // First the words (w0, w0^w1, w2, w2^w3), then w0^w1 XORed into the upper two. One
            // shift and one masked shuffle use different execution ports, which two shuffles would
            // not.
            let folded = _mm512_xor_si512(key, _mm512_slli_epi64::<32>(key));
            let carried = _mm512_maskz_shuffle_epi32::<0b01_01_00_00>(0xcccc, folded);
            _mm512_ternarylogic_epi32::<0x96>(folded, carried, substituted)
        }
    }

    #[inline(always)]
    fn substitute_words(self, words: __m512i, constant: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves; the constant is readable for
        // 16 bytes.
        unsafe {
            let turn = _mm_loadu_si128(TURN_WORDS.as_ptr().cast());
            let turned = _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(turn));
            _mm512_aesenclast_epi128(turned, constant)
        }
    }

    #[inline(always)]
    fn middle_rounds(self) -> usize {
        self.narrow.middle_rounds()
    }

    #[inline(always)]
    fn splat_words(self, word: u32) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn xor3(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_ternarylogic_epi32::<0x96>(a, b, c) }
    }

    #[inline(always)]
    fn transpose(self, rows: [__m512i; 4]) -> [__m512i; 4] {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe {
            let low = [
                _mm512_unpacklo_epi32(rows[0], rows[1]),
                _mm512_unpacklo_epi32(rows[2], rows[3]),
            ];
            let high = [
                _mm512_unpackhi_epi32(rows[0], rows[1]),
                _mm512_unpackhi_epi32(rows[2], rows[3]),
            ];
            [
                _mm512_unpacklo_epi64(low[0], low[1]),
                _mm512_unpackhi_epi64(low[0], low[1]),
                _mm512_unpacklo_epi64(high[0], high[1]),
                _mm512_unpackhi_epi64(high[0], high[1]),
            ]
        }
    }

    #[inline(always)]
    fn in_order(self, first: __m512i, rows: [__m512i; 4]) -> (__m512i, [__m512i; 4]) {
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { in_order(first, rows) }
    }

    #[inline(always)]
    fn splat_split(self, first: u128, second: u128, split: usize) -> __m512i {
        // The mask has two bits per lane, starting at the split.
        let mask = (0xff_u32 << (2 * split.min(4))) as __mmask8;
        // SAFETY: the CPU has the required features, as `self` proves.
        unsafe { _mm512_mask_mov_epi64(self.splat(first), mask, self.splat(second)) }
    }
}

/// Implements [`AesRounds::in_order`].
#[inline]
#[target_feature(enable = "avx512f")]
fn in_order(mut first: __m512i, rows: [__m512i; 4]) -> (__m512i, [__m512i; 4]) {
    let [mut w0, mut w1, mut w2, mut w3] = rows;
    // SAFETY: the assembly contains no instructions, so it changes no state.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} */",
            inout(zmm_reg) first,
            inout(zmm_reg) w0,
            inout(zmm_reg) w1,
            inout(zmm_reg) w2,
            inout(zmm_reg) w3,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    (first, [w0, w1, w2, w3])
}
