//! The hash of half gates: `AES_k(y) ^ y`, where `k` and `y` depend on the tweak.

use super::KeyCache;
use crate::engine::{Isa, Lanes, MAX_WIDTH, Portable, Wide};

/// Hashes the operands of a group of gates. Inputs are labels already mapped by sigma.
pub(crate) trait PairHash {
    /// Hashes `a` of lane `i` under the tweak `tweak + 2 i` and `b` under the tweak after it;
    /// `tweak` is even.
    fn pair<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        cache: &mut KeyCache<I>,
        tweak: u64,
        a: [Lanes<I, N>; B],
        b: [Lanes<I, N>; B],
    ) -> ([Lanes<I, N>; B], [Lanes<I, N>; B]);
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
        _cache: &mut KeyCache<I>,
        tweak: u64,
        a: [Lanes<I, N>; B],
        b: [Lanes<I, N>; B],
    ) -> ([Lanes<I, N>; B], [Lanes<I, N>; B]) {
        let keys = w.xor(w.splat(self.start), w.counter(tweak, 2, 0));
        let ha = keyed(w, keys, a);
        // An even number plus one is an exclusive or.
        let hb = keyed(w, w.xor(keys, w.splat(1)), b);
        (ha, hb)
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
        cache: &mut KeyCache<I>,
        tweak: u64,
        a: [Lanes<I, N>; B],
        b: [Lanes<I, N>; B],
    ) -> ([Lanes<I, N>; B], [Lanes<I, N>; B]) {
        let last = tweak + 2 * Wide::<I, N>::WIDTH as u64 - 1;
        let (first_key, last_key) = (tweak >> self.log_period, last >> self.log_period);
        let rest = |tweak: u64| tweak & ((1 << self.log_period) - 1);
        if first_key != last_key {
            // The group straddles periods: a key per lane. Periods are even, so the two tweaks of
            // one gate never part.
            let (mut keys, mut tweaks) = ([0; 16 * MAX_WIDTH], [0; 16 * MAX_WIDTH]);
            for lane in 0..Wide::<I, N>::WIDTH {
                let tweak = tweak + 2 * lane as u64;
                let key = self.start ^ u128::from(tweak >> self.log_period);
                Portable.store(key, &mut keys[16 * lane..], 16);
                Portable.store(u128::from(rest(tweak)), &mut tweaks[16 * lane..], 16);
            }
            let (keys, tweaks) = (w.load(&keys, 16), w.load(&tweaks, 16));
            let ha = keyed(w, keys, tweaked(w, a, tweaks));
            let hb = keyed(w, keys, tweaked(w, b, w.xor(tweaks, w.splat(1))));
            return (ha, hb);
        }
        let schedule = match cache {
            Some((index, schedule)) if *index == first_key => schedule,
            _ => {
                let schedule = w.schedule(self.start ^ u128::from(first_key));
                &mut cache.insert((first_key, schedule)).1
            }
        };
        let tweaks = w.counter(rest(tweak), 2, 0);
        let ya = tweaked(w, a, tweaks);
        let yb = tweaked(w, b, w.xor(tweaks, w.splat(1)));
        let ha = fed_forward(w, w.encrypt(schedule, ya), ya);
        let hb = fed_forward(w, w.encrypt(schedule, yb), yb);
        (ha, hb)
    }
}

/// Encrypts under a key per lane and adds the input.
#[inline(always)]
pub(super) fn keyed<I: Isa, const N: usize, const B: usize>(
    w: Wide<I, N>,
    keys: Lanes<I, N>,
    blocks: [Lanes<I, N>; B],
) -> [Lanes<I, N>; B] {
    fed_forward(w, w.encrypt_keyed(keys, blocks), blocks)
}

#[inline(always)]
fn fed_forward<I: Isa, const N: usize, const B: usize>(
    w: Wide<I, N>,
    mut out: [Lanes<I, N>; B],
    blocks: [Lanes<I, N>; B],
) -> [Lanes<I, N>; B] {
    for i in 0..B {
        out[i] = w.xor(out[i], blocks[i]);
    }
    out
}

#[inline(always)]
fn tweaked<I: Isa, const N: usize, const B: usize>(
    w: Wide<I, N>,
    mut blocks: [Lanes<I, N>; B],
    tweaks: Lanes<I, N>,
) -> [Lanes<I, N>; B] {
    for block in &mut blocks {
        *block = w.xor(*block, tweaks);
    }
    blocks
}
