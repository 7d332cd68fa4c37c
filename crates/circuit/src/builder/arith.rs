//! Addition, subtraction, comparison and counting over slices of literals, least significant first.
//!
//! Both operands of an operation have the same width `n`, which the number types check. The costs
//! include carries and borrows out. If these are unused, the builder drops their gates at the end.

use std::collections::VecDeque;

use super::gates::{Gates, Lit};

/// Returns `a + b + carry` and the carry out. This costs 1 AND gate per bit, of which the last is
/// only for the carry out.
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

/// Returns the low and the high bit of `a + b + c`. This costs 1 AND gate, because the high bit is
/// `c ^ ((a ^ c) & (b ^ c))`.
pub(super) fn full_adder(g: &mut Gates, a: Lit, b: Lit, c: Lit) -> (Lit, Lit) {
    let ac = g.xor(a, c);
    let bc = g.xor(b, c);
    let both = g.and(ac, bc);
    (g.xor(ac, b), g.xor(c, both))
}

/// Returns `a - b` and the borrow out, which is 1 if `a < b`. This costs 1 AND gate per bit, of
/// which the last is only for the borrow out.
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

/// Returns 1 if `a < b`, and 0 otherwise. The numbers are in two's complement if `signed` is set.
/// This costs 1 AND gate per bit.
pub(super) fn less(g: &mut Gates, a: &[Lit], b: &[Lit], signed: bool) -> Lit {
    let mut borrow = Lit::ZERO;
    for (i, (&a_bit, &b_bit)) in a.iter().zip(b).enumerate() {
        // The sign bit has the weight -2^(n-1). If the signs differ, the number whose sign bit is 1
        // is the smaller one, so the sign bits are exchanged.
        let swapped = signed && i + 1 == a.len();
        let ab = g.xor(a_bit, b_bit);
        borrow = next_borrow(g, ab, if swapped { a_bit } else { b_bit }, borrow);
    }
    borrow
}

/// Returns the borrow out of one bit position of `a - b`: `borrow` if the bits of `a` and `b` are
/// equal, and otherwise the bit `b`. `ab` is the XOR of the two bits.
fn next_borrow(g: &mut Gates, ab: Lit, b: Lit, borrow: Lit) -> Lit {
    let b_or_borrow = g.xor(b, borrow);
    let changed = g.and(ab, b_or_borrow);
    g.xor(borrow, changed)
}

/// Returns the smaller of two numbers, and 1 if `a` is strictly smaller. This costs 2 AND and 4 XOR
/// gates per bit, minus 2 XOR gates because the first borrow is constant.
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

/// Returns 1 if `a` and `b` are equal, and 0 otherwise. This costs `n - 1` AND gates.
pub(super) fn equal(g: &mut Gates, a: &[Lit], b: &[Lit]) -> Lit {
    let same: Vec<Lit> = (a.iter().zip(b))
        .map(|(&a, &b)| g.xor(a, b).negate())
        .collect();
    all(g, same)
}

/// Returns the AND of all bits, computed in a balanced tree. This costs `n - 1` AND gates for `n`
/// bits.
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

/// Returns `a` if `choice` is 1, and `b` otherwise. This costs 1 AND gate per bit.
pub(super) fn select(g: &mut Gates, choice: Lit, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
    (a.iter().zip(b))
        .map(|(&a, &b)| g.mux(choice, a, b))
        .collect()
}

/// Returns `-a` if `condition` is 1, and `a` otherwise. This costs `n - 1` AND gates, or `n - 2` if
/// the condition is the constant 1.
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

/// Returns the sum of numbers of `width` bits, modulo `2^width`. Each number after the first costs
/// `width - 1` AND gates.
///
/// The adders form a carry-save tree: full adders that are independent of each other replace three
/// numbers by two, until two are left. The depth of the tree grows with the logarithm of the number
/// of operands.
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

/// Returns the number of ones among `n` bits. The result has as many bits as the binary notation of
/// `n`. This costs `n` AND gates, minus the number of ones in the binary notation of `n`.
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
