//! The pseudorandom generator: AES-128 in counter mode, keyed by the seed.
//!
//! A counter block has a 64-bit position in its low half and a 64-bit public label in its high
//! half. The label differs between the seeds of a session and between sessions, so that an attacker
//! needs a separate key search for each seed.

use zeroize::Zeroizing;

use crate::cipher::Cipher;
use crate::extension::{Block, from_block};

/// The pseudorandom stream of one seed; the key schedule is wiped on drop.
pub(crate) struct Stream {
    cipher: Cipher,
    label: u64,
}

impl Stream {
    pub(crate) fn new(seed: u128, label: u64) -> Self {
        let cipher = Cipher::new(seed);
        Self { cipher, label }
    }

    /// Writes blocks `position..position + out.len()` of the stream. Bit `i` of the stream is bit
    /// `i % 128` of block `i / 128`.
    #[inline]
    pub(crate) fn fill(&self, position: u64, out: &mut [Block]) {
        self.cipher.count(self.label, position, out);
    }

    /// Returns blocks 0 and 1, which are the two children of a tree node.
    pub(crate) fn pair(seed: u128, label: u64) -> [u128; 2] {
        let mut pair = Zeroizing::new([[0; 2]; 2]);
        Self::new(seed, label).fill(0, &mut *pair);
        pair.map(from_block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the same stream with the implementation of the `aes` crate.
    fn portable(seed: u128, label: u64) -> Stream {
        let cipher = Cipher::portable(seed);
        Stream { cipher, label }
    }

    #[test]
    fn blocks_are_aes_of_the_counter() {
        // FIPS 197, appendix C.1, with the plaintext as the label and the position.
        let key = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f_u128.swap_bytes();
        let plain = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.swap_bytes();
        for new in [Stream::new, portable] {
            let mut out = [[0; 2]];
            new(key, (plain >> 64) as u64).fill(plain as u64, &mut out);
            assert_eq!(
                from_block(out[0]).swap_bytes(),
                0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a
            );
        }
    }

    #[test]
    fn every_back_end_writes_the_same_bytes() {
        for len in [0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 63, 64, 65, 100, 300] {
            for position in [0, 1, 1 << 32, u64::MAX - 400] {
                let [mut chosen, mut other] = [vec![[0; 2]; len], vec![[0; 2]; len]];
                Stream::new(!u128::from(position), position ^ 7).fill(position, &mut chosen);
                portable(!u128::from(position), position ^ 7).fill(position, &mut other);
                assert_eq!(chosen, other, "{len} blocks from {position}");
            }
        }
    }

    #[test]
    fn a_stream_does_not_depend_on_the_pieces_requested() {
        for stream in [Stream::new(77, 5), portable(77, 5)] {
            let mut whole = [[0; 2]; 200];
            stream.fill(3, &mut whole);
            for step in [1, 2, 16, 17, 63, 64, 65, 130] {
                let mut parts = [[0; 2]; 200];
                for (i, part) in parts.chunks_mut(step).enumerate() {
                    stream.fill(3 + (i * step) as u64, part);
                }
                assert_eq!(parts, whole, "step {step}");
            }
            let mut pair = [[0; 2]; 2];
            stream.fill(0, &mut pair);
            assert_eq!(Stream::pair(77, 5), pair.map(from_block));
        }
    }
}
