//! Transfer of chosen messages with base-OT keys and with correlated OTs.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroizing;

use crate::cipher::Cipher;
use crate::extension::{Block, from_block, to_block};

/// Returns the two messages of the sender of a *direct* OT, each masked with one key of a base OT.
/// The keys already depend on their session and instance.
///
/// Use a pair of keys only once: a second use reveals the difference of the messages.
#[must_use]
pub fn mask_pair(keys: [u128; 2], messages: [u128; 2]) -> [u128; 2] {
    [keys[0] ^ messages[0], keys[1] ^ messages[1]]
}

/// Returns the chosen message of a direct OT, unmasked with its key in constant time.
#[must_use]
pub fn unmask_pair(key: u128, choice: bool, masked: [u128; 2]) -> u128 {
    key ^ choose(u8::from(choice), masked)
}

/// The exclusive upper bound on the indices of [`MaskHash`].
pub const MAX_INDEX: u64 = 1 << 56;

/// Chosen-message OT from correlated OT: message `b` of OT `i` is masked with `H(q_i ^ b * delta,
/// i)`, and the receiver can compute `H(t_i, i)` for its choice.
///
/// `H(x, i) = P(P(x) ^ tweak(i)) ^ P(x)` is the hash TMMO of Guo, Katz, Wang and Yu (eprint
/// 2019/074). `P` is AES-128 under a public key that is derived from the session id. The tweak has
/// the index in bytes 0 to 7 and the domain separator 0x01 in byte 15. An index must not repeat
/// within a session.
pub struct MaskHash {
    cipher: Cipher,
}

impl MaskHash {
    /// Returns the hash of a session, with its public permutation.
    #[must_use]
    pub fn new(sid: &[u8; 32]) -> Self {
        let digest = Sha256::new()
            .chain_update(b"transpute OT mask v1")
            .chain_update(sid)
            .finalize();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Self {
            cipher: Cipher::new(u128::from_le_bytes(key)),
        }
    }

    /// Replaces `values[j]` by its hash at index `start + j`.
    ///
    /// # Panics
    /// Panics if an index reaches [`MAX_INDEX`].
    pub fn hash(&self, start: u64, values: &mut [u128]) {
        check_range(start, values.len());
        let [mut blocks, mut outer] = buffers();
        for (part, values) in values.chunks_mut(BATCH_VALUES).enumerate() {
            let blocks = &mut blocks[..values.len()];
            for (block, value) in blocks.iter_mut().zip(&*values) {
                *block = to_block(*value);
            }
            self.hash_with(blocks, &mut outer, |i| {
                start + (part * BATCH_VALUES + i) as u64
            });
            for (block, value) in blocks.iter().zip(values) {
                *value = from_block(*block);
            }
        }
    }

    /// Appends both masked messages of the OTs `start..start + q.len()`, for the sender to send.
    ///
    /// # Panics
    /// Panics unless `messages` has as many pairs as `q` has elements, or if an index reaches
    /// [`MAX_INDEX`].
    pub fn mask(
        &self,
        start: u64,
        q: &[u128],
        delta: u128,
        messages: &[[u128; 2]],
        masked: &mut Vec<[u128; 2]>,
    ) {
        assert_eq!(q.len(), messages.len(), "one pair of messages per OT");
        check_range(start, q.len());
        masked.reserve(q.len());
        let [mut hashes, mut outer] = buffers();
        let mut pairs = Zeroizing::new([[0; 2]; BATCH_VALUES / 2]);
        let parts = q
            .chunks(BATCH_VALUES / 2)
            .zip(messages.chunks(BATCH_VALUES / 2));
        for (part, (q, messages)) in parts.enumerate() {
            let hashes = &mut hashes[..2 * q.len()];
            let (keys, _) = hashes.as_chunks_mut::<2>();
            for (keys, q) in keys.iter_mut().zip(q) {
                *keys = [to_block(*q), to_block(q ^ delta)];
            }
            self.hash_with(hashes, &mut outer, |i| {
                start + (part * (BATCH_VALUES / 2) + i / 2) as u64
            });
            let pairs = &mut pairs[..q.len()];
            let (keys, _) = hashes.as_chunks::<2>();
            for (pair, (keys, messages)) in pairs.iter_mut().zip(keys.iter().zip(messages)) {
                *pair = mask_pair(keys.map(from_block), *messages);
            }
            masked.extend_from_slice(pairs);
        }
    }

    /// Appends the chosen messages of the OTs `start..start + t.len()`. The choice of OT `start +
    /// j` is bit `j % 64` of `choices[j / 64]`; no branch and no memory address depends on it.
    ///
    /// # Panics
    /// Panics unless `masked` has as many pairs as `t` has elements and there are at least as many
    /// choices, or if an index reaches [`MAX_INDEX`].
    pub fn unmask(
        &self,
        start: u64,
        t: &[u128],
        choices: &[u64],
        masked: &[[u128; 2]],
        messages: &mut Vec<u128>,
    ) {
        assert_eq!(t.len(), masked.len(), "one masked pair per OT");
        assert!(
            choices.len() >= t.len().div_ceil(64),
            "{} words of choices for {} OTs",
            choices.len(),
            t.len()
        );
        check_range(start, t.len());
        messages.reserve(t.len());
        let [mut keys, mut outer] = buffers();
        for (part, (t, masked)) in t
            .chunks(BATCH_VALUES)
            .zip(masked.chunks(BATCH_VALUES))
            .enumerate()
        {
            let first = part * BATCH_VALUES;
            let keys = &mut keys[..t.len()];
            for (key, t) in keys.iter_mut().zip(t) {
                *key = to_block(*t);
            }
            self.hash_with(keys, &mut outer, |i| start + (first + i) as u64);
            messages.extend(
                keys.iter()
                    .zip(masked)
                    .enumerate()
                    .map(|(i, (key, masked))| {
                        let j = first + i;
                        from_block(*key) ^ choose((choices[j / 64] >> (j % 64) & 1) as u8, *masked)
                    }),
            );
        }
    }

    /// Replaces values by their hashes, with two AES calls over all values.
    #[inline]
    fn hash_with(&self, values: &mut [Block], outer: &mut Blocks, index: impl Fn(usize) -> u64) {
        let outer = &mut outer[..values.len()];
        self.cipher.encrypt(values);
        for (i, (outer, inner)) in outer.iter_mut().zip(&*values).enumerate() {
            *outer = [inner[0] ^ index(i), inner[1] ^ DOMAIN];
        }
        self.cipher.encrypt(outer);
        for (value, outer) in values.iter_mut().zip(outer) {
            *value = [value[0] ^ outer[0], value[1] ^ outer[1]];
        }
    }
}

/// Number of values hashed at a time: a multiple of 64, the number of blocks that the widest AES
/// back end encrypts at a time.
const BATCH_VALUES: usize = 128;

type Blocks = [Block; BATCH_VALUES];

/// Returns buffers for values and for the inputs of the outer permutation.
fn buffers() -> [Zeroizing<Blocks>; 2] {
    [(); 2].map(|()| Zeroizing::new([[0; 2]; BATCH_VALUES]))
}

/// The domain separator 0x01 of OT masks in byte 15 of the tweak, as part of its high word.
const DOMAIN: u64 = 1 << 56;

fn check_range(start: u64, count: usize) {
    assert!(
        start.saturating_add(count as u64) <= MAX_INDEX,
        "OT index over 2^56"
    );
}

/// Returns element `choice` (0 or 1) without a branch.
fn choose(choice: u8, pair: [u128; 2]) -> u128 {
    u128::conditional_select(&pair[0], &pair[1], Choice::from(choice))
}
