//! Values in the command line: `bits:...`, `hex:...`, `dec:...`, `@file`, and `@-` for standard
//! input.
//!
//! Values are private inputs. Texts are wiped, and no error message repeats a part of them.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use thiserror::Error;
use transpute::{Bits, circuit::BitsError};
use zeroize::Zeroizing;

/// Maximum width of a value in decimal notation, in bits. Parsing takes quadratic time.
const MAX_DECIMAL_WIDTH: usize = 1 << 16;

/// A value file may have four bytes for each bit of the value, and this number of bytes more. That
/// leaves room for blanks.
const FILE_SLACK: u64 = 64 << 10;

/// The error of a text that is not a value of the expected width.
#[derive(Debug, Error)]
pub(crate) enum ValueError {
    #[error("a value starts with bits:, hex:, dec: or @")]
    NoNotation,
    /// A character that is not a digit. `position` counts the characters after the notation, from
    /// 1.
    #[error("character {position} is no {notation} digit")]
    Digit {
        notation: &'static str,
        position: usize,
    },
    #[error("{notation}: takes {expected} digits for {width} bits, not {found}")]
    Length {
        notation: &'static str,
        width: usize,
        expected: usize,
        found: usize,
    },
    #[error("hex: takes the digits without 0x")]
    HexPrefix,
    #[error("the value does not fit in {width} bits")]
    TooLarge { width: usize },
    #[error("dec: is for at most {MAX_DECIMAL_WIDTH} bits, not {width}: use hex:")]
    WideDecimal { width: usize },
    #[error("there is no value")]
    Empty,
    #[error("{}: cannot read the value", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: longer than {limit} bytes, too long for {width} bits", path.display())]
    FileTooLong {
        path: PathBuf,
        limit: u64,
        width: usize,
    },
    #[error("{}: not a text", path.display())]
    NotText { path: PathBuf },
    #[error("{}:{line}:{column}: this is no {notation} digit", path.display())]
    FileDigit {
        path: PathBuf,
        line: usize,
        column: usize,
        notation: &'static str,
    },
    #[error("{}: {source}", path.display())]
    FileValue { path: PathBuf, source: Box<Self> },
}

impl ValueError {
    /// Returns whether the error is in a file.
    pub(crate) fn is_in_file(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::FileTooLong { .. }
                | Self::NotText { .. }
                | Self::FileDigit { .. }
                | Self::FileValue { .. }
        )
    }
}

/// Parses a value of `width` bits.
pub(crate) fn parse(text: &str, width: usize) -> Result<Bits, ValueError> {
    match text.strip_prefix('@') {
        Some(path) => read_file(Path::new(path), width),
        None => {
            let (notation, digits) = notation(text).ok_or(ValueError::NoNotation)?;
            notation.parse(digits, width)
        }
    }
}

#[derive(Clone, Copy)]
enum Notation {
    Bits,
    Hex,
    Decimal,
}

impl Notation {
    const ALL: [Self; 3] = [Self::Bits, Self::Hex, Self::Decimal];

    const fn name(self) -> &'static str {
        match self {
            Self::Bits => "bits",
            Self::Hex => "hex",
            Self::Decimal => "dec",
        }
    }

    fn parse(self, digits: &str, width: usize) -> Result<Bits, ValueError> {
        let notation = self.name();
        let parsed = match self {
            _ if digits.is_empty() && width > 0 => return Err(ValueError::Empty),
            Self::Hex if digits.starts_with("0x") || digits.starts_with("0X") => {
                return Err(ValueError::HexPrefix);
            }
            Self::Bits => Bits::from_binary(digits, width),
            Self::Hex => Bits::from_hex(digits, width),
            Self::Decimal if width > MAX_DECIMAL_WIDTH => {
                return Err(ValueError::WideDecimal { width });
            }
            Self::Decimal => Bits::from_decimal(digits, width),
        };
        parsed.map_err(|error| match error {
            BitsError::BadDigit { position, .. } => ValueError::Digit {
                notation,
                position: position + 1,
            },
            BitsError::WrongLength {
                expected, found, ..
            } => ValueError::Length {
                notation,
                width,
                expected,
                found,
            },
            _ => ValueError::TooLarge { width },
        })
    }
}

