//! AES-128 in terms of single rounds, for the instruction sets that have them.

use super::Isa;

/// AES rounds on registers.
pub(super) trait AesRounds: Isa {
    fn encrypt_round(self, block: Self::Reg, key: Self::Reg) -> Self::Reg;

    fn encrypt_last_round(self, block: Self::Reg, key: Self::Reg) -> Self::Reg;

    /// Derives the next round key; `constant` holds the round constant in every 32-bit word.
    ///
    /// Byte shuffles and one last AES round do the work of the key-generation instruction, which
    /// exists for single blocks only and takes ten times as long: with RotWord of the last word in
    /// all four columns ShiftRows changes nothing, so the round yields SubWord(RotWord(w3)) ^ rcon
    /// in every column.
    fn next_round_key(self, key: Self::Reg, constant: Self::Reg) -> Self::Reg;
}

/// The eleven round keys of AES-128.
pub(crate) type RoundKeys = [u128; 11];

/// FIPS-197, section 5.2: the round constants.
const ROUND_CONSTANTS: [u32; 10] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36];

#[inline(always)]
fn round_constant<I: AesRounds>(isa: I, round: usize) -> I::Reg {
    let word = ROUND_CONSTANTS[round] as u128;
    isa.splat(word | word << 32 | word << 64 | word << 96)
}

/// Expands a key.
#[inline(always)]
pub(super) fn schedule<I: AesRounds>(isa: I, key: u128) -> RoundKeys {
    let mut keys = [key; 11];
    let mut current = isa.splat(key);
    for round in 0..10 {
        current = isa.next_round_key(current, round_constant(isa, round));
        let mut bytes = [0; 16 * super::MAX_WIDTH];
        isa.store(current, &mut bytes, 16);
        // The first lane; all are equal.
        keys[round + 1] = super::Portable.load(&bytes, 16);
    }
    keys
}

/// Encrypts all registers under one expanded key.
#[inline(always)]
pub(super) fn encrypt<I: AesRounds, const N: usize>(
    isa: I,
    keys: &RoundKeys,
    mut blocks: [I::Reg; N],
) -> [I::Reg; N] {
    for block in &mut blocks {
        *block = isa.xor(*block, isa.splat(keys[0]));
    }
    for key in &keys[1..10] {
        let key = isa.splat(*key);
        for block in &mut blocks {
            *block = isa.encrypt_round(*block, key);
        }
    }
    for block in &mut blocks {
        *block = isa.encrypt_last_round(*block, isa.splat(keys[10]));
    }
    blocks
}

/// Expands all keys and encrypts under them, round by round: all keys and blocks stay in flight
/// together.
#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "counted loops over constant bounds always unroll"
)]
pub(super) fn encrypt_keyed<I: AesRounds, const N: usize, const B: usize>(
    isa: I,
    mut keys: [I::Reg; N],
    mut blocks: [[I::Reg; N]; B],
) -> [[I::Reg; N]; B] {
    for b in 0..B {
        for n in 0..N {
            blocks[b][n] = isa.xor(blocks[b][n], keys[n]);
        }
    }
    for round in 0..9 {
        let constant = round_constant(isa, round);
        for n in 0..N {
            keys[n] = isa.next_round_key(keys[n], constant);
            for b in 0..B {
                blocks[b][n] = isa.encrypt_round(blocks[b][n], keys[n]);
            }
        }
    }
    let constant = round_constant(isa, 9);
    for n in 0..N {
        keys[n] = isa.next_round_key(keys[n], constant);
        for b in 0..B {
            blocks[b][n] = isa.encrypt_last_round(blocks[b][n], keys[n]);
        }
    }
    blocks
}
