//! A round: its identifier and the companies that may take part.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use transpute::Fingerprint;

use crate::{failure::Failure, statistics::FIGURE_BITS};

/// Minimum number of companies in a round. With two companies, each would learn the other's figure
/// from the average.
pub(crate) const MIN_COMPANIES: usize = 3;

/// Maximum number of companies in a round. The garbled tables for more companies exceed the maximum
/// size of a prepared run.
pub(crate) const MAX_COMPANIES: usize = 1024;

/// Maximum length of a round's name, in bytes.
const MAX_NAME: usize = 256;

/// Maximum size of a file with a list of companies, in bytes.
const MAX_LIST: u64 = 1 << 20;

/// The contexts of two BLAKE3 hashes: the [`RoundId`] and the hash of a list. They separate these
/// hashes from other uses of BLAKE3.
const ROUND_CONTEXT: &str = "transpute example benchmarking 2026-11 round";
const LIST_CONTEXT: &str = "transpute example benchmarking 2026-11 list of companies";

/// The identifier of a round: a hash of its name and of both servers' keys. A share for another
/// round or another pair of servers is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RoundId(pub(crate) [u8; 32]);

impl RoundId {
    /// Computes the identifier.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if the name is empty or longer than 256 bytes.
    pub(crate) fn new(
        name: &str,
        garbler: &Fingerprint,
        evaluator: &Fingerprint,
    ) -> Result<Self, Failure> {
        if name.is_empty() || name.len() > MAX_NAME {
            let problem = format!("expected a round's name of 1 to {MAX_NAME} bytes");
            return Err(Failure::Usage(problem));
        }
        let mut hash = blake3::Hasher::new_derive_key(ROUND_CONTEXT);
        hash.update(garbler.as_bytes());
        hash.update(evaluator.as_bytes());
        hash.update(&[FIGURE_BITS as u8]);
        hash.update(name.as_bytes());
        Ok(Self(*hash.finalize().as_bytes()))
    }
}

/// The companies that may take part, sorted by fingerprint. The number of a company is its index.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Members(Vec<Fingerprint>);

impl Members {
    /// Creates the list from fingerprints in any order.
    ///
    /// # Errors
    /// Returns a message if a fingerprint is repeated or the number of companies is not supported.
    pub(crate) fn new(fingerprints: impl IntoIterator<Item = Fingerprint>) -> Result<Self, String> {
        let mut seen = BTreeSet::new();
        for fingerprint in fingerprints {
            if !seen.insert(fingerprint) {
                return Err(format!("{fingerprint} is listed twice"));
            }
        }
        if !(MIN_COMPANIES..=MAX_COMPANIES).contains(&seen.len()) {
            return Err(format!(
                "expected {MIN_COMPANIES} to {MAX_COMPANIES} companies, found {}",
                seen.len()
            ));
        }
        Ok(Self(seen.into_iter().collect()))
    }

    /// Reads a file with one fingerprint at the start of each line. The rest of a line, and lines
    /// that begin with `#`, are comments.
    ///
    /// # Errors
    /// Returns [`Failure::File`] if the file cannot be read, and [`Failure::Content`] if a line or
    /// the list is invalid.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let cannot = |source| Failure::File {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = File::open(path).map_err(cannot)?;
        (file.take(MAX_LIST + 1).read_to_string(&mut text)).map_err(cannot)?;
        let wrong = |problem| Failure::Content {
            path: PathBuf::from(path),
            problem,
        };
        if text.len() as u64 > MAX_LIST {
            return Err(wrong(format!("expected at most {MAX_LIST} bytes")));
        }
        Self::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut fingerprints = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let Some(first) = line.split_whitespace().next() else {
                continue;
            };
            if first.starts_with('#') {
                continue;
            }
            let fingerprint = (first.parse()).map_err(|error| format!("line {number}: {error}"))?;
            fingerprints.push(fingerprint);
        }
        Self::new(fingerprints)
    }

    /// Returns the number of companies.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of a company, if it is listed.
    pub(crate) fn number(&self, fingerprint: &Fingerprint) -> Option<u16> {
        let place = self.0.binary_search(fingerprint).ok()?;
        u16::try_from(place).ok()
    }

    /// Iterates over the fingerprints.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        self.0.iter().copied()
    }

    /// Returns a hash of the list. The two servers compare it to detect different lists.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = blake3::Hasher::new_derive_key(LIST_CONTEXT);
        for fingerprint in &self.0 {
            hash.update(fingerprint.as_bytes());
        }
        *hash.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(byte: u8) -> Fingerprint {
        Fingerprint::from([byte; 32])
    }

    #[test]
    fn lists_are_read_in_any_order() {
        let text = format!(
            "# companies\n{} Third Ltd\n\n  {}\n{}\t# first\n",
            print(3),
            print(2),
            print(1)
        );
        let members = Members::parse(&text).unwrap();
        assert_eq!(members, Members::new([1, 2, 3].map(print)).unwrap());
        assert_eq!(members.number(&print(2)), Some(1));
        assert_eq!(members.number(&print(9)), None);
        assert_ne!(
            members.digest(),
            Members::new([1, 2, 4].map(print)).unwrap().digest()
        );
    }

    #[test]
    fn errors_in_lists_are_reported() {
        let two = format!("{}\n{}\n", print(1), print(2));
        for (text, message) in [
            (two.clone(), "expected 3 to 1024 companies, found 2"),
            (format!("{two}{}", print(1)), "is listed twice"),
            (format!("{two}sha256:12"), "line 3: expected 64"),
        ] {
            let problem = Members::parse(&text).unwrap_err();
            assert!(problem.contains(message), "{problem}");
        }
        assert!(
            Members::new((0..1025_u16).map(|i| {
                let mut hash = [0; 32];
                hash[..2].copy_from_slice(&i.to_be_bytes());
                Fingerprint::from(hash)
            }))
            .is_err()
        );
    }

    #[test]
    fn rounds_differ_by_name_and_servers() {
        let id = |name, a, b| RoundId::new(name, &print(a), &print(b)).unwrap();
        assert_eq!(id("q3", 1, 2), id("q3", 1, 2));
        assert_ne!(id("q3", 1, 2), id("q4", 1, 2));
        assert_ne!(id("q3", 1, 2), id("q3", 2, 1));
        assert!(RoundId::new("", &print(1), &print(2)).is_err());
        assert!(RoundId::new(&"x".repeat(257), &print(1), &print(2)).is_err());
    }
}
