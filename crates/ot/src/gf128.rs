//! Arithmetic in GF(2^128) with the polynomial x^128 + x^7 + x^2 + x + 1; bit `i` of a block is
//! the coefficient of x^i (not the reflected order of GCM).
//!
//! The only operation on secrets is [`hash_columns`]. The element that it evaluates at is public,
//! so the portable code may use it as an index; no index or branch depends on a column.

use zeroize::Zeroizing;

#[cfg(target_arch = "x86_64")]
use crate::wide::Wide;
use crate::{
    BASE_COUNT,
    extension::{Block, SEGMENT_BLOCKS, from_block, to_block},
};

/// Bits of the window into the public powers.
const WINDOW: usize = 4;

/// The coefficients of a polynomial hash: powers of a public element.
///
/// A column of `n` blocks `z` is hashed to the sum of `z[b] * x^(n - 1 - b)`, so its last block has
/// the coefficient 1. Two different columns have the same hash for at most `n - 1` elements `x`.
pub(crate) struct Powers {
    /// Zero from `blocks` on, so that kernels may take in whole vectors.
    coefficients: [Block; SEGMENT_BLOCKS],
    blocks: usize,
}

impl Powers {
    /// Computes the powers of `element` for columns of `blocks` blocks.
    pub(crate) fn new(element: u128, blocks: usize) -> Self {
        debug_assert!((1..=SEGMENT_BLOCKS).contains(&blocks));
        let powers = ascending_powers(element);
        let mut coefficients = [[0; 2]; SEGMENT_BLOCKS];
        for (coefficient, power) in coefficients[..blocks].iter_mut().rev().zip(&powers) {
            *coefficient = *power;
        }
        Self {
            coefficients,
            blocks,
        }
    }

    /// Hashes one column.
    pub(crate) fn hash(&self, column: &[Block]) -> u128 {
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Wide::detect() {
            return wide.hash_column(&column[..self.blocks], self);
        }
        self.hash_portable(column)
    }

    fn hash_portable(&self, column: &[Block]) -> u128 {
        let mut buckets = Zeroizing::new([[[0; 2]; 1 << WINDOW]; 128 / WINDOW]);
        for (block, power) in column.iter().zip(&self.coefficients[..self.blocks]) {
            let power = from_block(*power);
            for (i, buckets) in buckets.iter_mut().enumerate() {
                let bucket = &mut buckets[(power >> (i * WINDOW)) as usize % (1 << WINDOW)];
                *bucket = [bucket[0] ^ block[0], bucket[1] ^ block[1]];
            }
        }
        let (mut low, mut high) = (0_u128, 0_u128);
        for buckets in buckets.iter().rev() {
            high = high << WINDOW | low >> (128 - WINDOW);
            low <<= WINDOW;
            for bit in 0..WINDOW {
                let sum = (buckets.iter().enumerate())
                    .filter(|(window, _)| window >> bit & 1 == 1)
                    .fold(0, |sum, (_, bucket)| sum ^ from_block(*bucket));
                low ^= sum << bit;
                high ^= sum.unbounded_shr(128 - bit as u32);
            }
        }
        reduce(low, high)
    }

    /// Returns the number of blocks of a column.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns the coefficients, zero behind the last block of a column.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn coefficients(&self) -> &[Block; SEGMENT_BLOCKS] {
        &self.coefficients
    }
}

fn ascending_powers(element: u128) -> [Block; SEGMENT_BLOCKS] {
    #[cfg(target_arch = "x86_64")]
    if let Some(wide) = Wide::detect() {
        return wide.powers(element);
    }
    ascending_powers_portable(element)
}

fn ascending_powers_portable(element: u128) -> [Block; SEGMENT_BLOCKS] {
    // A product with a fixed element is a sum of its multiples by powers of x.
    let mut multiples = [element; 128];
    for i in 1..multiples.len() {
        multiples[i] = double(multiples[i - 1]);
    }
    let mut power = 1;
    let mut powers = [[0; 2]; SEGMENT_BLOCKS];
    for block in &mut powers {
        *block = to_block(power);
        power = (multiples.iter().enumerate())
            .filter(|(i, _)| power >> i & 1 == 1)
            .fold(0, |sum, (_, multiple)| sum ^ multiple);
    }
    powers
}

