//! A quotient of two numbers of 8 bits with 8 fractional bits: 256 x / y. Each of x and y is the
//! sum of a share of Alice's and one of Bob's modulo 256. For y = 0, all bits are ones.
//!
//! After the program in appendix A.2 of "Empirical Evaluation of Secure Two-Party Computation
//! Models" (blanton-2005), which was written for Fairplay. The doubles of the divisor are computed
//! first, limited to the largest number if they exceed any dividend. Then they are subtracted from
//! the dividend if they fit, the largest one first.

const DOUBLES: usize = 15usize;
const MAXIMUM: u16 = 65535u16;
const THRESHOLD: u16 = 32768u16;

struct Shares {
    a: u8,
    b: u8,
}

fn joined(alice: u8, bob: u8) -> u8 {
    ((alice as u16) + (bob as u16)) as u8
}

pub fn main(alice: Shares, bob: Shares) -> u16 {
    let mut a = (joined(alice.a, bob.a) as u16) << 8u8;
    let b = joined(alice.b, bob.b) as u16;
    let mut p = [b << 1u8; DOUBLES];
    for i in 1usize..15usize {
        let before = p[i - 1usize];
        p[i] = if before >= THRESHOLD { MAXIMUM } else { before << 1u8 };
    }
    let mut result = 0u16;
    for i in 2usize..17usize {
        let double = p[16usize - i];
        if a >= double {
            a = a - double;
            result = result | 1u16;
        }
        result = result << 1u8;
    }
    if a >= b {
        result = result | 1u16;
    }
    result
}
