//! Arithmetic in GF(2^8): bytes as polynomials over GF(2) modulo x^8 + x^4 + x^3 + x^2 + 1.
//!
//! The product of a byte and a fixed factor is the sum of two products: one of the lower and one of
//! the upper four bits of the byte. The sixteen products of each kind fit into a vector register,
//! and a shuffle instruction looks up one for each byte of a register (J. S. Plank, K. M. Greenan,
//! E. L. Miller, *Screaming fast Galois field arithmetic using Intel SIMD instructions*, FAST
//! 2013).

/// The modulus polynomial.
const MODULUS: u16 = 0x11d;

/// The products of a factor with 0x00 to 0x0f, followed by those with 0x00, 0x10, ..., 0xf0.
type Products = [u8; 32];

/// The products of all factors: 8 KiB, computed at compile time.
static PRODUCTS: [Products; 256] = {
    let mut all = [[0; 32]; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut half = 0;
        while half < 16 {
            all[factor][half] = product_by_steps(factor as u8, half as u8);
            all[factor][16 + half] = product_by_steps(factor as u8, (half as u8) << 4);
            half += 1;
        }
        factor += 1;
    }
    all
};

/// Multiplies bit by bit.
const fn product_by_steps(a: u8, b: u8) -> u8 {
    let (mut sum, mut term, mut rest) = (0, a as u16, b);
    while rest > 0 {
        if rest & 1 == 1 {
            sum ^= term;
        }
        term <<= 1;
        if term > 0xff {
            term ^= MODULUS;
        }
        rest >>= 1;
    }
    sum as u8
}

/// The inverses of all elements except zero.
static INVERSES: [u8; 256] = {
    let mut all = [0; 256];
    // The powers of 2 are all elements except zero. 0x8e is the inverse of 2.
    let (mut power, mut inverse) = (1, 1);
    let mut n = 0;
    while n < 255 {
        all[power as usize] = inverse;
        power = product_by_steps(power, 2);
        inverse = product_by_steps(inverse, 0x8e);
        n += 1;
    }
    all
};

fn look_up(products: &Products, byte: u8) -> u8 {
    products[usize::from(byte & 15)] ^ products[16 + usize::from(byte >> 4)]
}

/// Returns the product of two elements.
pub(super) fn product(a: u8, b: u8) -> u8 {
    look_up(&PRODUCTS[usize::from(a)], b)
}

/// Returns the inverse of an element, or zero for zero.
pub(super) fn inverse(a: u8) -> u8 {
    INVERSES[usize::from(a)]
}

/// Adds `factor` times `term` to `sum`, element by element.
///
/// # Panics
/// Panics if the lengths differ.
pub(super) fn add_product(sum: &mut [u8], factor: u8, term: &[u8]) {
    assert_eq!(sum.len(), term.len(), "the lengths must be equal");
    if factor == 1 {
        (sum.iter_mut().zip(term)).for_each(|(sum, term)| *sum ^= term);
    } else if factor > 0 {
        let products = &PRODUCTS[usize::from(factor)];
        let done = vectors::add_products(sum, products, term);
        let rest = sum[done..].iter_mut().zip(&term[done..]);
        rest.for_each(|(sum, term)| *sum ^= look_up(products, *term));
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    #![expect(unsafe_code, reason = "vector intrinsics")]

    use std::arch::x86_64::*;

    use super::Products;

    /// Adds the products of as many elements as fill whole registers. Returns their number.
    pub(super) fn add_products(sum: &mut [u8], products: &Products, term: &[u8]) -> usize {
        if !is_x86_feature_detected!("avx2") {
            return 0;
        }
        let (sums, _) = sum.as_chunks_mut();
        let (terms, _) = term.as_chunks();
        // SAFETY: the processor has AVX2.
        unsafe { add_chunks(sums, products, terms) };
        size_of_val(terms)
    }

    #[target_feature(enable = "avx2")]
    fn add_chunks(sums: &mut [[u8; 32]], products: &Products, terms: &[[u8; 32]]) {
        let (lower, upper) = products.split_at(16);
        // SAFETY: both halves have 16 bytes, and the load does not require alignment.
        let halves = unsafe { [lower, upper].map(|half| _mm_loadu_si128(half.as_ptr().cast())) };
        let [lower, upper] = halves.map(|half| _mm256_broadcastsi128_si256(half));
        let mask = _mm256_set1_epi8(15);
        for (sum, term) in sums.iter_mut().zip(terms) {
            // SAFETY: each chunk has 32 bytes, and the loads do not require alignment.
            let (old, term) = unsafe {
                (
                    _mm256_loadu_si256(sum.as_ptr().cast()),
                    _mm256_loadu_si256(term.as_ptr().cast()),
                )
            };
            let low = _mm256_shuffle_epi8(lower, _mm256_and_si256(term, mask));
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(term), mask);
            let high = _mm256_shuffle_epi8(upper, high);
            let new = _mm256_xor_si256(old, _mm256_xor_si256(low, high));
            // SAFETY: the chunk has 32 bytes, and the store does not require alignment.
            unsafe { _mm256_storeu_si256(sum.as_mut_ptr().cast(), new) };
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod vectors {
    /// Processes no elements: there is no vector code for this processor.
    pub(super) fn add_products(_: &mut [u8], _: &super::Products, _: &[u8]) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_bitwise_multiplication() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(product(a, b), product_by_steps(a, b), "{a} {b}");
            }
            assert_eq!(product(a, inverse(a)), u8::from(a != 0), "{a}");
        }
        // x * x^7 is x^8, which the modulus reduces.
        assert_eq!(product(2, 0x80), 0x1d);
    }

    #[test]
    fn vector_products_agree_with_single_products() {
        let term: Vec<u8> = (0..=255).chain(0..77).collect();
        for factor in 0..=255 {
            for length in [0, 1, 31, 32, 33, term.len()] {
                let mut sum: Vec<u8> = (0..length).map(|n| (n * 29) as u8).collect();
                let expected: Vec<u8> = (sum.iter().zip(&term))
                    .map(|(sum, term)| sum ^ product(factor, *term))
                    .collect();
                add_product(&mut sum, factor, &term[..length]);
                assert_eq!(sum, expected, "{factor} {length}");
            }
        }
    }
}
