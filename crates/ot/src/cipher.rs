//! AES-128 with one key: counter mode, and encryption of any number of blocks.

use aes::Aes128Enc;
use aes::cipher::array::Array;
use aes::cipher::consts::U16;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit,
    ParBlocks,
};

use zeroize::Zeroize;

use crate::extension::{Block, from_block, to_block};
#[cfg(target_arch = "x86_64")]
use crate::wide::{Schedule, Wide};

/// A key schedule, wiped on drop. Blocks are little-endian.
pub(crate) enum Cipher {
    Portable(Aes128Enc),
    #[cfg(target_arch = "x86_64")]
    Wide(Schedule),
}

impl Cipher {
    /// Returns the fastest implementation that this CPU supports.
    pub(crate) fn new(key: u128) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Wide::detect() {
            return Self::Wide(Schedule::new(wide, key));
        }
        Self::portable(key)
    }

    /// Returns the implementation of the `aes` crate, which uses the AES instructions of ARM64.
    pub(crate) fn portable(key: u128) -> Self {
        Self::Portable(Aes128Enc::new(&key.to_le_bytes().into()))
    }

    /// Writes the encryption of `label << 64 | position + i` to `out[i]`.
    #[inline]
    pub(crate) fn count(&self, label: u64, position: u64, out: &mut [Block]) {
        match self {
            Self::Portable(cipher) => cipher.encrypt_with_backend(Counter {
                first: u128::from(label) << 64 | u128::from(position),
                out,
            }),
            #[cfg(target_arch = "x86_64")]
            Self::Wide(schedule) => schedule.count(label, position, out),
        }
    }

    /// Encrypts every block in place.
    pub(crate) fn encrypt(&self, blocks: &mut [Block]) {
        match self {
            Self::Portable(cipher) => {
                let mut part = [Array([0; 16]); PORTABLE_BLOCKS];
                for blocks in blocks.chunks_mut(PORTABLE_BLOCKS) {
                    let part = &mut part[..blocks.len()];
                    for (block, plain) in part.iter_mut().zip(&*blocks) {
                        block.0 = from_block(*plain).to_le_bytes();
                    }
                    cipher.encrypt_blocks(part);
                    for (block, out) in part.iter().zip(blocks) {
                        *out = to_block(u128::from_le_bytes(block.0));
                    }
                }
                part.iter_mut().for_each(|block| block.0.zeroize());
            }
            #[cfg(target_arch = "x86_64")]
            Self::Wide(schedule) => schedule.encrypt(blocks),
        }
    }
}

/// Number of blocks per call of the `aes` crate. Its widest back end encrypts 64 blocks at a time.
const PORTABLE_BLOCKS: usize = 64;

/// Counter mode, as a closure that is generic over the width of the AES back end.
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
            // A wide call takes as long as a few single blocks, so it is worthwhile even for a
            // group that is partly filled.
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
    fn every_back_end_encrypts_to_the_same_bytes() {
        for len in [0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 100, 128, 200] {
            let plain: Vec<Block> = (0..len).map(|i| [i * i + 1, !i]).collect();
            let [mut chosen, mut portable] = [plain.clone(), plain.clone()];
            Cipher::new(99).encrypt(&mut chosen);
            Cipher::portable(99).encrypt(&mut portable);
            assert_eq!(chosen, portable, "{len} blocks");
            // Encrypting the counter blocks must equal counter mode.
            let mut counted = vec![[0; 2]; len as usize];
            Cipher::new(99).count(5, 7, &mut counted);
            let mut counters: Vec<Block> = (0..len).map(|i| [7 + i, 5]).collect();
            Cipher::new(99).encrypt(&mut counters);
            assert_eq!(counters, counted, "{len} blocks");
        }
    }
}
