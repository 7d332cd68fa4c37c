//! The hash of half gates: `AES_k(y) ^ y`, where the key `k` and the block `y` depend on the tweak.

use crate::engine::{Isa, KeyNumbers, Lanes, MAX_WIDTH, TweakNumbers, Wide};

/// Hashes the operands of gates. Callers have applied sigma to these labels.
pub(crate) trait PairHash {
    /// Hashes both operands of every gate in the group. For gate `i`, the tweak of the first
    /// operand is `2 (id + i)`, and that of the second is the next one.
    fn pair<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        id: u64,
        operands: [[Lanes<I, N>; B]; 2],
    ) -> [[Lanes<I, N>; B]; 2];

    /// Returns the number of gates, from `id` on, whose keys are already expanded. For these gates,
    /// [`PairHash::one`] is faster than [`PairHash::pair`].
    fn ready<I: Isa>(&self, isa: I, keys: &I::Keys, id: u64) -> usize;

    /// Expands the keys of gate `id`. Call this before [`PairHash::one`].
    fn prepare<I: Isa>(&self, isa: I, keys: &mut I::Keys, id: u64);

    /// Hashes both operands of gate `id`. The first lane has the first operand, with the tweak `2
    /// id`. The second lane has the second operand, with the tweak `2 id + 1`.
    fn one<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        id: u64,
        operands: [Lanes<I, N>; B],
    ) -> [Lanes<I, N>; B];
}

/// A hash with a fresh key for every tweak `j`: `AES_{S ^ j}(y) ^ y`, `y = sigma(x)`.
pub(crate) struct PerTweak {
    pub(crate) start: u128,
}

impl PairHash for PerTweak {
    #[inline(always)]
    fn pair<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        _keys: &mut I::Keys,
        id: u64,
        operands: [[Lanes<I, N>; B]; 2],
    ) -> [[Lanes<I, N>; B]; 2] {
        let numbers = TweakNumbers {
            start: self.start,
            gate: id,
        };
        fed_forward(w, w.encrypt_tweaked(numbers, operands), operands)
    }

    #[inline(always)]
    fn ready<I: Isa>(&self, isa: I, keys: &I::Keys, id: u64) -> usize {
        isa.tweaks_ready(keys, id) % MAX_WIDTH
    }

    #[inline(always)]
    fn prepare<I: Isa>(&self, isa: I, keys: &mut I::Keys, id: u64) {
        let (start, gate) = (self.start, id);
        isa.prepare_tweaks(keys, TweakNumbers { start, gate });
    }

    #[inline(always)]
    fn one<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        id: u64,
        operands: [Lanes<I, N>; B],
    ) -> [Lanes<I, N>; B] {
        let (start, gate) = (self.start, id);
        let numbers = TweakNumbers { start, gate };
        let out = w.0.encrypt_ready(keys, numbers, operands);
        let [out] = fed_forward(w, [out], [operands]);
        out
    }
}

/// A hash with one key per `2^log_period` tweaks: `AES_{S ^ (j >> log_period)}(y) ^ y`, `y =
/// sigma(x) ^ (j mod 2^log_period)`. `S` is `start`, `x` the label and `j` the tweak.
///
/// With a period of 2^56, which is the number of all tweaks, this is the fixed-key hash.
pub(crate) struct PerPeriod {
    pub(crate) start: u128,
    pub(crate) log_period: u32,
}

impl PerPeriod {
    /// The hash with one public key for all sessions: the first 32 hexadecimal digits of the
    /// fraction of pi.
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
        // Periods are even, so both tweaks of a gate have the same key.
        let numbers = KeyNumbers {
            start: self.start,
            gate: id,
            log_gates: self.log_period - 1,
        };
        let operands = [a, b];
        fed_forward(w, w.encrypt_numbered(keys, numbers, operands), operands)
    }

    #[inline(always)]
    fn ready<I: Isa>(&self, _isa: I, _keys: &I::Keys, _id: u64) -> usize {
        0
    }

    #[inline(always)]
    fn prepare<I: Isa>(&self, _isa: I, _keys: &mut I::Keys, _id: u64) {}

    #[inline(always)]
    fn one<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        id: u64,
        mut operands: [Lanes<I, N>; B],
    ) -> [Lanes<I, N>; B] {
        let rest = w.splat((1 << self.log_period) - 1);
        let tweaks = w.and(w.counter(2 * id, 1, 0), rest);
        for operand in &mut operands {
            *operand = w.xor(*operand, tweaks);
        }
        // In this call, the numbers count tweaks instead of gates.
        let numbers = KeyNumbers {
            start: self.start,
            gate: 2 * id,
            log_gates: self.log_period,
        };
        let out = w.encrypt_numbered(keys, numbers, [operands]);
        let [out] = fed_forward(w, out, [operands]);
        out
    }
}

/// Encrypts under one key per lane and XORs the input to the output.
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
