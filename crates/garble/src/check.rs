//! Short hashes of output labels, by which the evaluator notices what was altered on the way.
//!
//! `H(L, i) = π(π(L) ⊕ i) ⊕ π(L)`, truncated to 8 bytes, with AES-128 for `π`: tweakable and circular correlation robust for an
//! ideal permutation (Guo, Katz, Wang, Yu: "Efficient and Secure Multiparty Computation from Fixed-Key Block Ciphers",
//! Theorem 4), as the two labels of an output differ by a secret that all of them share. Each evaluation has a key of its own,
//! `SHA-256("transpute output check\x03" ‖ sid ‖ evaluation)[..16]`; `i` is the number of the output bit.

use aes::{
    Aes128, Block,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use sha2::{Digest, Sha256};
use zeroize::Zeroize;

use crate::Label;

/// Bytes of a hash.
pub(crate) const CHECK_BYTES: usize = 8;

/// Blocks per call of the cipher, which is several times slower on few.
const AT_ONCE: usize = 64;

/// Hashes the labels of one evaluation.
pub(crate) struct CheckHash(Aes128);

impl CheckHash {
    pub(crate) fn new(sid: &[u8; 32], instance: u64) -> Self {
        let key = Sha256::new()
            .chain_update(b"transpute output check\x03")
            .chain_update(sid)
            .chain_update(instance.to_le_bytes())
            .finalize();
        let mut short = [0; 16];
        short.copy_from_slice(&key[..16]);
        Self(Aes128::new(&short.into()))
    }

    /// Returns the hashes of labels of output bits, in their order.
    pub(crate) fn all(
        &self,
        labels: impl ExactSizeIterator<Item = (usize, Label)>,
    ) -> Vec<[u8; CHECK_BYTES]> {
        let mut hashes = Vec::with_capacity(labels.len());
        let mut labels = labels.peekable();
        let (mut inner, mut outer) = ([Block::default(); AT_ONCE], [Block::default(); AT_ONCE]);
        while labels.peek().is_some() {
            let mut bits = [0; AT_ONCE];
            let mut count = 0;
            for ((bit, label), (place, block)) in
                (labels.by_ref()).zip(bits.iter_mut().zip(&mut inner))
            {
                (*place, *block) = (bit, label.to_bytes().into());
                count += 1;
                if count == AT_ONCE {
                    break;
                }
            }
            self.0.encrypt_blocks(&mut inner[..count]);
            for ((outer, inner), bit) in outer.iter_mut().zip(&inner).zip(bits) {
                let tweaked = u128::from_le_bytes((*inner).into()) ^ bit as u128;
                *outer = tweaked.to_le_bytes().into();
            }
            self.0.encrypt_blocks(&mut outer[..count]);
            hashes.extend(
                outer
                    .iter()
                    .zip(&inner)
                    .take(count)
                    .map(|(outer, inner)| std::array::from_fn(|byte| outer[byte] ^ inner[byte])),
            );
        }
        // What stands here decides no secret once the labels are gone, and costs as little to wipe.
        inner.iter_mut().for_each(|block| block.zeroize());
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_its_equation_whatever_stands_beside_it() {
        let hash = CheckHash::new(&[7; 32], 5);
        let label = |i: usize| Label::from_bytes([i as u8; 16]);
        let numbered = |i: usize| (3 * i, label(i));
        for count in [0, 1, 63, 64, 65, 200] {
            let all = hash.all((0..count).map(numbered));
            assert_eq!(all.len(), count);
            for (i, found) in all.iter().enumerate() {
                let encrypt = |bytes: [u8; 16]| {
                    let mut block = Block::from(bytes);
                    hash.0.encrypt_block(&mut block);
                    u128::from_le_bytes(block.into())
                };
                let inner = encrypt(label(i).to_bytes());
                let outer = encrypt((inner ^ (3 * i) as u128).to_le_bytes());
                assert_eq!(*found, (inner ^ outer).to_le_bytes()[..8]);
            }
        }
    }

    #[test]
    fn a_hash_depends_on_session_evaluation_output_and_label() {
        let one = |sid: u8, instance, bit, label: u8| {
            CheckHash::new(&[sid; 32], instance)
                .all([(bit, Label::from_bytes([label; 16]))].into_iter())[0]
        };
        let hash = one(1, 1, 1, 1);
        for other in [
            one(2, 1, 1, 1),
            one(1, 2, 1, 1),
            one(1, 1, 2, 1),
            one(1, 1, 1, 2),
        ] {
            assert_ne!(hash, other);
        }
    }
}
