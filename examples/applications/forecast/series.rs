//! Time series and weights: reading them, and splitting them.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use rand::CryptoRng;
use thiserror::Error;

use crate::{
    baseline::SHARE_SLACK,
    division::to_u32,
    integer::{Integer, NotAnInteger},
};

/// More than any series of this many values takes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The most values that are averaged.
pub(crate) const MAX_PERIODS: usize = 4_096;

/// The most digits of a weight after the point.
const MAX_PLACES: usize = 9;

/// Why there is no series.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum SeriesError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is larger than series are.
    #[error("{}: more than {MAX_FILE_BYTES} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A line holds no number.
    #[error("{}:{line}: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: NotAnInteger,
    },
    /// Too few values, or more periods than are averaged.
    #[error("the last {periods} of {found} values were asked for; 1 to {} are possible", (*found).min(MAX_PERIODS))]
    Periods {
        /// Values asked for.
        periods: usize,
        /// Values that there are.
        found: usize,
    },
    /// A weight that is none.
    #[error(
        "{found:?} is no weight: a number such as 3 or 0.25, with at most {MAX_PLACES} digits after the point"
    )]
    Weight {
        /// The text.
        found: String,
    },
    /// A number that its width has no room for.
    #[error("{what} of {found} bits, expected at most {limit}")]
    Width {
        /// Which number.
        what: &'static str,
        /// Bits it has.
        found: u32,
        /// Bits it may have.
        limit: u32,
    },
}

/// Reads a file with one whole number in each line; empty lines and what is behind a `#` do not count.
///
/// # Errors
/// [`SeriesError`].
pub(crate) fn read(path: &Path) -> Result<Vec<Integer>, SeriesError> {
    let cannot = |source| SeriesError::File {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(cannot)?;
    let mut text = String::new();
    (file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)).map_err(cannot)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(SeriesError::TooLarge {
            path: path.to_owned(),
        });
    }
    let mut values = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = line.split('#').next().unwrap_or_default().trim();
        if !number.is_empty() {
            values.push(number.parse().map_err(|source| SeriesError::Line {
                path: path.to_owned(),
                line: index + 1,
                source,
            })?);
        }
    }
    Ok(values)
}

/// Writes one number in each line.
///
/// # Errors
/// [`SeriesError::File`].
pub(crate) fn write(path: &Path, values: &[Integer]) -> Result<(), SeriesError> {
    let text: String = values.iter().map(|value| format!("{value}\n")).collect();
    std::fs::write(path, text).map_err(|source| SeriesError::File {
        path: path.to_owned(),
        source,
    })
}

/// Returns the last values of a series.
///
/// # Errors
/// [`SeriesError::Periods`].
pub(crate) fn last(values: Vec<Integer>, periods: usize) -> Result<Vec<Integer>, SeriesError> {
    let found = values.len();
    if !(1..=found.min(MAX_PERIODS)).contains(&periods) {
        return Err(SeriesError::Periods { periods, found });
    }
    Ok(values.into_iter().skip(found - periods).collect())
}

/// Splits a number in two that add up to it. Each alone tells nothing of a number of `width` bits, but
/// with a probability of 2^-64.
pub(crate) fn split(
    value: &Integer,
    width: usize,
    rng: &mut (impl CryptoRng + ?Sized),
) -> [Integer; 2] {
    let random = Integer::random(to_u32(width) + SHARE_SLACK - 1, rng);
    let rest = value.minus(&random);
    [random, rest]
}

/// Checks that a number has room in `width` bits, of which one is the sign if there is one.
///
/// # Errors
/// [`SeriesError::Width`].
pub(crate) fn check_width(
    what: &'static str,
    value: &Integer,
    width: usize,
    signed: bool,
) -> Result<(), SeriesError> {
    let limit = to_u32(width);
    let fits = match signed {
        true => {
            let half = Integer::power_of_two(limit.saturating_sub(1));
            *value < half && *value >= half.negated_if(true)
        }
        false => !value.is_negative() && value.bits() <= limit,
    };
    match fits {
        true => Ok(()),
        false => Err(SeriesError::Width {
            what,
            found: value.bits() + u32::from(signed || value.is_negative()),
            limit,
        }),
    }
}

