//! The pseudorandom generator: AES-128 in counter mode, keyed by the seed.
//!
//! A counter block is a 64-bit position (low half) and a 64-bit public label (high half) that
//! differs between the seeds of a session and between sessions, so that a guess of a key pays
//! against one seed only.

use aes::Aes128Enc;
use aes::cipher::array::Array;
use aes::cipher::consts::U16;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit,
    ParBlocks,
};

use zeroize::Zeroizing;

use crate::extension::{Block, from_block, to_block};
#[cfg(target_arch = "x86_64")]
use crate::wide::{Schedule, Wide};

/// The stream of one seed. The key schedule is wiped on drop.
pub(crate) struct Stream {
    cipher: Cipher,
    label: u64,
}

enum Cipher {
    Portable(Aes128Enc),
    #[cfg(target_arch = "x86_64")]
    Wide(Schedule),
}

impl Stream {
    pub(crate) fn new(seed: u128, label: u64) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Wide::detect() {
            let cipher = Cipher::Wide(Schedule::new(wide, seed));
            return Self { cipher, label };
        }
        Self::portable(seed, label)
    }

    /// The same stream with the `aes` crate.
    fn portable(seed: u128, label: u64) -> Self {
        let cipher = Cipher::Portable(Aes128Enc::new(&seed.to_le_bytes().into()));
        Self { cipher, label }
    }

    /// Writes blocks `position..position + out.len()` of the stream. Bit `i` of the stream is bit
    /// `i % 128` of block `i / 128`.
    #[inline]
    pub(crate) fn fill(&self, position: u64, out: &mut [Block]) {
        match &self.cipher {
            Cipher::Portable(cipher) => cipher.encrypt_with_backend(Counter {
                first: u128::from(self.label) << 64 | u128::from(position),
                out,
            }),
            #[cfg(target_arch = "x86_64")]
            Cipher::Wide(schedule) => schedule.fill(self.label, position, out),
        }
    }

    /// Returns blocks 0 and 1: the two children of a tree node.
    pub(crate) fn pair(seed: u128, label: u64) -> [u128; 2] {
        let mut pair = Zeroizing::new([[0; 2]; 2]);
        Self::new(seed, label).fill(0, &mut *pair);
        pair.map(from_block)
    }
}

/// Counter mode as a closure over whatever width the AES back end has.
struct Counter<'a> {
    first: u128,
    out: &'a mut [Block],
}

impl BlockSizeUser for Counter<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Counter<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let width = B::ParBlocksSize::USIZE;
        let mut next = self.first;
        for part in self.out.chunks_mut(width) {
            // A wide call costs as much as a few single blocks: a part-filled one still pays.
            if part.len() * 4 > width {
                let mut blocks = ParBlocks::<B>::default();
                for (i, block) in blocks.iter_mut().enumerate() {
                    *block = Array(next.wrapping_add(i as u128).to_le_bytes());
                }
                backend.encrypt_par_blocks_inplace(&mut blocks);
                for (out, block) in part.iter_mut().zip(&blocks) {
                    *out = to_block(u128::from_le_bytes(block.0));
                }
            } else {
                for (i, out) in part.iter_mut().enumerate() {
                    let mut block = Array(next.wrapping_add(i as u128).to_le_bytes());
                    backend.encrypt_block_inplace(&mut block);
                    *out = to_block(u128::from_le_bytes(block.0));
                }
            }
            next = next.wrapping_add(width as u128);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aes_of_the_counter() {
        // FIPS 197, appendix C.1, with the plaintext as label and position.
        let key = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f_u128.swap_bytes();
        let plain = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.swap_bytes();
        for new in [Stream::new, Stream::portable] {
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
                let [mut chosen, mut portable] = [vec![[0; 2]; len], vec![[0; 2]; len]];
                Stream::new(!u128::from(position), position ^ 7).fill(position, &mut chosen);
                Stream::portable(!u128::from(position), position ^ 7).fill(position, &mut portable);
                assert_eq!(chosen, portable, "{len} blocks from {position}");
            }
        }
    }

    #[test]
    fn any_split_of_a_stream_is_the_same_stream() {
        for stream in [Stream::new(77, 5), Stream::portable(77, 5)] {
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