/// Hashes 128 columns, `stride` blocks apart.
pub(crate) fn hash_columns(
    columns: &[Block],
    stride: usize,
    powers: &Powers,
) -> Zeroizing<[u128; BASE_COUNT]> {
    let mut hashes = Zeroizing::new([0; BASE_COUNT]);
    #[cfg(target_arch = "x86_64")]
    if let Some(wide) = Wide::detect() {
        wide.hash_columns(columns, stride, powers, &mut hashes);
        return hashes;
    }
    hash_columns_portable(columns, stride, powers, &mut hashes);
    hashes
}

pub(crate) fn hash_columns_portable(
    columns: &[Block],
    stride: usize,
    powers: &Powers,
    hashes: &mut [u128; BASE_COUNT],
) {
    for (hash, column) in hashes.iter_mut().zip(columns.chunks(stride)) {
        *hash = powers.hash_portable(&column[..powers.blocks()]);
    }
}

/// Multiplies by x.
fn double(value: u128) -> u128 {
    value << 1 ^ (value >> 127) * POLYNOMIAL
}

/// The polynomial without x^128.
pub(crate) const POLYNOMIAL: u128 = 0x87;

/// Reduces a product of 256 bits.
fn reduce(low: u128, high: u128) -> u128 {
    // What the shifts below carry beyond x^127; its product with the polynomial carries nothing.
    let high = high ^ high >> 127 ^ high >> 126 ^ high >> 121;
    low ^ high ^ high << 1 ^ high << 2 ^ high << 7
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schoolbook multiplication.
    fn mul(a: u128, b: u128) -> u128 {
        let mut multiple = a;
        let mut product = 0;
        for i in 0..128 {
            product ^= multiple * (b >> i & 1);
            multiple = double(multiple);
        }
        product
    }

    fn column(seed: u128, blocks: usize) -> Vec<Block> {
        let step = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128;
        (1..=blocks as u128)
            .map(|i| to_block(mul(seed.wrapping_mul(step) ^ i, step.wrapping_mul(i))))
            .collect()
    }

    #[test]
    fn products_are_those_of_the_reference_model() {
        let a = 0xf505_7fee_4c3e_f459_02dd_2125_0b72_9601;
        let b = 0xf41f_cb28_e1ec_a229_1aa5_148c_01a8_c3f5;
        assert_eq!(mul(a, b), 0x65c5_3114_da20_ce21_94d3_0350_77ac_94b3);
        // A Horner evaluation ends in a multiplication by the element, which a last block of zero does.
        let element = 0xb7b3_ff7b_623d_d8df_0cd5_8cc6_f137_bdc5;
        let powers = Powers::new(element, 3);
        assert_eq!(
            powers.hash(&[to_block(a), to_block(b), [0; 2]]),
            0x019a_6b8c_a309_d395_354a_b1a1_9ff6_281e
        );
    }

    #[test]
    fn a_hash_is_a_sum_of_products_with_powers() {
        for element in [0, 1, 2, u128::MAX, 1 << 127, 0x1234_5678_9abc_def0 << 50] {
            for blocks in [1, 2, 3, 4, 5, 63, 64] {
                let column = column(element ^ 5, blocks);
                let expected = column
                    .iter()
                    .fold(0, |sum, block| mul(sum, element) ^ from_block(*block));
                let powers = Powers::new(element, blocks);
                assert_eq!(powers.hash_portable(&column), expected);
                assert_eq!(powers.hash(&column), expected);
            }
        }
    }

    #[test]
    fn every_back_end_computes_the_same_powers() {
        for element in [
            0,
            1,
            2,
            u128::MAX,
            0xb7b3_ff7b_623d_d8df_0cd5_8cc6_f137_bdc5,
        ] {
            let powers = ascending_powers(element);
            assert_eq!(powers, ascending_powers_portable(element));
            let mut expected = 1;
            for power in powers {
                assert_eq!(from_block(power), expected);
                expected = mul(expected, element);
            }
        }
    }

    #[test]
    fn every_back_end_hashes_to_the_same_values() {
        const STRIDE: usize = SEGMENT_BLOCKS + 4;
        // Blocks behind the end of a column must not count.
        let columns: Vec<Block> = column(7, BASE_COUNT * STRIDE);
        for blocks in [1, 2, 3, 4, 5, 8, 62, 63, 64] {
            for element in [0, 1, u128::MAX, 0xb7b3_ff7b_623d_d8df_0cd5_8cc6_f137_bdc5] {
                let powers = Powers::new(element, blocks);
                let mut expected = [0; BASE_COUNT];
                hash_columns_portable(&columns, STRIDE, &powers, &mut expected);
                assert_eq!(*hash_columns(&columns, STRIDE, &powers), expected);
            }
        }
    }
}
