//! The secret that clients of the server must present.

use std::{fmt, fs::File, io::Read, path::Path};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

/// Number of random bytes in a token: 192 bits.
const RANDOM_BYTES: usize = 24;

/// Accepted lengths of a token that a user chooses, in characters. The minimum is 22, because 22
/// random base64 characters have 132 bits.
const LENGTHS: std::ops::RangeInclusive<usize> = 22..=256;

/// The secret that clients of the server must present.
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

/// The reason why a token cannot be created or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The system provides no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[source] std::io::Error),
    /// The text in the file is not a token.
    #[error("expected a token of 22 to 256 visible ASCII characters, found {found}")]
    Form {
        /// A description of the text.
        found: String,
    },
}

impl Token {
    /// Generates a token of 192 random bits.
    ///
    /// # Errors
    /// Returns [`TokenError::Random`] if the system provides no random numbers.
    pub fn random() -> Result<Self, TokenError> {
        let mut bytes = Zeroizing::new([0; RANDOM_BYTES]);
        getrandom::fill(&mut *bytes).map_err(|error| TokenError::Random(error.to_string()))?;
        Ok(Self(Zeroizing::new(transpute::circuit::hex(&*bytes))))
    }

    /// Reads the token in a file. Whitespace around it is ignored.
    ///
    /// # Errors
    /// Returns [`TokenError`] if the file cannot be read or does not contain a token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let mut text = Zeroizing::new(String::new());
        let file = File::open(path).map_err(TokenError::Read)?;
        (file.take(4096).read_to_string(&mut text)).map_err(TokenError::Read)?;
        let token = text.trim();
        if !LENGTHS.contains(&token.len()) {
            let found = format!("{} characters", token.len());
            return Err(TokenError::Form { found });
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let found = "other characters".to_owned();
            return Err(TokenError::Form { found });
        }
        Ok(Self(Zeroizing::new(token.to_owned())))
    }

    /// Returns the token as text, to be shown to the user.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares a given text with the token in constant time.
    pub(super) fn is(&self, given: &str) -> bool {
        same(given.as_bytes(), self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Compares two texts by their digests in constant time, so the timing reveals neither content nor
/// length.
fn same(a: &[u8], b: &[u8]) -> bool {
    Sha256::digest(a).ct_eq(&Sha256::digest(b)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_equals_only_itself() {
        let token = Token::random().unwrap();
        assert_eq!(token.as_str().len(), 48);
        assert_ne!(token.as_str(), Token::random().unwrap().as_str());
        assert!(token.is(token.as_str()) && !token.is(&token.as_str()[1..]));
        assert!(!token.is(""));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn files_with_short_or_invalid_tokens_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdefghijkl\n").unwrap();
        assert_eq!(
            Token::read(&path).unwrap().as_str(),
            "0123456789abcdefghijkl"
        );
        for wrong in ["", "short", "0123456789 bcdefghijkl", &"x".repeat(300)] {
            std::fs::write(&path, wrong).unwrap();
            assert!(
                matches!(Token::read(&path), Err(TokenError::Form { .. })),
                "{wrong}"
            );
        }
        let missing = Token::read(&folder.path().join("none"));
        assert!(matches!(missing, Err(TokenError::Read(_))));
    }
}
