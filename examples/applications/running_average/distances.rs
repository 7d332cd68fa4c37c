//! The distances that a device has travelled, in metres, one per round.

use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use thiserror::Error;
use transpute_applications::{LineError, Lines};

/// Maximum length of a line in a file of distances, in bytes.
const MAX_LINE: usize = 64;

/// The reason why distances cannot be read.
#[derive(Debug, Error)]
pub(crate) enum DistanceError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] LineError),
    /// A line is not a distance.
    #[error("{}:{line}: {found:?} is not a number of metres below 4294967296", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        found: String,
    },
    /// The file has fewer distances than rounds.
    #[error("{}: expected {expected} distances, found {found}", path.display())]
    TooFew {
        path: PathBuf,
        found: usize,
        expected: usize,
    },
}

/// Reads the first `count` distances from a file with one distance per line.
pub(crate) fn read(path: &Path, count: usize) -> Result<Vec<u32>, DistanceError> {
    let mut lines = Lines::open(path, MAX_LINE)?;
    let mut distances = Vec::new();
    while distances.len() < count {
        let Some(line) = lines.next_line()? else {
            return Err(DistanceError::TooFew {
                path: path.into(),
                found: distances.len(),
                expected: count,
            });
        };
        let text = line.trim();
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let distance = text.parse().ok().filter(|_| is_number);
        distances.push(distance.ok_or_else(|| DistanceError::Line {
            path: path.into(),
            line: lines.number(),
            found: text.to_owned(),
        })?);
    }
    Ok(distances)
}

/// Returns random distances in metres, each travelled within 15 minutes: 60 % at rest (below 60 m),
/// 20 % on foot, 20 % by car. A seed always gives the same distances.
pub(crate) fn random(seed: u64, count: usize) -> Vec<u32> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..count)
        .map(|_| match rng.random_range(0..10) {
            0..=5 => rng.random_range(0..60),
            6..=7 => rng.random_range(200..1_800),
            _ => rng.random_range(3_000..30_000),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn reading(content: &str, count: usize) -> Result<Vec<u32>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d");
        fs::write(&path, content).unwrap();
        read(&path, count).map_err(|error| {
            let text = error.to_string();
            text.rsplit('/').next().unwrap_or_default().to_owned()
        })
    }

    #[test]
    fn each_line_is_a_distance() {
        assert_eq!(
            reading("0\n 17 \r\n4294967295\nrest", 3).unwrap(),
            [0, 17, u32::MAX]
        );
    }

    #[test]
    fn an_invalid_distance_is_reported_with_its_line() {
        for (content, complaint) in [
            (
                "1\nx\n",
                "d:2: \"x\" is not a number of metres below 4294967296",
            ),
            (
                "1\n\n",
                "d:2: \"\" is not a number of metres below 4294967296",
            ),
            (
                "-1\n",
                "d:1: \"-1\" is not a number of metres below 4294967296",
            ),
            (
                "+1\n",
                "d:1: \"+1\" is not a number of metres below 4294967296",
            ),
            (
                "1\n4294967296\n",
                "d:2: \"4294967296\" is not a number of metres below 4294967296",
            ),
            ("1\n", "d: expected 2 distances, found 1"),
        ] {
            assert_eq!(reading(content, 2).unwrap_err(), complaint);
        }
        let long = "1".repeat(100);
        assert_eq!(reading(&long, 1).unwrap_err(), "d:1: longer than 64 bytes");
    }

    #[test]
    fn a_seed_gives_the_same_distances() {
        assert_eq!(random(7, 100), random(7, 100));
        assert_ne!(random(7, 100), random(8, 100));
        assert_eq!(random(7, 50), random(7, 100)[..50]);
    }
}
