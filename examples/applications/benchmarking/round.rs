//! What a round is: its name, its servers, and who may take part.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use transpute::Fingerprint;

use crate::{failure::Failure, statistics::FIGURE_BITS};

/// Fewer companies are no crowd: of two, each would learn the other's figure from the average.
pub(crate) const FEWEST: usize = 3;

/// More companies than the tables of a prepared computation have room for.
pub(crate) const MOST: usize = 1024;

/// The longest name of a round, in bytes.
const MAX_NAME: usize = 256;

/// The longest list of companies, in bytes.
const MAX_LIST: u64 = 1 << 20;

/// What the hash is for, so that it is no other's.
const ROUND_CONTEXT: &str = "transpute example benchmarking 2026-11 round";
const LIST_CONTEXT: &str = "transpute example benchmarking 2026-11 list of companies";

/// What an upload is for: a hash of the round's name and of both servers, so that a share that was meant for another
/// round, or for another pair of servers, is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RoundId(pub(crate) [u8; 32]);

impl RoundId {
    /// Makes the id.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a name that is empty or longer than 256 bytes.
    pub(crate) fn new(
        name: &str,
        garbler: &Fingerprint,
        evaluator: &Fingerprint,
    ) -> Result<Self, Failure> {
        if name.is_empty() || name.len() > MAX_NAME {
            let problem = format!("the name of a round has 1 to {MAX_NAME} bytes");
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

/// The companies that may take part, in the order of their fingerprints. Their place in it is their number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Members(Vec<Fingerprint>);

impl Members {
    /// Makes the list.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn new(fingerprints: impl IntoIterator<Item = Fingerprint>) -> Result<Self, String> {
        let mut seen = BTreeSet::new();
        for fingerprint in fingerprints {
            if !seen.insert(fingerprint) {
                return Err(format!("{fingerprint} is there twice"));
            }
        }
        if !(FEWEST..=MOST).contains(&seen.len()) {
            return Err(format!(
                "expected {FEWEST} to {MOST} companies, got {}",
                seen.len()
            ));
        }
        Ok(Self(seen.into_iter().collect()))
    }

    /// Reads a file: one fingerprint at the start of each line; what follows a blank is a comment, as are lines that begin
    /// with `#`.
    ///
    /// # Errors
    /// [`Failure::File`]; [`Failure::Content`], which names the line.
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
            return Err(wrong(format!("longer than {MAX_LIST} bytes")));
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

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of a company.
    pub(crate) fn number(&self, fingerprint: &Fingerprint) -> Option<u16> {
        let place = self.0.binary_search(fingerprint).ok()?;
        u16::try_from(place).ok()
    }

    /// Iterates over the fingerprints.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        self.0.iter().copied()
    }

    /// Returns a hash of the list.
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
    fn mistakes_in_lists_are_named() {
        let two = format!("{}\n{}\n", print(1), print(2));
        for (text, message) in [
            (two.clone(), "expected 3 to 1024 companies, got 2"),
            (format!("{two}{}", print(1)), "is there twice"),
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
