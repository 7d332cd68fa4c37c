//! Short hashes of output labels, with which the evaluator detects altered tables and labels.
//!
//! `H(L, i) = π(π(L) ⊕ i) ⊕ π(L)`, truncated to 8 bytes, with AES-128 as `π`. For an ideal
//! permutation this hash is tweakable and circular correlation robust (Guo, Katz, Wang, Yu:
//! "Efficient and Secure Multiparty Computation from Fixed-Key Block Ciphers", Theorem 4). That
//! property is needed because the two labels of every output differ by the same secret offset. Each
//! evaluation has its own key, `SHA-256("transpute output check\x03" ‖ sid ‖ evaluation)[..16]`;
//! `i` is the number of the output bit.

use aes::{
    Aes128, Block,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::Label;

/// Length of a hash, in bytes.
pub(crate) const CHECK_BYTES: usize = 8;

/// The hash function of one evaluation.
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

    /// Returns the hashes of labels; each label comes with the number of its output bit.
    pub(crate) fn all(&self, labels: &[(usize, Label)]) -> Vec<[u8; CHECK_BYTES]> {
        // The key is public, so the result of either permutation reveals the label: both must be
        // wiped.
        let bytes = labels.iter().map(|(_, label)| label.to_bytes());
        let mut inner = Zeroizing::new(bytes.collect::<Vec<_>>());
        self.permute(&mut inner);
        let mut outer = inner.clone();
        for (bytes, &(bit, _)) in outer.iter_mut().zip(labels) {
            *bytes = (u128::from_le_bytes(*bytes) ^ bit as u128).to_le_bytes();
        }
        self.permute(&mut outer);
        (inner.iter().zip(outer.iter()))
            .map(|(inner, outer)| std::array::from_fn(|byte| inner[byte] ^ outer[byte]))
            .collect()
    }

    fn permute(&self, blocks: &mut [[u8; 16]]) {
        self.0
            .encrypt_blocks(Block::cast_slice_from_core_mut(blocks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_follows_its_definition_in_any_batch() {
        let hash = CheckHash::new(&[7; 32], 5);
        let label = |i: usize| Label::from_bytes([i as u8; 16]);
        let numbered = |i: usize| (3 * i, label(i));
        for count in [0, 1, 63, 64, 65, 200] {
            let all = hash.all(&(0..count).map(numbered).collect::<Vec<_>>());
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
            CheckHash::new(&[sid; 32], instance).all(&[(bit, Label::from_bytes([label; 16]))])[0]
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
