//! The fingerprint by which a peer is known: a hash of its public key.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};
use thiserror::Error;

/// SHA-256 of a party's public key, in the `SubjectPublicKeyInfo` DER form of RFC 5280.
///
/// Its text form is `sha256:` and 64 hexadecimal digits. A fingerprint is public: it may be
/// printed, mailed and compared in variable time. It identifies the key and not the certificate, so
/// a renewed certificate keeps it.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fingerprint([u8; 32]);

/// The error of a text that is not a [`Fingerprint`].
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum FingerprintError {
    /// The text does not start with the name of the hash.
    #[error("a fingerprint starts with \"sha256:\"")]
    Prefix,
    /// There are too few or too many digits.
    #[error("expected 64 hexadecimal digits after \"sha256:\", got {got}")]
    Length {
        /// Characters found after the prefix.
        got: usize,
    },
    /// The digits are abbreviated, as in documents.
    #[error(
        "expected all 64 hexadecimal digits after \"sha256:\", got an abbreviation: give the whole fingerprint"
    )]
    Abbreviated,
    /// A character is not a hexadecimal digit.
    #[error("expected a hexadecimal digit at position {position} after \"sha256:\"")]
    Digit {
        /// Position after the prefix, counted from 0.
        position: usize,
    },
}

impl Fingerprint {
    /// Hashes a public key given as DER-encoded `SubjectPublicKeyInfo`.
    #[must_use]
    pub fn of_public_key(subject_public_key_info: &[u8]) -> Self {
        Self(Sha256::digest(subject_public_key_info).into())
    }

    /// Returns the 32 bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(hash: [u8; 32]) -> Self {
        Self(hash)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Parses `sha256:` and 64 hexadecimal digits of either case.
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let digits = text.strip_prefix(PREFIX).ok_or(FingerprintError::Prefix)?;
        if digits.contains('…') || digits.contains("...") {
            return Err(FingerprintError::Abbreviated);
        }
        let got = digits.chars().count();
        if got != 64 {
            return Err(FingerprintError::Length { got });
        }
        let mut hash = [0; 32];
        for (position, digit) in digits.chars().enumerate() {
            let value = digit
                .to_digit(16)
                .and_then(|value| u8::try_from(value).ok())
                .ok_or(FingerprintError::Digit { position })?;
            hash[position / 2] = hash[position / 2] << 4 | value;
        }
        Ok(Self(hash))
    }
}

const PREFIX: &str = "sha256:";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reads_what_it_writes(hash: [u8; 32], upper: bool) {
            let text = Fingerprint::from(hash).to_string();
            let text = if upper { format!("sha256:{}", text[7..].to_uppercase()) } else { text };
            prop_assert_eq!(text.parse::<Fingerprint>(), Ok(Fingerprint::from(hash)));
        }

        #[test]
        fn no_text_panics(text in "(sha256:)?.{0,80}") {
            if let Ok(fingerprint) = text.parse::<Fingerprint>() {
                prop_assert_eq!(fingerprint.to_string(), text.to_lowercase());
            }
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let good = Fingerprint::from([0xab; 32]).to_string();
        assert_eq!(
            "md5:00".parse::<Fingerprint>(),
            Err(FingerprintError::Prefix)
        );
        assert_eq!(
            good[..good.len() - 1].parse::<Fingerprint>(),
            Err(FingerprintError::Length { got: 63 })
        );
        assert_eq!(
            good.replacen('b', "g", 1).parse::<Fingerprint>(),
            Err(FingerprintError::Digit { position: 1 })
        );
        for text in ["sha256:aaaa…", "sha256:3f1c...", "sha256:…"] {
            assert_eq!(
                text.parse::<Fingerprint>(),
                Err(FingerprintError::Abbreviated)
            );
        }
        // A character of several bytes counts once.
        assert_eq!(
            format!("sha256:é{}", "0".repeat(62)).parse::<Fingerprint>(),
            Err(FingerprintError::Length { got: 63 })
        );
        assert_eq!(
            format!("sha256:é{}", "0".repeat(63)).parse::<Fingerprint>(),
            Err(FingerprintError::Digit { position: 0 })
        );
    }
}
