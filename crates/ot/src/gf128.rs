//! Arithmetic in GF(2^128) with the polynomial x^128 + x^7 + x^2 + x + 1. Bit `i` of a block is the
//! coefficient of x^i, which is not the reflected order of GCM.
//!
//! [`hash_groups`] and [`scale`] process secrets in constant time. The element at which
//! [`hash_groups`] evaluates polynomials is public, so the portable code may use it as an index. No
//! index or branch depends on a column.

use subtle::Choice;
use zeroize::Zeroizing;

use crate::extension::{Block, SEGMENT_BLOCKS, from_block, to_block};
#[cfg(target_arch = "aarch64")]
use crate::pmull::Pmull as Kernel;
#[cfg(target_arch = "x86_64")]
use crate::wide::Wide as Kernel;

/// Number of bits per window of a multiplication by a public power.
const WINDOW: usize = 4;

/// The coefficients of a polynomial hash: powers of a public element.
///
/// The hash of a column of `n` blocks `z` is the sum of `z[b] * x^(n - 1 - b)`, so its last block
/// has the coefficient 1. Two different columns have the same hash for at most `n - 1` elements
/// `x`.
pub(crate) struct Powers {
    /// The coefficients; zero from `blocks` on, so that kernels may process whole vectors.
    pub(crate) coefficients: [Block; SEGMENT_BLOCKS],
    /// The XOR of the two words of each coefficient, in both words, for Karatsuba multiplication.
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    pub(crate) folded: [Block; SEGMENT_BLOCKS],
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
            #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
            folded: coefficients.map(|[low, high]| [low ^ high; 2]),
            coefficients,
            blocks,
        }
    }

    /// Hashes one column with portable code.
    fn hash(&self, column: &[Block]) -> u128 {
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
}

