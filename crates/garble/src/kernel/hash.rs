//! The hash of half gates: `AES_k(y) ^ y`, where `k` and `y` depend on the tweak.

use crate::engine::{Isa, KeyNumbers, Lanes, TweakNumbers, Wide};

/// Hashes the operands of a group of gates. Inputs are labels already mapped by sigma.
pub(crate) trait PairHash {
    /// Hashes `a` of gate `i` of the group under the tweak `2 (id + i)` and `b` under the tweak
    /// after it.
    fn pair<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        id: u64,
        operands: [[Lanes<I, N>; B]; 2],
    ) -> [[Lanes<I, N>; B]; 2];
}

/// A fresh key for every tweak `j`: `AES_{S ^ j}(y) ^ y`, `y = sigma(x)`.
pub(crate) struct PerTweak {
    pub(crate) start: u128,
}

impl PairHash for PerTweak {
    #[inline(always)]
    fn pair<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        id: u64,
        operands: [[Lanes<I, N>; B]; 2],
    ) -> [[Lanes<I, N>; B]; 2] {
        let numbers = TweakNumbers {
            start: self.start,
            gate: id,
        };
        fed_forward(w, w.encrypt_tweaked(keys, numbers, operands), operands)
    }
}

/// One key for `2^log_period` tweaks: `AES_{S ^ (j >> log_period)}(y) ^ y`,
/// `y = sigma(x) ^ (j mod 2^log_period)`.
///
/// With a period of all tweaks there are, 2^56, this is the fixed-key hash.
pub(crate) struct PerPeriod {
    pub(crate) start: u128,
    pub(crate) log_period: u32,
}

impl PerPeriod {
    /// One public key for everybody: the first 32 hexadecimal digits of the fraction of pi.
    pub(crate) const FIXED_KEY: Self = Self {
        start: u128::from_le_bytes([
            0x24, 0x3f, 0x6a, 0x88, 0x85, 0xa3, 0x08, 0xd3, 0x13, 0x19, 0x8a, 0x2e, 0x03, 0x70,
            0x73, 0x44,
        ]),
        log_period: 56,
    };
}

impl PairHash for PerPeriod {
    #[inline(always)]
    fn pair<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        id: u64,
        [mut a, mut b]: [[Lanes<I, N>; B]; 2],
    ) -> [[Lanes<I, N>; B]; 2] {
        let rest = w.splat((1 << self.log_period) - 1);
        let tweaks = w.and(w.counter(2 * id, 2, 0), rest);
        let odd_tweaks = w.xor(tweaks, w.splat(1));
        for i in 0..B {
            a[i] = w.xor(a[i], tweaks);
            b[i] = w.xor(b[i], odd_tweaks);
        }
        // Periods are even, so the two tweaks of one gate never part.
        let numbers = KeyNumbers {
            start: self.start,
            gate: id,
            log_gates: self.log_period - 1,
        };
        let operands = [a, b];
        fed_forward(w, w.encrypt_numbered(keys, numbers, operands), operands)
    }
}

/// Encrypts under a key per lane and adds the input.
#[inline(always)]
pub(super) fn keyed<I: Isa, const N: usize, const B: usize, const K: usize>(
    w: Wide<I, N>,
    keys: [Lanes<I, N>; K],
    blocks: [[Lanes<I, N>; B]; K],
) -> [[Lanes<I, N>; B]; K] {
    fed_forward(w, w.encrypt_keyed(keys, blocks), blocks)
}

#[inline(always)]
fn fed_forward<I: Isa, const N: usize, const B: usize, const K: usize>(
    w: Wide<I, N>,
    mut out: [[Lanes<I, N>; B]; K],
    blocks: [[Lanes<I, N>; B]; K],
) -> [[Lanes<I, N>; B]; K] {
    for k in 0..K {
        for i in 0..B {
            out[k][i] = w.xor(out[k][i], blocks[k][i]);
        }
    }
    out
}
