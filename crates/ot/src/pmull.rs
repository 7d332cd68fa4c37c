//! Column hashes with the carry-less multiplication of ARM64, selected at run time. They return the
//! same bytes as the portable code.

#![expect(unsafe_code, reason = "calls, loads and stores of SIMD kernels")]

use std::arch::{
    aarch64::{
        uint64x2_t, vandq_u64, vdupq_n_u64, veorq_u64, vextq_u64, vgetq_lane_u64, vld1q_u64,
        vmull_high_p64, vmull_p64, vreinterpretq_p64_u64, vreinterpretq_s64_u64,
        vreinterpretq_u64_p128, vreinterpretq_u64_s64, vshlq_n_u64, vshrq_n_s64, vst1q_u64,
    },
    is_aarch64_feature_detected,
};

use crate::{
    extension::{Block, SEGMENT_BLOCKS, from_block, to_block},
    gf128::{POLYNOMIAL, Powers},
};

/// Number of groups that are hashed together. They share loads of the coefficients, and hide the
/// latency of each other's sums.
const PAIR: usize = 2;

/// The proof that this CPU has PMULL and is little-endian.
#[derive(Clone, Copy)]
pub(crate) struct Pmull(());

impl Pmull {
    /// Returns the proof if the CPU has the features; the standard library caches the detection.
    pub(crate) fn detect() -> Option<Self> {
        // Rust has one feature for the AES instructions and PMULL. Products are reinterpreted as
        // words, which gives another order of words on a big-endian CPU.
        let found = cfg!(target_endian = "little") && is_aarch64_feature_detected!("aes");
        found.then_some(Self(()))
    }

    /// Returns the powers of an element, starting with power 0.
    pub(crate) fn powers(self, element: u128) -> [Block; SEGMENT_BLOCKS] {
        // SAFETY: a `Pmull` value exists only if the CPU has these features.
        unsafe { powers(element) }
    }

    /// Hashes groups of `k` columns, at intervals of `stride` blocks.
    ///
    /// # Panics
    /// Panics if a column has fewer blocks than there are powers.
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
        // SAFETY: a `Pmull` value exists only if the CPU has these features.
        unsafe { hash(columns, stride, powers, hashes) }
    }
}

#[target_feature(enable = "neon,aes")]
fn powers(element: u128) -> [Block; SEGMENT_BLOCKS] {
    let element = load(&to_block(element));
    let square = multiply(element, element);
    let step = multiply(square, square);
    // Four sequences of powers hide the latency of a multiplication.
    let one = load(&to_block(1));
    let mut next = [one, element, square, multiply(square, element)];
    let mut powers = [[0; 2]; SEGMENT_BLOCKS];
    for part in powers.as_chunks_mut::<4>().0 {
        for (power, next) in part.iter_mut().zip(&mut next) {
            *power = store(*next);
            *next = multiply(*next, step);
        }
    }
    powers
}

/// Multiplies two elements.
#[inline]
#[target_feature(enable = "neon,aes")]
fn multiply(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    let swapped = swap(b);
    let middle = veorq_u64(multiply_low(a, swapped), multiply_high(a, swapped));
    reduce([multiply_low(a, b), middle, multiply_high(a, b)])
}

#[target_feature(enable = "neon,aes")]
fn hash_groups<const K: usize>(
    columns: &[Block],
    stride: usize,
    powers: &Powers,
    hashes: &mut [u128],
) {
    let (pairs, rest) = hashes.as_chunks_mut::<PAIR>();
    let single = pairs.len() * PAIR * K * stride;
    for (hashes, columns) in pairs.iter_mut().zip(columns.chunks(PAIR * K * stride)) {
        *hashes = hash_some::<K, PAIR>(columns, stride, powers);
    }
    for (hash, columns) in rest.iter_mut().zip(columns[single..].chunks(K * stride)) {
        [*hash] = hash_some::<K, 1>(columns, stride, powers);
    }
}