fn ascending_powers(element: u128) -> [Block; SEGMENT_BLOCKS] {
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    if let Some(kernel) = Kernel::detect() {
        return kernel.powers(element);
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

/// Returns one hash for each group of `k` columns: the hash of the sum of x^j times column `j`.
/// Consecutive columns start `stride` blocks apart.
pub(crate) fn hash_groups(columns: &[Block], stride: usize, k: usize, powers: &Powers) -> Hashes {
    let mut hashes = Zeroizing::new(vec![0; columns.len() / (k * stride)]);
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    if let Some(kernel) = Kernel::detect() {
        kernel.hash_groups(columns, stride, k, powers, &mut hashes);
        return hashes;
    }
    hash_groups_portable(columns, stride, k, powers, &mut hashes);
    hashes
}

/// Hashes one column.
pub(crate) fn hash_column(column: &[Block], powers: &Powers) -> u128 {
    let mut padded = Zeroizing::new([[0; 2]; SEGMENT_BLOCKS]);
    padded[..column.len()].copy_from_slice(column);
    hash_groups(&*padded, SEGMENT_BLOCKS, 1, powers)[0]
}

/// One hash per group of columns.
pub(crate) type Hashes = Zeroizing<Vec<u128>>;

fn hash_groups_portable(
    columns: &[Block],
    stride: usize,
    k: usize,
    powers: &Powers,
    hashes: &mut [u128],
) {
    let mut combined = Zeroizing::new([[0; 2]; SEGMENT_BLOCKS]);
    let combined = &mut combined[..powers.blocks()];
    for (hash, group) in hashes.iter_mut().zip(columns.chunks(k * stride)) {
        combined.fill([0; 2]);
        for column in group.chunks(stride).rev() {
            for (sum, block) in combined.iter_mut().zip(column) {
                *sum = to_block(double(from_block(*sum)) ^ from_block(*block));
            }
        }
        *hash = powers.hash(combined);
    }
}

/// Returns the product of an element and the polynomial of degree below `k` whose coefficients are
/// the low bits of `factor`, in constant time.
pub(crate) fn scale(element: u128, factor: u128, k: usize) -> u128 {
    let (mut multiple, mut product) = (element, 0);
    for bit in 0..k {
        // `Choice` hides the bit from the optimizer, which could otherwise turn it into a branch.
        let bit = Choice::from((factor >> bit & 1) as u8).unwrap_u8();
        product ^= multiple & u128::from(bit).wrapping_neg();
        multiple = double(multiple);
    }
    product
}

/// Multiplies an element by x.
fn double(value: u128) -> u128 {
    (value << 1) ^ ((value >> 127) * POLYNOMIAL)
}

/// The polynomial without its term x^128.
pub(crate) const POLYNOMIAL: u128 = 0x87;

/// Reduces a 256-bit product modulo the polynomial.
fn reduce(low: u128, high: u128) -> u128 {
    // Fold in the bits that the shifts below move beyond x^127. Their product with the polynomial
    // has no such bits.
    let high = high ^ high >> 127 ^ high >> 126 ^ high >> 121;
    low ^ high ^ high << 1 ^ high << 2 ^ high << 7
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::BASE_COUNT;

    /// Multiplies two elements by the schoolbook method.
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
    fn products_match_the_reference_model() {
        let a = 0xf505_7fee_4c3e_f459_02dd_2125_0b72_9601;
        let b = 0xf41f_cb28_e1ec_a229_1aa5_148c_01a8_c3f5;
        assert_eq!(mul(a, b), 0x65c5_3114_da20_ce21_94d3_0350_77ac_94b3);
        // A Horner evaluation whose last block is zero ends in a multiplication by the element.
        let element = 0xb7b3_ff7b_623d_d8df_0cd5_8cc6_f137_bdc5;
        let powers = Powers::new(element, 3);
        assert_eq!(
            hash_column(&[to_block(a), to_block(b), [0; 2]], &powers),
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
                assert_eq!(powers.hash(&column), expected);
                assert_eq!(hash_column(&column, &powers), expected);
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
    fn every_back_end_hashes_groups_to_the_same_values() {
        const STRIDE: usize = SEGMENT_BLOCKS + 4;
        // Blocks after the end of a column must be ignored.
        let columns: Vec<Block> = column(7, BASE_COUNT * STRIDE);
        for k in [1, 2, 4, 8] {
            for blocks in [1, 2, 3, 4, 5, 8, 62, 63, 64] {
                for element in [0, 1, u128::MAX, 0xb7b3_ff7b_623d_d8df_0cd5_8cc6_f137_bdc5] {
                    let powers = Powers::new(element, blocks);
                    let mut portable = vec![0; BASE_COUNT / k];
                    hash_groups_portable(&columns, STRIDE, k, &powers, &mut portable);
                    assert_eq!(*hash_groups(&columns, STRIDE, k, &powers), portable);
                    for (hash, group) in portable.iter().zip(columns.chunks(k * STRIDE)) {
                        let expected = group.chunks(STRIDE).enumerate().fold(0, |sum, (j, c)| {
                            sum ^ mul(1 << j, powers.hash(&c[..blocks]))
                        });
                        assert_eq!(*hash, expected, "k {k} blocks {blocks}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_back_end_agrees_on_random_elements_and_columns(
            element in any::<u128>(),
            log_k in 0..4_usize,
            groups in 1..6_usize,
            blocks in 1..=SEGMENT_BLOCKS,
            seed in any::<u128>(),
        ) {
            prop_assert_eq!(ascending_powers(element), ascending_powers_portable(element));
            let k = 1 << log_k;
            let columns = column(seed, groups * k * SEGMENT_BLOCKS);
            let powers = Powers::new(element, blocks);
            let mut portable = vec![0; groups];
            hash_groups_portable(&columns, SEGMENT_BLOCKS, k, &powers, &mut portable);
            prop_assert_eq!(&*hash_groups(&columns, SEGMENT_BLOCKS, k, &powers), &portable);
        }
    }

    #[test]
    fn scaling_is_multiplication_by_a_small_polynomial() {
        let element = 0xf505_7fee_4c3e_f459_02dd_2125_0b72_9601;
        for k in [1, 2, 4, 8] {
            for factor in 0..1 << k {
                // Higher bits of the factor must be ignored.
                assert_eq!(scale(element, factor | 1 << k, k), mul(element, factor));
            }
        }
    }
}
