//! AES-128 in single rounds, for the instruction sets that have them.

use super::{Schedule, Vectors};

/// AES rounds on registers.
pub(super) trait AesRounds: Vectors {
    /// Maximum number of registers of blocks to encrypt together under keys that each serve several
    /// gates. Without a limit, AES-NI garbles with a key per 8 tweaks in 10 % less time than with 16
    /// registers.
    const MAX_TOGETHER: usize = usize::MAX;

    /// Returns [`MIDDLE_ROUNDS`], hidden from the optimizer.
    ///
    /// The optimizer must not unroll the loops over rounds. Otherwise it moves all key schedules
    /// before all encryptions, which prevents their overlap and spills most registers.
    fn middle_rounds(self) -> usize;

    /// Starts an encryption with round key 0.
    ///
    /// The AES round of x86-64 ends with the addition of a round key, that of ARM64 begins with it.
    /// So on ARM64 this function and each round leave their key to the next round, which takes it
    /// as `before`. Blocks between two rounds have no meaning outside of one instruction set.
    fn start(self, block: Self::Reg, key: Self::Reg) -> Self::Reg;

    /// Performs a round that is neither the first nor the last; `before` is the round key before
    /// `key`.
    fn encrypt_round(self, block: Self::Reg, before: Self::Reg, key: Self::Reg) -> Self::Reg;

    /// Performs the last round, which has no MixColumns; `before` is the round key before `key`.
    fn encrypt_last_round(self, block: Self::Reg, before: Self::Reg, key: Self::Reg) -> Self::Reg;

    /// Derives the next round key; `constant` holds the round constant in every 32-bit word.
    ///
    /// Byte shuffles and one last AES round replace the key-generation instruction of x86-64, which
    /// exists only for single blocks and takes ten times as long; ARM64 has none. All four columns
    /// hold RotWord of the last word, so ShiftRows has no effect, and the round yields
    /// SubWord(RotWord(w3)) ^ rcon in every column.
    fn next_round_key(self, key: Self::Reg, constant: Self::Reg) -> Self::Reg;

    /// Returns SubWord(RotWord(w)) ^ constant for every 32-bit word `w`, with a byte shuffle and
    /// one last AES round. The shuffle rotates every word and compensates for ShiftRows.
    fn substitute_words(self, words: Self::Reg, constant: Self::Reg) -> Self::Reg;

    /// Returns `word` in every 32-bit word.
    fn splat_words(self, word: u32) -> Self::Reg;

    /// Returns `a ^ b ^ c`.
    fn xor3(self, a: Self::Reg, b: Self::Reg, c: Self::Reg) -> Self::Reg;

    /// Transposes, in every lane, the 4x4 matrix of 32-bit words whose rows are the four registers.
    fn transpose(self, rows: [Self::Reg; 4]) -> [Self::Reg; 4];

    /// Returns both arguments unchanged, and keeps the compiler from moving operations on `rows`
    /// before those that compute `first`.
    fn in_order(self, first: Self::Reg, rows: [Self::Reg; 4]) -> (Self::Reg, [Self::Reg; 4]);

    /// Returns `first` in the lanes before `split`, which is at least 1, and `second` in the
    /// others. If `split` is the number of lanes or more, the caller passes `second` equal to
    /// `first`.
    fn splat_split(self, first: u128, second: u128, split: usize) -> Self::Reg;
}

/// Number of rounds between the initial XOR and the last round.
pub(super) const MIDDLE_ROUNDS: usize = 9;

/// The round constants of AES-128 (FIPS-197, section 5.2), padded to 16 so that no bounds check is
/// needed.
pub(super) const ROUND_CONSTANTS: [u32; 16] = [
    0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36, 0, 0, 0, 0, 0, 0,
];

/// The byte shuffle within 128-bit lanes for [`AesRounds::substitute_words`]. Byte `4 c + r` is row
/// `r` of column `c` (FIPS-197, section 3.4). It is taken from row `r + 1`, as in RotWord, and from
/// column `c - r`, because ShiftRows then moves it back by `r` columns.
pub(super) const TURN_WORDS: [u8; 16] = {
    let mut bytes = [0; 16];
    let mut at = 0;
    while at < 16 {
        let (row, column) = (at % 4, at / 4);
        bytes[at] = (4 * ((column + 4 - row) % 4) + (row + 1) % 4) as u8;
        at += 1;
    }
    bytes
};

