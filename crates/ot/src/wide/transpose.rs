//! Transposition of 128 columns of 512 bits to 512 rows, with the bit-matrix instruction of GFNI.
//!
//! An 8 x 8 square is a 64-bit word that one instruction transposes. The other steps only move
//! bytes: three levels of interleaving before it and four after it.

use std::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_permutex2var_epi32,
    _mm512_set_epi32, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_unpackhi_epi8, _mm512_unpackhi_epi16, _mm512_unpackhi_epi32, _mm512_unpacklo_epi8,
    _mm512_unpacklo_epi16, _mm512_unpacklo_epi32,
};

use zeroize::Zeroize;

use super::Wide;
use crate::extension::Block;
use crate::transpose::{COLUMNS, TILE_ROWS, TILES};

/// Number of rows and columns of a block of bits, called square.
const SIDE: usize = 8;

/// Number of groups of eight columns.
const GROUPS: usize = COLUMNS / SIDE;

/// All transposed blocks of 8 x 8 bits. A vector contains two bytes of each 128-bit part of the
/// columns of one group.
type Squares = [[__m512i; GROUPS]; SIDE];

/// The buffer of the transposition, wiped on drop.
pub(crate) struct Scratch(Squares);

impl Scratch {
    pub(crate) fn new(_: Wide) -> Self {
        // SAFETY: a `Wide` value exists only if the CPU has AVX-512.
        Self([[unsafe { _mm512_setzero_si512() }; GROUPS]; SIDE])
    }

    /// Transposes 128 columns; column `i` starts at `columns[i * stride]`.
    ///
    /// # Panics
    /// Panics if there are fewer than 128 columns.
    pub(crate) fn transpose(
        &mut self,
        columns: &[Block],
        stride: usize,
        rows: &mut [u128; TILE_ROWS],
    ) {
        // SAFETY: constructing a `Scratch` takes a `Wide`, which exists only if the CPU has the
        // features.
        unsafe {
            squares(columns, stride, &mut self.0);
            assemble(&self.0, rows);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: vectors consist of words, all bit patterns are valid, and `self` is borrowed
        // exclusively.
        let words: &mut [u64; 8 * GROUPS * SIDE] = unsafe { &mut *(&raw mut self.0).cast() };
        words.zeroize();
    }
}

/// Computes the transposed squares. Byte `j` of a word of group `g` has the bits of columns `8 g..8
/// g + 8` in a row whose number is `j` modulo 8. Vector `m` has, in part `l`, the words of the rows
/// from `128 l + 16 m` and from `128 l + 16 m + 8` on.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn squares(columns: &[Block], stride: usize, squares: &mut Squares) {
    // The instruction numbers the rows of its matrix from the last byte.
    let transposed = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    for group in 0..GROUPS {
        let mut r = [_mm512_setzero_si512(); SIDE];
        for (i, column) in r.iter_mut().rev().enumerate() {
            *column = load(&columns[(group * SIDE + i) * stride..]);
        }
        for (low, high) in [(0, 1), (2, 3), (4, 5), (6, 7)] {
            (r[low], r[high]) = (
                _mm512_unpacklo_epi8(r[low], r[high]),
                _mm512_unpackhi_epi8(r[low], r[high]),
            );
        }
        for (low, high) in [(0, 2), (1, 3), (4, 6), (5, 7)] {
            (r[low], r[high]) = (
                _mm512_unpacklo_epi16(r[low], r[high]),
                _mm512_unpackhi_epi16(r[low], r[high]),
            );
        }
        for (low, high) in [(0, 4), (1, 5), (2, 6), (3, 7)] {
            (r[low], r[high]) = (
                _mm512_unpacklo_epi32(r[low], r[high]),
                _mm512_unpackhi_epi32(r[low], r[high]),
            );
        }
        // Bytes 0 and 1 of each part are in register 0; the next pairs are in registers 4, 2, 6, 1,
        // 5, 3 and 7.
        for (m, from) in [0, 4, 2, 6, 1, 5, 3, 7].into_iter().enumerate() {
            squares[m][group] = _mm512_gf2p8affine_epi64_epi8::<0>(transposed, r[from]);
        }
    }
}

/// Assembles the rows from the bytes of their groups of columns.
#[target_feature(enable = "avx512f,avx512bw")]
fn assemble(squares: &Squares, rows: &mut [u128; TILE_ROWS]) {
    // From two vectors of 4-byte pieces: pairs of pieces of parts 0 and 1, or of parts 2 and 3.
    let parts01 = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    let parts23 = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    // From two vectors of such pairs: all pieces of the lower or of the upper part.
    let lower = _mm512_set_epi32(23, 22, 7, 6, 21, 20, 5, 4, 19, 18, 3, 2, 17, 16, 1, 0);
    let upper = _mm512_set_epi32(31, 30, 15, 14, 29, 28, 13, 12, 27, 26, 11, 10, 25, 24, 9, 8);

    for (m, groups) in squares.iter().enumerate() {
        // For each half word of the part: rows `0..4` and `4..8` of the square, of four groups.
        let mut pieces = [[_mm512_setzero_si512(); 4]; 4];
        let (quads, _) = groups.as_chunks::<4>();
        for (quad, [a, b, c, d]) in quads.iter().enumerate() {
            let first = [_mm512_unpacklo_epi8(*a, *b), _mm512_unpacklo_epi8(*c, *d)];
            let second = [_mm512_unpackhi_epi8(*a, *b), _mm512_unpackhi_epi8(*c, *d)];
            pieces[0][quad] = _mm512_unpacklo_epi16(first[0], first[1]);
            pieces[1][quad] = _mm512_unpackhi_epi16(first[0], first[1]);
            pieces[2][quad] = _mm512_unpacklo_epi16(second[0], second[1]);
            pieces[3][quad] = _mm512_unpackhi_epi16(second[0], second[1]);
        }
        for (quarter, [a, b, c, d]) in pieces.iter().enumerate() {
            for (parts, first) in [(parts01, 0), (parts23, 2)] {
                let left = _mm512_permutex2var_epi32(*a, parts, *b);
                let right = _mm512_permutex2var_epi32(*c, parts, *d);
                for (choose, part) in [(lower, first), (upper, first + 1)] {
                    let four = _mm512_permutex2var_epi32(left, choose, right);
                    store(four, &mut rows[128 * part + 16 * m + 4 * quarter..]);
                }
            }
        }
    }
}

/// Loads four blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(blocks: &[Block]) -> __m512i {
    let blocks = &blocks[..TILES];
    // SAFETY: the slice is 64 readable bytes, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }
}

/// Stores four rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(four: __m512i, rows: &mut [u128]) {
    let rows = &mut rows[..4];
    // SAFETY: the slice is 64 writable bytes, and the store needs no alignment.
    unsafe { _mm512_storeu_si512(rows.as_mut_ptr().cast(), four) };
}
