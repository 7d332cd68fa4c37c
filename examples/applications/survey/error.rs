//! What can be wrong with a table of answers.

use std::{fmt, io, path::PathBuf};

use thiserror::Error;
use transpute_applications::LineError;

/// Why a table cannot be read, written or used.
#[derive(Debug, Error)]
pub(crate) enum TableError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] LineError),
    /// It cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A line is not what it must be.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        problem: Problem,
    },
    /// There is nothing in it.
    #[error("{}: it has no rows", path.display())]
    Empty { path: PathBuf },
    /// A shape that no table has.
    #[error("a table of {rows} rows, {columns} columns and {width} bits: {limit}")]
    Shape {
        rows: usize,
        columns: usize,
        width: u32,
        limit: &'static str,
    },
}

/// What is wrong with a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Problem {
    /// The first line of a file of shares.
    Header,
    /// The first line says something that no table has.
    Field {
        name: &'static str,
        found: String,
        expected: String,
    },
    /// Another number of cells than before.
    Cells { found: usize, expected: usize },
    /// A cell that is no number.
    NotANumber { found: String },
    /// A number that does not fit.
    TooLarge { found: u64, below: u64 },
    /// More cells than are read.
    TooMany { limit: usize },
}

/// The longest piece of a file that is shown in a message, in characters.
const SHOWN: usize = 40;

impl Problem {
    /// Says that text is no number, with as much of it as fits into a message.
    pub(crate) fn not_a_number(text: &str) -> Self {
        Self::NotANumber { found: shown(text) }
    }
}

/// Returns text for a message, cut.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
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
                write!(f, "{found} cells where the lines before have {expected}")
            }
            Self::NotANumber { found } => write!(f, "{found:?} is not a number"),
            Self::TooLarge { found, below } => write!(f, "{found} is not below {below}"),
            Self::TooMany { limit } => write!(f, "more than {limit} cells"),
        }
    }
}
