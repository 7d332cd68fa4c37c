//! The distances that a device has travelled, in metres, one for each round.

use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use thiserror::Error;
use transpute_applications::{LineError, Lines};

/// The longest line of a file of distances, in bytes.
const MAX_LINE: usize = 64;

/// Why distances cannot be had.
#[derive(Debug, Error)]
pub(crate) enum DistanceError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] LineError),
    /// A line is no distance.
    #[error("{}:{line}: {found:?} is not a number of metres below 4294967296", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        found: String,
    },
    /// There are not enough.
    #[error("{}: {found} distances; {expected} rounds need as many", path.display())]
    TooFew {
        path: PathBuf,
        found: usize,
        expected: usize,
    },
}

/// Reads so many distances from a file with one in each line; what comes behind them is not read.
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

/// Makes up so many distances between readings a quarter of an hour apart: mostly none to speak of, some on foot,
/// some by car. The same seed makes the same.
pub(crate) fn made_up(seed: u64, count: usize) -> Vec<u32> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count)
        .map(|_| match random.random_range(0..10) {
            0..=5 => random.random_range(0..60),
            6..=7 => random.random_range(200..1_800),
            _ => random.random_range(3_000..30_000),
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
    fn a_distance_stands_in_each_line() {
        assert_eq!(
            reading("0\n 17 \r\n4294967295\nrest", 3).unwrap(),
            [0, 17, u32::MAX]
        );
    }

    #[test]
    fn what_is_no_distance_is_named_with_its_line() {
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
            ("1\n", "d: 1 distances; 2 rounds need as many"),
        ] {
            assert_eq!(reading(content, 2).unwrap_err(), complaint);
        }
        let long = "1".repeat(100);
        assert_eq!(reading(&long, 1).unwrap_err(), "d:1: longer than 64 bytes");
    }

    #[test]
    fn a_seed_makes_the_same_distances() {
        assert_eq!(made_up(7, 100), made_up(7, 100));
        assert_ne!(made_up(7, 100), made_up(8, 100));
        assert_eq!(made_up(7, 50), made_up(7, 100)[..50]);
    }
}
