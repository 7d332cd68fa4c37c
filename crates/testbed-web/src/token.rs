//! What whoever uses the server has to know.

use std::{fmt, fs::File, io::Read, path::Path};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

/// Random bytes of a token.
const RANDOM_BYTES: usize = 24;

/// Characters of a token that a user chooses.
const LENGTHS: std::ops::RangeInclusive<usize> = 22..=256;

/// A secret that opens the server.
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

/// Why there is no token.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[source] std::io::Error),
    /// The file holds something else.
    #[error("a token has 22 to 256 visible ASCII characters without blanks, found {found}")]
    Form {
        /// What there is.
        found: String,
    },
}

impl Token {
    /// Makes one of 192 random bits.
    ///
    /// # Errors
    /// [`TokenError::Random`].
    pub fn random() -> Result<Self, TokenError> {
        let mut bytes = Zeroizing::new([0; RANDOM_BYTES]);
        getrandom::fill(&mut *bytes).map_err(|error| TokenError::Random(error.to_string()))?;
        Ok(Self(Zeroizing::new(transpute::circuit::hex(&*bytes))))
    }

    /// Reads the one in a file, blanks around it left out.
    ///
    /// # Errors
    /// [`TokenError`].
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
            let found = "others".to_owned();
            return Err(TokenError::Form { found });
        }
        Ok(Self(Zeroizing::new(token.to_owned())))
    }

    /// Returns it, to be shown to the user.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Says whether this is it, in a time that does not depend on how much of it is right.
    pub(super) fn is(&self, given: &str) -> bool {
        same(given.as_bytes(), self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Compares digests, so that not even lengths show in the time.
fn same(a: &[u8], b: &[u8]) -> bool {
    Sha256::digest(a).ct_eq(&Sha256::digest(b)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_itself_only() {
        let token = Token::random().unwrap();
        assert_eq!(token.as_str().len(), 48);
        assert_ne!(token.as_str(), Token::random().unwrap().as_str());
        assert!(token.is(token.as_str()) && !token.is(&token.as_str()[1..]));
        assert!(!token.is(""));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn files_hold_tokens_worth_the_name() {
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
