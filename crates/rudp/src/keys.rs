//! Keys of a connection, derived from the exporter secret of a TLS session.

use std::fmt;

use ring::aead::{self, LessSafeKey, UnboundKey};
use ring::hkdf;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::seal::{Opener, Sealer};

/// A side of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndpointSide {
    /// The end that sends the first datagram.
    Connector,
    /// The end that waits for the first datagram.
    Listener,
}

/// The authenticated encryption of packets. Both ends must use the same cipher.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-128-GCM: the fastest if the processor has AES instructions.
    #[default]
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439): the fastest if the processor has no AES instructions.
    ChaCha20Poly1305,
}

impl Cipher {
    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

/// Error of a key derivation.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum KeyError {
    /// The secret has the wrong length.
    #[error("expected an exporter secret of 32 to 64 bytes, got {0}")]
    SecretLength(usize),
    /// The cryptographic library failed.
    #[error("the cryptographic library failed to derive keys")]
    Library,
}

/// The keys of one end of a connection, for both directions.
///
/// Keys are derived with HKDF-SHA-256 (RFC 5869). The secret of each direction yields a key, an IV
/// and the *connection ID*. The connection ID is four bytes in every packet, which a socket shared
/// by several connections uses for demultiplexing. All secrets are wiped on drop.
pub struct PacketKeys {
    pub(crate) side: EndpointSide,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
}

impl PacketKeys {
    /// Derives keys from an exporter secret that only the two ends have.
    ///
    /// `context` distinguishes the connections of one TLS session, and both ends must pass the
    /// same. Two connections of one secret must not share a context: they would encrypt different
    /// packets under the same key and nonce.
    ///
    /// # Errors
    ///
    /// Returns an error if the secret does not have 32 to 64 bytes.
    pub fn new(
        side: EndpointSide,
        secret: &[u8],
        context: &[u8],
        cipher: Cipher,
    ) -> Result<Self, KeyError> {
        if !(32..=64).contains(&secret.len()) {
            return Err(KeyError::SecretLength(secret.len()));
        }
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"transpute rudp 1").extract(secret);
        let traffic = |label: &[u8]| expand(&prk, &[b"traffic ", label, b" ", context]);
        let connector = Ratchet::new(traffic(b"connector")?, Some(cipher));
        let listener = Ratchet::new(traffic(b"listener")?, Some(cipher));
        Self::assemble(side, connector, listener)
    }

    /// Creates keys that protect nothing: packets are readable and carry a checksum in place of a
    /// tag.
    ///
    /// This is for benchmarks of the cost of encryption. Anyone who sees a packet can forge others.
    /// Both ends must pass the same `context`, from which connection IDs are derived.
    ///
    /// # Errors
    ///
    /// Returns an error only if the cryptographic library fails.
    pub fn plaintext(side: EndpointSide, context: &[u8]) -> Result<Self, KeyError> {
        let prk =
            hkdf::Salt::new(hkdf::HKDF_SHA256, b"transpute rudp 1 plaintext").extract(context);
        let connector = Ratchet::new(expand(&prk, &[b"connector"])?, None);
        let listener = Ratchet::new(expand(&prk, &[b"listener"])?, None);
        Self::assemble(side, connector, listener)
    }

    /// Returns the connection ID in packets to this end.
    #[must_use]
    pub fn local_id(&self) -> u32 {
        self.opener.id()
    }

    /// Returns the connection ID in packets to the peer.
    #[must_use]
    pub fn remote_id(&self) -> u32 {
        self.sealer.id()
    }

    /// Returns the side that these keys are for.
    #[must_use]
    pub fn side(&self) -> EndpointSide {
        self.side
    }

    /// Returns whether packets are encrypted and authenticated.
    #[must_use]
    pub fn protects(&self) -> bool {
        self.sealer.protects()
    }

    fn assemble(
        side: EndpointSide,
        connector: Ratchet,
        listener: Ratchet,
    ) -> Result<Self, KeyError> {
        let (out, into) = match side {
            EndpointSide::Connector => (connector, listener),
            EndpointSide::Listener => (listener, connector),
        };
        Ok(Self {
            side,
            sealer: Sealer::new(out)?,
            opener: Opener::new(into)?,
        })
    }
}

