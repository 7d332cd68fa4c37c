//! The expansion of a single AES key of 128 or 256 bits.

use zeroize::Zeroizing;

use super::{
    MAX_WIDTH,
    rounds::{AesRounds, ROUND_CONSTANTS},
};

/// Expands a key of 16 or 32 bytes into round keys (FIPS-197, section 5.2).
#[inline(always)]
pub(super) fn expand_key<I: AesRounds>(isa: I, key: &[u8], keys: &mut [u128; 15]) {
    let length = key.len() / 4;
    let mut words = Zeroizing::new([0; 60]);
    for (word, bytes) in words.iter_mut().zip(key.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for at in length..4 * (length + 7) {
        let before = words[at - 1];
        let mixed = match at % length {
            0 => substitute(isa, before, ROUND_CONSTANTS[at / length - 1]),
            // The substitution rotates the word; rotate it back.
            4 if length > 6 => substitute(isa, before.rotate_left(8), 0),
            _ => before,
        };
        words[at] = words[at - length] ^ mixed;
    }
    for (key, words) in keys.iter_mut().zip(words.chunks_exact(4)) {
        let word = |i: usize| u128::from(words[i]) << (32 * i);
        *key = word(0) | word(1) | word(2) | word(3);
    }
}

/// Returns SubWord(RotWord(word)) ^ constant.
#[inline(always)]
fn substitute<I: AesRounds>(isa: I, word: u32, constant: u32) -> u32 {
    let mut bytes = [0; 16 * MAX_WIDTH];
    let words = isa.substitute_words(isa.splat_words(word), isa.splat_words(constant));
    isa.store(words, &mut bytes, 16);
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
