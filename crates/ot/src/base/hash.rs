//! The random oracles of the base OTs: onto points, and onto keys. Lengths go in before what varies in length, so that no
//! two inputs have the same encoding.

use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

const POINT_DOMAIN: &[u8] = b"transpute base OT v1: hash to point";

/// What separates the key derivations of different kinds of base OT.
pub(super) struct Domains {
    pub(super) transcript: &'static [u8],
    pub(super) key: &'static [u8],
}

/// Those of the curve.
pub(super) const CURVE: Domains = Domains {
    transcript: b"transpute base OT v1: transcript",
    key: b"transpute base OT v1: key",
};

/// Hash to group elements, one function per exchange, instance and branch.
pub(super) struct PointHash {
    prefix: Sha512,
}

impl PointHash {
    pub(super) fn new(binding: &[u8]) -> Self {
        let prefix = Sha512::new()
            .chain_update(POINT_DOMAIN)
            .chain_update((binding.len() as u64).to_le_bytes())
            .chain_update(binding);
        Self { prefix }
    }

    /// Returns the uniform bytes that stand for half of the hash of the point of the other branch:
    /// the hash itself is twice their point.
    pub(super) fn uniform(&self, instance: usize, branch: u8, other: &[u8; 32]) -> [u8; 64] {
        self.prefix
            .clone()
            .chain_update((instance as u64).to_le_bytes())
            .chain_update([branch])
            .chain_update(other)
            .finalize()
            .into()
    }
}

/// Key derivation, bound to the session, both full messages, the instance and the branch.
pub(super) struct KeyHash {
    prefix: Sha256,
}

impl KeyHash {
    pub(super) fn new(
        domains: &Domains,
        sid: &[u8; 32],
        binding: &[u8],
        receiver_message: &[u8],
        sender_message: &[u8],
    ) -> Self {
        let transcript = Sha256::new()
            .chain_update(domains.transcript)
            .chain_update((binding.len() as u64).to_le_bytes())
            .chain_update(binding)
            .chain_update((receiver_message.len() as u64).to_le_bytes())
            .chain_update(receiver_message)
            .chain_update(sender_message)
            .finalize();
        let prefix = Sha256::new()
            .chain_update(domains.key)
            .chain_update(sid)
            .chain_update(transcript);
        Self { prefix }
    }

    /// Returns both keys of every instance, from what is shared for each of its branches, one after the other.
    pub(super) fn pairs(&self, shared: &[[u8; 32]]) -> Zeroizing<Vec<[u128; 2]>> {
        let (pairs, _) = shared.as_chunks::<2>();
        let keys = pairs
            .iter()
            .enumerate()
            .map(|(i, [zero, one])| [self.key(i, 0, zero), self.key(i, 1, one)]);
        Zeroizing::new(keys.collect())
    }

    pub(super) fn key(&self, instance: usize, branch: u8, shared: &[u8; 32]) -> u128 {
        let digest = self
            .prefix
            .clone()
            .chain_update((instance as u64).to_le_bytes())
            .chain_update([branch])
            .chain_update(shared)
            .finalize();
        let digest = Zeroizing::new(<[u8; 32]>::from(digest));
        let mut key = Zeroizing::new([0; 16]);
        key.copy_from_slice(&digest[..16]);
        u128::from_le_bytes(*key)
    }
}

// Hashes keep a block of what they read.
const _: () = {
    const fn wiped_on_drop<T: zeroize::ZeroizeOnDrop>() {}
    wiped_on_drop::<Sha256>();
    wiped_on_drop::<Sha512>();
    wiped_on_drop::<shake::Shake128>();
};
