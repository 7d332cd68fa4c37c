//! Column hashes with carry-less multiplication of four pairs of words at a time.

use std::arch::x86_64::{
    __m512i, _mm512_bslli_epi128, _mm512_bsrli_epi128, _mm512_clmulepi64_epi128,
    _mm512_loadu_si512, _mm512_mask_mov_epi64, _mm512_set_epi64, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_shuffle_epi32, _mm512_shuffle_i64x2, _mm512_slli_epi64,
    _mm512_srai_epi64, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};
use std::array;

use super::Wide;
use crate::{
    extension::{Block, SEGMENT_BLOCKS, from_block, to_block},
    gf128::{POLYNOMIAL, Powers},
};

/// A shuffle of 32-bit words that swaps the 64-bit words of each block.
const SWAP_WORDS: i32 = 0b01_00_11_10;

const ZEROS: [Block; SEGMENT_BLOCKS] = [[0; 2]; SEGMENT_BLOCKS];

/// Number of groups that share loads of the coefficients.
const PAIR_GROUPS: usize = 2;

/// Number of blocks in a vector, and of groups that are reduced together.
const LANES: usize = 4;

impl Wide {
    /// Returns the powers of an element, starting with power 0.
    pub(crate) fn powers(self, element: u128) -> [Block; SEGMENT_BLOCKS] {
        // SAFETY: a `Wide` value exists only if the CPU has these features.
        unsafe { powers(element) }
    }

    /// Hashes groups of `k` columns, at intervals of `stride` blocks. Each column is read up to the
    /// next multiple of four blocks.
    ///
    /// # Panics
    /// Panics if the columns are shorter than that.
    pub(crate) fn hash_groups(
        self,
        columns: &[Block],
        stride: usize,
        k: usize,
        powers: &Powers,
        hashes: &mut [u128],
    ) {
        let hash = match k {
            1 => hash_groups::<1>,
            2 => hash_groups::<2>,
            4 => hash_groups::<4>,
            _ => hash_groups::<8>,
        };
        // SAFETY: a `Wide` value exists only if the CPU has these features.
        unsafe { hash(columns, stride, powers, hashes) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn powers(element: u128) -> [Block; SEGMENT_BLOCKS] {
    let element = load(&[to_block(element); LANES]);
    let square = multiply(element, element);
    let (cube, step) = (multiply(square, element), multiply(square, square));
    let mut powers = [[0; 2]; SEGMENT_BLOCKS];
    let (vectors, _) = powers.as_chunks_mut::<LANES>();
    // Lane `i` starts with power `i`.
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
fn hash_groups<const K: usize>(
    columns: &[Block],
    stride: usize,
    powers: &Powers,
    hashes: &mut [u128],
) {
    for (hashes, columns) in hashes
        .chunks_mut(LANES)
        .zip(columns.chunks(LANES * K * stride))
    {
        let (first, second) = columns.split_at(columns.len().min(PAIR_GROUPS * K * stride));
        let [a, b] = products::<K>(first, stride, powers);
        let [c, d] = products::<K>(second, stride, powers);
        let low = across(a[0], b[0], c[0], d[0]);
        let high = across(a[1], b[1], c[1], d[1]);
        let mut reduced = [[0; 2]; LANES];
        store(reduce(low, high), &mut reduced);
        for (hash, reduced) in hashes.iter_mut().zip(reduced) {
            *hash = from_block(reduced);
        }
    }
}

/// Returns the low and the high halves of the sums of all products of two groups, in four partial
/// sums each. A missing group is treated as zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn products<const K: usize>(
    columns: &[Block],
    stride: usize,
    powers: &Powers,
) -> [[__m512i; 2]; PAIR_GROUPS] {
    let vectors = powers.blocks().div_ceil(LANES);
    let coefficients = &powers.coefficients.as_chunks::<LANES>().0[..vectors];
    let folded = &powers.folded.as_chunks::<LANES>().0[..vectors];
    let column = |index: usize| {
        let column = columns
            .get(index * stride..)
            .filter(|column| !column.is_empty());
        let column = column.unwrap_or(&ZEROS);
        &column.as_chunks::<LANES>().0[..vectors]
    };
    let first: [_; K] = array::from_fn(column);
    let second: [_; K] = array::from_fn(|j| column(K + j));
    let mut sums = [[_mm512_setzero_si512(); 3]; PAIR_GROUPS];
    for (i, (p, folded)) in coefficients.iter().zip(folded).enumerate() {
        let (p, folded) = (load(p), load(folded));
        accumulate(&mut sums[0], combine(&first, i), p, folded);
        accumulate(&mut sums[1], combine(&second, i), p, folded);
    }
    let mut halves = [[_mm512_setzero_si512(); 2]; PAIR_GROUPS];
    for (halves, [low, middle, high]) in halves.iter_mut().zip(sums) {
        let middle = xor3(middle, low, high);
        *halves = [
            _mm512_xor_si512(low, _mm512_bslli_epi128::<8>(middle)),
            _mm512_xor_si512(high, _mm512_bsrli_epi128::<8>(middle)),
        ];
    }
    halves
}

/// Returns the sum of `x^j` times vector `i` of column `j` over all columns `j` of a group.
#[inline]
#[target_feature(enable = "avx512f")]
fn combine<const K: usize>(columns: &[&[[Block; LANES]]; K], i: usize) -> __m512i {
    let mut z = load(&columns[K - 1][i]);
    for column in columns[..K - 1].iter().rev() {
        z = _mm512_xor_si512(double(z), load(&column[i]));
    }
    z
}

/// Adds products to the low, middle and high sums, with three multiplications per block
/// (Karatsuba).
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn accumulate(sums: &mut [__m512i; 3], z: __m512i, p: __m512i, folded: __m512i) {
    let both = _mm512_xor_si512(z, _mm512_shuffle_epi32::<SWAP_WORDS>(z));
    sums[0] = _mm512_xor_si512(sums[0], _mm512_clmulepi64_epi128::<0x00>(z, p));
    sums[1] = _mm512_xor_si512(sums[1], _mm512_clmulepi64_epi128::<0x00>(both, folded));
    sums[2] = _mm512_xor_si512(sums[2], _mm512_clmulepi64_epi128::<0x11>(z, p));
}

/// Multiplies four elements by x.
#[inline]
#[target_feature(enable = "avx512f")]
fn double(z: __m512i) -> __m512i {
    let polynomial = POLYNOMIAL as i64;
    let carried = _mm512_set_epi64(1, polynomial, 1, polynomial, 1, polynomial, 1, polynomial);
    // Spread the top bit of each word over the other word of its block.
    let top = _mm512_shuffle_epi32::<SWAP_WORDS>(_mm512_srai_epi64::<63>(z));
    // The ternary function is a ^ (b & c).
    _mm512_ternarylogic_epi64::<0x78>(_mm512_slli_epi64::<1>(z), top, carried)
}

/// Adds the four partial sums of each of four vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn across(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> __m512i {
    // Adds parts 0 and 1 of both vectors to their parts 2 and 3.
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

/// Reduces four 256-bit products modulo the polynomial.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn reduce(low: __m512i, high: __m512i) -> __m512i {
    let polynomial = _mm512_set1_epi64(POLYNOMIAL as i64);
    let top = _mm512_clmulepi64_epi128::<0x01>(high, polynomial);
    // The upper word carries at most seven bits beyond x^127.
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
    // SAFETY: four blocks are 64 readable bytes, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(vector: __m512i, blocks: &mut [Block; LANES]) {
    // SAFETY: four blocks are 64 writable bytes, and the store needs no alignment.
    unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast(), vector) }
}
