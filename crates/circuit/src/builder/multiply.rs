//! Multiplication and division over slices of literals, least significant first.

use super::{
    arith::{add, negate_if, subtract},
    gates::{Gates, Lit},
};

/// Minimum width in bits at which Karatsuba's method needs fewer AND gates than schoolbook
/// multiplication.
const KARATSUBA_WIDTH: usize = 16;

/// Returns the low `n` bits of the product of two `n`-bit numbers. This costs `n^2 - n + 1` AND
/// gates, and fewer if `n` is at least twice [`KARATSUBA_WIDTH`].
pub(super) fn multiply(g: &mut Gates, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
    let n = a.len();
    if n < 2 * KARATSUBA_WIDTH {
        return multiply_rows(g, a, b);
    }
    // With h = half, a = a0 + a1 2^h and b = b0 + b1 2^h, the product is a0 b0 + (a1 b0 + a0 b1)
    // 2^h modulo 2^n. Of a1 b0 and a0 b1, only the low n - h bits are needed.
    let half = n.div_ceil(2);
    let rest = n - half;
    let mut product = multiply_wide(g, &a[..half], &b[..half]);
    let left = multiply(g, &a[half..], &b[..rest]);
    let right = multiply(g, &a[..rest], &b[half..]);
    let (middle, _) = add(g, &left, &right, Lit::ZERO);
    let (high, _) = add(g, &product[half..n], &middle, Lit::ZERO);
    product.truncate(half);
    product.extend(high);
    product
}

fn multiply_rows(g: &mut Gates, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
    let n = a.len();
    let mut product = row(g, a, b.first().copied().unwrap_or(Lit::ZERO));
    for shift in 1..n {
        let partial = row(g, &a[..n - shift], b[shift]);
        let (sum, _) = add(g, &product[shift..], &partial, Lit::ZERO);
        product.truncate(shift);
        product.extend(sum);
    }
    product
}

/// Returns all `2 n` bits of the product of two unsigned `n`-bit numbers. This costs `2 n^2 - n`
/// AND gates, and fewer if `n` is at least [`KARATSUBA_WIDTH`].
pub(super) fn multiply_wide(g: &mut Gates, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
    let n = a.len();
    if n < KARATSUBA_WIDTH {
        return multiply_wide_rows(g, a, b);
    }
    // Karatsuba's method, with h = half, a = a0 + a1 2^h and b = b0 + b1 2^h:
    // a0 b1 + a1 b0 = (a0 + a1)(b0 + b1) - a0 b0 - a1 b1.
    let half = n.div_ceil(2);
    let low = multiply_wide(g, &a[..half], &b[..half]);
    let high = multiply_wide(g, &a[half..], &b[half..]);
    let mut halves_sum = |number: &[Lit]| {
        let high = widened(&number[half..], half);
        let (mut sum, carry) = add(g, &number[..half], &high, Lit::ZERO);
        sum.push(carry);
        sum
    };
    let (a_sum, b_sum) = (halves_sum(a), halves_sum(b));
    let middle_width = 2 * half + 1;
    let mut middle = multiply_wide(g, &a_sum, &b_sum);
    middle.truncate(middle_width);
    for outer in [&low, &high] {
        (middle, _) = subtract(g, &middle, &widened(outer, middle_width));
    }
    let upper = [&low[half..], &high].concat();
    let width = upper.len();
    let (upper, _) = add(g, &upper, &widened(&middle, width), Lit::ZERO);
    [&low[..half], &upper].concat()
}

fn multiply_wide_rows(g: &mut Gates, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
    let n = a.len();
    let mut product = row(g, a, b.first().copied().unwrap_or(Lit::ZERO));
    product.resize(2 * n, Lit::ZERO);
    for shift in 1..n {
        let partial = row(g, a, b[shift]);
        let (sum, carry) = add(g, &product[shift..shift + n], &partial, Lit::ZERO);
        product[shift..shift + n].copy_from_slice(&sum);
        product[shift + n] = carry;
    }
    product
}

fn widened(bits: &[Lit], width: usize) -> Vec<Lit> {
    let mut bits = bits.to_vec();
    bits.resize(width, Lit::ZERO);
    bits
}

fn row(g: &mut Gates, a: &[Lit], factor: Lit) -> Vec<Lit> {
    a.iter().map(|&bit| g.and(bit, factor)).collect()
}

/// Returns the quotient and the remainder of two unsigned `n`-bit numbers. The quotient costs
/// `n (n + 1) / 2 + 2 n - 3` AND gates, and the remainder `2 n - 1` more. All bits of `x / 0` are
/// 1, and `x % 0` is `x`.
///
/// The method is non-restoring division, with one adder per step. Step `k` appends the next bit of
/// the dividend, from the top, to the partial remainder. It then subtracts the divisor if the
/// previous partial remainder was not negative, and adds it otherwise. The result is the partial
/// remainder `R_k`.
///
/// Only the low `k + 1` bits of `R_k` are computed. If the divisor is at least `2^k`, `R_k` is
/// negative. Otherwise `R_k` lies between `-2^k` and `2^k`, and bit `k` is its sign.
pub(super) fn divide(g: &mut Gates, a: &[Lit], d: &[Lit]) -> (Vec<Lit>, Vec<Lit>) {
    let n = a.len();
    // `fits[k]` is 1 if all bits of the divisor from bit `k` on are 0.
    let mut fits = vec![Lit::ONE; n + 1];
    for k in (1..n).rev() {
        fits[k] = g.and(fits[k + 1], d[k].negate());
    }
    let mut quotient = vec![Lit::ZERO; n];
    let mut partial = vec![Lit::ZERO];
    // `positive` is 1 if the partial remainder is not negative, so that the next step subtracts.
    let mut positive = Lit::ONE;
    for k in 1..=n {
        partial.insert(0, a[n - k]);
        let addend: Vec<Lit> = (0..=k)
            .map(|i| d.get(i).copied().unwrap_or(Lit::ZERO))
            .map(|bit| g.xor(bit, positive))
            .collect();
        (partial, _) = add(g, &partial, &addend, positive);
        positive = g.and(fits[k], partial[k].negate());
        quotient[n - k] = positive;
    }
    let correction: Vec<Lit> = d.iter().map(|&bit| g.and(bit, positive.negate())).collect();
    partial.truncate(n);
    let (remainder, _) = add(g, &partial, &correction, Lit::ZERO);
    (quotient, remainder)
}

/// Returns the quotient, rounded toward zero, and the remainder of two `n`-bit numbers in two's
/// complement. This costs as much as [`divide`], plus `n - 1` AND gates for each of dividend,
/// divisor, quotient and remainder.
pub(super) fn divide_signed(g: &mut Gates, a: &[Lit], d: &[Lit]) -> (Vec<Lit>, Vec<Lit>) {
    let sign = |number: &[Lit]| number.last().copied().unwrap_or(Lit::ZERO);
    let (a_sign, d_sign) = (sign(a), sign(d));
    let a_magnitude = negate_if(g, a, a_sign);
    let d_magnitude = negate_if(g, d, d_sign);
    let (quotient, remainder) = divide(g, &a_magnitude, &d_magnitude);
    let signs_differ = g.xor(a_sign, d_sign);
    (
        negate_if(g, &quotient, signs_differ),
        negate_if(g, &remainder, a_sign),
    )
}