fn notation(text: &str) -> Option<(Notation, &str)> {
    let (name, digits) = text.split_once(':')?;
    let notation = Notation::ALL.into_iter().find(|n| n.name() == name)?;
    Some((notation, digits))
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns whether a value comes from standard input, which can be read only once.
pub(crate) fn is_read_once(text: &str) -> bool {
    (text.strip_prefix('@')).is_some_and(|path| is_standard_input(Path::new(path)))
}

fn read_file(path: &Path, width: usize) -> Result<Bits, ValueError> {
    let limit = 4 * width as u64 + FILE_SLACK;
    let unreadable = |source| ValueError::Unreadable {
        path: path.into(),
        source,
    };
    // The buffer has its full capacity from the start. A buffer that grows would leave copies of
    // the secret.
    let (source, length): (Box<dyn Read>, u64) = if is_standard_input(path) {
        (Box::new(io::stdin().lock()), limit)
    } else {
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len().min(limit);
        (Box::new(file), length)
    };
    let mut bytes = Zeroizing::new(Vec::with_capacity(length as usize + 1));
    (source.take(limit + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(ValueError::FileTooLong {
            path: path.into(),
            limit,
            width,
        });
    }
    let text =
        std::str::from_utf8(&bytes).map_err(|_| ValueError::NotText { path: path.into() })?;
    parse_file(text, width).map_err(|(source, blanked)| match source {
        ValueError::Digit { notation, position } => {
            let (line, column) = locate(text, blanked + position - 1);
            ValueError::FileDigit {
                path: path.into(),
                line,
                column,
                notation,
            }
        }
        source => ValueError::FileValue {
            path: path.into(),
            source: Box::new(source),
        },
    })
}

/// Parses the content of a file. An error comes with the number of characters before the digits,
/// not counting blanks.
fn parse_file(text: &str, width: usize) -> Result<Bits, (ValueError, usize)> {
    let mut value = Zeroizing::new(String::with_capacity(text.len()));
    value.extend(text.chars().filter(|c| !c.is_whitespace()));
    let (notation, digits) = notation(&value).unwrap_or((Notation::Bits, &value));
    let before = value.len() - digits.len();
    notation
        .parse(digits, width)
        .map_err(|error| (error, before))
}

/// Returns the line and column, both from 1, of the character that has `index` non-blank characters
/// before it.
fn locate(text: &str, index: usize) -> (usize, usize) {
    let (mut line, mut column, mut seen) = (1, 1, 0);
    for c in text.chars() {
        if !c.is_whitespace() {
            if seen == index {
                break;
            }
            seen += 1;
        }
        column += 1;
        if c == '\n' {
            (line, column) = (line + 1, 1);
        }
    }
    (line, column)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(content: &[u8]) -> (tempfile::NamedTempFile, String) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let value = format!("@{}", file.path().display());
        (file, value)
    }

    #[test]
    fn the_notations_agree() {
        let expected = Bits::from_u128(0b0110_1001_0001, 12);
        for text in ["bits:100010010110", "hex:691", "dec:1681"] {
            assert_eq!(parse(text, 12).unwrap(), expected, "{text}");
        }
        assert_eq!(parse("dec:-1", 12).unwrap(), Bits::from_u128(0xfff, 12));
        assert_eq!(parse("bits:", 0).unwrap(), Bits::new());
    }

    #[test]
    fn files_hold_any_notation_and_blanks() {
        let expected = Bits::from_u128(0b0110_1001, 8);
        for content in [
            "1001\r\n0110\n",
            "hex:6\n9",
            " bits : 10010110",
            "dec:105\n",
        ] {
            let (_file, value) = file(content.as_bytes());
            assert_eq!(parse(&value, 8).unwrap(), expected, "{content:?}");
        }
    }

    #[test]
    fn errors_say_where_and_repeat_nothing() {
        let message = |text: &str, width| parse(text, width).unwrap_err().to_string();
        assert_eq!(message("hex:7g", 8), "character 2 is no hex digit");
        for prefixed in ["hex:0x7", "hex:0X07"] {
            assert_eq!(message(prefixed, 8), "hex: takes the digits without 0x");
        }
        assert_eq!(message("bits:012", 3), "character 3 is no bits digit");
        assert_eq!(
            message("hex:777", 8),
            "hex: takes 2 digits for 8 bits, not 3"
        );
        assert_eq!(message("dec:256", 8), "the value does not fit in 8 bits");
        assert_eq!(message("dec:", 8), "there is no value");
        for text in ["7777", "", "oct:7777", "hex"] {
            assert_eq!(
                message(text, 8),
                "a value starts with bits:, hex:, dec: or @"
            );
        }
        assert!(matches!(
            parse("dec:1", 1 << 20),
            Err(ValueError::WideDecimal { .. })
        ));
    }

    #[test]
    fn errors_in_files_have_line_and_column() {
        let (held, value) = file(b"hex:\n12\n 3x\n");
        let error = parse(&value, 16).unwrap_err();
        let place = format!("{}:3:3: ", held.path().display());
        assert!(error.to_string().starts_with(&place), "{error}");
        assert!(error.is_in_file());

        let (_held, value) = file(b"0101");
        let error = parse(&value, 5).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("takes 5 digits for 5 bits, not 4")
        );
        assert!(error.is_in_file());
    }

    #[test]
    fn unsuitable_files_are_refused() {
        let (_held, value) = file(&vec![b'0'; 100_000]);
        assert!(matches!(
            parse(&value, 8),
            Err(ValueError::FileTooLong { .. })
        ));
        let (_held, value) = file(b"\xff\xfe");
        assert!(matches!(parse(&value, 8), Err(ValueError::NotText { .. })));
        assert!(matches!(
            parse("@/nowhere/at/all", 8),
            Err(ValueError::Unreadable { .. })
        ));
        assert!(matches!(
            parse("@/dev/zero", 8),
            Err(ValueError::FileTooLong { .. })
        ));
    }
}