/// Returns the round constant from which round key `round + 1` is derived.
#[inline(always)]
fn round_constant<I: AesRounds>(isa: I, round: usize) -> I::Reg {
    isa.splat_words(ROUND_CONSTANTS[round % ROUND_CONSTANTS.len()])
}

/// Expands all keys and encrypts under them: `B` blocks for each of the `K * N` registers of keys.
///
/// Each group of four registers expands its keys together, see [`next_rows`]. The remaining
/// registers are processed one by one.
#[inline(always)]
pub(super) fn encrypt_keyed<I: AesRounds, const N: usize, const B: usize, const K: usize>(
    isa: I,
    keys: [[I::Reg; N]; K],
    mut blocks: [[[I::Reg; N]; B]; K],
) -> [[[I::Reg; N]; B]; K] {
    let count = N * K;
    for quad in 0..count / 4 {
        let first = 4 * quad;
        let some = take_keys::<I, N, K, 4>(&keys, first);
        let state = take::<I, N, B, K, 4>(&blocks, first);
        put(&mut blocks, first, encrypt_quad::<I, B>(isa, some, state));
    }
    let first = count - count % 4;
    match count % 4 {
        1 => {
            let some = take_keys::<I, N, K, 1>(&keys, first);
            let state = take::<I, N, B, K, 1>(&blocks, first);
            put(&mut blocks, first, encrypt_single(isa, some, state));
        }
        2 => {
            let some = take_keys::<I, N, K, 2>(&keys, first);
            let state = take::<I, N, B, K, 2>(&blocks, first);
            put(&mut blocks, first, encrypt_single(isa, some, state));
        }
        3 => {
            let some = take_keys::<I, N, K, 3>(&keys, first);
            let state = take::<I, N, B, K, 3>(&blocks, first);
            put(&mut blocks, first, encrypt_single(isa, some, state));
        }
        _ => {}
    }
    blocks
}

/// Returns the keys of `R` registers, starting with register `first`.
#[inline(always)]
fn take_keys<I: AesRounds, const N: usize, const K: usize, const R: usize>(
    keys: &[[I::Reg; N]; K],
    first: usize,
) -> [I::Reg; R] {
    let mut some = [keys[0][0]; R];
    for (i, key) in some.iter_mut().enumerate() {
        *key = keys[(first + i) / N][(first + i) % N];
    }
    some
}

/// Returns the blocks of `R` registers, starting with register `first`.
#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "counted loops over constant bounds always unroll"
)]
fn take<I: AesRounds, const N: usize, const B: usize, const K: usize, const R: usize>(
    blocks: &[[[I::Reg; N]; B]; K],
    first: usize,
) -> [[I::Reg; R]; B] {
    let mut state = [[blocks[0][0][0]; R]; B];
    for i in 0..R {
        let (k, n) = ((first + i) / N, (first + i) % N);
        for b in 0..B {
            state[b][i] = blocks[k][b][n];
        }
    }
    state
}

/// Stores blocks at the positions from which [`take`] reads them.
#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "counted loops over constant bounds always unroll"
)]
fn put<R: Copy, const N: usize, const B: usize, const K: usize, const M: usize>(
    blocks: &mut [[[R; N]; B]; K],
    first: usize,
    state: [[R; M]; B],
) {
    for i in 0..M {
        let (k, n) = ((first + i) / N, (first + i) % N);
        for b in 0..B {
            blocks[k][b][n] = state[b][i];
        }
    }
}

/// Encrypts under the keys of four registers.
#[inline(always)]
fn encrypt_quad<I: AesRounds, const B: usize>(
    isa: I,
    mut keys: [I::Reg; 4],
    mut blocks: [[I::Reg; 4]; B],
) -> [[I::Reg; 4]; B] {
    start(isa, &mut blocks, &keys);
    let mut rows = isa.transpose(keys);
    let mut substituted = substitute(isa, rows, 0);
    for round in 0..isa.middle_rounds() {
        rows = next_rows(isa, rows, substituted);
        // This comes before the other operations of the round. CPUs start the oldest ready
        // operation first, so the dependency chain of the key schedules would otherwise wait for
        // all shuffles and blocks of this round.
        (substituted, rows) = isa.in_order(substitute(isa, rows, round + 1), rows);
        let before = keys;
        keys = isa.transpose(rows);
        encrypt_round(isa, &mut blocks, &before, &keys);
    }
    let last = isa.transpose(next_rows(isa, rows, substituted));
    encrypt_last_round(isa, &mut blocks, &keys, &last);
    blocks
}

