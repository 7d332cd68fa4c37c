//! Reads, writes and splits time series, and parses weights.

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

/// Maximum size of a file, in bytes: enough for [`MAX_PERIODS`] numbers.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of values in an average.
pub(crate) const MAX_PERIODS: usize = 4_096;

/// Maximum number of decimal places of a weight.
const MAX_PLACES: usize = 9;

/// The error of a series or its weights.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum SeriesError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file exceeds the maximum size.
    #[error("{}: expected at most {MAX_FILE_BYTES} bytes", path.display())]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
    },
    /// A line is not a number.
    #[error("{}:{line}: {source}", path.display())]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The reason why the line is invalid.
        source: NotAnInteger,
    },
    /// The number of periods is not supported, or exceeds the number of values.
    #[error("expected 1 to {} periods, found {periods}", (*found).min(MAX_PERIODS))]
    Periods {
        /// The requested number of periods.
        periods: usize,
        /// The number of values.
        found: usize,
    },
    /// A weight is invalid.
    #[error(
        "expected a weight such as 3 or 0.25, with at most {MAX_PLACES} decimal places, found {found:?}"
    )]
    Weight {
        /// The given text.
        found: String,
    },
    /// A number exceeds its width.
    #[error("{what} of {found} bits, expected at most {limit}")]
    Width {
        /// The name of the number.
        what: &'static str,
        /// The width of the number, in bits.
        found: u32,
        /// The maximum number of bits.
        limit: u32,
    },
}

/// Reads a file with one whole number per line. Ignores empty lines and comments after `#`.
///
/// # Errors
/// Returns [`SeriesError`] if the file cannot be read or a line is invalid.
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

/// Writes one number per line.
///
/// # Errors
/// Returns [`SeriesError::File`] if the file cannot be written.
pub(crate) fn write(path: &Path, values: &[Integer]) -> Result<(), SeriesError> {
    let text: String = values.iter().map(|value| format!("{value}\n")).collect();
    std::fs::write(path, text).map_err(|source| SeriesError::File {
        path: path.to_owned(),
        source,
    })
}

/// Returns the last `periods` values of a series.
///
/// # Errors
/// Returns [`SeriesError::Periods`] if there are too few values or too many periods.
pub(crate) fn last(values: Vec<Integer>, periods: usize) -> Result<Vec<Integer>, SeriesError> {
    let found = values.len();
    if !(1..=found.min(MAX_PERIODS)).contains(&periods) {
        return Err(SeriesError::Periods { periods, found });
    }
    Ok(values.into_iter().skip(found - periods).collect())
}

/// Splits a number of `width` bits into two additive shares. The distribution of a share is almost
/// independent of the number: the statistical distance is at most 2^-64.
pub(crate) fn split(
    value: &Integer,
    width: usize,
    rng: &mut (impl CryptoRng + ?Sized),
) -> [Integer; 2] {
    let random = Integer::random(to_u32(width) + SHARE_SLACK - 1, rng);
    let rest = value.minus(&random);
    [random, rest]
}

/// Checks that a number fits into `width` bits, including the sign if `signed`.
///
/// # Errors
/// Returns [`SeriesError::Width`] if the number does not fit.
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

/// Checks that a share is not longer than shares of numbers of `width` bits.
///
/// # Errors
/// Returns [`SeriesError::Width`] if the share is longer.
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

/// Parses decimal weights and multiplies them by a common power of ten, so that all are integers.
/// This does not change the average, because the sum of the weights is scaled too.
///
/// # Errors
/// Returns [`SeriesError::Weight`] if a weight is invalid.
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
    fn files_have_one_number_per_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series");
        std::fs::write(&path, "# demand\n12\n\n -3 # returned\n0\n").unwrap();
        assert_eq!(read(&path).unwrap(), numbers(&[12, -3, 0]));
        write(&path, &numbers(&[4, -5])).unwrap();
        assert_eq!(read(&path).unwrap(), numbers(&[4, -5]));

        std::fs::write(&path, "1\ntwo\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(
            error.contains("series:2: expected a whole number"),
            "{error}"
        );
        std::fs::write(&path, "1\n".repeat(600_000)).unwrap();
        assert!(matches!(read(&path), Err(SeriesError::TooLarge { .. })));
        assert!(matches!(read(folder.path()), Err(SeriesError::File { .. })));
    }

    #[test]
    fn the_last_values_are_returned() {
        assert_eq!(last(numbers(&[1, 2, 3]), 2).unwrap(), numbers(&[2, 3]));
        for periods in [0, 4] {
            assert!(last(numbers(&[1, 2, 3]), periods).is_err());
        }
    }

    #[test]
    fn weights_are_scaled_by_a_common_factor() {
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
    fn widths_include_the_sign() {
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
