//! The random oracles of the base OTs: the hash to points and the key derivation. The length of
//! every input of variable length is hashed before it, so that different inputs have different
//! encodings.

use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

const POINT_DOMAIN: &[u8] = b"transpute base OT v1: hash to point";

/// The domain separators of a kind of base OT.
pub(super) struct Domains {
    pub(super) transcript: &'static [u8],
    pub(super) key: &'static [u8],
}

/// The domain separators of base OT over Ristretto255.
pub(super) const CURVE: Domains = Domains {
    transcript: b"transpute base OT v1: transcript",
    key: b"transpute base OT v1: key",
};

/// The hash to points. Each exchange, instance and branch has its own function.
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

    /// Hashes the point of the other branch to uniform bytes. The hash to points is twice the point
    /// to which these bytes are mapped.
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

/// Derives keys that depend on the session, both full messages, the instance and the branch.
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

    /// Returns both keys of every instance. `shared` has two shared secrets per instance, one per
    /// branch.
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

// Hash functions buffer a block of input, so they must be wiped on drop.
const _: () = {
    const fn wiped_on_drop<T: zeroize::ZeroizeOnDrop>() {}
    wiped_on_drop::<Sha256>();
    wiped_on_drop::<Sha512>();
    #[cfg(feature = "ml-kem")]
    wiped_on_drop::<shake::Shake128>();
};
