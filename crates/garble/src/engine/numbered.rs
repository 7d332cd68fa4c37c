//! AES keys with consecutive numbers, each of which serves several gates.

use super::{
    KeyNumbers, MAX_WIDTH, Portable, Vectors,
    rounds::{
        AesRounds, MIDDLE_ROUNDS, encrypt_last_round, encrypt_round, next_rows, start, substitute,
    },
};

/// The eleven round keys of AES-128; padded to 16, so that no bounds check is needed.
type RoundKeys = [u128; 16];

/// Number of keys that are expanded together.
const CACHED_KEYS: usize = 16;

/// The key schedules of `start ^ base`, `start ^ (base + 1)`, and so on. The keys are public, so
/// they are not wiped.
pub(crate) struct KeyCache {
    base: Option<u64>,
    schedules: [RoundKeys; CACHED_KEYS],
}

impl Default for KeyCache {
    fn default() -> Self {
        Self {
            base: None,
            schedules: [[0; 16]; CACHED_KEYS],
        }
    }
}

impl KeyCache {
    /// Expands the keys from number `base` on.
    #[inline(always)]
    fn fill<I: AesRounds>(&mut self, isa: I, start: u128, base: u64) {
        for first in (0..CACHED_KEYS).step_by(4 * I::LANES) {
            let mut keys = [isa.splat(start); 4];
            for (n, key) in keys.iter_mut().enumerate() {
                let number = base.wrapping_add((first + n * I::LANES) as u64);
                *key = isa.xor(*key, isa.counter(number, 1, 0));
            }
            self.keep(isa, first, 0, keys);
            let mut rows = isa.transpose(keys);
            for round in 0..=isa.middle_rounds() {
                rows = next_rows(isa, rows, substitute(isa, rows, round));
                self.keep(isa, first, round + 1, isa.transpose(rows));
            }
        }
        self.base = Some(base);
    }

    /// Stores the round keys of one round for consecutive keys, starting with key `first`.
    #[inline(always)]
    fn keep<I: AesRounds>(&mut self, isa: I, first: usize, round: usize, keys: [I::Reg; 4]) {
        for (n, key) in keys.into_iter().enumerate() {
            let mut bytes = [0; 16 * MAX_WIDTH];
            isa.store(key, &mut bytes, 16);
            for lane in 0..I::LANES {
                let schedule = &mut self.schedules[(first + n * I::LANES + lane) % CACHED_KEYS];
                schedule[round % 16] = Portable.load(&bytes[16 * lane..], 16);
            }
        }
    }
}

/// Encrypts under keys with consecutive numbers that each serve several gates.
#[inline(always)]
pub(super) fn encrypt_numbered<I: AesRounds, const N: usize, const B: usize, const K: usize>(
    isa: I,
    cache: &mut KeyCache,
    numbers: KeyNumbers,
    mut blocks: [[[I::Reg; N]; B]; K],
) -> [[[I::Reg; N]; B]; K] {
    let KeyNumbers {
        start,
        gate,
        log_gates,
    } = numbers;
    let numbered = |lane: usize| gate.wrapping_add(lane as u64) >> log_gates;
    let (first, last) = (numbered(0), numbered(N * I::LANES - 1));
    let base = match cache.base {
        Some(base) if base <= first && last - base < CACHED_KEYS as u64 => base,
        _ => {
            cache.fill(isa, start, first);
            first
        }
    };
    let schedules = Schedules {
        cache: &cache.schedules,
        base,
        gate,
        log_gates,
    };
    if first == last {
        encrypt_under(isa, &mut blocks, OneKey(schedules.of(0)));
    } else if I::LANES as u64 <= 1 << log_gates {
        let mut pairs = [(schedules.of(0), schedules.of(0), 0); N];
        for (n, pair) in pairs.iter_mut().enumerate() {
            let lane = n * I::LANES;
            let next = ((numbered(lane) + 1) << log_gates) - gate.wrapping_add(lane as u64);
            let (low, high) = (schedules.of(lane), schedules.of(lane + I::LANES - 1));
            *pair = (low, high, next as usize);
        }
        encrypt_under(isa, &mut blocks, TwoKeys(pairs));
    } else {
        encrypt_under(isa, &mut blocks, schedules);
    }
    blocks
}

