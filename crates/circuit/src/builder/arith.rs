//! Addition, subtraction, comparison and counting over slices of literals, least significant first.
//!
//! Operands of one operation have the same width `n`; the number types check it. Carries that
//! nobody uses are left out when the circuit is finished.

use std::collections::VecDeque;

use super::gates::{Gates, Lit};

/// Returns `a + b + carry` and the carry out: 1 AND per bit, the last one for the carry out.
///
/// A full adder with one AND: `carry' = carry ^ ((a ^ carry) & (b ^ carry))`.
pub(super) fn add(g: &mut Gates, a: &[Lit], b: &[Lit], carry: Lit) -> (Vec<Lit>, Lit) {
    let mut carry = carry;
    let sum = (a.iter().zip(b))
        .map(|(&a, &b)| {
            let (sum, next) = full_adder(g, a, b, carry);
            carry = next;
            sum
        })
        .collect();
    (sum, carry)
}

/// Returns the two bits of `a + b + c`, low and high: 1 AND.
pub(super) fn full_adder(g: &mut Gates, a: Lit, b: Lit, c: Lit) -> (Lit, Lit) {
    let ac = g.xor(a, c);
    let bc = g.xor(b, c);
    let both = g.and(ac, bc);
    (g.xor(ac, b), g.xor(c, both))
}

/// Returns `a - b` and the borrow out, which is `a < b`: 1 AND per bit, the last one for the
/// borrow out.
pub(super) fn subtract(g: &mut Gates, a: &[Lit], b: &[Lit]) -> (Vec<Lit>, Lit) {
    let mut borrow = Lit::ZERO;
    let difference = (a.iter().zip(b))
        .map(|(&a, &b)| {
            let ab = g.xor(a, b);
            let difference = g.xor(ab, borrow);
            borrow = next_borrow(g, ab, b, borrow);
            difference
        })
        .collect();
    (difference, borrow)
}

/// Says whether `a < b`, as two's complement numbers if `signed`: 1 AND per bit.
pub(super) fn less(g: &mut Gates, a: &[Lit], b: &[Lit], signed: bool) -> Lit {
    let mut borrow = Lit::ZERO;
    for (i, (&a_bit, &b_bit)) in a.iter().zip(b).enumerate() {
        // The sign bit weighs -2^(n-1): there the larger bit belongs to the smaller number.
        let swapped = signed && i + 1 == a.len();
        let ab = g.xor(a_bit, b_bit);
        borrow = next_borrow(g, ab, if swapped { a_bit } else { b_bit }, borrow);
    }
    borrow
}

/// `borrow` where the bits are equal, else `b`.
fn next_borrow(g: &mut Gates, ab: Lit, b: Lit, borrow: Lit) -> Lit {
    let b_or_borrow = g.xor(b, borrow);
    let changed = g.and(ab, b_or_borrow);
    g.xor(borrow, changed)
}

/// Returns the smaller of two unsigned numbers and whether it is `a`: 2 AND and 4 XOR per bit, less
/// 2 XOR for the first borrow.
pub(super) fn minimum(g: &mut Gates, a: &[Lit], b: &[Lit], signed: bool) -> (Vec<Lit>, Lit) {
    let mut borrow = Lit::ZERO;
    let mut differences = Vec::with_capacity(a.len());
    for (i, (&a_bit, &b_bit)) in a.iter().zip(b).enumerate() {
        let swapped = signed && i + 1 == a.len();
        let ab = g.xor(a_bit, b_bit);
        borrow = next_borrow(g, ab, if swapped { a_bit } else { b_bit }, borrow);
        differences.push(ab);
    }
    let minimum = (differences.into_iter().zip(b))
        .map(|(ab, &b)| {
            let chosen = g.and(borrow, ab);
            g.xor(b, chosen)
        })
        .collect();
    (minimum, borrow)
}

/// Says whether all bits are equal: `n - 1` AND.
pub(super) fn equal(g: &mut Gates, a: &[Lit], b: &[Lit]) -> Lit {
    let same: Vec<Lit> = (a.iter().zip(b))
        .map(|(&a, &b)| g.xor(a, b).negate())
        .collect();
    all(g, same)
}

/// Returns the conjunction, in a balanced tree: `n - 1` AND.
pub(super) fn all(g: &mut Gates, bits: Vec<Lit>) -> Lit {
    let mut level = bits;
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| match *pair {
                [a, b] => g.and(a, b),
                _ => pair[0],
            })
            .collect();
    }
    level.first().copied().unwrap_or(Lit::ONE)
}

/// Chooses between numbers: 1 AND per bit.
pub(super) fn select(g: &mut Gates, choice: Lit, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
    (a.iter().zip(b))
        .map(|(&a, &b)| g.mux(choice, a, b))
        .collect()
}

/// Returns `-a` where `condition` is 1, else `a`: `n - 1` AND, `n - 2` for a constant condition.
pub(super) fn negate_if(g: &mut Gates, a: &[Lit], condition: Lit) -> Vec<Lit> {
    let flipped: Vec<Lit> = a.iter().map(|&bit| g.xor(bit, condition)).collect();
    let mut carry = condition;
    (flipped.into_iter())
        .map(|bit| {
            let sum = g.xor(bit, carry);
            carry = g.and(bit, carry);
            sum
        })
        .collect()
}

/// Adds many numbers: 1 AND per bit but the highest for each number after the first.
///
/// Three numbers become two with independent full adders until two are left, so that the depth
/// grows with the logarithm of their number.
pub(super) fn sum(g: &mut Gates, numbers: Vec<Vec<Lit>>, width: usize) -> Vec<Lit> {
    let mut queue = VecDeque::from(numbers);
    loop {
        match (queue.pop_front(), queue.pop_front(), queue.pop_front()) {
            (Some(a), Some(b), Some(c)) => {
                let mut low = Vec::with_capacity(width);
                let mut high = Vec::with_capacity(width + 1);
                high.push(Lit::ZERO);
                for i in 0..width {
                    let (sum, carry) = full_adder(g, a[i], b[i], c[i]);
                    low.push(sum);
                    high.push(carry);
                }
                high.truncate(width);
                queue.push_back(low);
                queue.push_back(high);
            }
            (Some(a), Some(b), None) => return add(g, &a, &b, Lit::ZERO).0,
            (Some(a), ..) => return a,
            _ => return vec![Lit::ZERO; width],
        }
    }
}

/// Counts the ones, as a number of as few bits as `n` needs: `n` AND less the number of ones in
/// the binary notation of `n`.
pub(super) fn count_ones(g: &mut Gates, bits: &[Lit]) -> Vec<Lit> {
    let mut count = Vec::new();
    let mut column = VecDeque::from(bits.to_vec());
    while !column.is_empty() {
        let mut next = VecDeque::new();
        while column.len() > 1 {
            let (a, b) = (column.pop_front(), column.pop_front());
            let c = column.pop_front();
            let [a, b, c] = [a, b, c].map(|bit| bit.unwrap_or(Lit::ZERO));
            let (sum, carry) = full_adder(g, a, b, c);
            column.push_back(sum);
            next.push_back(carry);
        }
        count.extend(column);
        column = next;
    }
    count
}
