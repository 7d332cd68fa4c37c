//! Compilation errors, with their position in the source.

use std::io;

use garble_lang::{
    CompileTimeError, Error, TypedProgram, check::TypeError, compile::CompilerError,
    parse::ParseError, scan::ScanError, token::MetaInfo,
};
use thiserror::Error;
use transpute_circuit::CircuitError;

use crate::MAX_SOURCE_BYTES;

/// Maximum number of characters of a compiler message in a [`LanguageError`]. Longer messages are
/// truncated. Some contain the whole definitions of types.
const MAX_MESSAGE_CHARS: usize = 300;

/// The reason why a source cannot be compiled.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LanguageError {
    /// The compiler rejected the source because of an error in it.
    #[error("{line}:{column}: {problem}{}", more(*others))]
    Source {
        /// The line of the first error, counted from 1.
        line: usize,
        /// The column of the first error, counted in characters from 1.
        column: usize,
        /// The compiler's message about the first error, on one line.
        problem: String,
        /// The number of errors after the first one.
        others: usize,
    },
    /// The source is longer than [`MAX_SOURCE_BYTES`].
    #[error("a source has at most {MAX_SOURCE_BYTES} bytes, not {found}")]
    TooLong {
        /// The length of the source in bytes.
        found: usize,
    },
    /// A type contains itself.
    #[error("type {name} contains itself")]
    Recursive {
        /// The name of the type.
        name: String,
    },
    /// The type of a parameter or of the result has too many bits.
    #[error("a value of type {ty} has more than {limit} bits")]
    TooWide {
        /// The type that has too many bits.
        ty: String,
        /// The maximum number of bits of a value.
        limit: usize,
    },
    /// The source has no function of the requested name.
    #[error("there is no function {name:?}; there are {}", known.join(", "))]
    Function {
        /// The requested name.
        name: String,
        /// The names of all functions in the source.
        known: Vec<String>,
    },
    /// A constant in [`CompileOptions::constants`](crate::CompileOptions::constants) cannot be set.
    #[error("constant {constant}: {problem}")]
    Constant {
        /// The name of the constant, as the caller passed it. It should be `PARTY::NAME`.
        constant: String,
        /// The reason why the constant cannot be set.
        problem: String,
    },
    /// The compiler panicked or returned an invalid result. This is a bug of the compiler, even if
    /// the source is invalid.
    #[error("the compiler of the language failed: {0}")]
    Fault(String),
    /// The converted circuit is invalid.
    #[error("the compiler of the language returned an invalid circuit")]
    Circuit(#[from] CircuitError),
    /// The compiler's thread cannot be started.
    #[error("cannot start the thread of the compiler")]
    Thread(#[from] io::Error),
}

fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " (and one more mistake)".to_owned(),
        others => format!(" (and {others} more mistakes)"),
    }
}

impl LanguageError {
    /// Converts the errors of the compiler to one error, which has the message of the first one.
    pub(crate) fn of(error: impl Into<Error>) -> Self {
        match error.into() {
            Error::CompileTimeError(error) => Self::first_of(places(error)),
            other => Self::Fault(one_line(&other.prettify(""))),
        }
    }

    pub(crate) fn unknown_function(name: &str, program: &TypedProgram) -> Self {
        let mut known: Vec<_> = program.fn_defs.keys().cloned().collect();
        known.sort();
        Self::Function {
            name: name.to_owned(),
            known,
        }
    }

    fn first_of(mut mistakes: Vec<(Option<MetaInfo>, String)>) -> Self {
        // Errors without a position come last. The sort is stable, so errors at one position keep
        // their order.
        mistakes.sort_by_key(|(place, _)| place.map_or((usize::MAX, 0), |place| place.start));
        let others = mistakes.len().saturating_sub(1);
        let Some((place, problem)) = mistakes.into_iter().next() else {
            return Self::Fault("it reported no error".to_owned());
        };
        match place {
            Some(place) => Self::Source {
                line: place.start.0.saturating_add(1),
                column: place.start.1.saturating_add(1),
                problem: one_line(&problem),
                others,
            },
            None => Self::Fault(one_line(&problem)),
        }
    }
}

fn places(error: CompileTimeError) -> Vec<(Option<MetaInfo>, String)> {
    match error {
        CompileTimeError::ScanErrors(errors) => (errors.into_iter())
            .map(|ScanError(error, place)| (Some(place), error.to_string()))
            .collect(),
        CompileTimeError::ParseError(errors) => (errors.into_iter())
            .map(|ParseError(error, place)| (Some(place), error.to_string()))
            .collect(),
        CompileTimeError::TypeError(errors) => (errors.into_iter())
            .map(|TypeError(error, place)| (Some(place), error.to_string()))
            .collect(),
        CompileTimeError::CompilerError(errors) => (errors.into_iter())
            .map(|error| match &error {
                CompilerError::MissingConstant(party, name, place) => (
                    Some(*place),
                    format!("no value is given for {party}::{name}"),
                ),
                _ => (None, error.to_string()),
            })
            .collect(),
    }
}

/// Joins the lines of a message, and truncates it to [`MAX_MESSAGE_CHARS`] characters.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= MAX_MESSAGE_CHARS {
        return line;
    }
    line.chars()
        .take(MAX_MESSAGE_CHARS)
        .chain("...".chars())
        .collect()
}
