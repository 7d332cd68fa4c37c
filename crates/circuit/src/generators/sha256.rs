//! SHA-256 (FIPS 180-4): the compression function and the hash of whole messages.

use super::{GeneratorError, check, fixed};
use crate::{Bit, Builder, Circuit, Word};

/// Returns the circuit of the SHA-256 compression function. Input value 0 is the block (512 bits),
/// input value 1 is the state (256 bits), and output value 0 is the next state.
///
/// Wire 0 of each value is the least significant bit of the **last** byte, so
/// [`Bits::from_hex`](crate::Bits::from_hex) reads the hexadecimal notation of a block, state or
/// digest. A block of zeros and a state of zeros give `7ca51614...bf0be7a6`. The circuit neither
/// pads a message nor chains blocks: [`sha256`] does both. The widely used circuit file
/// `sha256.txt` has the same interface.
///
/// The circuit has 22,397 AND gates and AND depth 1,607.
#[must_use]
pub fn sha256_compression() -> Circuit {
    fixed(Builder::build(|b| {
        let block = to_words(&b.input_word(512));
        let state = to_words(&b.input_word(256));
        b.output(from_words(b, &compress(b, &state, &block)));
    }))
}

/// Returns a circuit that hashes a message of a fixed number of bytes. Input value 0 is the message
/// (`8 bytes` bits), output value 0 is the digest (256 bits).
///
/// Wire 0 is the least significant bit of the last byte, as in [`sha256_compression`]: input
/// `616263` ("abc") gives `ba7816bf...f20015ad`. The padding, the length and the initial state are
/// constants that the builder folds.
///
/// The circuit has at most 22,397 AND gates per block of 64 bytes. The blocks contain the message
/// and at least 9 bytes of padding.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] if `bytes` is over [`MAX_MESSAGE_BYTES`].
pub fn sha256(bytes: usize) -> Result<Circuit, GeneratorError> {
    sha256_of_parts(&[bytes])
}

/// Returns a circuit that hashes the concatenation of several inputs, so that each party can
/// contribute a part. Input value `i` has `8 parts[i]` bits and is part `i` of the message.
///
/// The bit order and the number of gates are the same as for [`sha256`]. For example, the inputs
/// `6162` and `63` give the digest of "abc".
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] if the sum of `parts` is over [`MAX_MESSAGE_BYTES`].
pub fn sha256_of_parts(parts: &[usize]) -> Result<Circuit, GeneratorError> {
    let bytes = parts.iter().fold(0, |sum: usize, &n| sum.saturating_add(n));
    check("message bytes", bytes, 0..=MAX_MESSAGE_BYTES)?;
    Ok(Builder::build(|b| {
        let mut message: Vec<Bit<'_>> = Vec::with_capacity(8 * bytes + 1024);
        for part in parts {
            message.extend(b.input_word(8 * part).bits().into_iter().rev());
        }
        message.push(b.bit(true));
        while message.len() % 512 != 448 {
            message.push(b.bit(false));
        }
        message.extend((0..64).rev().map(|i| b.bit((8 * bytes) >> i & 1 == 1)));
        let mut state: Vec<Word<'_>> = (INITIAL_STATE.iter())
            .map(|&word| b.word(word.into(), 32))
            .collect();
        for block in message.chunks_exact(512) {
            let block = to_words(&b.word_of(block.iter().rev().copied()));
            state = compress(b, &state, &block);
        }
        b.output(from_words(b, &state));
    })?)
}

/// The largest message length of [`sha256`], in bytes. The circuit for such a message has 5.8
/// million AND gates.
pub const MAX_MESSAGE_BYTES: usize = 1 << 14;

/// Applies the compression function to `state` (8 words) and `block` (16 words).
fn compress<'b>(b: Builder<'b>, state: &[Word<'b>], block: &[Word<'b>]) -> Vec<Word<'b>> {
    let mut schedule = block.to_vec();
    for i in 16..64 {
        let sigma0 = sigma(&schedule[i - 15], [7, 18], LastTerm::Shift(3));
        let sigma1 = sigma(&schedule[i - 2], [17, 19], LastTerm::Shift(10));
        let terms = [
            schedule[i - 16].clone(),
            sigma0,
            schedule[i - 7].clone(),
            sigma1,
        ];
        schedule.push(Word::sum(&terms).materialize());
    }
    let mut rotated: [Word<'b>; 8] = std::array::from_fn(|i| state[i].clone());
    let mut bc_differ = &state[1] ^ &state[2];
    for (word, &constant) in schedule.iter().zip(&ROUND_CONSTANTS) {
        let [a, b1, c, d, e, f, g, h] = rotated;
        let sum1 = sigma(&e, [6, 11], LastTerm::Rotate(25));
        let choice = &g ^ &(&e & &(&f ^ &g));
        // The round constant and the schedule word are added separately, because the trailing zero
        // bits of the constant then save carries.
        let keyed = (word + &b.word(constant.into(), 32)).materialize();
        let t1 = Word::sum(&[h, sum1, choice, keyed]);
        let sum0 = sigma(&a, [2, 13], LastTerm::Rotate(22));
        // The majority of a, b and c is b if a = b, and c otherwise. The next round's b and c are
        // this round's a and b, so `ab_differ` is the next `bc_differ`.
        let ab_differ = &a ^ &b1;
        let majority = &b1 ^ &(&ab_differ & &bc_differ);
        bc_differ = ab_differ;
        let new_e = (&d + &t1).materialize();
        let new_a = Word::sum(&[sum0, majority, t1]).materialize();
        rotated = [new_a, a, b1, c, new_e, e, f, g];
    }
    (state.iter().zip(&rotated)).map(|(a, b)| a + b).collect()
}

/// The last of the three terms of a sigma function: a rotation or a shift.
enum LastTerm {
    Rotate(usize),
    Shift(usize),
}

fn sigma<'b>(word: &Word<'b>, rotations: [usize; 2], last: LastTerm) -> Word<'b> {
    let last = match last {
        LastTerm::Rotate(distance) => word.rotate_right(distance),
        LastTerm::Shift(distance) => word >> distance,
    };
    word.rotate_right(rotations[0]) ^ word.rotate_right(rotations[1]) ^ last
}

/// Splits a value into 32-bit words, the most significant word first.
fn to_words<'b>(value: &Word<'b>) -> Vec<Word<'b>> {
    (0..value.width() / 32)
        .rev()
        .map(|i| value.slice(32 * i..32 * (i + 1)))
        .collect()
}

fn from_words<'b>(b: Builder<'b>, words: &[Word<'b>]) -> Word<'b> {
    b.word_of(words.iter().rev().flat_map(Word::bits))
}

/// The first 32 bits of the fractional parts of the square roots of the first 8 primes.
const INITIAL_STATE: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
#[rustfmt::skip]
const ROUND_CONSTANTS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];