/// Encrypts under the keys of up to three registers.
#[inline(always)]
fn encrypt_single<I: AesRounds, const R: usize, const B: usize>(
    isa: I,
    mut keys: [I::Reg; R],
    mut blocks: [[I::Reg; R]; B],
) -> [[I::Reg; R]; B] {
    start(isa, &mut blocks, &keys);
    for round in 0..isa.middle_rounds() {
        let before = keys;
        next_keys(isa, &mut keys, round);
        encrypt_round(isa, &mut blocks, &before, &keys);
    }
    let before = keys;
    next_keys(isa, &mut keys, MIDDLE_ROUNDS);
    encrypt_last_round(isa, &mut blocks, &before, &keys);
    blocks
}

/// Encrypts under one key.
#[inline(always)]
pub(super) fn encrypt_scheduled<I: AesRounds, const N: usize, const B: usize>(
    isa: I,
    schedule: &Schedule,
    mut blocks: [[I::Reg; N]; B],
) -> [[I::Reg; N]; B] {
    if let [first, middle @ .., last] = schedule.round_keys() {
        start(isa, &mut blocks, &[isa.splat(*first); N]);
        let mut before = first;
        for key in middle {
            let keys = [isa.splat(*key); N];
            encrypt_round(isa, &mut blocks, &[isa.splat(*before); N], &keys);
            before = key;
        }
        let keys = [isa.splat(*last); N];
        encrypt_last_round(isa, &mut blocks, &[isa.splat(*before); N], &keys);
    }
    blocks
}

// Closures would lose the target features, so this file uses none on vectors.

#[inline(always)]
pub(super) fn start<I: AesRounds, const N: usize, const B: usize>(
    isa: I,
    blocks: &mut [[I::Reg; N]; B],
    keys: &[I::Reg; N],
) {
    for blocks in blocks {
        for n in 0..N {
            blocks[n] = isa.start(blocks[n], keys[n]);
        }
    }
}

#[inline(always)]
pub(super) fn encrypt_round<I: AesRounds, const N: usize, const B: usize>(
    isa: I,
    blocks: &mut [[I::Reg; N]; B],
    before: &[I::Reg; N],
    keys: &[I::Reg; N],
) {
    for blocks in blocks {
        for n in 0..N {
            blocks[n] = isa.encrypt_round(blocks[n], before[n], keys[n]);
        }
    }
}

#[inline(always)]
pub(super) fn encrypt_last_round<I: AesRounds, const N: usize, const B: usize>(
    isa: I,
    blocks: &mut [[I::Reg; N]; B],
    before: &[I::Reg; N],
    keys: &[I::Reg; N],
) {
    for blocks in blocks {
        for n in 0..N {
            blocks[n] = isa.encrypt_last_round(blocks[n], before[n], keys[n]);
        }
    }
}

/// Derives the next round keys register by register.
#[inline(always)]
fn next_keys<I: AesRounds>(isa: I, keys: &mut [I::Reg], round: usize) {
    let constant = round_constant(isa, round);
    for key in keys {
        *key = isa.next_round_key(*key, constant);
    }
}

/// Derives the next round keys of four registers at once. Row `i` has word `i` of every key, and
/// `substituted` is the result of [`substitute_words`](AesRounds::substitute_words) for row 3.
///
/// In this layout, a round of the schedule is one byte shuffle, one AES round and four XORs for all
/// registers, plus eight shuffles to transpose the rows to keys. Register by register, it would be
/// six operations each, 24 in total.
#[inline(always)]
pub(super) fn next_rows<I: AesRounds>(
    isa: I,
    rows: [I::Reg; 4],
    substituted: I::Reg,
) -> [I::Reg; 4] {
    let [w0, w1, w2, w3] = rows;
    let n0 = isa.xor(w0, substituted);
    let n1 = isa.xor3(w0, w1, substituted);
    // n2 is not computed from n1, nor n3 from n2: that would lengthen the dependency chain.
    let n2 = isa.xor3(w2, w1, n0);
    let n3 = isa.xor3(w3, w2, n1);
    [n0, n1, n2, n3]
}

#[inline(always)]
pub(super) fn substitute<I: AesRounds>(isa: I, rows: [I::Reg; 4], round: usize) -> I::Reg {
    isa.substitute_words(rows[3], round_constant(isa, round))
}
