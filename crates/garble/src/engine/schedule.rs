//! The schedule of one AES key, under which many blocks are encrypted.

use aes::{
    Aes128Enc, Aes256Enc,
    cipher::{Array, BlockCipherEncrypt, KeyInit, consts::U16},
};

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
use super::KeyExpander;

/// A block of 16 bytes, as the `aes` crate stores it.
pub(crate) type Block = Array<u8, U16>;

/// The schedule of a key of 128 or 256 bits; wiped on drop.
pub(crate) struct Schedule {
    cipher: Cipher,
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    keys: RoundKeys,
}

enum Cipher {
    Aes128(Aes128Enc),
    Aes256(Aes256Enc),
}

impl Schedule {
    /// Expands a key of 128 bits.
    pub(crate) fn aes128(key: &[u8; 16]) -> Self {
        Self {
            cipher: Cipher::Aes128(Aes128Enc::new(&Array(*key))),
            #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
            keys: RoundKeys::expand(key),
        }
    }

    /// Expands a key of 256 bits.
    pub(crate) fn aes256(key: &[u8; 32]) -> Self {
        Self {
            cipher: Cipher::Aes256(Aes256Enc::new(&Array(*key))),
            #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
            keys: RoundKeys::expand(key),
        }
    }

    /// Encrypts blocks in place. The `aes` crate is fastest with 64 blocks per call.
    pub(crate) fn encrypt_blocks(&self, blocks: &mut [Block]) {
        match &self.cipher {
            Cipher::Aes128(cipher) => cipher.encrypt_blocks(blocks),
            Cipher::Aes256(cipher) => cipher.encrypt_blocks(blocks),
        }
    }

    /// Returns the round keys, for instruction sets with single AES rounds.
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    #[inline(always)]
    pub(super) fn round_keys(&self) -> &[u128] {
        &self.keys.keys[..=self.keys.rounds]
    }
}

/// The round keys of one key; all zero on CPUs without AES instructions, which do not use them.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
#[derive(zeroize::ZeroizeOnDrop)]
struct RoundKeys {
    keys: [u128; 15],
    /// Number of AES rounds: 10 or 14. There is one more round key than rounds.
    #[zeroize(skip)]
    rounds: usize,
}

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
impl RoundKeys {
    fn expand(key: &[u8]) -> Self {
        let mut expanded = Self {
            keys: [0; 15],
            rounds: key.len() / 4 + 6,
        };
        if let Some(isa) = KeyExpander::detect() {
            isa.expand(key, &mut expanded.keys);
        }
        expanded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::Backend,
        dispatch::{Dispatch, Job},
        engine::{Isa, MAX_WIDTH, Wide},
    };

    /// Encrypts two groups of blocks.
    struct Encrypt<'a>(&'a Schedule, &'a mut [[Block; MAX_WIDTH]; 2]);

    impl Job for Encrypt<'_> {
        #[inline(always)]
        fn run<I: Isa, const N: usize, const M: usize, J, const P: usize, L>(
            self,
            w: Wide<I, N>,
            _half: Wide<I, M>,
            _pair: Wide<J, P>,
            _narrow: Wide<L, 1>,
        ) where
            J: Isa<Keys = I::Keys>,
            L: Isa<Keys = I::Keys>,
        {
            let mut groups = [w.splat(0); 2];
            for (group, blocks) in groups.iter_mut().zip(&*self.1) {
                *group = w.load(blocks.map(|block| block.0).as_flattened(), 16);
            }
            for (group, made) in w.encrypt_scheduled(self.0, groups).into_iter().enumerate() {
                let mut bytes = [0; 16 * MAX_WIDTH];
                w.store(made, &mut bytes, 16);
                for (block, bytes) in self.1[group].iter_mut().zip(bytes.chunks_exact(16)) {
                    block.0.copy_from_slice(bytes);
                }
            }
        }
    }

    #[test]
    fn aes_gives_the_answers_of_fips_197_appendix_c() {
        // The test vectors are those of FIPS-197, appendices C.1 and C.3.
        let key: [u8; 32] = std::array::from_fn(|i| i as u8);
        let plain: [u8; 16] = std::array::from_fn(|i| 0x11 * i as u8);
        let mut short = [0; 16];
        short.copy_from_slice(&key[..16]);
        let cases = [
            (
                Schedule::aes128(&short),
                0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128,
            ),
            (
                Schedule::aes256(&key),
                0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089,
            ),
        ];
        for (schedule, answer) in cases {
            let mut blocks = [[Array([0; 16]); MAX_WIDTH]; 2];
            for (i, block) in blocks.as_flattened_mut().iter_mut().enumerate() {
                block.0 = [i as u8; 16];
            }
            blocks[1][3].0 = plain;
            let mut expected = blocks;
            schedule.encrypt_blocks(expected.as_flattened_mut());
            assert_eq!(expected[1][3].0, answer.to_be_bytes());
            for backend in Backend::available() {
                let mut blocks = blocks;
                Dispatch::new(backend)
                    .unwrap()
                    .run(Encrypt(&schedule, &mut blocks));
                assert_eq!(blocks, expected, "{backend}");
            }
        }
    }
}
