//! The hybrid key agreement X25519MLKEM768: X25519 of *ring*, and ML-KEM-768.

use ml_kem::{
    Decapsulate, DecapsulationKey768, EncapsulationKey768, KeyExport, ml_kem_768::Ciphertext,
};
use rand::{TryRng, rngs::SysRng};
use rustls::{
    Error, NamedGroup, PeerMisbehaved, ProtocolVersion,
    crypto::{
        ActiveKeyExchange, CompletedKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup,
        ring,
    },
};
use zeroize::Zeroizing;

/// The size of an ML-KEM-768 encapsulation key, in bytes (FIPS 203, table 3).
const KEY_LEN: usize = 1184;
/// The size of an ML-KEM-768 ciphertext, in bytes (FIPS 203, table 3).
const CIPHERTEXT_LEN: usize = 1088;

/// The key agreement X25519MLKEM768 of draft-ietf-tls-ecdhe-mlkem.
///
/// The client's key share is an ML-KEM-768 encapsulation key, followed by an X25519 public key. The
/// server's key share is an ML-KEM-768 ciphertext, followed by an X25519 public key. The shared
/// secret is the ML-KEM-768 shared secret, followed by the X25519 shared secret. An attacker must
/// break both algorithms to learn the TLS keys.
#[derive(Debug)]
pub(super) struct X25519MlKem768;

impl SupportedKxGroup for X25519MlKem768 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let kem = DecapsulationKey768::from_seed((*random::<64>()?).into());
        let x25519 = ring::kx_group::X25519.start()?;
        let share = [&kem.encapsulation_key().to_bytes()[..], x25519.pub_key()].concat();
        Ok(Box::new(Started { kem, x25519, share }))
    }

    fn start_and_complete(&self, peer_share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, x25519) = peer_share
            .split_first_chunk::<KEY_LEN>()
            .ok_or(PeerMisbehaved::InvalidKeyShare)?;
        // This rejects keys with integers that are not reduced modulo 3329, as FIPS 203, section
        // 7.2, requires.
        let key = EncapsulationKey768::new(&(*key).into())
            .map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let x25519 = ring::kx_group::X25519.start_and_complete(x25519)?;
        // The other functions of the library take a generator that cannot fail.
        let (ciphertext, secret) = key.encapsulate_deterministic(&(*random::<32>()?).into());
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [&ciphertext[..], &x25519.pub_key].concat(),
            secret: combine(secret.into(), &x25519.secret),
        })
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

/// The client's side of the key agreement, until the server's key share arrives.
struct Started {
    kem: DecapsulationKey768,
    x25519: Box<dyn ActiveKeyExchange>,
    share: Vec<u8>,
}

impl ActiveKeyExchange for Started {
    fn complete(self: Box<Self>, peer_share: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, x25519) = peer_share
            .split_first_chunk::<CIPHERTEXT_LEN>()
            .ok_or(PeerMisbehaved::InvalidKeyShare)?;
        let secret = self.kem.decapsulate(&Ciphertext::from(*ciphertext));
        let x25519 = self.x25519.complete(x25519)?;
        Ok(combine(secret.into(), &x25519))
    }

    /// Returns the X25519 public key. With it, a server without ML-KEM need not send a
    /// HelloRetryRequest.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.x25519.group(), self.x25519.pub_key()))
    }

    fn complete_hybrid_component(
        self: Box<Self>,
        peer_share: &[u8],
    ) -> Result<SharedSecret, Error> {
        self.x25519.complete(peer_share)
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

/// Returns `N` random bytes of the operating system.
fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Error> {
    let mut bytes = Zeroizing::new([0; N]);
    SysRng
        .try_fill_bytes(&mut *bytes)
        .map_err(|_| GetRandomFailed)?;
    Ok(bytes)
}

/// Concatenates both shared secrets. The result is wiped when it is dropped.
fn combine(kem: [u8; 32], x25519: &SharedSecret) -> SharedSecret {
    let kem = Zeroizing::new(kem);
    SharedSecret::from([&kem[..], x25519.secret_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_get_the_same_secret_of_both_parts() {
        let started = X25519MlKem768.start().unwrap();
        assert_eq!(started.pub_key().len(), KEY_LEN + 32);
        let answer = X25519MlKem768
            .start_and_complete(started.pub_key())
            .unwrap();
        assert_eq!(answer.pub_key.len(), CIPHERTEXT_LEN + 32);
        let secret = started.complete(&answer.pub_key).unwrap();
        assert_eq!(secret.secret_bytes(), answer.secret.secret_bytes());
        assert_eq!(secret.secret_bytes().len(), 64);
    }

    /// Tests interoperability with graviola, an independent implementation. Each implementation is
    /// the client once and the server once.
    #[test]
    fn an_independent_implementation_gets_the_same_secret() {
        let theirs = rustls_graviola::kx::X25519MLKEM768;
        assert_eq!(theirs.name(), X25519MlKem768.name());
        let groups: [&dyn SupportedKxGroup; 2] = [&X25519MlKem768, theirs];
        for (connector, listener) in [(groups[0], groups[1]), (groups[1], groups[0])] {
            let started = connector.start().unwrap();
            let answer = listener.start_and_complete(started.pub_key()).unwrap();
            let secret = started.complete(&answer.pub_key).unwrap();
            assert_eq!(secret.secret_bytes(), answer.secret.secret_bytes());
        }
    }

    #[test]
    fn changed_and_malformed_shares_do_not_agree() {
        let share = X25519MlKem768.start().unwrap().pub_key().to_vec();
        for length in [0, KEY_LEN - 1, KEY_LEN, KEY_LEN + 31, KEY_LEN + 33] {
            let mut share = share.clone();
            share.resize(length, 0);
            assert!(
                X25519MlKem768.start_and_complete(&share).is_err(),
                "{length}"
            );
        }
        // The first two integers become 4095, but must be below 3329.
        let mut unreduced = share;
        unreduced[..3].fill(0xff);
        assert!(X25519MlKem768.start_and_complete(&unreduced).is_err());

        for position in [0, CIPHERTEXT_LEN - 1, CIPHERTEXT_LEN, CIPHERTEXT_LEN + 31] {
            let started = X25519MlKem768.start().unwrap();
            let mut answer = X25519MlKem768
                .start_and_complete(started.pub_key())
                .unwrap();
            answer.pub_key[position] ^= 1;
            let secret = started.complete(&answer.pub_key).unwrap();
            assert_ne!(secret.secret_bytes(), answer.secret.secret_bytes());
        }
        for length in [0, CIPHERTEXT_LEN, CIPHERTEXT_LEN + 31, CIPHERTEXT_LEN + 33] {
            let started = X25519MlKem768.start().unwrap();
            assert!(started.complete(&vec![1; length]).is_err(), "{length}");
        }
    }
}