impl fmt::Debug for PacketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("side", &self.side)
            .field("protects", &self.protects())
            .finish_non_exhaustive()
    }
}

/// The key of the packets of one epoch in one direction.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all keys are of the large variant, and a connection has only four"
)]
pub(crate) enum PacketKey {
    Aead {
        key: LessSafeKey,
        iv: [u8; 12],
    },
    /// The initial value of the checksum, for packets without protection.
    Checksum(u64),
}

/// The secret of one direction and epoch. A one-way function derives the secret of the next epoch
/// from it.
pub(crate) struct Ratchet {
    secret: Zeroizing<[u8; 32]>,
    cipher: Option<Cipher>,
}

impl Ratchet {
    fn new(secret: Zeroizing<[u8; 32]>, cipher: Option<Cipher>) -> Self {
        Self { secret, cipher }
    }

    pub(crate) fn connection_id(&self) -> Result<u32, KeyError> {
        let id = expand(&self.prk(), &[b"id"])?;
        Ok(u32::from_le_bytes([id[0], id[1], id[2], id[3]]))
    }

    /// Returns the key of this epoch and advances to the next epoch. The key cannot be computed
    /// from the secret of the next epoch.
    pub(crate) fn step(&mut self) -> Result<PacketKey, KeyError> {
        let prk = self.prk();
        let iv = expand(&prk, &[b"iv"])?;
        let key = match self.cipher {
            Some(cipher) => {
                let algorithm = cipher.algorithm();
                let bytes = expand(&prk, &[b"key"])?;
                // Keys have 16 or 32 bytes.
                let key = UnboundKey::new(algorithm, &bytes[..algorithm.key_len()])
                    .map_err(|_| KeyError::Library)?;
                let mut nonce = [0; 12];
                nonce.copy_from_slice(&iv[..12]);
                PacketKey::Aead {
                    key: LessSafeKey::new(key),
                    iv: nonce,
                }
            }
            None => {
                let mut start = [0; 8];
                start.copy_from_slice(&iv[..8]);
                PacketKey::Checksum(u64::from_le_bytes(start))
            }
        };
        self.secret = expand(&prk, &[b"next"])?;
        Ok(key)
    }

    fn prk(&self) -> hkdf::Prk {
        hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, self.secret.as_ref())
    }
}

struct Length32;

impl hkdf::KeyType for Length32 {
    fn len(&self) -> usize {
        32
    }
}

fn expand(prk: &hkdf::Prk, info: &[&[u8]]) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let mut out = Zeroizing::new([0; 32]);
    prk.expand(info, Length32)
        .and_then(|okm| okm.fill(out.as_mut()))
        .map_err(|_| KeyError::Library)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_ids_match_and_differ_by_direction_and_context() {
        let keys = |side, context: &[u8]| {
            PacketKeys::new(side, &[7; 32], context, Cipher::default()).unwrap()
        };
        let a = keys(EndpointSide::Connector, b"x");
        let b = keys(EndpointSide::Listener, b"x");
        assert_eq!(a.local_id(), b.remote_id());
        assert_eq!(a.remote_id(), b.local_id());
        assert_ne!(a.local_id(), a.remote_id());
        assert_ne!(a.local_id(), keys(EndpointSide::Connector, b"y").local_id());
    }

    #[test]
    fn secrets_of_wrong_length_are_rejected_and_secrets_are_not_printed() {
        for length in [0, 31, 65] {
            let keys = PacketKeys::new(
                EndpointSide::Connector,
                &vec![7; length],
                b"",
                Cipher::default(),
            );
            assert_eq!(keys.err(), Some(KeyError::SecretLength(length)));
        }
        let keys = PacketKeys::plaintext(EndpointSide::Connector, b"").unwrap();
        assert_eq!(
            format!("{keys:?}"),
            "Keys { side: Connector, protects: false, .. }"
        );
    }
}
