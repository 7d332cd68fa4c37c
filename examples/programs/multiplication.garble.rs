//! The product of two numbers of 8 bits, each the sum of a share of Alice's and one of Bob's modulo
//! 256.
//!
//! After the program in appendix A.1 of "Empirical Evaluation of Secure Two-Party Computation
//! Models" (blanton-2005), which was written for Fairplay. For each set bit of one factor, the
//! other factor is added, shifted to the position of the bit. Numbers are wider than necessary, so
//! that the compiler can see that no sum overflows: a sum modulo 256 is one of 16 bits of which 8
//! are kept.

struct Shares {
    a: u8,
    b: u8,
}

fn joined(alice: u8, bob: u8) -> u8 {
    ((alice as u16) + (bob as u16)) as u8
}

pub fn main(alice: Shares, bob: Shares) -> u16 {
    let a = joined(alice.a, bob.a) as u32;
    let mut b_shifted = joined(alice.b, bob.b) as u32;
    let mut mask = 1u32;
    let mut result = 0u32;
    for _i in 0usize..8usize {
        if (mask & a) != 0u32 {
            result = result + b_shifted;
        }
        b_shifted = b_shifted << 1u8;
        mask = mask << 1u8;
    }
    result as u16
}
