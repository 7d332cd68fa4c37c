//! Hashes of columns with carry-less multiplication of four pairs of words at a time.

use std::arch::x86_64::{
    __m512i, _mm512_bslli_epi128, _mm512_bsrli_epi128, _mm512_clmulepi64_epi128,
    _mm512_loadu_si512, _mm512_mask_mov_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_shuffle_i64x2, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use zeroize::Zeroizing;

use super::Wide;
use crate::{
    BASE_COUNT,
    extension::{Block, SEGMENT_BLOCKS, from_block, to_block},
    gf128::{POLYNOMIAL, Powers},
};

/// Blocks in a vector, and columns that are reduced together.
const LANES: usize = 4;

impl Wide {
    /// Returns the powers of an element, from 0 upwards.
    pub(crate) fn powers(self, element: u128) -> [Block; SEGMENT_BLOCKS] {
        // SAFETY: `self` exists, so the CPU has these features.
        unsafe { powers(element) }
    }

    /// Hashes one column.
    pub(crate) fn hash_column(self, column: &[Block], powers: &Powers) -> u128 {
        let mut padded = Zeroizing::new([[0; 2]; SEGMENT_BLOCKS]);
        padded[..column.len()].copy_from_slice(column);
        let (coefficients, _) = powers.coefficients().as_chunks();
        // SAFETY: `self` exists, so the CPU has these features.
        let [hash, ..] = unsafe { hash_quad([&*padded, &[], &[], &[]], coefficients) };
        from_block(hash)
    }

    /// Hashes 128 columns, `stride` blocks apart. Reads up to the next multiple of four blocks of
    /// each column.
    ///
    /// # Panics
    /// If the columns are shorter than that.
    pub(crate) fn hash_columns(
        self,
        columns: &[Block],
        stride: usize,
        powers: &Powers,
        hashes: &mut [u128; BASE_COUNT],
    ) {
        // SAFETY: `self` exists, so the CPU has these features.
        unsafe { hash_columns(columns, stride, powers, hashes) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn powers(element: u128) -> [Block; SEGMENT_BLOCKS] {
    let element = load(&[to_block(element); LANES]);
    let square = multiply(element, element);
    let (cube, step) = (multiply(square, element), multiply(square, square));
    let mut powers = [[0; 2]; SEGMENT_BLOCKS];
    let (vectors, _) = powers.as_chunks_mut::<LANES>();
    // Lane `i` takes the power `i`.
    let mut next = load(&[to_block(1); LANES]);
    next = _mm512_mask_mov_epi64(next, 0b0000_1100, element);
    next = _mm512_mask_mov_epi64(next, 0b0011_0000, square);
    next = _mm512_mask_mov_epi64(next, 0b1100_0000, cube);
    for vector in vectors {
        store(next, vector);
        next = multiply(next, step);
    }
    powers
}

/// Multiplies four pairs of elements.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn multiply(a: __m512i, b: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(a, b);
    let high = _mm512_clmulepi64_epi128::<0x11>(a, b);
    let middle = _mm512_xor_si512(
        _mm512_clmulepi64_epi128::<0x01>(a, b),
        _mm512_clmulepi64_epi128::<0x10>(a, b),
    );
    reduce(
        _mm512_xor_si512(low, _mm512_bslli_epi128::<8>(middle)),
        _mm512_xor_si512(high, _mm512_bsrli_epi128::<8>(middle)),
    )
}

#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn hash_columns(
    columns: &[Block],
    stride: usize,
    powers: &Powers,
    hashes: &mut [u128; BASE_COUNT],
) {
    let blocks = powers.blocks().next_multiple_of(LANES);
    let (coefficients, _) = powers.coefficients()[..blocks].as_chunks::<LANES>();
    let (quads, _) = hashes.as_chunks_mut::<LANES>();
    for (hashes, columns) in quads.iter_mut().zip(columns.chunks(LANES * stride)) {
        let columns = [0, 1, 2, 3].map(|i| &columns[i * stride..][..blocks]);
        *hashes = hash_quad(columns, coefficients).map(from_block);
    }
}

/// Hashes four columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn hash_quad(columns: [&[Block]; LANES], coefficients: &[[Block; LANES]]) -> [Block; LANES] {
    let mut sums = [[_mm512_setzero_si512(); 2]; LANES];
    for (sum, column) in sums.iter_mut().zip(columns) {
        *sum = products(column, coefficients);
    }
    let [a, b, c, d] = sums;
    let low = across(a[0], b[0], c[0], d[0]);
    let high = across(a[1], b[1], c[1], d[1]);
    let mut hashes = [[0; 2]; LANES];
    store(reduce(low, high), &mut hashes);
    hashes
}

/// Returns the low and the high halves of the sum of all products of a column, in four parts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn products(column: &[Block], coefficients: &[[Block; LANES]]) -> [__m512i; 2] {
    let zero = _mm512_setzero_si512();
    let (mut low, mut middle, mut high) = (zero, zero, zero);
    let (column, _) = column.as_chunks::<LANES>();
    for (blocks, powers) in column.iter().zip(coefficients) {
        let (z, p) = (load(blocks), load(powers));
        low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128::<0x00>(z, p));
        high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128::<0x11>(z, p));
        middle = xor3(
            middle,
            _mm512_clmulepi64_epi128::<0x01>(z, p),
            _mm512_clmulepi64_epi128::<0x10>(z, p),
        );
    }
    [
        _mm512_xor_si512(low, _mm512_bslli_epi128::<8>(middle)),
        _mm512_xor_si512(high, _mm512_bsrli_epi128::<8>(middle)),
    ]
}

/// Adds up the parts of each of four vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn across(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> __m512i {
    // Parts 0 and 1 of both, and parts 2 and 3.
    let halves = |x, y| {
        _mm512_xor_si512(
            _mm512_shuffle_i64x2::<0b01_00_01_00>(x, y),
            _mm512_shuffle_i64x2::<0b11_10_11_10>(x, y),
        )
    };
    let (x, y) = (halves(a, b), halves(c, d));
    _mm512_xor_si512(
        _mm512_shuffle_i64x2::<0b10_00_10_00>(x, y),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(x, y),
    )
}

/// Reduces four products of 256 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn reduce(low: __m512i, high: __m512i) -> __m512i {
    let polynomial = _mm512_set1_epi64(POLYNOMIAL as i64);
    let top = _mm512_clmulepi64_epi128::<0x01>(high, polynomial);
    // What the upper word carries beyond x^127 is at most seven bits.
    let rest = _mm512_xor_si512(high, _mm512_bsrli_epi128::<8>(top));
    xor3(
        low,
        _mm512_bslli_epi128::<8>(top),
        _mm512_clmulepi64_epi128::<0x00>(rest, polynomial),
    )
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(blocks: &[Block; LANES]) -> __m512i {
    // SAFETY: four blocks are 64 bytes that may be read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(vector: __m512i, blocks: &mut [Block; LANES]) {
    // SAFETY: four blocks are 64 bytes that may be written; the store needs no alignment.
    unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast(), vector) }
}
