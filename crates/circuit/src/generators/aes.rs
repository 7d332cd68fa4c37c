//! AES block encryption, including the key schedule (FIPS 197).

use super::{fixed, sbox::sbox};
use crate::{Bit, Builder, Circuit, Word};

/// Returns the circuit of AES-128 encryption of one block. Input value 0 is the key, input value 1
/// the plaintext, output value 0 the ciphertext.
///
/// Wire 0 of each value is the least significant bit of the **last** byte, so
/// [`Bits::from_hex`](crate::Bits::from_hex) reads the notation of FIPS 197: key
/// `000102030405060708090a0b0c0d0e0f` and plaintext `00112233445566778899aabbccddeeff` give
/// `69c4e0d86a7b0430d8cdb78070b4c55a`. The widely used circuit file `aes_128.txt` has the same
/// interface.
///
/// The circuit has 6,400 AND gates in 200 S-boxes, and AND depth 60.
#[must_use]
pub fn aes128() -> Circuit {
    aes(4)
}

/// Returns the circuit of AES-192 encryption of one block. Its interface is that of [`aes128`] with
/// a key of 192 bits.
///
/// The circuit has 7,168 AND gates and AND depth 72.
#[must_use]
pub fn aes192() -> Circuit {
    aes(6)
}

/// Returns the circuit of AES-256 encryption of one block. Its interface is that of [`aes128`] with
/// a key of 256 bits.
///
/// The circuit has 8,832 AND gates and AND depth 84.
#[must_use]
pub fn aes256() -> Circuit {
    aes(8)
}

/// A byte as eight bits, the most significant first.
type Byte<'b> = [Bit<'b>; 8];

/// Returns the circuit of AES with a key of `key_words` 32-bit words.
fn aes(key_words: usize) -> Circuit {
    fixed(Builder::build(|b| {
        let key = to_bytes(&b.input_word(32 * key_words));
        let mut state = to_bytes(&b.input_word(128));
        let rounds = key_words + 6;
        let schedule = expand_key(b, &key, 16 * (rounds + 1));
        add_round_key(&mut state, &schedule[..16]);
        for round in 1..=rounds {
            state = shift_rows(&state).into_iter().map(sbox).collect();
            if round < rounds {
                state = mix_columns(&state);
            }
            add_round_key(&mut state, &schedule[16 * round..][..16]);
        }
        b.output(from_bytes(b, &state));
    }))
}

fn to_bytes<'b>(word: &Word<'b>) -> Vec<Byte<'b>> {
    let mut bits = word.bits();
    bits.reverse();
    bits.as_chunks().0.to_vec()
}

fn from_bytes<'b>(b: Builder<'b>, bytes: &[Byte<'b>]) -> Word<'b> {
    b.word_of(bytes.iter().flatten().rev().copied())
}

fn expand_key<'b>(b: Builder<'b>, key: &[Byte<'b>], length: usize) -> Vec<Byte<'b>> {
    let mut schedule = key.to_vec();
    let mut round_constant = 1_u8;
    while schedule.len() < length {
        let made = schedule.len();
        let mut word: Vec<Byte<'b>> = schedule[made - 4..].to_vec();
        if made.is_multiple_of(key.len()) {
            word.rotate_left(1);
            word = word.into_iter().map(sbox).collect();
            word[0] = xor(word[0], byte(b, round_constant));
            round_constant = round_constant << 1 ^ if round_constant >> 7 == 1 { 0x1b } else { 0 };
        } else if key.len() > 24 && made % key.len() == 16 {
            word = word.into_iter().map(sbox).collect();
        }
        for (i, new) in word.into_iter().enumerate() {
            schedule.push(xor(new, schedule[made - key.len() + i]));
        }
    }
    schedule
}

fn add_round_key<'b>(state: &mut [Byte<'b>], key: &[Byte<'b>]) {
    for (byte, key) in state.iter_mut().zip(key) {
        *byte = xor(*byte, *key);
    }
}

/// Rotates row `r` of the column-major 4×4 state left by `r` bytes.
fn shift_rows<'b>(state: &[Byte<'b>]) -> Vec<Byte<'b>> {
    (0..16).map(|i| state[(i + 4 * (i % 4)) % 16]).collect()
}

fn mix_columns<'b>(state: &[Byte<'b>]) -> Vec<Byte<'b>> {
    let mut mixed = Vec::with_capacity(16);
    for column in state.chunks_exact(4) {
        let all = column.iter().copied().reduce(xor);
        for i in 0..4 {
            // 2 a + 3 b + c + d = a + (a + b + c + d) + 2 (a + b)
            let doubled = double(xor(column[i], column[(i + 1) % 4]));
            let sum = xor(column[i], doubled);
            mixed.push(all.map_or(sum, |all| xor(sum, all)));
        }
    }
    mixed
}

/// Multiplies by x in GF(2^8), modulo x^8 + x^4 + x^3 + x + 1.
fn double(a: Byte<'_>) -> Byte<'_> {
    let [a7, a6, a5, a4, a3, a2, a1, a0] = a;
    [a6, a5, a4, a3 ^ a7, a2 ^ a7, a1, a0 ^ a7, a7]
}

fn xor<'b>(a: Byte<'b>, b: Byte<'b>) -> Byte<'b> {
    std::array::from_fn(|i| a[i] ^ b[i])
}

fn byte(b: Builder<'_>, value: u8) -> Byte<'_> {
    std::array::from_fn(|i| b.bit(value >> (7 - i) & 1 == 1))
}
