//! The identity of a party: an Ed25519 key, and its fingerprint.
//!
//! # Identity and pinning
//!
//! Every party has one long-term Ed25519 key, in a file that only its owner may read. Its
//! *fingerprint* is the SHA-256 of the public key. The two operators exchange fingerprints over a
//! channel that they trust (in person, by telephone, in a signed mail), and each configures the
//! peer's. Certificate authorities, host names and dates have no effect. On every transport, a peer
//! is authentic if it proves to hold the private key of a pinned fingerprint.
//!
//! On the wire, the key is in a self-signed X.509 certificate inside TLS 1.3. Raw public keys (RFC
//! 7250) would need fewer bytes, but common TLS tools can inspect certificates. The certificate is
//! a constant function of the key. The verifiers trust nothing in it: they compare the hash of the
//! public key with the pins, and check the handshake signature under that key. A message in an
//! extension of the certificate is authentic, because the handshake signature covers the
//! certificate as well (RFC 8446, section 4.4.3).

mod certificate;
mod der;
mod file;
mod fingerprint;
mod message;
mod pem;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rand::{TryRng, rngs::SysRng};
use rustls::{
    crypto::ring::sign::any_eddsa_type, pki_types::PrivatePkcs8KeyDer, sign::CertifiedKey,
};
use thiserror::Error;
use zeroize::Zeroizing;

use self::certificate::self_signed;
pub use self::fingerprint::{Fingerprint, FingerprintError};
pub(crate) use self::message::find as find_message;

/// A party's long-term Ed25519 key with its self-signed certificate.
///
/// The secret is wiped from memory on drop, and `Debug` prints only the fingerprint.
pub struct Identity {
    pkcs8: Zeroizing<Vec<u8>>,
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

/// The error of making, reading or writing an [`Identity`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file cannot be read.
    #[error("cannot read the key file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file cannot be created.
    #[error("cannot write the key file {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file of this name exists. An identity is never overwritten.
    #[error("the key file {} exists already and will not be overwritten", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The path is a directory, device or pipe.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Users other than the owner can access the key file.
    #[error(
        "the key file {} has mode {mode:04o}: others can reach the private key; run chmod 600 on it",
        path.display()
    )]
    Permissions {
        /// The file.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
    /// The file is too long to be a key.
    #[error("the key file {} has {got} bytes, expected at most {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The length of the file in bytes.
        got: u64,
        /// The maximum length in bytes.
        limit: u64,
    },
    /// The file contains no PEM private key.
    #[error("the key file {} {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem, which completes "the key file ...".
        reason: &'static str,
    },
    /// The key is not an Ed25519 key in PKCS#8 form.
    #[error("not an Ed25519 private key in PKCS#8 form: {detail}")]
    Key {
        /// The message of the cryptographic library.
        detail: String,
    },
    /// The operating system provided no random bytes.
    #[error("the operating system's random generator failed: {detail}")]
    Random {
        /// The message of the operating system.
        detail: String,
    },
    /// The self-signed certificate could not be built.
    #[error("cannot build the certificate: {detail}")]
    Certificate {
        /// The reason.
        detail: String,
    },
}

impl Identity {
    /// Generates an identity with random bytes of the operating system.
    ///
    /// # Errors
    /// Returns [`IdentityError::Random`] if the operating system provides no random bytes.
    pub fn generate() -> Result<Self, IdentityError> {
        // RFC 8410 section 7: this header, then the 32-byte seed of RFC 8032.
        let mut seed = Zeroizing::new([0; 32]);
        SysRng
            .try_fill_bytes(&mut *seed)
            .map_err(|error| IdentityError::Random {
                detail: error.to_string(),
            })?;
        Self::from_pkcs8(Zeroizing::new([&PKCS8_HEADER[..], &seed[..]].concat()))
    }

    /// Reads an identity from a file: a PKCS#8 Ed25519 key in PEM form, as written by
    /// [`save`](Self::save) and `openssl genpkey -algorithm ed25519`.
    ///
    /// # Errors
    /// Returns [`IdentityError::Permissions`] if group or others have any access to the file
    /// (Unix). The other variants describe their causes.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let path = path.as_ref();
        let text = file::read(path)?;
        let pkcs8 = pem::decode(&text).map_err(|reason| IdentityError::Format {
            path: path.to_owned(),
            reason,
        })?;
        Self::from_pkcs8(pkcs8)
    }

    /// Reads an identity from a file, or generates one and saves it if the file does not exist. Two
    /// processes that do this concurrently get the same identity.
    ///
    /// # Errors
    /// See [`load`](Self::load), [`generate`](Self::generate) and [`save`](Self::save).
    pub fn load_or_create(path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let path = path.as_ref();
        match Self::load(path) {
            Err(IdentityError::Read { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound => {}
            other => return other,
        }
        let identity = Self::generate()?;
        match identity.save(path) {
            Ok(()) => Ok(identity),
            Err(IdentityError::Exists { .. }) => Self::load(path),
            Err(error) => Err(error),
        }
    }

    /// Writes the private key to a new file that only its owner may read (mode 0600 on Unix). The
    /// file is complete or does not exist, and it is on disk when this returns.
    ///
    /// # Errors
    /// Returns [`IdentityError::Exists`] if a file of this name exists. Returns
    /// [`IdentityError::Write`] if the file cannot be created.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), IdentityError> {
        file::create(path.as_ref(), &pem::encode(&self.pkcs8))
    }

    /// Returns the fingerprint, for the peer to pin.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the same identity with a message in its certificate, which the peer reads in the
    /// handshake.
    pub(crate) fn saying(&self, message: &[u8]) -> Result<Self, IdentityError> {
        let key = Arc::clone(&self.certified.key);
        let key_error = || IdentityError::Key {
            detail: "the key has no public half".into(),
        };
        let public = key.public_key().ok_or_else(key_error)?.into_owned();
        let certificate = self_signed(&*key, &public, Some(message))?;
        Ok(Self {
            pkcs8: self.pkcs8.clone(),
            fingerprint: self.fingerprint,
            certified: Arc::new(CertifiedKey::new(vec![certificate], key)),
        })
    }

    /// Returns the certificate and signing key for a TLS configuration.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    fn from_pkcs8(pkcs8: Zeroizing<Vec<u8>>) -> Result<Self, IdentityError> {
        let key_error = |detail: String| IdentityError::Key { detail };
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8.as_slice()))
            .map_err(|error| key_error(error.to_string()))?;
        let public = key
            .public_key()
            .ok_or_else(|| key_error("the key has no public half".into()))?
            .into_owned();
        let certificate = self_signed(&*key, &public, None)?;
        Ok(Self {
            pkcs8,
            fingerprint: Fingerprint::of_public_key(&public),
            certified: Arc::new(CertifiedKey::new(vec![certificate], key)),
        })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// `PrivateKeyInfo` of an Ed25519 key (RFC 8410) up to the 32-byte seed.
const PKCS8_HEADER: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

#[cfg(test)]
mod tests;