/// Provides the round keys for each register of a group of gates.
trait GroupKeys<I: AesRounds> {
    fn round_key(&self, isa: I, round: usize, n: usize) -> I::Reg;
}

/// The same key for all lanes.
struct OneKey<'a>(&'a RoundKeys);

impl<I: AesRounds> GroupKeys<I> for OneKey<'_> {
    #[inline(always)]
    fn round_key(&self, isa: I, round: usize, _: usize) -> I::Reg {
        isa.splat(self.0[round % 16])
    }
}

/// At most two keys per register, and the lane from which the second key applies.
struct TwoKeys<'a, const N: usize>([(&'a RoundKeys, &'a RoundKeys, usize); N]);

impl<I: AesRounds, const N: usize> GroupKeys<I> for TwoKeys<'_, N> {
    #[inline(always)]
    fn round_key(&self, isa: I, round: usize, n: usize) -> I::Reg {
        let (low, high, split) = self.0[n];
        isa.splat_split(low[round % 16], high[round % 16], split)
    }
}

/// An individual key per lane.
struct Schedules<'a> {
    cache: &'a [RoundKeys; CACHED_KEYS],
    base: u64,
    gate: u64,
    log_gates: u32,
}

impl<'a> Schedules<'a> {
    #[inline(always)]
    fn of(&self, lane: usize) -> &'a RoundKeys {
        let number = self.gate.wrapping_add(lane as u64) >> self.log_gates;
        // The index is taken modulo the length, so that no bounds check is needed.
        &self.cache[(number - self.base) as usize % CACHED_KEYS]
    }
}

impl<I: AesRounds> GroupKeys<I> for Schedules<'_> {
    #[inline(always)]
    fn round_key(&self, isa: I, round: usize, n: usize) -> I::Reg {
        let mut bytes = [0; 16 * MAX_WIDTH];
        for lane in 0..I::LANES {
            let key = self.of(n * I::LANES + lane)[round % 16];
            Portable.store(key, &mut bytes[16 * lane..], 16);
        }
        isa.load(&bytes, 16)
    }
}

#[inline(always)]
fn encrypt_under<I: AesRounds, const N: usize, const B: usize, const K: usize>(
    isa: I,
    blocks: &mut [[[I::Reg; N]; B]; K],
    keys: impl GroupKeys<I>,
) {
    if N * B * K <= I::MAX_TOGETHER {
        *blocks = encrypt_together(isa, *blocks, &keys);
    } else {
        for blocks in blocks {
            [*blocks] = encrypt_together(isa, [*blocks], &keys);
        }
    }
}

#[inline(always)]
fn encrypt_together<I: AesRounds, const N: usize, const B: usize, const K: usize>(
    isa: I,
    mut blocks: [[[I::Reg; N]; B]; K],
    keys: &impl GroupKeys<I>,
) -> [[[I::Reg; N]; B]; K] {
    let first = keys_of(isa, keys, 0);
    for blocks in &mut blocks {
        start(isa, blocks, &first);
    }
    for round in 1..=isa.middle_rounds() {
        // An instruction set uses only one of the two arrays, and the compiler removes the other.
        let before = keys_of(isa, keys, round - 1);
        let current = keys_of(isa, keys, round);
        for blocks in &mut blocks {
            encrypt_round(isa, blocks, &before, &current);
        }
    }
    let before = keys_of(isa, keys, MIDDLE_ROUNDS);
    let last = keys_of(isa, keys, MIDDLE_ROUNDS + 1);
    for blocks in &mut blocks {
        encrypt_last_round(isa, blocks, &before, &last);
    }
    blocks
}

/// Returns the round keys of all registers for one round.
#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "counted loops over constant bounds always unroll"
)]
fn keys_of<I: AesRounds, const N: usize>(
    isa: I,
    keys: &impl GroupKeys<I>,
    round: usize,
) -> [I::Reg; N] {
    let mut out = [keys.round_key(isa, round, 0); N];
    for n in 0..N {
        out[n] = keys.round_key(isa, round, n);
    }
    out
}