/// Checks that a share is no longer than those of numbers of `width` bits are.
///
/// # Errors
/// [`SeriesError::Width`].
pub(crate) fn check_share(value: &Integer, width: usize) -> Result<(), SeriesError> {
    let limit = to_u32(width) + SHARE_SLACK;
    match value.bits() <= limit {
        true => Ok(()),
        false => Err(SeriesError::Width {
            what: "a share",
            found: value.bits(),
            limit,
        }),
    }
}

/// Reads weights with digits after the point, lifted to whole numbers by the same power of ten: the
/// average does not change by it, because the sum of the weights is lifted as well.
///
/// # Errors
/// [`SeriesError::Weight`].
pub(crate) fn weights(texts: &[String]) -> Result<Vec<Integer>, SeriesError> {
    let split: Vec<(&str, &str)> = (texts.iter())
        .map(|text| text.split_once('.').unwrap_or((text, "")))
        .collect();
    let places = split.iter().map(|(_, rest)| rest.len()).max().unwrap_or(0);
    (split.into_iter().zip(texts))
        .map(|((whole, rest), text)| {
            let wrong = || SeriesError::Weight {
                found: text.chars().take(40).collect(),
            };
            let digits = format!("{whole}{rest:0<places$}");
            let is_short = rest.len() <= MAX_PLACES && (1..=18).contains(&whole.len());
            if !is_short || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(wrong());
            }
            digits.parse().map_err(|_| wrong())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    fn numbers(values: &[i128]) -> Vec<Integer> {
        values.iter().copied().map(Integer::from).collect()
    }

    #[test]
    fn files_hold_one_number_in_each_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series");
        std::fs::write(&path, "# demand\n12\n\n -3 # returned\n0\n").unwrap();
        assert_eq!(read(&path).unwrap(), numbers(&[12, -3, 0]));
        write(&path, &numbers(&[4, -5])).unwrap();
        assert_eq!(read(&path).unwrap(), numbers(&[4, -5]));

        std::fs::write(&path, "1\ntwo\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("series:2: \"two\""), "{error}");
        std::fs::write(&path, "1\n".repeat(600_000)).unwrap();
        assert!(matches!(read(&path), Err(SeriesError::TooLarge { .. })));
        assert!(matches!(read(folder.path()), Err(SeriesError::File { .. })));
    }

    #[test]
    fn the_last_values_are_taken() {
        assert_eq!(last(numbers(&[1, 2, 3]), 2).unwrap(), numbers(&[2, 3]));
        for periods in [0, 4] {
            assert!(last(numbers(&[1, 2, 3]), periods).is_err());
        }
    }

    #[test]
    fn weights_are_lifted_together() {
        let texts = ["0.5", "2", "0.125"].map(str::to_owned);
        assert_eq!(weights(&texts).unwrap(), numbers(&[500, 2_000, 125]));
        for text in ["", "-1", "1.2.3", ".5", "x", "0.0000000001", "1e3"] {
            assert!(weights(&[text.to_owned()]).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_add_up() {
        let mut rng = StdRng::seed_from_u64(1);
        for value in numbers(&[0, 1, -1, 127, -128]) {
            let [a, b] = split(&value, 8, &mut rng);
            assert_eq!(a.plus(&b), value);
            assert!(a.bits() > 8 || b.bits() > 8);
            check_share(&a, 8).unwrap();
            check_share(&b, 8).unwrap();
        }
        assert!(check_share(&Integer::power_of_two(72), 8).is_err());
    }

    #[test]
    fn widths_count_the_sign() {
        for (value, signed, fits) in [
            (255, false, true),
            (256, false, false),
            (-1, false, false),
            (127, true, true),
            (128, true, false),
            (-128, true, true),
            (-129, true, false),
        ] {
            let checked = check_width("a value", &Integer::from(value), 8, signed);
            assert_eq!(checked.is_ok(), fits, "{value}");
        }
    }
}