/// Returns the hashes of `G` groups.
#[inline]
#[target_feature(enable = "neon,aes")]
fn hash_some<const K: usize, const G: usize>(
    columns: &[Block],
    stride: usize,
    powers: &Powers,
) -> [u128; G] {
    let count = powers.blocks();
    let mut groups: [[&[Block]; K]; G] = [[&[]; K]; G];
    for (index, column) in groups.as_flattened_mut().iter_mut().enumerate() {
        *column = &columns[index * stride..][..count];
    }
    let mut sums = [[vdupq_n_u64(0); 3]; G];
    for i in 0..count {
        let (p, folded) = (load(&powers.coefficients[i]), load(&powers.folded[i]));
        for (sums, group) in sums.iter_mut().zip(&groups) {
            accumulate(sums, combine(group, i), p, folded);
        }
    }
    let mut hashes = [0; G];
    for (hash, [low, middle, high]) in hashes.iter_mut().zip(sums) {
        let middle = veorq_u64(middle, veorq_u64(low, high));
        *hash = from_block(store(reduce([low, middle, high])));
    }
    hashes
}

/// Returns the sum of `x^j * columns[j][i]` over all columns `j` of a group.
#[inline]
#[target_feature(enable = "neon")]
fn combine<const K: usize>(columns: &[&[Block]; K], i: usize) -> uint64x2_t {
    let mut z = load(&columns[K - 1][i]);
    for column in columns[..K - 1].iter().rev() {
        z = veorq_u64(double(z), load(&column[i]));
    }
    z
}

/// Adds products to the low, middle and high sums, with three multiplications per block
/// (Karatsuba).
#[inline]
#[target_feature(enable = "neon,aes")]
fn accumulate(sums: &mut [uint64x2_t; 3], z: uint64x2_t, p: uint64x2_t, folded: uint64x2_t) {
    let both = veorq_u64(z, swap(z));
    sums[0] = veorq_u64(sums[0], multiply_low(z, p));
    sums[1] = veorq_u64(sums[1], multiply_low(both, folded));
    sums[2] = veorq_u64(sums[2], multiply_high(z, p));
}

/// Multiplies an element by x.
#[inline]
#[target_feature(enable = "neon")]
fn double(z: uint64x2_t) -> uint64x2_t {
    let carried = load(&[POLYNOMIAL as u64, 1]);
    // Spread the top bit of each word over the other word.
    let top = vreinterpretq_u64_s64(vshrq_n_s64::<63>(vreinterpretq_s64_u64(swap(z))));
    veorq_u64(vshlq_n_u64::<1>(z), vandq_u64(top, carried))
}

/// Reduces the product `low + middle * x^64 + high * x^128` modulo the polynomial.
#[inline]
#[target_feature(enable = "neon,aes")]
fn reduce([low, middle, high]: [uint64x2_t; 3]) -> uint64x2_t {
    let zero = vdupq_n_u64(0);
    let polynomial = vdupq_n_u64(POLYNOMIAL as u64);
    let low = veorq_u64(low, vextq_u64::<1>(zero, middle));
    let high = veorq_u64(high, vextq_u64::<1>(middle, zero));
    let top = multiply_high(high, polynomial);
    // The upper word carries at most seven bits beyond x^127.
    let rest = veorq_u64(high, vextq_u64::<1>(top, zero));
    let low = veorq_u64(low, vextq_u64::<1>(zero, top));
    veorq_u64(low, multiply_low(rest, polynomial))
}

/// Returns the carry-less product of the low words.
#[inline]
#[target_feature(enable = "neon,aes")]
fn multiply_low(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    let (a, b) = (vgetq_lane_u64::<0>(a), vgetq_lane_u64::<0>(b));
    vreinterpretq_u64_p128(vmull_p64(a, b))
}

/// Returns the carry-less product of the high words.
#[inline]
#[target_feature(enable = "neon,aes")]
fn multiply_high(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    let (a, b) = (vreinterpretq_p64_u64(a), vreinterpretq_p64_u64(b));
    vreinterpretq_u64_p128(vmull_high_p64(a, b))
}

/// Swaps the words.
#[inline]
#[target_feature(enable = "neon")]
fn swap(z: uint64x2_t) -> uint64x2_t {
    vextq_u64::<1>(z, z)
}

#[inline]
#[target_feature(enable = "neon")]
fn load(block: &Block) -> uint64x2_t {
    // SAFETY: a block is 16 readable bytes, and the load needs no more alignment than a word has.
    unsafe { vld1q_u64(block.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn store(value: uint64x2_t) -> Block {
    let mut block = [0; 2];
    // SAFETY: a block is 16 writable bytes, and the store needs no more alignment than a word has.
    unsafe { vst1q_u64(block.as_mut_ptr(), value) };
    block
}
