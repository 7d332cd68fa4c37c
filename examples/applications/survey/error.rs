//! The errors of tables of answers.

use std::{fmt, io, path::PathBuf};

use thiserror::Error;
use transpute_applications::LineError;

/// The reason why a table cannot be read, written or used.
#[derive(Debug, Error)]
pub(crate) enum TableError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] LineError),
    /// The file cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A line of the file is invalid.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        problem: Problem,
    },
    /// The file has no rows.
    #[error("{}: no rows", path.display())]
    Empty { path: PathBuf },
    /// The dimensions of the table are not supported.
    #[error("invalid table of {rows} rows, {columns} columns and {width} bits: {limit}")]
    Shape {
        rows: usize,
        columns: usize,
        width: u32,
        limit: &'static str,
    },
}

/// The problem with a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Problem {
    /// The line is not the header of a file of shares.
    Header,
    /// A field of the header is invalid.
    Field {
        name: &'static str,
        found: String,
        expected: String,
    },
    /// The line has a different number of cells than the lines before.
    Cells { found: usize, expected: usize },
    /// A cell is not a number.
    NotANumber { found: String },
    /// A number is too large.
    TooLarge { found: u64, below: u64 },
    /// The table has too many cells.
    TooMany { limit: usize },
}

/// Maximum number of characters that an error message quotes from a file.
const MAX_SHOWN_CHARS: usize = 40;

impl Problem {
    /// Creates [`Problem::NotANumber`] with the beginning of `text`.
    pub(crate) fn not_a_number(text: &str) -> Self {
        Self::NotANumber {
            found: shortened(text),
        }
    }
}

/// Returns the beginning of a text, for an error message.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str(
                "expected the first line of a file of shares, such as \
                 `transpute-shares 1 table=0123456789abcdef columns=20 width=3`",
            ),
            Self::Field {
                name,
                found,
                expected,
            } => write!(f, "{name} is {found:?}; expected {expected}"),
            Self::Cells { found, expected } => {
                write!(f, "expected {expected} cells, found {found}")
            }
            Self::NotANumber { found } => write!(f, "{found:?} is not a number"),
            Self::TooLarge { found, below } => write!(f, "{found} is not below {below}"),
            Self::TooMany { limit } => write!(f, "more than {limit} cells"),
        }
    }
}
